use std::net::Ipv4Addr;

use super::*;
use crate::{access::Access, resources::resource::Storage};

fn kubelets() -> Kubelets {
    let plane = Arc::new(Plane::new(Store::new(0, [])));
    plane.bootstrap(Access::Insecure, 1);
    Kubelets::new(plane, Handle::current())
}

fn spec(name: &str) -> NodeSpec {
    NodeSpec::new(name, Ipv4Addr::new(10, 0, 0, 1).into())
}

fn node(kubelets: &Kubelets, name: &str) -> Option<Value> {
    kubelets.plane.read(|store| {
        store
            .get(Storage::Nodes, "", name)
            .map(|node| node.value.clone())
    })
}

fn keys(node: &Value) -> Vec<&str> {
    object::list(node, "/spec/taints")
        .iter()
        .map(|taint| text(taint, "/key"))
        .collect()
}

fn ready(node: &Value) -> (&str, &str) {
    let ready = object::list(node, "/status/conditions")
        .iter()
        .find(|condition| condition["type"] == "Ready")
        .unwrap();
    (text(ready, "/status"), text(ready, "/lastHeartbeatTime"))
}

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

#[tokio::test]
async fn a_node_registers_loses_power_and_comes_back() {
    let kubelets = kubelets();
    kubelets.register(spec("a")).unwrap();
    assert_eq!(
        kubelets.register(spec("a")),
        Err(KubeletError::AlreadyRegistered("a".into()))
    );

    let registered = node(&kubelets, "a").unwrap();
    assert_eq!(
        (keys(&registered), ready(&registered).0),
        (vec![UNINITIALIZED], "True")
    );
    assert!(
        kubelets
            .plane
            .read(|store| store.get(Storage::Leases, LEASE_NAMESPACE, "a").is_some())
    );

    kubelets.stop("a").unwrap();
    let stopped = node(&kubelets, "a").unwrap();
    assert_eq!(
        (keys(&stopped), ready(&stopped).0),
        (vec![UNINITIALIZED, UNREACHABLE, UNREACHABLE], "Unknown")
    );
    assert_eq!(kubelets.list(), [("a".to_owned(), false)]);

    kubelets.start("a").unwrap();
    let started = node(&kubelets, "a").unwrap();
    assert_eq!(
        (keys(&started), ready(&started).0),
        (vec![UNINITIALIZED], "True")
    );

    kubelets.remove("a").unwrap();
    assert_eq!(node(&kubelets, "a"), None);
    assert_eq!(kubelets.stop("a"), Err(KubeletError::Unknown("a".into())));
}

#[tokio::test]
async fn a_node_with_an_invalid_name_cannot_register() {
    let rejected = kubelets().register(spec("Not A Name")).unwrap_err();
    assert!(
        matches!(rejected, KubeletError::Rejected { .. }),
        "{rejected}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_returns_only_when_its_kubelet_restarts() {
    let kubelets = kubelets();
    kubelets.register(spec("a")).unwrap();
    let revision = kubelets.plane.read(Store::revision);
    tokio::time::sleep(HEARTBEAT + Duration::from_secs(1)).await;
    assert!(
        kubelets.plane.read(Store::revision) > revision,
        "a heartbeat is written"
    );
    kubelets
        .plane
        .write(|store, now| {
            delete::delete(
                store,
                &target(&NODES, "a", None),
                &delete::DeleteOptions::default(),
                now,
            )
        })
        .unwrap();
    tokio::time::sleep(HEARTBEAT * 3).await;
    assert_eq!(node(&kubelets, "a"), None);
    kubelets.stop("a").unwrap();
    kubelets.start("a").unwrap();
    assert!(node(&kubelets, "a").is_some());
}
