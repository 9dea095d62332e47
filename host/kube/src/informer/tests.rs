use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::*;
use crate::testing::Nodes;

pub(super) fn node(name: &str, version: &str) -> Node {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": version,
        },
    }))
    .unwrap()
}

pub(super) fn record(informer: &Informer<Nodes>) -> Arc<Mutex<Vec<String>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    informer.subscribe(move |change| {
        let line = match change {
            Change::Added(new) => format!("+{}@{}", new.name(), new.resource_version()),
            Change::Updated(old, new) => {
                format!(
                    "{}@{}>{}",
                    new.name(),
                    old.resource_version(),
                    new.resource_version()
                )
            }
            Change::Deleted(old) => format!("-{}@{}", old.name(), old.resource_version()),
        };
        log.lock().push(line);
    });
    seen
}

#[test]
fn handlers_see_changes_and_late_ones_the_existing_objects() {
    let informer = Informer::<Nodes>::default();
    let early = record(&informer);
    informer.apply(node("a", "1"));
    informer.apply(node("a", "2"));
    informer.apply(node("a", "2"));
    let late = record(&informer);
    informer.delete("a");
    assert_eq!(*early.lock(), ["+a@1", "a@1>2", "-a@2"]);
    assert_eq!(*late.lock(), ["+a@2", "-a@2"]);
}
