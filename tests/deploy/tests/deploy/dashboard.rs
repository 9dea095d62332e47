//! The dashboard in `deploy/` can be shown, and its panels use existing metrics. That they have data is
//! tested with a real Prometheus (`tests/e2e/tests/real_prometheus`).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    alerts::{metrics, selectors},
    deploy, read,
};

fn dashboard() -> Value {
    let text = read(deploy().join("components/dashboard/skydock.json"));
    serde_json::from_str(&text).unwrap()
}

fn panels() -> Vec<Value> {
    dashboard()["panels"].as_array().unwrap().clone()
}

#[test]
fn all_jobs_are_those_of_skydock() {
    let variables = dashboard()["templating"]["list"].take();
    let named = |name: &str| {
        let mut all = variables.as_array().unwrap().iter();
        all.find(|variable| variable["name"] == name).unwrap()
    };
    // Otherwise `up` and `process_…` of everything in Prometheus would be shown.
    let job = named("job");
    assert!(
        job["query"]
            .as_str()
            .unwrap()
            .contains("skydock_build_info")
    );
    assert!(job.get("allValue").is_none(), "{job}");
    // A Prometheus for one cluster has no such label.
    assert_eq!(named("cluster")["allValue"], ".*");
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
            for by in expression.split(" by (").skip(1) {
                assert!(by.starts_with("cluster"), "{expression}");
            }
            let legend = target["legendFormat"].as_str().unwrap();
            assert!(legend.starts_with("{{cluster}}"), "{legend}");
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
