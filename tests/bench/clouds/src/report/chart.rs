//! The figures as bar charts in Mermaid.

use std::collections::BTreeMap;

use skydock_bench::as_f64;

use crate::scenario::{Figures, Stage};

/// Returns bars with the ratio of Skydock's calls and time to the peer's by stage, or `None`
/// without figures.
pub(crate) fn chart(
    cloud: &str,
    peer: &BTreeMap<Stage, Figures>,
    skydock: &BTreeMap<Stage, Figures>,
) -> Option<String> {
    let mut bars = Vec::new();
    for (stage, peer) in peer.iter().filter(|(stage, _)| **stage != Stage::Start) {
        let Some(skydock) = skydock.get(stage) else {
            continue;
        };
        let calls = (
            Some(as_f64(peer.all_calls())),
            Some(as_f64(skydock.all_calls())),
        );
        for (what, (peer, skydock)) in [("calls", calls), ("time", (time(peer), time(skydock)))] {
            if let (Some(peer), Some(skydock)) = (peer.filter(|peer| *peer > 0.0), skydock) {
                bars.push((format!("{}: {what}", stage.word()), skydock / peer));
            }
        }
    }
    let largest = bars.iter().map(|(_, part)| *part).reduce(f64::max)?;
    let names: Vec<_> = bars.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let parts: Vec<_> = bars.iter().map(|(_, part)| format!("{part:.2}")).collect();
    Some(format!(
        "```mermaid\nxychart-beta horizontal\n    title \"{cloud}: Skydock's part of the peer's: 1 is the same, less is better\"\n    \
         x-axis [{}]\n    y-axis 0 --> {:.2}\n    bar [{}]\n```\n",
        names.join(", "),
        largest.max(1.0),
        parts.join(", ")
    ))
}

/// Returns the time of a stage: until the cluster has the expected state, or otherwise until the
/// last call.
pub(crate) fn time(figures: &Figures) -> Option<f64> {
    figures.seconds.or(figures.seconds_of_calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_the_ratio_to_the_peer() {
        let figures = |calls, seconds| Figures {
            calls: BTreeMap::from([("x".to_owned(), calls)]),
            seconds,
            ..Figures::default()
        };
        let peer = BTreeMap::from([
            (Stage::Nodes, figures(100, Some(2.0))),
            (Stage::Rest, figures(0, None)),
        ]);
        let skydock = BTreeMap::from([
            (Stage::Nodes, figures(10, Some(3.0))),
            (Stage::Rest, figures(1, None)),
        ]);
        let chart = chart("X", &peer, &skydock).unwrap();
        assert!(
            chart.contains("x-axis [\"nodes: calls\", \"nodes: time\"]"),
            "{chart}"
        );
        assert!(
            chart.contains("bar [0.10, 1.50]") && chart.contains("y-axis 0 --> 1.50"),
            "{chart}"
        );
        assert_eq!(super::chart("X", &BTreeMap::new(), &skydock), None);
    }
}
