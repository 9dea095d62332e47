//! The figures as tables, as JSON, and for the README.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, TableStyle, presets};
use serde::Serialize;
use skydock_bench::{Machine, mebibytes, seconds};

use crate::cost::Row;
use crate::goals::Goal;
use crate::run::Rows;
use crate::scenario::Scenario;

/// The name of the section in the README.
pub(crate) const NAME: &str = "scale";

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) runs: Vec<Rows>,
    pub(crate) goals: Vec<Goal>,
}

impl Report {
    /// Returns the complete report as tables.
    pub(crate) fn table(&self) -> String {
        format!(
            "{}\n\n{}",
            self.figures(presets::NOTHING),
            self.goals(presets::NOTHING)
        )
    }

    /// Returns the section of the README in Markdown.
    pub(crate) fn section(&self) -> String {
        let Machine {
            cpu,
            cores,
            memory_gib,
            kernel,
            skydock,
            ..
        } = &self.machine;
        let mut text = self.chart();
        for part in [
            self.goals(presets::ASCII_MARKDOWN),
            self.figures(presets::ASCII_MARKDOWN),
        ] {
            let _ = write!(text, "{part}\n\n");
        }
        let _ = writeln!(
            text,
            "Machine: {cpu}, {cores} cores, {memory_gib} GiB, Linux {kernel}; {skydock}."
        );
        text
    }

    /// Returns a table with a line for each scenario and size.
    fn figures(&self, style: TableStyle) -> String {
        let mut table = Table::new();
        table.load_style(style).set_header([
            "",
            "time",
            "CPU",
            "peak memory",
            "API server: CPU",
            "memory",
            "",
        ]);
        for run in &self.runs {
            table.add_row([format!("**{}**", run.size)]);
            for row in &run.rows {
                let time = if row.reached {
                    seconds(row.seconds)
                } else {
                    format!("> {}", seconds(row.seconds))
                };
                table.add_row([
                    row.scenario.title(run.size),
                    time,
                    small(row.cpu_seconds),
                    mebibytes(row.peak_bytes),
                    small(row.api_cpu_seconds),
                    mebibytes(row.api_peak_bytes),
                    row.note.clone(),
                ]);
            }
        }
        for column in table.column_iter_mut().skip(1).take(5) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.to_string()
    }

    fn goals(&self, style: TableStyle) -> String {
        let mut table = Table::new();
        table
            .load_style(style)
            .set_header(["goal", "wanted", "found", ""]);
        for Goal {
            what,
            wanted,
            found,
            met,
        } in &self.goals
        {
            let met = if *met { "met" } else { "**missed**" };
            table.add_row([what.as_str(), wanted, found, met]);
        }
        table.to_string()
    }

    /// Returns a chart with a bar for each scenario: the ratio of the CPU time for the largest size
    /// to that for the smallest.
    fn chart(&self) -> String {
        let (Some(small), Some(large)) = (self.runs.first(), self.runs.last()) else {
            return String::new();
        };
        let both: BTreeSet<Scenario> = small.rows.iter().map(|row| row.scenario).collect();
        let cost = |rows: &Rows, scenario| {
            let row = rows.rows.iter().find(|row| row.scenario == scenario);
            row.map(|row: &Row| row.cpu_seconds.max(0.000_1))
        };
        let bars: Vec<_> = both
            .into_iter()
            .filter_map(|scenario| {
                Some((scenario, cost(large, scenario)? / cost(small, scenario)?))
            })
            .collect();
        let highest = bars.iter().map(|(_, growth)| *growth).fold(10.0, f64::max);
        let names: Vec<_> = bars
            .iter()
            .map(|(scenario, _)| format!("\"{}\"", scenario.name()))
            .collect();
        let values: Vec<_> = bars
            .iter()
            .map(|(_, growth)| format!("{growth:.1}"))
            .collect();
        format!(
            "```mermaid\nxychart-beta horizontal\n    title \"CPU: {} in terms of {}\"\n    x-axis [{}]\n    \
             y-axis 0 --> {highest:.1}\n    bar [{}]\n```\n\n",
            large.size,
            small.size,
            names.join(", "),
            values.join(", ")
        )
    }
}

/// Formats seconds, with milliseconds for short times.
fn small(time: f64) -> String {
    if time < 0.1 {
        format!("{:.1} ms", time * 1000.0)
    } else {
        seconds(time)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::Size;

    #[test]
    fn the_readme_has_the_markers() {
        let readme = include_str!("../../README.md");
        assert!(skydock_bench::replaced(readme, NAME, "new").is_some());
    }

    #[test]
    fn the_section_has_each_figure_and_each_goal() {
        let row = |cpu_seconds| Row {
            scenario: Scenario::Rest,
            reached: false,
            times: 1,
            seconds: 300.0,
            cpu_seconds,
            api_cpu_seconds: 0.01,
            peak_bytes: 1 << 20,
            api_peak_bytes: 2 << 20,
            note: "a note".to_owned(),
        };
        let run = |nodes, cpu| Rows {
            size: Size { nodes, services: 1 },
            rows: vec![row(cpu)],
        };
        let runs = vec![run(10, 1.0), run(100, 5.0)];
        let goals = crate::goals::check(&runs);
        let report = Report {
            machine: Machine::look(Path::new("/nonexistent")),
            runs,
            goals,
        };
        let section = report.section();
        for part in [
            "> 5.0 min",
            "10.0 ms",
            "a note",
            "**missed**",
            "met",
            "bar [5.0]",
            "**100 nodes, 1 services**",
        ] {
            assert!(section.contains(part), "{part} is missing in {section}");
        }
    }
}
