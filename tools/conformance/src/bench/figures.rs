//! The figures, as a table and as JSON.

use std::{fmt::Write as _, time::Duration};

use comfy_table::{CellAlignment, Table, presets};
use serde::{Serialize, Serializer};
use skydock_cloud::text::escape;

use crate::harness::meter::Reading;

/// Figures of a plugin.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Name of the provider.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of the component.
    pub digest: String,
    /// Size of the component.
    pub bytes: usize,
    /// Time to compile it.
    #[serde(rename = "compileMilliseconds", serialize_with = "millis")]
    pub compile: Duration,
    /// Time to load it when it has been compiled, until its first call.
    #[serde(rename = "startMilliseconds", serialize_with = "millis")]
    pub start: Duration,
    /// One for each function.
    pub functions: Vec<FunctionFigures>,
}

/// Figures of a function.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionFigures {
    /// For example `instances.check`.
    pub function: String,
    /// Number of calls.
    pub calls: usize,
    /// Number of calls that failed, or of which an element failed.
    pub failed: usize,
    /// Error of the first of these.
    pub error: Option<String>,
    /// Half of the calls take less time.
    #[serde(rename = "medianMilliseconds", serialize_with = "millis")]
    pub median: Duration,
    /// 99 of 100 calls take less time.
    #[serde(rename = "p99Milliseconds", serialize_with = "millis")]
    pub p99: Duration,
    /// CPU time of a call, on average.
    #[serde(rename = "cpuMilliseconds", serialize_with = "millis")]
    pub cpu: Duration,
    /// Largest linear memory of an instance, in bytes.
    pub memory: u64,
    /// Requests of a call, on average, without those that were denied.
    pub requests: f64,
    /// Denied requests of all calls.
    pub denied: u64,
    /// Requests of all calls that waited because of the rate limit of an egress rule, or of
    /// `Retry-After`. The times are then those of the limit.
    pub delayed: u64,
}

fn millis<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1e3)
}

impl FunctionFigures {
    pub(super) fn of(
        function: String,
        mut times: Vec<Duration>,
        (failed, error): (usize, Option<String>),
        before: &Reading,
        after: &Reading,
    ) -> Self {
        times.sort_unstable();
        let calls = times.len();

        let requests: u64 = after.requests_since(before).values().sum();
        #[allow(clippy::cast_precision_loss, reason = "small counts")]
        let requests = requests as f64 / calls.max(1) as f64;
        let cpu = Duration::from_micros(after.cpu.saturating_sub(before.cpu));

        Self {
            median: quantile(&times, 50),
            p99: quantile(&times, 99),
            cpu: cpu / u32::try_from(calls.max(1)).unwrap_or(u32::MAX),
            memory: after.memory,
            denied: after.denied - before.denied,
            delayed: after.delayed - before.delayed,
            function,
            calls,
            failed,
            error,
            requests,
        }
    }
}

/// Returns the smallest time that this percentage of the calls do not exceed. `times` are sorted.
fn quantile(times: &[Duration], percent: usize) -> Duration {
    let rank = (times.len() * percent).div_ceil(100).max(1);
    times.get(rank - 1).copied().unwrap_or_default()
}

impl Figures {
    /// Returns the figures for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "function",
            "calls",
            "failed",
            "median",
            "p99",
            "CPU",
            "memory",
            "requests/call",
        ]);

        for it in &self.functions {
            table.add_row([
                it.function.clone(),
                it.calls.to_string(),
                it.failed.to_string(),
                shown(it.median),
                shown(it.p99),
                shown(it.cpu),
                format!("{:.1} MiB", mebibytes(it.memory)),
                format!("{:.1}", it.requests),
            ]);
        }

        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }

        let size = mebibytes(u64::try_from(self.bytes).unwrap_or(u64::MAX));
        let mut text = format!(
            "{} {}, {size:.1} MiB, compiled in {}, started in {}\n{table}\n",
            escape(&self.plugin),
            escape(&self.version),
            shown(self.compile),
            shown(self.start)
        );

        for FunctionFigures {
            function, error, ..
        } in &self.functions
        {
            if let Some(error) = error {
                let _ = writeln!(text, "{function} failed: {}", escape(error));
            }
        }

        let delayed: u64 = self.functions.iter().map(|it| it.delayed).sum();
        if delayed > 0 {
            let _ = writeln!(
                text,
                "{delayed} requests waited for the rate limit of their egress rule or for Retry-After: the times include that. To \
                 measure the plugin, raise `limits.rate` and `limits.burst` of the rule"
            );
        }

        text
    }

    /// Returns the figures for programs.
    ///
    /// # Errors
    /// If they cannot be written as JSON.
    pub fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// Returns a time with three digits.
fn shown(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1e3;
    match millis {
        ..10.0 => format!("{millis:.2} ms"),
        ..1000.0 => format!("{millis:.0} ms"),
        _ => format!("{:.1} s", millis / 1e3),
    }
}

fn mebibytes(bytes: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "less than 2^53")]
    let bytes = bytes as f64;
    bytes / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let times = (1..=100).rev().map(Duration::from_millis).collect();
        let read = |requests, cpu| Reading {
            requests: [("GET".to_owned(), requests)].into(),
            cpu,
            memory: 3 << 20,
            ..Reading::default()
        };
        let error = (1, Some("denied: \u{1b}[31mno".to_owned()));
        let function = FunctionFigures::of(
            "zones.locate".to_owned(),
            times,
            error,
            &read(10, 1000),
            &read(260, 201_000),
        );
        Figures {
            plugin: "p".into(),
            version: "1".into(),
            digest: "ab".into(),
            bytes: 1 << 19,
            compile: Duration::from_millis(2500),
            start: Duration::from_micros(3210),
            functions: vec![function],
        }
    }

    #[test]
    fn delayed_requests_are_reported() {
        assert!(!figures().table().contains("rate limit"));
        let mut figures = figures();
        figures.functions[0].delayed = 160;
        assert!(
            figures
                .table()
                .ends_with("raise `limits.rate` and `limits.burst` of the rule\n"),
            "{}",
            figures.table()
        );
        assert!(
            figures
                .table()
                .contains("\n160 requests waited for the rate limit"),
            "{}",
            figures.table()
        );
    }

    #[test]
    fn figures_are_per_call() {
        let function = figures().functions.remove(0);
        assert_eq!(
            (function.median, function.p99),
            (Duration::from_millis(50), Duration::from_millis(99))
        );
        assert_eq!(
            (function.cpu, function.requests.to_string().as_str()),
            (Duration::from_millis(2), "2.5")
        );
        assert_eq!(
            (quantile(&[], 50), quantile(&[Duration::MAX], 1)),
            (Duration::ZERO, Duration::MAX)
        );
    }

    #[test]
    fn requests_before_the_calls_are_not_counted() {
        let read = |denied, delayed| Reading {
            denied,
            delayed,
            ..Reading::default()
        };
        let function = FunctionFigures::of(
            "f".into(),
            Vec::new(),
            (0, None),
            &read(3, 20),
            &read(4, 22),
        );
        assert_eq!((function.denied, function.delayed), (1, 2));
    }

    #[test]
    fn the_table_and_json_have_the_same_figures() {
        let table = figures().table();
        assert!(
            table.starts_with("p 1, 0.5 MiB, compiled in 2.5 s, started in 3.21 ms\n"),
            "{table}"
        );

        let row = table
            .lines()
            .find(|line| line.contains("zones.locate"))
            .unwrap();
        let cells: Vec<_> = row.split_whitespace().collect();
        assert_eq!(
            cells,
            [
                "zones.locate",
                "100",
                "1",
                "50",
                "ms",
                "99",
                "ms",
                "2.00",
                "ms",
                "3.0",
                "MiB",
                "2.5"
            ]
        );
        assert!(table.contains("zones.locate failed: denied: ") && !table.contains('\u{1b}'));

        let json: serde_json::Value = serde_json::from_str(&figures().json().unwrap()).unwrap();
        assert_eq!(json["functions"][0]["p99Milliseconds"], 99.0);
        assert_eq!(
            (&json["compileMilliseconds"], &json["bytes"]),
            (&2500.0.into(), &(1 << 19).into())
        );
    }
}
