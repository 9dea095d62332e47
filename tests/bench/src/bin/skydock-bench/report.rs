//! The figures as a table, as JSON, and for the README.

mod chart;

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, TableStyle, presets};
use serde::Serialize;
use skydock_bench::{Machine, as_f64, mebibytes, seconds};

use self::chart::chart;
use crate::scenario::{Figures, Scenario, Size};
use crate::turns::{Other, Turns};

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) size: Size,
    pub(crate) scenarios: Vec<Row>,
    pub(crate) turns: Option<Turns>,
}

/// The figures of both sides for a scenario.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) scenario: Scenario,
    pub(crate) upstream: Figures,
    pub(crate) skydock: Figures,
}

/// One line of the table: the quantity, the values of both sides, and the ratio of Skydock's to
/// upstream's.
struct Line {
    what: String,
    upstream: String,
    skydock: String,
    ratio: String,
}

impl Report {
    /// Returns the complete report as a table.
    pub(crate) fn table(&self) -> String {
        self.render(presets::NOTHING)
    }

    fn render(&self, preset: TableStyle) -> String {
        let mut table = Table::new();
        table
            .load_style(preset)
            .set_header(["", "upstream", "Skydock", "ratio"]);
        for row in &self.scenarios {
            table.add_row([
                format!("**{}**", row.scenario.title(&self.size)),
                String::new(),
                String::new(),
                String::new(),
            ]);
            for line in lines(row) {
                table.add_row([line.what, line.upstream, line.skydock, line.ratio]);
            }
        }
        if let Some(turns) = &self.turns {
            table.add_row([format!("**{}**", Scenario::Turns.title(&self.size))]);
            let mut row = |what: String, other: Other| {
                let told = |time: f64| format!("{time:.2} ms");
                table.add_row([
                    what,
                    told(other.time),
                    told(turns.skydock),
                    format!("{:.2}", other.ratio),
                ]);
            };
            row("a node, first to last write".to_owned(), turns.upstream);
            row(
                format!(
                    "a bare loop in upstream's place, {} at a time",
                    turns.at_a_time
                ),
                turns.floor,
            );
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.to_string()
    }

    /// Returns the section of the README in Markdown.
    fn section(&self) -> String {
        let Machine {
            cpu,
            cores,
            memory_gib,
            kernel,
            skydock,
            kubernetes,
            cloud_provider,
        } = &self.machine;
        let mut text = format!(
            "{} nodes as kubelets report them (50 images each), {} services, {} ms a call to the cloud; {skydock}; \
             k8s.io/cloud-provider {cloud_provider}; etcd and kube-apiserver {kubernetes}.\n\n",
            self.size.nodes,
            self.size.services,
            self.size.latency.as_millis()
        );
        if let Some(chart) = chart(&self.scenarios) {
            let _ = writeln!(text, "{chart}");
        }
        text.push_str(&self.render(presets::ASCII_MARKDOWN));
        let _ = write!(
            text,
            "\n\nMachine: {cpu}, {cores} cores, {memory_gib} GiB, Linux {kernel}.\n"
        );
        text
    }

    /// Writes the section to the README.
    pub(crate) fn update(&self, readme: &Path) -> Result<()> {
        skydock_bench::update(readme, NAME, &self.section())
    }
}

/// The name of the section.
const NAME: &str = "controllers";

fn lines(row: &Row) -> Vec<Line> {
    let Row {
        scenario,
        upstream,
        skydock,
    } = row;
    let mut lines = Vec::new();
    let mut line =
        |what: &str, value: &dyn Fn(&Figures) -> Option<f64>, tell: &dyn Fn(f64) -> String| {
            let (upstream, skydock) = (value(upstream), value(skydock));
            if upstream.is_some() || skydock.is_some() {
                let told = |value: Option<f64>| value.map(tell).unwrap_or_default();
                let ratio = ratio(skydock, upstream);
                lines.push(Line {
                    what: what.to_owned(),
                    upstream: told(upstream),
                    skydock: told(skydock),
                    ratio,
                });
            }
        };
    let count = |count: f64| format!("{count:.0}");
    line(
        if *scenario == Scenario::Restart {
            "leads again after"
        } else {
            "time"
        },
        &|f| f.seconds,
        &seconds,
    );
    line("first to last write", &|f| f.seconds_writing, &seconds);
    line("until at rest", &|f| f.seconds_to_rest, &seconds);
    line(
        "API requests",
        &|f| Some(as_f64(f.requests.requests)),
        &count,
    );
    line(
        "writes among them",
        &|f| Some(as_f64(f.requests.writes)),
        &count,
    );
    line("calls to the cloud", &|f| Some(as_f64(f.calls())), &count);
    line("CPU", &|f| Some(f.cpu_seconds), &seconds);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // bytes of memory
    line("peak memory", &|f| Some(as_f64(f.peak_bytes)), &|bytes| {
        mebibytes(bytes as u64)
    });
    lines
}

/// Returns the ratio of Skydock's figure to upstream's, or an empty text if there is nothing to
/// compare.
fn ratio(skydock: Option<f64>, upstream: Option<f64>) -> String {
    match (skydock, upstream) {
        (Some(skydock), Some(upstream)) if upstream > 0.0 => format!("{:.2}", skydock / upstream),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_the_markers() {
        let readme = include_str!("../../../README.md");
        assert!(skydock_bench::replaced(readme, NAME, "new").is_some());
    }

    #[test]
    fn a_ratio_is_skydock_divided_by_upstream() {
        assert_eq!(ratio(Some(1.0), Some(4.0)), "0.25");
        assert_eq!(ratio(Some(1.0), Some(0.0)), "");
        assert_eq!(ratio(None, Some(1.0)), "");
    }

    #[test]
    fn a_scenario_without_an_end_has_no_time() {
        let row = Row {
            scenario: Scenario::Steady,
            upstream: Figures::default(),
            skydock: Figures::default(),
        };
        let what: Vec<_> = lines(&row).into_iter().map(|line| line.what).collect();
        assert_eq!(
            what,
            [
                "API requests",
                "writes among them",
                "calls to the cloud",
                "CPU",
                "peak memory"
            ]
        );
    }
}
