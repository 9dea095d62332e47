//! The figures of all languages, as a table.

use std::{fmt::Write as _, time::Duration};

use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;
use skydock_bench::{Machine, mebibytes, seconds};

use crate::language::Language;

/// What was measured for a language.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) language: Language,
    /// `skydock plugin new`.
    pub(crate) new: Duration,
    /// The first `skydock plugin build`.
    pub(crate) build: Duration,
    /// `skydock plugin test`.
    pub(crate) test: Duration,
    /// From the start of `skydock dev` to an initialized node.
    pub(crate) node: Duration,
    /// From a Service to its address.
    pub(crate) service: Duration,
    /// `skydock plugin build` after a change.
    pub(crate) rebuild: Duration,
    /// From the end of that build to the new plugin in service.
    pub(crate) swap: Duration,
    pub(crate) measured: Measured,
}

/// What `skydock plugin bench` measures.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Measured {
    bytes: u64,
    compile_milliseconds: f64,
    start_milliseconds: f64,
    functions: Vec<Function>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Function {
    function: String,
    failed: usize,
    median_milliseconds: f64,
    cpu_milliseconds: f64,
    memory: u64,
    requests: f64,
}

/// A row of the table: what it says, and the cell of a language.
type Row = (&'static str, fn(&Figures) -> String);

const ROWS: [Row; 14] = [
    ("`plugin new`", |it| time(it.new)),
    ("`plugin build`, the first", |it| time(it.build)),
    ("`plugin test`", |it| time(it.test)),
    (
        "start of `dev --simcloud` to initialized node, with compilation",
        |it| time(it.node),
    ),
    ("Service created to its address", |it| time(it.service)),
    ("`plugin build` after a change", |it| time(it.rebuild)),
    ("new file to new plugin in service", |it| time(it.swap)),
    ("size of the component", |it| mebibytes(it.measured.bytes)),
    ("compile it", |it| millis(it.measured.compile_milliseconds)),
    ("load it when compiled, with the first instance", |it| {
        millis(it.measured.start_milliseconds)
    }),
    ("`instances.check` of 3 nodes", |it| {
        of(it, "instances.check", |it| millis(it.median_milliseconds))
    }),
    ("… CPU time", |it| {
        of(it, "instances.check", |it| millis(it.cpu_milliseconds))
    }),
    ("… requests to the cloud", |it| {
        of(it, "instances.check", |it| format!("{:.1}", it.requests))
    }),
    ("largest memory of an instance", |it| {
        mebibytes(
            it.measured
                .functions
                .iter()
                .map(|function| function.memory)
                .max()
                .unwrap_or_default(),
        )
    }),
];

fn of(figures: &Figures, name: &str, cell: fn(&Function) -> String) -> String {
    let found = figures
        .measured
        .functions
        .iter()
        .find(|function| function.function == name);
    found
        .filter(|function| function.failed == 0)
        .map_or_else(|| "failed".to_owned(), cell)
}

fn time(time: Duration) -> String {
    millis(time.as_secs_f64() * 1e3)
}

fn millis(millis: f64) -> String {
    if millis < 1000.0 {
        format!("{millis:.1} ms")
    } else {
        seconds(millis / 1e3)
    }
}

/// Returns the table.
pub(crate) fn table(figures: &[Figures]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(
        [""].into_iter()
            .chain(figures.iter().map(|it| it.language.traits().title)),
    );
    for (title, cell) in ROWS {
        table.add_row(
            [title.to_owned()]
                .into_iter()
                .chain(figures.iter().map(cell)),
        );
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Returns the section of the page.
pub(crate) fn section(figures: &[Figures], machine: &Machine) -> String {
    let mut text = String::new();
    text.push_str(&table(figures).to_string());
    let _ = write!(
        text,
        "\n\nMachine: {}, {} virtual cores, {} GiB; {}.\n",
        machine.cpu, machine.cores, machine.memory_gib, machine.skydock
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_is_a_column() {
        let measured = r#"{"bytes": 1048576, "compileMilliseconds": 1500, "startMilliseconds": 2.25, "functions": [
            {"function": "instances.check", "failed": 0, "medianMilliseconds": 1.5, "cpuMilliseconds": 0.25, "memory": 2097152, "requests": 1}]}"#;
        let measured = serde_json::from_str(measured).unwrap();
        let go = Figures {
            language: Language::Go,
            new: Duration::from_millis(40),
            measured,
            ..Figures::default()
        };
        let failed = Figures {
            language: Language::C,
            ..Figures::default()
        };
        let text = table(&[go, failed]).to_string();
        let row = |name: &str| {
            text.lines()
                .find(|line| line.contains(name))
                .unwrap()
                .replace(' ', "")
        };
        assert_eq!(text.lines().next().unwrap().replace(' ', ""), "||Go|C|");
        assert_eq!(row("`plugin new`"), "|`pluginnew`|40.0ms|0.0ms|");
        assert_eq!(row("size"), "|sizeofthecomponent|1.0MiB|0.0MiB|");
        assert_eq!(row("compile it"), "|compileit|1.50s|0.0ms|");
        assert_eq!(
            row("of 3 nodes"),
            "|`instances.check`of3nodes|1.5ms|failed|"
        );
        assert_eq!(row("largest"), "|largestmemoryofaninstance|2.0MiB|0.0MiB|");
    }
}
