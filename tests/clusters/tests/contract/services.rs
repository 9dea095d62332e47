//! The requests of the service controller to Services.

use anyhow::{Result, ensure};
use futures::FutureExt;
use serde_json::{Value, json};
use skydock_clusters::Plane;
use skydock_support::kubernetes::FINALIZER;

use super::http::{MERGE, STRATEGIC, Scenario, delete, expect, get, patch, post};

const SERVICES: &str = "/api/v1/namespaces/default/services";

pub(crate) const SCENARIOS: &[Scenario] = &[
    (
        "a status patch adds a finalizer to those there are, once",
        |plane| add_finalizer(plane).boxed(),
    ),
    (
        "a status patch removes one finalizer and leaves the others",
        |plane| remove_finalizer(plane).boxed(),
    ),
    (
        "a deleted service stays until its last finalizer is gone",
        |plane| deleted(plane).boxed(),
    ),
    (
        "an ingress with an IP gets the IP mode VIP, one with a name none",
        |plane| ip_mode(plane).boxed(),
    ),
    (
        "an ingress list is replaced as a whole, and null clears it",
        |plane| replaced(plane).boxed(),
    ),
    (
        "a service that stops being a load balancer loses its status",
        |plane| type_change(plane).boxed(),
    ),
    (
        "a service that is not a load balancer cannot be given an ingress",
        |plane| no_balancer(plane).boxed(),
    ),
    ("the class of a load balancer never changes", |plane| {
        fixed_class(plane).boxed()
    }),
];

fn path(name: &str) -> String {
    format!("{SERVICES}/{name}")
}

fn status(name: &str) -> String {
    format!("{SERVICES}/{name}/status")
}

async fn create(plane: &dyn Plane, name: &str, finalizers: &[&str]) -> Result<Value> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "finalizers": finalizers},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "loadBalancerClass": "example.com/fast"},
    });
    post(plane, SERVICES, service).await?.ok()
}

async fn add_finalizer(plane: &dyn Plane) -> Result<()> {
    create(plane, "add-finalizer", &["example.com/other"]).await?;
    let body = json!({"metadata": {"finalizers": [FINALIZER]}});
    for _ in 0..2 {
        let service = patch(plane, &status("add-finalizer"), STRATEGIC, body.clone())
            .await?
            .ok()?;
        let mut finalizers: Vec<Value> = service["metadata"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        finalizers.sort_by_key(ToString::to_string);
        expect(
            "finalizers",
            &finalizers.into(),
            json!(["example.com/other", FINALIZER]),
        )?;
    }
    Ok(())
}

fn remove() -> Value {
    json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}})
}

async fn remove_finalizer(plane: &dyn Plane) -> Result<()> {
    create(
        plane,
        "remove-finalizer",
        &["example.com/first", FINALIZER, "example.com/last"],
    )
    .await?;
    for _ in 0..2 {
        let service = patch(plane, &status("remove-finalizer"), STRATEGIC, remove())
            .await?
            .ok()?;
        let left = &service["metadata"]["finalizers"];
        expect(
            "finalizers",
            left,
            json!(["example.com/first", "example.com/last"]),
        )?;
    }
    Ok(())
}

async fn deleted(plane: &dyn Plane) -> Result<()> {
    create(plane, "deleted", &[FINALIZER]).await?;
    delete(plane, &path("deleted"), Value::Null).await?.ok()?;
    let service = get(plane, &path("deleted")).await?.ok()?;
    ensure!(
        service["metadata"]["deletionTimestamp"].is_string(),
        "not marked: {}",
        service["metadata"]
    );

    let body = json!({"metadata": {"finalizers": ["example.com/late"]}});
    patch(plane, &status("deleted"), STRATEGIC, body)
        .await?
        .rejected(422, "Invalid")?;
    patch(plane, &status("deleted"), STRATEGIC, remove())
        .await?
        .ok()?;
    get(plane, &path("deleted"))
        .await?
        .rejected(404, "NotFound")?;
    patch(plane, &status("deleted"), STRATEGIC, remove())
        .await?
        .rejected(404, "NotFound")?;
    Ok(())
}

fn ingress(list: &Value) -> Value {
    json!({"status": {"loadBalancer": {"ingress": list}}})
}

async fn ip_mode(plane: &dyn Plane) -> Result<()> {
    create(plane, "ip-mode", &[]).await?;
    let list = json!([{"ip": "192.0.2.10"}, {"ip": "192.0.2.11", "ipMode": "Proxy"}, {"hostname": "lb.example.com"}]);
    let service = patch(plane, &status("ip-mode"), MERGE, ingress(&list))
        .await?
        .ok()?;
    let expected = json!([
        {"ip": "192.0.2.10", "ipMode": "VIP"},
        {"ip": "192.0.2.11", "ipMode": "Proxy"},
        {"hostname": "lb.example.com"},
    ]);
    expect(
        "ingress",
        &service["status"]["loadBalancer"]["ingress"],
        expected,
    )
}

async fn replaced(plane: &dyn Plane) -> Result<()> {
    create(plane, "replaced", &[]).await?;
    for ip in ["192.0.2.10", "192.0.2.11"] {
        let service = patch(
            plane,
            &status("replaced"),
            MERGE,
            ingress(&json!([{"ip": ip}])),
        )
        .await?
        .ok()?;
        let expected = json!({"ingress": [{"ip": ip, "ipMode": "VIP"}]});
        expect("loadBalancer", &service["status"]["loadBalancer"], expected)?;
    }
    let service = patch(plane, &status("replaced"), MERGE, ingress(&Value::Null))
        .await?
        .ok()?;
    expect(
        "loadBalancer",
        &service["status"]["loadBalancer"],
        json!({}),
    )
}

async fn type_change(plane: &dyn Plane) -> Result<()> {
    create(plane, "type-change", &[FINALIZER]).await?;
    let service = patch(
        plane,
        &status("type-change"),
        MERGE,
        ingress(&json!([{"ip": "192.0.2.10"}])),
    )
    .await?
    .ok()?;
    ensure!(
        service["spec"]["ports"][0]["nodePort"].is_u64(),
        "no node port: {}",
        service["spec"]["ports"]
    );

    let body = json!({"spec": {"type": "ClusterIP"}});
    let service = patch(plane, &path("type-change"), MERGE, body)
        .await?
        .ok()?;
    expect("status", &service["status"], json!({"loadBalancer": {}}))?;
    expect(
        "finalizers",
        &service["metadata"]["finalizers"],
        json!([FINALIZER]),
    )?;
    let spec = &service["spec"];
    ensure!(
        spec["clusterIP"].is_string(),
        "the cluster IP is gone: {spec}"
    );
    expect("nodePort", &spec["ports"][0]["nodePort"], Value::Null)?;
    for field in [
        "loadBalancerClass",
        "allocateLoadBalancerNodePorts",
        "externalTrafficPolicy",
    ] {
        expect(field, &spec[field], Value::Null)?;
    }
    Ok(())
}

async fn no_balancer(plane: &dyn Plane) -> Result<()> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "no-balancer"},
        "spec": {"ports": [{"port": 80}]},
    });
    post(plane, SERVICES, service).await?.ok()?;
    let body = ingress(&json!([{"ip": "192.0.2.10"}]));
    patch(plane, &status("no-balancer"), MERGE, body)
        .await?
        .rejected(422, "Invalid")?;
    Ok(())
}

async fn fixed_class(plane: &dyn Plane) -> Result<()> {
    create(plane, "fixed-class", &[]).await?;
    for other in [json!("example.com/slow"), Value::Null] {
        let body = json!({"spec": {"loadBalancerClass": other}});
        patch(plane, &path("fixed-class"), MERGE, body)
            .await?
            .rejected(422, "Invalid")?;
    }
    Ok(())
}
