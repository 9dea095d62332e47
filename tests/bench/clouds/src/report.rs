//! The figures as a table, as JSON, and for the README.

mod chart;
mod goals;
mod median;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use comfy_table::{CellAlignment, ContentArrangement, Table, TableStyle, presets};
use serde::Serialize;
use skydock_bench::{Machine, as_f64, mebibytes, seconds};
use skydock_peers::Peer;

use self::chart::chart;
use self::goals::{Goal, goals};
use self::median::median;
use crate::differences::{self, Difference};
use crate::run::Outcome;
use crate::scenario::{Figures, Kind, Side, Size, Stage};

/// The name of the section of the README.
const NAME: &str = "clouds";

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    machine: Machine,
    size: Size,
    runs: u8,
    /// The kernel's load average of the last 15 minutes.
    load: String,
    clouds: Vec<OnCloud>,
}

/// The results of all sides for a cloud.
#[derive(Debug, Serialize)]
pub(crate) struct OnCloud {
    kind: Kind,
    /// The name and version of the peer.
    peer_program: String,
    #[serde(skip)]
    outcomes: Vec<(Side, Outcome)>,
    /// The figures of all runs, to show how much they vary.
    runs: BTreeMap<Side, Vec<BTreeMap<Stage, Figures>>>,
    /// The medians of the runs.
    figures: BTreeMap<Side, BTreeMap<Stage, Figures>>,
    goals: Vec<Goal>,
    differences: Vec<Difference>,
    /// Resources that a side has left in the cloud. Only Skydock is required to leave none.
    left: BTreeMap<Side, BTreeSet<String>>,
}

impl OnCloud {
    pub(crate) fn new(kind: Kind, peer: &Peer) -> Self {
        Self {
            kind,
            peer_program: format!("{} {}", peer.name(), peer.version()),
            outcomes: Vec::new(),
            runs: BTreeMap::new(),
            figures: BTreeMap::new(),
            goals: Vec::new(),
            differences: Vec::new(),
            left: BTreeMap::new(),
        }
    }

    pub(crate) fn add(&mut self, side: Side, outcome: Outcome) {
        self.runs
            .entry(side)
            .or_default()
            .push(outcome.figures.clone());
        self.left
            .entry(side)
            .or_default()
            .extend(outcome.left.iter().cloned());
        self.outcomes.push((side, outcome));
    }

    fn conclude(&mut self) {
        self.figures = self
            .runs
            .iter()
            .map(|(side, runs)| (*side, median(runs)))
            .collect();
        let none = BTreeMap::new();
        let of = |side| self.figures.get(&side).unwrap_or(&none);
        self.goals = goals(self.kind, of(Side::Peer), of(Side::Skydock));
        let mut all = BTreeSet::new();
        let of = |side: Side| {
            self.outcomes
                .iter()
                .filter(move |(of, _)| *of == side)
                .map(|(_, outcome)| outcome)
        };
        for side in Side::ALL.into_iter().filter(|side| *side != Side::Peer) {
            for (peer, here) in of(Side::Peer).zip(of(side)) {
                for (stage, peer) in &peer.pictures {
                    if let Some(here) = here.pictures.get(stage) {
                        all.extend(differences::between(self.kind, side, peer, here));
                    }
                }
            }
        }
        self.differences = all.into_iter().collect();
    }

    fn of(&self, side: Side, stage: Stage) -> Option<&Figures> {
        self.figures.get(&side)?.get(&stage)
    }

    fn is_good(&self) -> bool {
        let left = self
            .left
            .get(&Side::Skydock)
            .is_some_and(|left| !left.is_empty());
        !left
            && self.goals.iter().all(Goal::is_met)
            && self.differences.iter().all(|it| it.decided.is_some())
    }
}

impl Report {
    pub(crate) fn new(machine: Machine, size: Size, runs: u8, mut clouds: Vec<OnCloud>) -> Self {
        clouds.iter_mut().for_each(OnCloud::conclude);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load
            .split_whitespace()
            .nth(2)
            .unwrap_or_default()
            .to_owned();
        Self {
            machine,
            size,
            runs,
            load,
            clouds,
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.clouds.iter().all(OnCloud::is_good)
    }

    /// Returns the complete report for a terminal.
    pub(crate) fn text(&self) -> String {
        self.clouds
            .iter()
            .map(|cloud| self.cloud(cloud, presets::NOTHING))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn cloud(&self, cloud: &OnCloud, preset: TableStyle) -> String {
        let mut text = format!(
            "{}\n\n{}\n",
            self.figures(cloud, preset),
            goals_table(cloud, preset)
        );
        let _ = writeln!(text, "\n{}", calls_table(cloud, preset));
        if !cloud.differences.is_empty() {
            let _ = writeln!(text, "\n{}", differences_table(cloud, preset));
        }
        for (side, left) in cloud.left.iter().filter(|(_, left)| !left.is_empty()) {
            let left: Vec<&str> = left.iter().map(String::as_str).collect();
            let side = side.title();
            let _ = writeln!(
                text,
                "\nLeft in the cloud at the end, {side}: {}.",
                left.join("; ")
            );
        }
        text
    }

    fn figures(&self, cloud: &OnCloud, preset: TableStyle) -> Table {
        let [peer, go, skydock] = Side::ALL.map(Side::title);
        let mut table = table(
            preset,
            &[cloud.kind.title(), peer, go, "ratio", skydock, "ratio"],
        );
        for stage in Stage::ALL {
            let all = Side::ALL.map(|side| cloud.of(side, stage));
            table.add_row([format!("**{}**", stage.title(&self.size))]);
            let mut row = |what: &str,
                           value: &dyn Fn(&Figures) -> Option<f64>,
                           tell: &dyn Fn(f64) -> String| {
                let [peer, go, skydock] = all.map(|figures| figures.and_then(value));
                if peer.is_some() || go.is_some() || skydock.is_some() {
                    let told = |value: Option<f64>| value.map(tell).unwrap_or_default();
                    let (go_ratio, ratio) = (ratio(go, peer), ratio(skydock, peer));
                    table.add_row([
                        what.to_owned(),
                        told(peer),
                        told(go),
                        go_ratio,
                        told(skydock),
                        ratio,
                    ]);
                }
            };
            row("time", &|it| it.seconds, &seconds);
            row("until the last call", &|it| it.seconds_of_calls, &seconds);
            row(
                "calls to the cloud",
                &|it| Some(as_f64(it.all_calls())),
                &|count| format!("{count:.0}"),
            );
            row("CPU", &|it| Some(it.cpu_seconds), &seconds);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // bytes of memory
            let told = |bytes: f64| mebibytes(bytes as u64);
            row("peak memory", &|it| Some(as_f64(it.peak_bytes)), &told);
            row(
                "peak memory, anonymous",
                &|it| Some(as_f64(it.peak_anonymous_bytes)),
                &told,
            );
        }
        right(&mut table);
        table
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
            ..
        } = &self.machine;
        let peers: Vec<_> = self
            .clouds
            .iter()
            .map(|cloud| cloud.peer_program.as_str())
            .collect();
        let mut text = format!(
            "{} nodes, {} services, {} ms a call to the cloud, {} run{}; {skydock}; {}; etcd and kube-apiserver {kubernetes}.\n",
            self.size.nodes,
            self.size.services,
            self.size.latency.as_millis(),
            self.runs,
            if self.runs == 1 { "" } else { "s" },
            peers.join("; "),
        );
        for cloud in &self.clouds {
            let _ = writeln!(text, "\n### {}\n", cloud.kind.title());
            let (peer, skydock) = (
                cloud.figures.get(&Side::Peer),
                cloud.figures.get(&Side::Skydock),
            );
            if let Some(chart) = peer
                .zip(skydock)
                .and_then(|(peer, skydock)| chart(cloud.kind.title(), peer, skydock))
            {
                let _ = writeln!(text, "{chart}");
            }
            text.push_str(&self.cloud(cloud, presets::ASCII_MARKDOWN));
        }
        let _ = write!(
            text,
            "\nMachine: {cpu}, {cores} cores, {memory_gib} GiB, Linux {kernel}; load {} at the end.\n",
            self.load
        );
        text
    }

    /// Writes the section to the README.
    pub(crate) fn update(&self, readme: &Path) -> Result<()> {
        skydock_bench::update(readme, NAME, &self.section())
    }
}

fn table(preset: TableStyle, header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(preset)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    table
}

fn right(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

fn goals_table(cloud: &OnCloud, preset: TableStyle) -> Table {
    let mut table = table(
        preset,
        &["Skydock's part of the peer's", "at most", "found", ""],
    );
    for goal in &cloud.goals {
        let found = goal.found.map_or_else(
            || "nothing to compare".to_owned(),
            |found| format!("{found:.2}"),
        );
        let said = match goal.is_met() {
            true if goal.one_call => "ok: one call is the least",
            true => "ok",
            false => "missed",
        };
        table.add_row([
            goal.what.to_owned(),
            format!("{:.2}", goal.at_most),
            found,
            said.to_owned(),
        ]);
    }
    table
}

/// Returns the calls by operation, for all stages except the start.
fn calls_table(cloud: &OnCloud, preset: TableStyle) -> Table {
    let stages: Vec<Stage> = Stage::ALL
        .into_iter()
        .filter(|stage| *stage != Stage::Start)
        .collect();
    let title = Side::ALL.map(Side::title).join(" / ");
    let mut header = vec![title.as_str()];
    header.extend(stages.iter().map(|stage| stage.word()));
    let mut table = table(preset, &header);
    let all = cloud.figures.values().flat_map(BTreeMap::values);
    let operations: BTreeSet<&String> = all.flat_map(|it| it.calls.keys()).collect();
    for operation in operations {
        let mut row = vec![operation.clone()];
        row.extend(stages.iter().map(|stage| {
            let counts = Side::ALL.map(|side| {
                cloud
                    .of(side, *stage)
                    .and_then(|it| it.calls.get(operation))
                    .copied()
                    .unwrap_or_default()
            });
            if counts == [0; 3] {
                String::new()
            } else {
                counts.map(|count| count.to_string()).join(" / ")
            }
        }));
        table.add_row(row);
    }
    right(&mut table);
    table
}

fn differences_table(cloud: &OnCloud, preset: TableStyle) -> Table {
    let mut table = table(
        preset,
        &[
            "differs from the peer",
            "field",
            "peer",
            "here",
            "times",
            "decided",
        ],
    );
    for Difference {
        side,
        field,
        peer,
        here,
        count,
        decided,
    } in &cloud.differences
    {
        table.add_row([
            side.title(),
            field,
            peer,
            here,
            &count.to_string(),
            decided.unwrap_or("**no**"),
        ]);
    }
    table
}

/// Returns the ratio of a side's figure to the peer's, or an empty text if there is nothing to
/// compare.
fn ratio(side: Option<f64>, peer: Option<f64>) -> String {
    match (side, peer) {
        (Some(side), Some(peer)) if peer > 0.0 => format!("{:.2}", side / peer),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_the_markers() {
        let readme = include_str!("../README.md");
        assert!(skydock_bench::replaced(readme, NAME, "new").is_some());
    }
}
