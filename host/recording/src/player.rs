//! Plays the tape of one instance: answers as the world did, and finds where the plugin does
//! something else.

mod playing;

use std::{collections::VecDeque, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{sync::Notify, task::JoinSet};

use self::playing::Playing;
use super::{
    Difference, Diverged,
    compare::{alike, shown},
    entry::{Ending, RequestHead, ResponseHead},
    script::Script,
    value,
};

/// Time for the end of a request's body after a call.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time without a step after which a plugin that waits for an answer which was not written gets no
/// further.
const STALL: Duration = Duration::from_secs(2);

/// What records a line that the plugin has written to standard output or standard error.
pub const LINE: &str = "stdio.line";

/// What is recorded of a response.
#[derive(Debug, Default)]
pub struct RecordedResponse {
    /// Its head, if there was an answer.
    pub head: Option<ResponseHead>,
    /// The pieces of its body.
    pub pieces: VecDeque<Vec<u8>>,
    /// How the exchange ended, if it did.
    pub ending: Option<Ending>,
}

/// How a replay of one instance went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayOutcome {
    /// Number of functions of the host, and of requests, that were as recorded.
    pub steps: u64,
    /// Number of calls of the plugin that were as recorded.
    pub calls: u64,
    /// Whether clocks, randomness, log and readiness were read in another order.
    pub uneven: bool,
    /// Number of steps of the last call that follow an answer which was not written. They were not
    /// repeated.
    pub unreached: usize,
}

/// Plays one recording.
pub struct Player {
    playing: Mutex<Playing>,
    /// Woken when the call cannot go on: it differs, or the recording ends.
    pub over: Notify,
    /// Bodies of requests that are still read.
    sending: Mutex<JoinSet<()>>,
}

impl Player {
    /// Creates the player of a recording.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self {
            playing: Mutex::new(Playing::new(script)),
            over: Notify::new(),
            sending: Mutex::default(),
        }
    }

    fn playing(&self) -> MutexGuard<'_, Playing> {
        self.playing.lock()
    }

    /// Starts the next call, and returns its function and arguments.
    pub fn next(&self) -> Option<(String, Value)> {
        let mut playing = self.playing();
        playing.outcome.uneven |= !playing.recorded_call.steps.is_empty();
        playing.recorded_call = playing.recorded_calls.pop_front()?;

        Some((
            playing.recorded_call.function.clone(),
            playing.recorded_call.arguments.value(),
        ))
    }

    /// Returns how it went, and the first difference.
    pub fn outcome(&self) -> (ReplayOutcome, Option<Difference>) {
        let playing = self.playing();
        (playing.outcome, playing.difference.clone())
    }

    /// Returns true if there was a difference.
    pub fn differs(&self) -> bool {
        self.playing().difference.is_some()
    }

    /// Returns the recorded answer of a function of the host.
    pub(super) fn recall<T: DeserializeOwned>(
        &self,
        function: &'static str,
        mut arguments: Value,
    ) -> Result<Option<T>, Diverged> {
        let mut playing = self.playing();
        playing.masks.mask_value(&mut arguments);
        let answer = playing.take(function, &arguments);

        if answer.is_err() {
            self.over.notify_one();
        }
        let answer = answer?;

        let Some(answer) = answer else {
            return Ok(None);
        };

        match serde_json::from_value(answer) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) => {
                let name = format!("the answer of {function}");
                playing.differs(
                    name,
                    "an answer of this version".to_owned(),
                    error.to_string(),
                );
                self.over.notify_one();
                Err(Diverged)
            }
        }
    }

    /// Called by whoever waits for something that was not recorded: nothing more happens if the
    /// recording ends here.
    pub fn waits(&self) {
        let mut playing = self.playing();
        playing.starved |= playing.is_open();
        if playing.is_over() {
            self.over.notify_one();
        }
    }

    /// Waits until the plugin gets no further because an answer was not written. The body of a
    /// response is written when it has ended, so that a killed process may have written what the
    /// plugin did with the first part of it, but not that part.
    pub async fn starves(&self) {
        let mut before = None;
        loop {
            let now = Some(self.playing())
                .filter(|playing| playing.starved)
                .map(|playing| playing.outcome.steps);

            if now.is_some() && now == before {
                return;
            }

            before = now;
            tokio::time::sleep(STALL).await;
        }
    }

    /// Compares a request, and returns the number of its exchange.
    pub fn request(&self, head: &RequestHead) -> Option<u64> {
        let mut playing = self.playing();
        let exchange = playing.request(head);
        if exchange.is_none() {
            self.over.notify_one();
        }
        exchange
    }

    /// Reads the body of a request while the call goes on.
    pub fn sending(&self, body: impl Future<Output = ()> + Send + 'static) {
        self.sending.lock().spawn(body);
    }

    /// Waits until the bodies of requests are read, which does not take long unless a plugin leaves
    /// one open.
    pub async fn settle(&self) {
        // Taken out, because the lock must not be held while this waits.
        let mut sending = std::mem::take(&mut *self.sending.lock());
        let all = async { while sending.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(PATIENCE, all).await;
        *self.sending.lock() = sending;
    }

    /// Returns true if the response of an exchange came after the end of the request.
    pub fn answers_last(&self, exchange: u64) -> bool {
        self.playing()
            .exchanges
            .get(&exchange)
            .is_some_and(|it| it.sent_first)
    }

    /// Compares the body of a request.
    pub fn sent(&self, exchange: u64, body: &[u8], complete: bool) {
        let mut playing = self.playing();
        let Some((recorded, whole)) = playing
            .exchanges
            .get(&exchange)
            .and_then(|it| it.sent.clone())
        else {
            return;
        };

        let masked = |playing: &mut Playing, bytes: &[u8]| {
            let mut text = value(&super::Payload(bytes.to_vec()));
            playing.masks.mask_value(&mut text);
            text
        };

        // A body of which one side has only a part is compared as far as both go.
        let common = if complete && whole {
            usize::MAX
        } else {
            recorded.len().min(body.len())
        };

        let expected = masked(&mut playing, recorded.get(..common).unwrap_or(&recorded));
        let came = masked(&mut playing, body.get(..common).unwrap_or(body));

        if !alike(&expected, &came) {
            let what = format!("the body of request {exchange}");
            playing.differs(what, shown(&expected), shown(&came));
            self.over.notify_one();
        }
    }

    /// Takes the response of an exchange.
    pub fn response(&self, exchange: u64) -> RecordedResponse {
        let mut playing = self.playing();
        let exchange = playing.exchanges.get_mut(&exchange);

        exchange
            .map(|it| RecordedResponse {
                head: it.response.take(),
                pieces: std::mem::take(&mut it.pieces),
                ending: it.ending.take(),
            })
            .unwrap_or_default()
    }

    /// Compares how a call ended.
    pub fn ended(&self, mut came: Result<Value, String>) {
        let mut playing = self.playing();
        if let Ok(answer) = &mut came {
            playing.masks.mask_value(answer);
        }
        playing.ended(&came);
    }

    /// Ends the comparison at a call that cannot be made.
    pub fn not_made(&self, why: &str) {
        self.playing().differs(
            "the call".to_owned(),
            "a call of this version of the contract".to_owned(),
            why.to_owned(),
        );
    }

    /// Compares a call that was stopped because the recording ends, or because it does not end.
    pub fn stopped(&self) {
        let mut playing = self.playing();
        if playing.difference.is_some() {
            return;
        }

        if playing.is_over() || playing.starved {
            playing.outcome.calls += 1;
            playing.outcome.unreached = playing.recorded_call.steps.len();
        } else {
            let expected = playing.next_step().unwrap_or_else(|| playing.ending());
            playing.differs(
                "what the plugin does".to_owned(),
                expected,
                "nothing: it waits".to_owned(),
            );
        }
    }
}
