//! The audit of requests that rules allow: one line for each, in a file or in the log.
//!
//! Lines are written by a thread. If it cannot keep up, lines are dropped and counted, since
//! requests do not wait for it.

mod file;

use std::{
    fs, io,
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use skydock_credentials::AbsolutePath;

use self::file::AuditFile;
use crate::{observe::metrics::EgressMetrics, rules::compiled::size};

/// Maximum number of lines that wait to be written: a few seconds of a busy plugin.
const BACKLOG: usize = 4096;
/// Default of `maxSize`.
const MAX_SIZE: u64 = 100 << 20;
/// Largest `maxSize`.
const LARGEST: u64 = 1 << 40;
/// Default of `keep`.
const KEEP: u8 = 3;
/// How often a failure to write is logged.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Where a line is written for each request that a rule allows. It has the rule, the actions, the
/// method, the host, the path without values of the query, the status, the name of the credential
/// and the digest of the plugin, and no secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditConfig {
    /// File to which lines of JSON are appended. If it is renamed, for example by logrotate, another
    /// one is created. Default: the log of Skydock.
    #[serde(default)]
    pub file: Option<AbsolutePath>,
    /// Size at which the file is renamed to `FILE.1`, as `512KiB` or `100MiB`. Default 100MiB.
    #[serde(default)]
    pub max_size: Option<String>,
    /// Number of renamed files that are kept, 1 to 99. Default 3.
    #[serde(default)]
    pub keep: Option<u8>,
}

impl AuditConfig {
    /// Checks that lines can be written to the file, without creating it. Blocks the thread.
    ///
    /// # Errors
    /// A sentence that names the file or its directory.
    pub fn check_file(&self) -> Result<(), String> {
        let Some(file) = &self.file else {
            return Ok(());
        };

        let is_there = |path: &Path| {
            fs::metadata(path).map_err(|error| format!("cannot use {}: {error}", path.display()))
        };

        match file.parent().map(is_there).transpose()? {
            Some(parent) if !parent.is_dir() => {
                return Err(format!("{} is not in a directory", file.display()));
            }
            _ => {}
        }

        match fs::metadata(&**file) {
            Ok(metadata) if !metadata.is_file() => {
                Err(format!("{} is not a regular file", file.display()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the limits of the file: its size in bytes, and the number of files that are kept.
    ///
    /// # Errors
    /// A sentence that names the field.
    pub fn limits(&self) -> Result<(u64, u8), String> {
        let max_size = match &self.max_size {
            None => MAX_SIZE,
            Some(text) => size(text)
                .filter(|size| (1 << 10..=LARGEST).contains(size))
                .ok_or_else(|| {
                    format!("maxSize: `{text}` is not a valid size from 1KiB; expected for example 100MiB")
                })?,
        };

        let keep = self.keep.unwrap_or(KEEP);
        if !(1..=99).contains(&keep) {
            return Err(format!("keep: {keep} is out of range; expected 1 to 99"));
        }

        if self.file.is_none() && (self.max_size.is_some() || self.keep.is_some()) {
            return Err("maxSize and keep need file: without it, lines are in the log".to_owned());
        }

        Ok((max_size, keep))
    }
}

/// One request. It has no secrets: what a credential adds is not part of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditLine {
    /// When it was admitted.
    pub(crate) time: jiff::Timestamp,
    #[serde(serialize_with = "text")]
    pub(crate) plugin: Arc<str>,
    /// SHA-256 of the component; empty if it is not known.
    #[serde(serialize_with = "text")]
    pub(crate) digest: Arc<str>,
    /// What the plugin was called for.
    pub(crate) capability: &'static str,
    #[serde(serialize_with = "text")]
    pub(crate) rule: Arc<str>,
    pub(crate) method: String,
    pub(crate) host: String,
    /// Without values of the query.
    pub(crate) path: String,
    pub(crate) actions: Vec<String>,
    /// The name of the credential that was added.
    pub(crate) credential: Option<String>,
    pub(crate) status: Option<u16>,
    /// Why there is no complete answer, as in metrics; `canceled` if the plugin did not wait for it.
    pub(crate) error: Option<&'static str>,
    /// The rule in report-only mode that would deny the request, and why.
    pub(crate) would_deny: Option<WouldDeny>,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) seconds: f64,
}

/// A rule in report-only mode that would deny a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct WouldDeny {
    #[serde(serialize_with = "text")]
    pub(crate) rule: Arc<str>,
    pub(crate) reason: &'static str,
}

fn text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// The audit of a process, which can be replaced while requests are in flight.
pub type AuditSlot = Arc<ArcSwapOption<Audit>>;

/// An audit. It ends when it is dropped.
#[derive(Debug)]
pub struct Audit {
    lines: SyncSender<Box<AuditLine>>,
    metrics: EgressMetrics,
}

impl Audit {
    /// Opens the file, and starts to write.
    ///
    /// # Errors
    /// If the limits are not valid, the file cannot be opened, or there is no thread.
    pub fn start(config: &AuditConfig, metrics: EgressMetrics) -> io::Result<Self> {
        let (max_size, keep) = config
            .limits()
            .map_err(|sentence| io::Error::new(io::ErrorKind::InvalidInput, sentence))?;

        let place = match &config.file {
            None => Place::Log,
            Some(path) => Place::File(AuditFile::open(path, max_size, keep).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?),
        };

        let (lines, waiting) = sync_channel(BACKLOG);
        let counted = metrics.clone();
        thread::Builder::new()
            .name("egress-audit".to_owned())
            .spawn(move || write(place, &waiting, &counted))?;

        Ok(Self { lines, metrics })
    }

    /// Has a line written, unless too many wait.
    pub(crate) fn record(&self, line: AuditLine) {
        match self.lines.try_send(Box::new(line)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.metrics.audit_dropped();
            }
        }
    }
}

enum Place {
    Log,
    File(AuditFile),
}

/// Writes lines until nobody can add any more.
fn write(mut place: Place, lines: &Receiver<Box<AuditLine>>, metrics: &EgressMetrics) {
    let mut logged: Option<Instant> = None;
    for line in lines {
        match &mut place {
            Place::Log => log(&line),
            Place::File(file) => {
                let Err(error) = file.append(&line) else {
                    continue;
                };
                metrics.audit_dropped();
                // On a full disk, each line fails.
                if logged.is_none_or(|at| at.elapsed() > LOG_EVERY) {
                    logged = Some(Instant::now());
                    tracing::error!(file = %file.path().display(), "cannot write the audit: {error}");
                }
            }
        }
    }
}

fn log(line: &AuditLine) {
    tracing::info!(
        target: "egress",
        plugin = %line.plugin,
        digest = %line.digest,
        capability = line.capability,
        rule = %line.rule,
        method = line.method,
        host = line.host,
        path = line.path,
        actions = line.actions.join(","),
        credential = line.credential.as_deref().unwrap_or_default(),
        status = line.status.unwrap_or_default(),
        error = line.error.unwrap_or_default(),
        would_deny = line.would_deny.as_ref().map(|it| &*it.rule).unwrap_or_default(),
        "allowed request"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_checked() {
        let read = |text: &str| {
            serde_saphyr::from_str::<AuditConfig>(text)
                .unwrap()
                .limits()
        };

        for (text, expected) in [
            ("{}", Ok((100 << 20, 3))),
            ("{file: /a, maxSize: 1MiB, keep: 9}", Ok((1 << 20, 9))),
            ("{file: /a, maxSize: 1}", Err("maxSize: `1` is not")),
            ("{file: /a, maxSize: big}", Err("maxSize: `big` is not")),
            ("{file: /a, keep: 0}", Err("keep: 0 is out of range")),
            ("{keep: 1}", Err("need file")),
        ] {
            let found = read(text);
            let logged = found.as_ref().err().map(String::as_str).unwrap_or_default();
            match expected {
                Ok(limits) => assert_eq!(found, Ok(limits), "{text}"),
                Err(what) => assert!(logged.contains(what), "{text}: {logged:?}"),
            }
        }

        assert!(serde_saphyr::from_str::<AuditConfig>("{file: a}").is_err());
    }
}
