//! Creates Nodes and Services like their owners, and checks whether they have reached the expected
//! state.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use http::{Method, header};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Client;
use kube::api::{Api, ListParams};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use skydock_support::kubernetes::UNINITIALIZED;
use tokio::time::MissedTickBehavior;

use crate::cloud::Instance;

/// Number of concurrent requests that create nodes and services.
const AT_A_TIME: usize = 16;
/// Number of objects in a page of a list.
const PAGE: u32 = 250;
/// Maximum number of images that a kubelet reports (`--node-status-max-images`).
const IMAGES: usize = 50;
/// How often a kubelet reports an unchanged status (`nodeStatusReportFrequency`).
const HEARTBEAT: Duration = Duration::from_secs(5 * 60);
/// Label that tells the clouds of both sides the state of the instance of a node.
const MACHINE: &str = "bench.skydock.dev/machine";
const NAMESPACE: &str = "default";

/// Returns the name of a node or a service.
pub(crate) fn name(kind: &str, number: usize) -> String {
    format!("{kind}-{number}")
}

/// All clients of the cluster except the cloud controller manager.
#[derive(Clone)]
pub(crate) struct Fleet {
    client: Client,
    images: Arc<Value>,
}

impl Fleet {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            images: Arc::new(images()),
        }
    }

    /// Registers nodes like kubelets that wait for their cloud.
    pub(crate) async fn create_nodes(&self, names: &[String]) -> Result<()> {
        each(names, |name| {
            self.send(
                Method::POST,
                "/api/v1/nodes".to_owned(),
                JSON,
                node(&name, &self.images),
            )
        })
        .await
        .context("cannot create a node")
    }

    /// Creates services of type LoadBalancer.
    pub(crate) async fn create_services(&self, names: &[String]) -> Result<()> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/services");
        each(names, |name| {
            self.send(Method::POST, path.clone(), JSON, service(&name))
        })
        .await
        .context("cannot create a service")
    }

    /// Marks the instances of these nodes as deleted in the cloud.
    pub(crate) async fn remove_machines(&self, names: &[String]) -> Result<()> {
        each(names, |name| {
            let body = json!({"metadata": {"labels": {MACHINE: "gone"}}});
            self.send(Method::PATCH, format!("/api/v1/nodes/{name}"), MERGE, body)
        })
        .await
        .context("cannot label a node")
    }

    /// Sets the nodes' `Ready` condition to `Unknown`, as for kubelets that do not report.
    pub(crate) async fn silence(&self, names: &[String]) -> Result<()> {
        each(names, |name| {
            let body = json!({"status": {"conditions": [{
                "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.", "lastTransitionTime": Timestamp::now(),
            }]}});
            self.send(Method::PATCH, format!("/api/v1/nodes/{name}/status"), STRATEGIC, body)
        })
        .await
        .context("cannot change the status of a node")
    }

    /// Reports the status of these nodes like kubelets, each every 5 minutes. Returns only with an
    /// error.
    pub(crate) async fn heartbeats(&self, names: &[String]) -> Result<()> {
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX).max(1);
        let mut tick = tokio::time::interval(HEARTBEAT / count);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for name in names.iter().cycle() {
            tick.tick().await;
            let body = json!({"status": {"conditions": conditions()}});
            self.send(
                Method::PATCH,
                format!("/api/v1/nodes/{name}/status"),
                STRATEGIC,
                body,
            )
            .await
            .context("cannot report the status of a node")?;
        }
        Ok(())
    }

    /// Checks that there are `count` nodes and that each matches the answers of its cloud.
    pub(crate) async fn all_initialized(&self, count: usize) -> Result<()> {
        let nodes: Vec<Node> = list(&Api::all(self.client.clone()))
            .await
            .context("cannot list the nodes")?;
        let lacking: Vec<_> = nodes
            .iter()
            .filter_map(|node| {
                let name = node.metadata.name.as_deref().unwrap_or_default();
                Some(format!("{name}, which lacks {}", missing(node)?))
            })
            .collect();
        none_of("nodes are not initialized", &lacking)?;
        ensure!(
            nodes.len() == count,
            "{} nodes are there, not {count}",
            nodes.len()
        );
        Ok(())
    }

    /// Returns the services without an address.
    pub(crate) async fn services_without_address(&self) -> Result<Vec<String>> {
        let services: Vec<Service> = list(&Api::namespaced(self.client.clone(), NAMESPACE))
            .await
            .context("cannot list the services")?;
        let is_balanced = |service: &Service| {
            service
                .spec
                .as_ref()
                .is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"))
        };
        let has_address = |service: &Service| {
            let status = service
                .status
                .as_ref()
                .and_then(|status| status.load_balancer.as_ref());
            status
                .and_then(|status| status.ingress.as_ref())
                .is_some_and(|ingress| !ingress.is_empty())
        };
        let without = services
            .into_iter()
            .filter(|service| is_balanced(service) && !has_address(service));
        Ok(without
            .filter_map(|service| service.metadata.name)
            .collect())
    }

    async fn send(
        &self,
        method: Method,
        path: String,
        content_type: &'static str,
        body: Value,
    ) -> Result<()> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(
                header::ACCEPT,
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            )
            .header(header::CONTENT_TYPE, content_type)
            .body(body.to_string().into_bytes())?;
        self.client.request::<IgnoredAny>(request).await?;
        Ok(())
    }
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

async fn each<F>(names: &[String], act: impl Fn(String) -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    futures::stream::iter(names)
        .map(|name| act(name.clone()))
        .buffer_unordered(AT_A_TIME)
        .try_collect()
        .await
}

async fn list<K>(api: &Api<K>) -> Result<Vec<K>>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let mut params = ListParams::default().limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = api.list(&params).await?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// Returns which of the cloud's data a node lacks, or `None` if it is initialized.
fn missing(node: &Node) -> Option<&'static str> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let instance = Instance::of(name);
    let spec = node.spec.clone().unwrap_or_default();
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let addresses = node
        .status
        .as_ref()
        .and_then(|status| status.addresses.as_deref())
        .unwrap_or_default();
    let addresses: Vec<_> = addresses
        .iter()
        .map(|it| (it.type_.as_str(), it.address.as_str()))
        .collect();
    if spec
        .taints
        .iter()
        .flatten()
        .any(|taint| taint.key == UNINITIALIZED)
    {
        Some("the end of its taint")
    } else if spec.provider_id != Some(instance.provider_id) {
        Some("its provider ID")
    } else if instance
        .labels
        .iter()
        .any(|(key, value)| labels.get(*key) != Some(value))
    {
        Some("its cloud's labels")
    } else if addresses
        != instance
            .addresses
            .each_ref()
            .map(|(kind, address)| (*kind, address.as_str()))
    {
        Some("its cloud's addresses")
    } else {
        None
    }
}

/// Returns an error that names a few objects, unless there are none.
pub(crate) fn none_of(what: &str, names: &[String]) -> Result<()> {
    let few: Vec<_> = names.iter().take(3).map(String::as_str).collect();
    ensure!(
        names.is_empty(),
        "{} {what}, such as {}",
        names.len(),
        few.join(", ")
    );
    Ok(())
}

/// Returns a node as a kubelet registers it with `--cloud-provider=external` and without
/// `--node-ip`: tainted and without addresses.
fn node(name: &str, images: &Value) -> Value {
    let resources = json!({
        "cpu": "16", "memory": "65808784Ki", "pods": "110", "ephemeral-storage": "203056560Ki",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0",
    });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux", "kubernetes.io/hostname": name, "pool": "general",
            },
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {"taints": [{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]},
        "status": {
            "capacity": resources, "allocatable": resources, "conditions": conditions(), "images": images,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": "ec2f2e8f5b1d4b0c9a0e3d7c6b5a4938", "systemUUID": "ec2f2e8f-5b1d-4b0c-9a0e-3d7c6b5a4938",
                "bootID": "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d", "kernelVersion": "6.12.48-1-cloud-amd64",
                "osImage": "Debian GNU/Linux 13 (trixie)", "containerRuntimeVersion": "containerd://2.1.4",
                "kubeletVersion": "v1.36.3", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
            },
        },
    })
}

/// Returns the conditions that a healthy kubelet reports.
fn conditions() -> Value {
    let now = Timestamp::now();
    let condition = |kind, status, reason, message| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    json!([
        condition(
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available"
        ),
        condition(
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure"
        ),
        condition(
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available"
        ),
        condition(
            "Ready",
            "True",
            "KubeletReady",
            "kubelet is posting ready status"
        ),
    ])
}

/// Returns as many images as a kubelet reports, each with digest and tag.
fn images() -> Value {
    let image = |number: usize| {
        let repository = format!(
            "registry.example.com/platform/team-{}/service-{number}",
            number % 7
        );
        json!({
            "names": [format!("{repository}@sha256:{number:064x}"), format!("{repository}:v1.{number}.0")],
            "sizeBytes": 40_000_000 + number * 1_234_567,
        })
    };
    (0..IMAGES).map(image).collect()
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "type": "LoadBalancer", "selector": {"app": name},
            "ports": [
                {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"},
                {"name": "https", "port": 443, "targetPort": 8443, "protocol": "TCP"},
            ],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_node_is_realistically_large_and_uninitialized() {
        let value = node("node-1", &images());
        assert!(
            (9_000..16_000).contains(&value.to_string().len()),
            "{} bytes",
            value.to_string().len()
        );
        let node: Node = serde_json::from_value(value).unwrap();
        assert_eq!(
            node.status.as_ref().unwrap().images.as_ref().unwrap().len(),
            IMAGES
        );
        assert_eq!(missing(&node), Some("the end of its taint"));
    }

    #[test]
    fn an_initialized_node_has_everything_from_its_cloud() {
        let mut value = node("node-1", &images());
        value["spec"] = json!({"providerID": "bench://node-1"});
        value["status"]["addresses"] = json!([
            {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "198.18.0.1"},
            {"type": "Hostname", "address": "node-1"},
        ]);
        let lacks = |value: &Value| missing(&serde_json::from_value(value.clone()).unwrap());
        assert_eq!(lacks(&value), Some("its cloud's labels"));
        for (key, label) in Instance::of("node-1").labels {
            assert!(lacks(&value).is_some());
            value["metadata"]["labels"][key] = label.into();
        }
        assert_eq!(lacks(&value), None);
        value["metadata"]["labels"]["topology.kubernetes.io/zone"] = "bench-1a".into();
        assert_eq!(
            lacks(&value),
            Some("its cloud's labels"),
            "node-1 is elsewhere"
        );
        value["metadata"]["labels"]["topology.kubernetes.io/zone"] = "bench-1b".into();
        value["status"]["addresses"][0]["address"] = "10.0.0.2".into();
        assert_eq!(lacks(&value), Some("its cloud's addresses"));
        value["spec"]["providerID"] = "bench://node-2".into();
        assert_eq!(lacks(&value), Some("its provider ID"));
    }

    #[test]
    fn errors_name_at_most_three_objects() {
        let names: Vec<_> = (0..5).map(|number| name("node", number)).collect();
        let error = none_of("nodes are not initialized", &names).unwrap_err();
        assert_eq!(
            error.to_string(),
            "5 nodes are not initialized, such as node-0, node-1, node-2"
        );
        assert!(none_of("nodes", &[]).is_ok());
    }
}
