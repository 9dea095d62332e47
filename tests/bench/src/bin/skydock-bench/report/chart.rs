//! The figures as bar charts in Mermaid.

use skydock_bench::as_f64;

use super::Row;
use crate::scenario::{Figures, Scenario};

/// Returns bars with the ratio of Skydock's time, CPU and memory to upstream's, or `None` without
/// figures.
pub(crate) fn chart(rows: &[Row]) -> Option<String> {
    let bars: Vec<(String, f64)> = rows.iter().flat_map(bars).collect();
    let largest = bars.iter().map(|(_, part)| *part).reduce(f64::max)?;
    let names: Vec<_> = bars.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let parts: Vec<_> = bars.iter().map(|(_, part)| format!("{part:.2}")).collect();
    Some(format!(
        "```mermaid\nxychart-beta horizontal\n    title \"Skydock's part of upstream's: 1 is the same, less is better\"\n    \
         x-axis [{}]\n    y-axis 0 --> {:.2}\n    bar [{}]\n```\n",
        names.join(", "),
        largest.max(1.0),
        parts.join(", ")
    ))
}

fn bars(
    Row {
        scenario,
        upstream,
        skydock,
    }: &Row,
) -> Vec<(String, f64)> {
    let name = match scenario {
        Scenario::Nodes => "nodes",
        Scenario::Steady => "steady",
        Scenario::Services => "services",
        Scenario::Restart => "restart",
        Scenario::Replace => "replace",
        Scenario::Turns => "turns",
    };
    // The time of a restart is determined by the remaining duration of the previous leader's lease.
    let time = |figures: &Figures| figures.seconds.filter(|_| *scenario != Scenario::Restart);
    let figures = |figures: &Figures| {
        [
            ("time", time(figures)),
            ("CPU", Some(figures.cpu_seconds)),
            ("memory", Some(as_f64(figures.peak_bytes))),
        ]
    };
    let pairs = figures(upstream).into_iter().zip(figures(skydock));
    let part = |upstream: Option<f64>, skydock: Option<f64>| {
        Some(skydock? / upstream.filter(|it| *it > 0.0)?)
    };
    pairs
        .filter_map(|((what, upstream), (_, skydock))| {
            Some((format!("{name}: {what}"), part(upstream, skydock)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_the_ratio_to_upstream() {
        let row = |scenario, seconds| Row {
            scenario,
            upstream: Figures {
                seconds,
                cpu_seconds: 4.0,
                ..Figures::default()
            },
            skydock: Figures {
                seconds: Some(1.0),
                cpu_seconds: 5.0,
                ..Figures::default()
            },
        };
        let chart = chart(&[
            row(Scenario::Nodes, Some(2.0)),
            row(Scenario::Restart, Some(2.0)),
        ])
        .unwrap();
        assert!(
            chart.contains("x-axis [\"nodes: time\", \"nodes: CPU\", \"restart: CPU\"]"),
            "{chart}"
        );
        assert!(
            chart.contains("bar [0.50, 1.25, 1.25]") && chart.contains("y-axis 0 --> 1.25"),
            "{chart}"
        );
        assert_eq!(super::chart(&[]), None);
    }
}
