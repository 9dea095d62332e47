//! Lines of a plugin in Skydock's log, cut off, escaped and rate-limited.
//!
//! A limit of the length of a text is a constant here, which `PluginData::log` and `log_request`
//! enforce; one of the rate is a `Bucket` of `Rate`. If operators can set it, it is a field of
//! `Limits`, and `host/resources/src/limits.rs` says what else that needs.

use std::time::Instant;

use parking_lot::Mutex;
use skydock_cloud::text::{cut, shown};
use skydock_egress::About;
use skydock_resources::limits::Limits;
use tracing::Level;

use super::PluginData;
use crate::load::source::Settings;

/// Maximum bytes of the name of the component that logs.
const MAX_CONTEXT: usize = 64;

/// Maximum bytes of the method of a request, which can be any word.
const MAX_METHOD: usize = 32;

/// Burst of bytes, in seconds of the rate: a panic's message consists of many long lines.
const BYTES_AT_ONCE: usize = 16;

/// The log of one plugin: all its instances share one rate.
pub(crate) struct Log {
    rate: Mutex<Rate>,
    max_line: usize,
}

impl Log {
    pub(crate) fn new(limits: &Limits, now: Instant) -> Self {
        Self {
            rate: Mutex::new(Rate::new(limits, now)),
            max_line: limits.log_line,
        }
    }
}

impl PluginData {
    /// Writes one line of the plugin, if its level is enabled and the plugin's rate allows it.
    /// Secrets and values of the configuration are redacted.
    pub(crate) fn log(
        &self,
        settings: &Settings,
        generation: u64,
        level: Level,
        context: &str,
        message: &str,
    ) {
        if !seen(level) {
            return;
        }

        let most = self.log.max_line;
        let context = shown(context, MAX_CONTEXT);
        if !self.admits(generation, shown(message, most).len() + context.len()) {
            return;
        }

        let message = settings.redact(cut(message, most));
        let context = settings.redact(&context);
        let message = shown(&message, most);
        let context = &*context;
        let plugin = self.plugin.as_str();

        // tracing's macros need a level that is known at compile time.
        match level {
            Level::TRACE => {
                tracing::trace!(target: "plugin", plugin, generation, context, "{message}");
            }
            Level::DEBUG => {
                tracing::debug!(target: "plugin", plugin, generation, context, "{message}");
            }
            Level::INFO => {
                tracing::info!(target: "plugin", plugin, generation, context, "{message}");
            }
            Level::WARN => {
                tracing::warn!(target: "plugin", plugin, generation, context, "{message}");
            }
            Level::ERROR => {
                tracing::error!(target: "plugin", plugin, generation, context, "{message}");
            }
        }
    }

    /// Writes a warning about one request of the plugin, within the same limits.
    pub(crate) fn log_request(&self, generation: u64, about: Option<&About>, message: &str) {
        if !seen(Level::WARN) {
            return;
        }

        let message = shown(message, self.log.max_line);
        let rule = about.and_then(|about| about.rule.as_deref());
        let method = about.map(|about| shown(about.method.as_str(), MAX_METHOD));
        let method = method.as_deref();
        let host = about.and_then(|about| Some(about.target.as_ref()?.to_string()));
        let fields: usize = [rule, method, host.as_deref()]
            .into_iter()
            .flatten()
            .map(str::len)
            .sum();

        if self.admits(generation, message.len() + fields) {
            let plugin = self.plugin.as_str();
            tracing::warn!(target: "plugin", plugin, generation, context = "egress", rule, method, host, "{message}");
        }
    }

    /// Returns whether the plugin's rate allows a line with this many bytes, and reports earlier
    /// ones that it did not allow.
    fn admits(&self, generation: u64, size: usize) -> bool {
        let admission = self.log.rate.lock().admit(size, Instant::now());

        let plugin = self.plugin.as_str();
        let Some(dropped) = admission else {
            self.metrics.log_dropped(plugin);
            return false;
        };

        if dropped > 0 {
            tracing::warn!(target: "plugin", plugin, generation, dropped, "log lines that exceed the plugin's limit were dropped");
        }

        true
    }
}

/// Returns whether the level is enabled: disabled lines must not use up the rate of the others.
fn seen(level: Level) -> bool {
    // tracing's macros need a level that is known at compile time.
    match level {
        Level::TRACE => tracing::enabled!(target: "plugin", Level::TRACE),
        Level::DEBUG => tracing::enabled!(target: "plugin", Level::DEBUG),
        Level::INFO => tracing::enabled!(target: "plugin", Level::INFO),
        Level::WARN => tracing::enabled!(target: "plugin", Level::WARN),
        Level::ERROR => tracing::enabled!(target: "plugin", Level::ERROR),
    }
}

/// Limits lines and bytes, each with a rate per second and a burst.
struct Rate {
    lines: Bucket,
    bytes: Bucket,
    last: Instant,
    dropped: u64,
}

impl Rate {
    fn new(limits: &Limits, now: Instant) -> Self {
        let lines = Bucket::new(limits.log_rate, limits.log_burst);
        let bytes = Bucket::new(
            limits.log_bytes,
            limits.log_bytes.saturating_mul(BYTES_AT_ONCE),
        );
        Self {
            lines,
            bytes,
            last: now,
            dropped: 0,
        }
    }

    /// Returns `None` if a line with this many bytes is to be dropped, otherwise the number of
    /// lines dropped since the last admitted one.
    fn admit(&mut self, size: usize, now: Instant) -> Option<u64> {
        let seconds = now.saturating_duration_since(self.last).as_secs_f64();
        self.last = now;
        let lines = self.lines.earn(seconds);
        let bytes = self.bytes.earn(seconds);

        if lines < 1.0 || bytes <= 0.0 {
            self.dropped += 1;
            return None;
        }

        self.lines.tokens -= 1.0;
        // The last line may exceed the remaining tokens: later lines wait until they are restored.
        self.bytes.tokens -= size as f64;

        Some(std::mem::take(&mut self.dropped))
    }
}

/// A token bucket with `rate` tokens per second and at most `burst` tokens.
struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
}

impl Bucket {
    fn new(rate: usize, burst: usize) -> Self {
        let rate = rate as f64;
        let burst = burst as f64;

        Self {
            rate,
            burst,
            tokens: burst,
        }
    }

    fn earn(&mut self, seconds: f64) -> f64 {
        self.tokens = (self.tokens + seconds * self.rate).min(self.burst);
        self.tokens
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use skydock_egress::{Host, Scheme, Target};

    use super::*;
    use crate::{CloudConfig, ClusterSlot, PluginMetrics, PluginSource, Taping};
    use skydock_resources::ticker::Ticker;

    /// A subscriber for warnings and errors, which keeps their fields.
    #[derive(Clone, Default)]
    struct Warnings(Arc<Mutex<String>>);

    impl tracing::field::Visit for Warnings {
        fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
            *self.0.lock() += &format!("{field}={value:?} ");
        }
    }

    impl tracing::Subscriber for Warnings {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            *metadata.level() <= Level::WARN
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

        fn event(&self, event: &tracing::Event<'_>) {
            event.record(&mut self.clone());
        }

        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    fn shared() -> PluginData {
        let limits = Limits {
            log_rate: 1,
            log_burst: 5,
            ..Limits::default()
        };
        let source = PluginSource {
            name: "test".into(),
            component: "plugin.wasm".into(),
            cloud_config: None,
            cluster_name: "c1".into(),
            ..PluginSource::default()
        };
        let ticker = Ticker::start(|| true).unwrap();
        PluginData::new(
            &source,
            limits,
            PluginMetrics::default(),
            ClusterSlot::default(),
            ticker,
            Taping::Off,
        )
    }

    fn settings() -> Settings {
        let text = "password: hunter2-hunter2\nnetwork-id: net-0001\n";
        let config = CloudConfig::new("/etc/cloud.yaml".into(), text.to_owned());
        let options = skydock_cloud::Pairs::new();
        Settings::new(String::new(), Vec::new(), Some(config), options)
    }

    // Holds: SEC-51
    #[test]
    fn secrets_in_a_line_of_a_plugin_are_redacted() {
        let (shared, written) = (shared(), Warnings::default());
        tracing::subscriber::with_default(written.clone(), || {
            for line in [
                "it is hunter2-hunt",
                "in net-0001:",
                "sent Authorization: Bearer abc.def",
                "{\"aadClientSecret\":\"S3cr3t\"}",
            ] {
                shared.log(&settings(), 1, Level::ERROR, "token=abc", line);
            }
        });
        let written = written.0.lock();
        for line in [
            "it is [redacted] ",
            "in [redacted]: ",
            "sent Authorization: [redacted] ",
            "{\"aadClientSecret\":\"[redacted]\"} ",
            "context=\"token=[redacted]\"",
        ] {
            assert!(written.contains(line), "{written}");
        }
    }

    #[test]
    fn a_line_about_a_request_names_rule_method_and_host() {
        let (shared, written) = (shared(), Warnings::default());
        let target = Target {
            scheme: Scheme::Https,
            host: Host::parse("a.example").unwrap(),
            port: 443,
        };
        let method = "M".repeat(1000).parse().unwrap();
        let about = About {
            rule: Some("api".into()),
            method,
            target: Some(target),
        };
        tracing::subscriber::with_default(written.clone(), || {
            shared.log_request(1, Some(&about), "request failed: no\nanswer");
            shared.log_request(1, None, "request denied: no rules");
            (0..9).for_each(|_| shared.log_request(1, None, ""));
            assert_eq!(
                shared.log.rate.lock().dropped,
                6,
                "they count like other lines"
            );
        });
        let written = written.0.lock();

        assert!(
            written.contains("rule=\"api\" method=\"MMM") && !written.contains(&"M".repeat(33)),
            "{written}"
        );
        assert!(
            written.contains("host=\"https://a.example:443\" ") && written.contains("no\\nanswer"),
            "{written}"
        );
    }

    #[test]
    fn filtered_lines_do_not_count_toward_the_rate() {
        let shared = shared();
        let dropped = || shared.log.rate.lock().dropped;
        tracing::subscriber::with_default(Warnings::default(), || {
            (0..100).for_each(|_| shared.log(&settings(), 1, Level::DEBUG, "", "hidden"));
            (0..5).for_each(|_| shared.log(&settings(), 1, Level::ERROR, "", "seen"));
            assert_eq!(dropped(), 0);
            shared.log(&settings(), 1, Level::ERROR, "", "one too many");
            assert_eq!(dropped(), 1);
        });
    }

    fn rate(log_bytes: usize, now: Instant) -> Rate {
        Rate::new(
            &Limits {
                log_rate: 100,
                log_burst: 200,
                log_bytes,
                ..Limits::default()
            },
            now,
        )
    }

    #[test]
    fn log_lines_beyond_the_rate_are_dropped_and_counted() {
        let start = Instant::now();
        let mut rate = rate(1 << 20, start);
        let admitted = (0..1000)
            .filter(|_| rate.admit(10, start).is_some())
            .count();
        assert_eq!(admitted, 200);
        assert_eq!(rate.admit(10, start + Duration::from_millis(11)), Some(800));
        assert_eq!(rate.admit(10, start + Duration::from_millis(11)), None);

        let later = start + Duration::from_secs(60);
        assert_eq!(
            (0..1000)
                .filter(|_| rate.admit(10, later).is_some())
                .count(),
            200
        );
    }

    // Holds: SEC-04
    #[test]
    fn log_bytes_are_limited_too() {
        let start = Instant::now();
        let mut rate = rate(1024, start);
        let admitted = (0..100)
            .filter(|_| rate.admit(4096, start).is_some())
            .count();
        assert_eq!(admitted, 4, "sixteen seconds' worth at once");

        let hour = (1..=3600)
            .filter(|second| {
                rate.admit(4096, start + Duration::from_secs(*second))
                    .is_some()
            })
            .count();
        assert!(
            (890..=904).contains(&hour),
            "{hour} lines of 4 KiB in an hour of 1 KiB a second"
        );
    }
}
