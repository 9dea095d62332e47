//! Output to standard error: the log, and the error with which the process ends.

mod json;
mod line;

use std::{
    env,
    io::{self, IsTerminal, Write as _},
    process::ExitCode,
    sync::OnceLock,
};

use skydock_cloud::text::escape;
use skydock_kube::clients::reason;
use tracing::Subscriber;
use tracing_subscriber::{
    Registry,
    filter::{LevelFilter, Targets},
    fmt,
    fmt::MakeWriter,
    layer::{Layer, SubscriberExt as _},
    registry, reload,
    util::SubscriberInitExt as _,
};

/// Log lines of the client about failed requests, which are logged by the caller too. Those about
/// an answer that cannot be parsed contain the answer, which may be all Services of the cluster.
const LOGGED_ELSEWHERE: [(&str, LevelFilter); 3] = [
    ("kube_client::client", LevelFilter::ERROR),
    ("kube_client::client::builder", LevelFilter::OFF),
    ("kube_runtime::watcher", LevelFilter::ERROR),
];

/// Libraries that warn of what the other end of a connection sends, once for each message. Whoever
/// can connect could fill the log.
const OF_PEERS: [&str; 2] = ["h2", "rustls"];

/// Prefixes of the log targets of Skydock's crates and its plugins.
const OURS: &[&str] = &["skydock", "plugin", "egress"];

/// Log options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// klog's verbosity: 0 to 3 is info, 4 and 5 debug, 6 and more trace.
    pub verbosity: u8,
    /// One JSON object per line.
    pub json: bool,
    /// Log only messages of plugins, what of their requests is not sent, and errors.
    pub quiet: bool,
}

impl LogOptions {
    fn filter(self) -> Targets {
        if self.quiet {
            // The rest is visible in the cluster's events.
            return Targets::new()
                .with_default(LevelFilter::ERROR)
                .with_targets(LOGGED_ELSEWHERE)
                .with_target("skydock_sandbox", LevelFilter::OFF)
                .with_target("plugin", LevelFilter::INFO)
                .with_target("egress", LevelFilter::WARN);
        }

        let ours = match self.verbosity {
            0..=3 => LevelFilter::INFO,
            4..=5 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        };

        // Libraries log only warnings and errors, unless everything is requested.
        let (others, of_peers) = if self.verbosity >= 8 {
            (LevelFilter::DEBUG, LevelFilter::DEBUG)
        } else {
            (LevelFilter::WARN, LevelFilter::ERROR)
        };

        Targets::new()
            .with_default(others)
            .with_targets(LOGGED_ELSEWHERE)
            .with_targets(OF_PEERS.map(|target| (target, of_peers)))
            .with_targets(OURS.iter().map(|&target| (target, ours)))
    }
}

/// Starts logging. `RUST_LOG` takes precedence over the flags. Does nothing if logging has already
/// been started.
pub fn init(options: LogOptions) {
    let asked = env::var("RUST_LOG").ok().and_then(|text| text.parse().ok());
    let filter = asked.unwrap_or_else(|| options.filter());
    let (filter, handle) = reload::Layer::new(filter);

    // An error means that a test has already set a subscriber, which is kept.
    let started = if options.json {
        json(filter, io::stderr).try_init()
    } else {
        text(filter, io::stderr().is_terminal(), io::stderr).try_init()
    };
    if started.is_ok() {
        let _ = LEVEL.set((handle, options));
    }
}

/// Where the verbosity of the log can be changed, and the options with which it started.
static LEVEL: OnceLock<(reload::Handle<Targets, Registry>, LogOptions)> = OnceLock::new();

/// Changes the verbosity of the log, also if `RUST_LOG` has set it.
///
/// # Errors
/// What is expected instead of this text.
pub fn set_verbosity(text: &str) -> Result<(), String> {
    let expected = || "expected a number from 0 to 255, for example 4".to_owned();
    let verbosity = text.parse().map_err(|_| expected())?;
    let Some((handle, options)) = LEVEL.get() else {
        return Err("the log has not been started by this program".to_owned());
    };

    let options = LogOptions {
        verbosity,
        ..*options
    };
    let changed = handle.reload(options.filter());
    changed.map_err(|_| "the log has ended".to_owned())?;
    tracing::info!(verbosity, "the verbosity of the log was changed");
    Ok(())
}

/// Creates a subscriber that logs human-readable lines.
fn text<F, W>(filter: F, color: bool, writer: W) -> impl Subscriber + Send + Sync
where
    F: Layer<Registry> + Send + Sync,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // Lines are lost if the disk is full or the reader has closed the pipe. Reporting this on the
    // same output would end the process.
    let lines = fmt::layer()
        .with_ansi(color)
        .fmt_fields(line::OneLine)
        .log_internal_errors(false)
        .with_writer(writer);

    registry().with(filter).with(lines)
}

/// Creates a subscriber that logs lines in JSON.
fn json<F, W>(filter: F, writer: W) -> impl Subscriber + Send + Sync
where
    F: Layer<Registry> + Send + Sync,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = fmt::layer()
        .fmt_fields(json::Json)
        .event_format(json::Json)
        .log_internal_errors(false)
        .with_writer(writer);

    registry().with(filter).with(lines)
}

/// Prints the error with its causes as one line, or logs it if the log is in JSON.
pub fn fail(error: &anyhow::Error) -> ExitCode {
    let line = one_line(error);
    if LEVEL.get().is_some_and(|(_, options)| options.json) {
        tracing::error!(error = line, "Skydock has failed");
    } else {
        print_line(&line);
    }
    ExitCode::FAILURE
}

/// Prints a line on standard error. If it is closed, this cannot be reported.
pub fn print_line(text: &str) {
    let _ = writeln!(io::stderr(), "skydock: {text}");
}

/// Formats an error with its causes, omitting those that the error already contains, and what may
/// have a token.
fn one_line(error: &anyhow::Error) -> String {
    // Errors quote their causes, so that none of them can be shown.
    if let Some(reason) = error.chain().find_map(reason::of_exec) {
        return escape(&reason).into_owned();
    }

    let mut line = String::new();
    for cause in error
        .chain()
        .map(|cause| escape(&cause.to_string().replace('\n', " ")).into_owned())
    {
        if line.ends_with(&cause) {
            continue;
        }

        if !line.is_empty() {
            line.push_str(": ");
        }
        line.push_str(&cause);
    }
    line
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use super::*;

    #[test]
    fn an_error_is_one_line_without_repeated_causes() {
        let rejected = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = anyhow::Error::from(rejected)
            .context("connect: connection refused")
            .context("no\nAPI server");
        assert_eq!(
            one_line(&error),
            "no API server: connect: connection refused"
        );
        let forged = anyhow::anyhow!("imports `\u{1b}]0;owned\u{7}`");
        assert_eq!(one_line(&forged), "imports `\\u{1b}]0;owned\\u{7}`");
    }

    #[test]
    fn an_error_has_no_output_of_a_program_of_the_kubeconfig() {
        let out = std::process::Output {
            status: std::process::ExitStatus::default(),
            stdout: b"s3cret".to_vec(),
            stderr: b"s3cret".to_vec(),
        };
        let failed = kube::client::AuthError::AuthExecRun {
            cmd: "login".to_owned(),
            out: Box::new(out),
        };
        let error = kube::Error::Service(Box::new(kube::Error::Auth(failed)));
        let line = one_line(&anyhow::Error::from(error).context("cannot get a token"));
        assert!(
            line.contains("\"login\" of the kubeconfig failed") && !line.contains("s3cret"),
            "{line}"
        );
    }

    #[test]
    fn plugin_requests_are_logged_at_verbosity_four() {
        for (verbosity, is_logged) in [(2, false), (3, false), (4, true), (8, true)] {
            let buffer = Buffer::default();
            let writer = buffer.clone();
            let filter = LogOptions {
                quiet: false,
                json: false,
                verbosity,
            }
            .filter();
            let subscriber = text(filter, false, move || writer.clone());
            tracing::subscriber::with_default(
                subscriber,
                || tracing::debug!(target: "egress", "request"),
            );
            assert_eq!(
                !buffer.0.lock().unwrap().is_empty(),
                is_logged,
                "--v={verbosity}"
            );
        }
    }

    #[test]
    fn whoever_connects_cannot_fill_the_log() {
        for (verbosity, expected) in [(0, 1), (2, 1), (6, 1), (8, 3)] {
            let buffer = Buffer::default();
            let writer = buffer.clone();
            let options = LogOptions {
                quiet: false,
                json: false,
                verbosity,
            };
            let subscriber = text(options.filter(), false, move || writer.clone());
            tracing::subscriber::with_default(subscriber, || {
                tracing::warn!(target: "h2::proto::ping_pong", "an answer without a question");
                tracing::warn!(target: "rustls::msgs::handshake", "a name that is not valid");
                tracing::warn!(target: "another_library", "a warning");
            });
            let log = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
            assert_eq!(log.lines().count(), expected, "--v={verbosity}: {log}");
        }
    }

    #[test]
    fn a_quiet_log_has_what_is_not_sent() {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let options = LogOptions {
            quiet: true,
            json: false,
            verbosity: 2,
        };
        let subscriber = text(options.filter(), false, move || writer.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(target: "egress", "a header is not sent");
            tracing::warn!(target: "skydock", "seen in events");
        });
        let log = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();

        assert!(
            log.contains("is not sent") && !log.contains("seen in events"),
            "{log}"
        );
    }

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn json_has_the_keys_of_kubernetes_components() {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let options = LogOptions {
            quiet: false,
            json: true,
            verbosity: 6,
        };
        let subscriber = json(options.filter(), move || writer.clone());
        let odd = "a\n\"b\"\u{1b}";
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(
                count = 3,
                ratio = 0.5,
                on = true,
                r#type = odd,
                "started {odd}"
            );
            let cause = io::Error::other(odd);
            tracing::error!(error = &cause as &dyn std::error::Error, "call failed");
            let span = tracing::info_span!("plugin_call", plugin = "p");
            let _in = span.enter();
            tracing::debug!(target: "plugin", object = Option::<String>::None, "in a call");
        });
        let log = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<serde_json::Value> = log
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();

        let target = "skydock::process::telemetry::tests";
        for (line, expected) in lines.iter().zip([
            serde_json::json!({
                "msg": format!("started {odd}"), "v": 0, "level": "INFO", "logger": target,
                "count": 3, "ratio": 0.5, "on": true, "type": odd,
            }),
            serde_json::json!({"msg": "call failed", "level": "ERROR", "logger": target, "err": odd}),
            serde_json::json!({
                "msg": "in a call", "v": 4, "level": "DEBUG", "logger": "plugin",
                "span": {"name": "plugin_call", "plugin": "p"},
            }),
        ]) {
            let mut line = line.clone();
            let line = line.as_object_mut().unwrap();
            let caller = line.remove("caller").unwrap();
            assert!(caller.as_str().unwrap().starts_with("process/telemetry.rs:"));
            assert!(line.remove("ts").unwrap().as_f64().unwrap() > 1.7e12);
            assert_eq!(*line, *expected.as_object().unwrap());
        }
        assert_eq!(lines.len(), 3, "{log}");
        assert!(log.starts_with("{\"ts\":"), "{log}");
    }

    // Holds: SEC-15
    #[test]
    fn control_characters_are_escaped_in_the_log() {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = text(LogOptions::default().filter(), false, move || {
            writer.clone()
        });
        let odd = "a\n2026-11-22T02:40:00Z  INFO skydock: forged\r\u{1b}[2J\u{9b}31m\u{202e}";
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("span", odd);
            let _in = span.enter();
            let cause = io::Error::other(odd);
            tracing::warn!(odd, shown = %odd, debug = ?odd, error = &cause as &dyn std::error::Error, "call failed: {odd}");
            tracing::error!(message = odd);
        });
        let log = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
        assert_eq!(log.lines().count(), 2, "{log}");
        assert_eq!(log.chars().filter(|c| c.is_control()).count(), 2, "{log:?}");
        assert!(
            !log.contains('\u{202e}') && log.contains("call failed: a\\n2026"),
            "{log}"
        );
        assert!(
            log.contains(" shown=a\\n2026") && log.contains("\\u{1b}[2J\\u{9b}31m"),
            "{log}"
        );
    }
}
