//! Recording and replay: what an instance sees of the world, and what it does.
//!
//! An instance depends on its component, the arguments of its calls, and what the host answers. A
//! [`Recorder`] writes calls, answers of the host and HTTP exchanges of one instance to a file; a
//! [`Player`] gives the same to an instance and compares what that does. Every function of the host
//! whose answer depends on the world goes through [`Tape`]: in `skydock-sandbox`, those of the
//! contract in `contract/`, those of WASI in `imports/taped.rs`, and requests in
//! `imports/http/exchange.rs`. Without a tape, nothing is done.
//!
//! `recorder.rs` decides what is recorded of a call or an exchange, in the format of `entry.rs`;
//! `mask.rs` masks it, and `archive.rs` writes and limits the files.

#![forbid(unsafe_code)]

mod archive;
mod compare;
mod entry;
mod mask;
mod player;
mod recorder;
mod script;

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

pub use self::{
    archive::{COMPRESSED, Recordings, RecordingsError},
    compare::Difference,
    entry::{Ending, Fields, Header, Payload, RequestHead, ResponseHead, Timeouts},
    player::{LINE, Player, RecordedResponse, ReplayOutcome},
    recorder::{Origin, Recorder},
    script::{Script, ScriptError, files as recordings},
};

/// Functions of the host with arguments or answers that are masked as a whole.
pub mod functions {
    /// Reads an object of the cluster, which may be a Secret.
    pub const OBJECTS_READ: &str = "objects.read";
    /// Reads a value from the plugin's cache.
    pub const CACHE_GET: &str = "cache.get";
    /// Writes a value to the plugin's cache.
    pub const CACHE_SET: &str = "cache.set";
    /// Writes a value to the plugin's cache, unless there is one.
    pub const CACHE_RESERVE: &str = "cache.reserve";
}

/// Where the instances of a plugin get their tapes.
#[derive(Clone, Debug, Default)]
pub enum Taping {
    /// They have none.
    #[default]
    Off,
    /// Each writes one of its own.
    Record(Recordings),
    /// They are given recorded ones, by a [`Player`].
    Replay,
}

impl Taping {
    /// Returns true if instances have tapes.
    pub fn is_on(&self) -> bool {
        !matches!(self, Self::Off)
    }
}

/// The tape of one instance.
#[derive(Clone)]
pub enum Tape {
    /// It is written.
    Recording(Arc<Recorder>),
    /// It is played.
    Playing(Arc<Player>),
}

/// The recording does not go on as the plugin does: the call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recording ends here, or differs")]
pub struct Diverged;

impl Tape {
    /// Returns the recorded answer of a function of the host, if this tape is played and has one.
    ///
    /// # Errors
    /// [`Diverged`], if the plugin did something else when it was recorded.
    pub fn recall<T: DeserializeOwned>(
        &self,
        function: &'static str,
        arguments: &impl Serialize,
    ) -> Result<Option<T>, Diverged> {
        match self {
            Self::Recording(_) => Ok(None),
            Self::Playing(player) => player.recall(function, value(arguments)),
        }
    }

    /// Writes a function of the host with its arguments and its answer.
    pub fn record(&self, function: &'static str, arguments: Value, answer: &impl Serialize) {
        if let Self::Recording(recorder) = self {
            recorder.host(function, arguments, value(answer));
        }
    }
}

/// Runs a function of the host, or returns its recorded answer. `T` is what is written and read.
///
/// # Errors
/// [`Diverged`].
pub fn observed<A: Serialize, T: Serialize + DeserializeOwned>(
    tape: Option<&Tape>,
    function: &'static str,
    arguments: A,
    live: impl FnOnce(A) -> T,
) -> Result<T, Diverged> {
    let Some(tape) = tape else {
        return Ok(live(arguments));
    };
    if let Some(answer) = tape.recall(function, &arguments)? {
        return Ok(answer);
    }

    // Before `live` takes the arguments.
    let before = value(&arguments);
    let answer = live(arguments);
    tape.record(function, before, &answer);

    Ok(answer)
}

/// Like [`observed`], for a function that waits.
///
/// # Errors
/// [`Diverged`].
pub async fn observed_later<
    A: Serialize,
    T: Serialize + DeserializeOwned,
    F: Future<Output = T>,
>(
    tape: Option<Tape>,
    function: &'static str,
    arguments: A,
    live: impl FnOnce(A) -> F,
) -> Result<T, Diverged> {
    let Some(tape) = tape else {
        return Ok(live(arguments).await);
    };
    if let Some(answer) = tape.recall(function, &arguments)? {
        return Ok(answer);
    }

    let before = value(&arguments);
    let answer = live(arguments).await;
    tape.record(function, before, &answer);
    Ok(answer)
}

/// A list that calls share.
pub struct List<T>(pub Arc<Vec<T>>);

impl<T: Serialize> Serialize for List<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: serde::Deserialize<'de>> serde::Deserialize<'de> for List<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Arc::new).map(Self)
    }
}

/// Returns the value as JSON.
pub fn value(it: &impl Serialize) -> Value {
    // It only fails for maps whose keys are no strings, which the contract does not have.
    serde_json::to_value(it).unwrap_or_default()
}
