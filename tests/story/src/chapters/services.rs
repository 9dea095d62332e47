//! Services of type LoadBalancer get addresses and release them.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use skydock_support::{Seen, eventually, kubernetes::FINALIZER};

use crate::{narrator::Narrator, stage::Stage};

const LIMIT: Duration = Duration::from_secs(30);

pub(crate) async fn tell(stage: &mut Stage, narrator: &mut Narrator) -> anyhow::Result<()> {
    narrator.chapter("Services of type LoadBalancer get addresses and release them");
    narrator
        .step(
            "a Service gets its finalizer and an address from the pool",
            async {
                create(stage, "shop", json!({})).await?;
                let address = address(stage, "shop").await?;
                let service = stage.services().get("shop").await?;
                ensure!(
                    service
                        .finalizers()
                        .iter()
                        .any(|finalizer| finalizer == FINALIZER),
                    "no finalizer {FINALIZER}"
                );
                Ok(format!("{address}, finalizer {FINALIZER}"))
            },
        )
        .await?;
    narrator
        .step("with upstream's events", async {
            stage
                .event("shop", "EnsuringLoadBalancer: Ensuring load balancer")
                .await?;
            stage
                .event("shop", "EnsuredLoadBalancer: Ensured load balancer")
                .await?;
            Ok("EnsuringLoadBalancer, EnsuredLoadBalancer")
        })
        .await?;
    narrator
        .step(
            "a second Service gets another address, and an edited one keeps its address",
            async {
                create(stage, "blog", json!({})).await?;
                let (shop, blog) = (address(stage, "shop").await?, address(stage, "blog").await?);
                ensure!(shop != blog, "both have {shop}");
                let ports =
                    json!({"spec": {"ports": [{"name": "web", "port": 8080, "protocol": "TCP"}]}});
                stage
                    .services()
                    .patch("shop", &PatchParams::default(), &Patch::Merge(ports))
                    .await?;
                ensured_again(stage, "shop").await?;
                ensure!(
                    address(stage, "shop").await? == shop,
                    "the address of shop has changed"
                );
                Ok(format!("shop {shop}, blog {blog}"))
            },
        )
        .await?;
    narrator
        .step(
            "a pool with one address is exhausted for the second Service, with an event",
            async {
                let pool = json!({"static.skydock.dev/address-pool": "tiny"});
                create(stage, "first", pool.clone()).await?;
                address(stage, "first").await?;
                create(stage, "second", pool).await?;
                let event = stage.event("second", "SyncLoadBalancerFailed").await?;
                stage.delete_service("second").await?;
                stage.delete_service("first").await?;
                Ok(event)
            },
        )
        .await?;
    narrator
        .step("changing the type removes address and finalizer", async {
            let plain = json!({"spec": {"type": "ClusterIP"}});
            stage
                .services()
                .patch("shop", &PatchParams::default(), &Patch::Merge(plain))
                .await?;
            eventually(LIMIT, || async {
                let service = stage.services().get("shop").await?;
                let gone = service.finalizers().is_empty() && ingress(&service).is_none();
                let seen = format!(
                    "finalizers {:?}, address {:?}",
                    service.finalizers(),
                    ingress(&service)
                );
                Ok(Seen::when(gone, seen))
            })
            .await?;
            stage.event("shop", "DeletingLoadBalancer").await?;
            stage.event("shop", "DeletedLoadBalancer").await?;
            stage.delete_service("shop").await?;
            stage.delete_service("blog").await?;
            Ok("DeletingLoadBalancer, DeletedLoadBalancer")
        })
        .await
}

/// Creates a Service of type LoadBalancer.
pub(crate) async fn create(
    stage: &Stage,
    name: &str,
    annotations: serde_json::Value,
) -> anyhow::Result<()> {
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "type": "LoadBalancer",
            "selector": {"app": name},
            "ports": [{"name": "web", "port": 80, "protocol": "TCP"}],
        },
    }))?;
    stage
        .services()
        .create(&PostParams::default(), &service)
        .await
        .with_context(|| format!("create {name}"))?;
    Ok(())
}

/// Returns the first address of a Service.
pub(crate) fn ingress(service: &Service) -> Option<IpAddr> {
    service
        .status
        .as_ref()?
        .load_balancer
        .as_ref()?
        .ingress
        .as_ref()?
        .first()?
        .ip
        .as_ref()?
        .parse()
        .ok()
}

/// Waits for the address of a Service.
pub(crate) async fn address(stage: &Stage, name: &str) -> anyhow::Result<IpAddr> {
    eventually(LIMIT, || async {
        let service = stage.services().get(name).await?;
        Ok(match ingress(&service) {
            Some(address) => Seen::Yes(address),
            None => Seen::NotYet(format!(
                "no address; events: {:?}",
                stage.events(name).await?
            )),
        })
    })
    .await
    .with_context(|| format!("address of the service {name}"))
}

/// Waits until a Service has been ensured more than once.
async fn ensured_again(stage: &Stage, name: &str) -> anyhow::Result<()> {
    use k8s_openapi::api::core::v1::Event;
    use kube::{Api, api::ListParams};
    let events: Api<Event> = Api::namespaced(stage.client.clone(), "default");
    eventually(LIMIT, || async {
        let fields = format!("involvedObject.name={name}");
        let list = events.list(&ListParams::default().fields(&fields)).await?;
        let ensured = list
            .items
            .iter()
            .filter(|event| event.reason.as_deref() == Some("EnsuredLoadBalancer"));
        let times: i32 = ensured.map(|event| event.count.unwrap_or(1)).sum();
        Ok(Seen::when(times > 1, format!("ensured {times} times")))
    })
    .await
}
