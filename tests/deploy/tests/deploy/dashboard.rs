//! The dashboard in `deploy/` can be shown, and its panels use existing metrics. That they have data is
//! tested with a real Prometheus (`tests/e2e/tests/real_prometheus.rs`).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    alerts::{metrics, selectors},
    deploy, read,
};

fn panels() -> Vec<Value> {
    let text = read(deploy().join("components/dashboard/skydock.json"));
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    dashboard["panels"].as_array().unwrap().clone()
}

#[test]
fn every_panel_uses_existing_metrics() {
    let metrics = metrics();
    let mut checked = 0;
    for panel in panels() {
        let Some(targets) = panel["targets"].as_array() else {
            assert_eq!(panel["type"], "row");
            continue;
        };
        for target in targets {
            let expression = target["expr"].as_str().unwrap();
            for (metric, _) in selectors(expression) {
                let metric = metric.trim_end_matches("_bucket");
                assert!(
                    metrics.contains_key(metric),
                    "{}: there is no {metric}",
                    panel["title"]
                );
                checked += 1;
            }
            // One dashboard is for all clusters, or for one of them.
            assert!(
                expression.contains("{cluster=~\"$cluster\", job=~\"$job\""),
                "{expression}"
            );
        }
    }
    assert!(checked > 15, "only {checked}");
}

#[test]
fn panels_have_their_own_ids_and_places() {
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let place = |field: &str| panel["gridPos"][field].as_u64().unwrap();
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(x < 24 && taken.insert((x, y)), "{panel}");
            }
        }
    }
}
