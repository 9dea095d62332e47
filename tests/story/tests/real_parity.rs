//! The requirements of upstream's integration tests for a cloud controller manager, on a real
//! control plane: manually created nodes, addresses according to the kubelet's `--node-ip`, classes
//! of load balancers, mixed protocols, and the mode of an IP.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{ffi::OsString, fmt::Write as _, fs, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Event, LoadBalancerIngress, Node, Service};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Map, Value, json};
use skydock_clusters::{Plane, RealPlane};
use skydock_support::{
    Host, Paths, Seen, eventually,
    kubernetes::{FINALIZER, UNINITIALIZED},
};
use tempfile::TempDir;

/// The time that upstream allows for its nodes.
const LIMIT: Duration = Duration::from_secs(50);
/// A taint that does not concern cloud controllers.
const DEDICATED: &str = "example.com/dedicated";
const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";
/// The annotation that sets the behavior of the test plugin.
const BEHAVIOR: &str = "hostile.example/do";
/// The addresses of all instances, in this order. `#` is the number of the instance.
const ADDRESSES: [(&str, &str); 4] = [
    ("Hostname", "machine-#.internal"),
    ("InternalIP", "198.19.0.#"),
    ("InternalIP", "2001:db8::#"),
    ("ExternalIP", "203.0.113.#"),
];

/// Upstream's `Test_RemoveExternalCloudProviderTaint` and
/// `Test_ExternalCloudProviderNodeAddresses`.
// Holds: N-07, N-13, N-18, N-22, N-32, N-33
#[tokio::test(flavor = "multi_thread")]
async fn a_node_loses_its_taint_and_gets_addresses_by_node_ip() {
    let nodes = [
        ("plain", None, vec!["198.19.0.#", "2001:db8::#"]),
        ("ipv4", Some("198.19.0.#"), vec!["198.19.0.#"]),
        ("ipv6", Some("2001:db8::#"), vec!["2001:db8::#"]),
        (
            "ipv6-ipv4",
            Some("2001:db8::#,198.19.0.#"),
            vec!["2001:db8::#", "198.19.0.#"],
        ),
        (
            "ipv4-ipv6",
            Some("198.19.0.#,2001:db8::#"),
            vec!["198.19.0.#", "2001:db8::#"],
        ),
    ];
    let mut inventory =
        String::from("apiVersion: static.skydock.dev/v1alpha1\nkind: Inventory\nmachines:\n");
    for (number, (name, ..)) in (1..).zip(&nodes) {
        write!(
            inventory,
            "  - name: {name}\n    match: {{nodeName: {name}}}\n    addresses:\n"
        )
        .unwrap();
        for (kind, address) in ADDRESSES {
            writeln!(
                inventory,
                "      - {{type: {kind}, address: \"{}\"}}",
                of_machine(address, number)
            )
            .unwrap();
        }
    }
    let cluster = Cluster::start("static", "static.wasm", &inventory).await;
    cluster
        .holds(async {
            for (number, (name, node_ip, _)) in (1..).zip(&nodes) {
                cluster
                    .create_node(name, node_ip.map(|ip| of_machine(ip, number)))
                    .await?;
            }
            for (number, (name, _, internal_ips)) in (1..).zip(&nodes) {
                cluster
                    .node_is_initialized(name, number, internal_ips)
                    .await?;
            }
            Ok(())
        })
        .await;
}

/// Upstream's `Test_ServiceLoadBalancerCreateLoadBalancerClass`, `…UpdateLoadBalancerClass` and
/// `…AddLoadBalancerClassThenUpdateLoadBalancerClass`.
// Holds: S-06, S-20, S-36, S-37
#[tokio::test(flavor = "multi_thread")]
async fn services_with_a_class_are_ignored_and_cannot_change_it() {
    let cluster = Cluster::start("hostile", "hostile/good.wasm", "").await;
    cluster
        .holds(async {
            let class = "example.com/other";
            cluster
                .create_service(
                    "classed",
                    &json!({}),
                    &json!({ "loadBalancerClass": class }),
                )
                .await?;
            cluster
                .create_service("plain", &json!({}), &json!({}))
                .await?;
            // Changing the class is rejected even before there is a load balancer, and does not
            // prevent its creation.
            cluster
                .patch_is_rejected("plain", &json!({ "loadBalancerClass": class }))
                .await?;
            cluster
                .patch_is_rejected(
                    "classed",
                    &json!({ "loadBalancerClass": "example.com/third" }),
                )
                .await?;
            cluster.ingress("plain").await?;
            cluster
                .patch_is_rejected("plain", &json!({ "loadBalancerClass": class }))
                .await?;
            // The older Service has been processed by this time.
            cluster.is_left_alone("classed").await?;
            let calls = cluster.host.scrape().await?.sum(
                "skydock_plugin_calls_total",
                &[("interface", "load-balancers")],
            );
            ensure!(
                calls == 1.0,
                "{calls} calls for load balancers, for one service without a class"
            );

            cluster
                .patch("plain", &json!({ "type": "ClusterIP" }))
                .await?;
            cluster.is_cleaned_up("plain").await?;
            cluster
                .patch(
                    "plain",
                    &json!({ "type": "LoadBalancer", "loadBalancerClass": class }),
                )
                .await?;
            cluster
                .create_service("marker", &json!({}), &json!({}))
                .await?;
            cluster.ingress("marker").await?;
            cluster.is_cleaned_up("plain").await
        })
        .await;
}

/// Upstream's `Test_ServiceLoadBalancerMixedProtocolSetup` and `Test_ServiceLoadBalancerIPMode`.
// Holds: S-27, S-28
#[tokio::test(flavor = "multi_thread")]
async fn mixed_protocols_work_and_ip_mode_defaults_to_vip() {
    let cluster = Cluster::start("hostile", "hostile/good.wasm", "").await;
    cluster
        .holds(async {
            let ports = json!([
                { "name": "tcp", "port": 53, "protocol": "TCP" },
                { "name": "udp", "port": 53, "protocol": "UDP" },
            ]);
            cluster
                .create_service("mixed", &json!({}), &json!({ "ports": ports }))
                .await?;
            cluster
                .create_service("proxied", &json!({ BEHAVIOR: "proxy" }), &json!({}))
                .await?;
            // The plugin does not set the mode of the first one, so the API server sets it.
            for (name, mode) in [("mixed", "VIP"), ("proxied", "Proxy")] {
                let ingress = cluster.ingress(name).await?;
                ensure!(
                    ingress.ip_mode.as_deref() == Some(mode),
                    "{name}: {ingress:?}"
                );
            }
            Ok(())
        })
        .await;
}

/// A real control plane with a `skydock` process.
struct Cluster {
    client: Client,
    host: Host,
    // Dropped after the process that uses them.
    _plane: RealPlane,
    dir: TempDir,
}

impl Cluster {
    /// Starts both, with a built plugin and its cloud-config.
    async fn start(provider: &str, plugin: &str, config: &str) -> Self {
        let plane = RealPlane::start().await.expect("the plane starts");
        let paths = Paths::of_checkout().expect("all is built");
        let dir = tempfile::Builder::new()
            .prefix("skydock-parity-")
            .tempdir()
            .expect("a folder");
        let file = dir.path().join("cloud.yaml");
        fs::write(&file, config).expect("a file");
        let args: Vec<OsString> = vec![
            format!("--cloud-provider={provider}").into(),
            format!(
                "--plugin={provider}={}",
                paths.plugins.join(plugin).display()
            )
            .into(),
            format!("--cloud-config={}", file.display()).into(),
            format!("--kubeconfig={}", plane.kubeconfig_path().display()).into(),
            format!(
                "--plugin-cache-dir={}",
                dir.path().join("compiled").display()
            )
            .into(),
            "--leader-elect=false".into(),
            "--configure-cloud-routes=false".into(),
        ];
        let host = Host::start(&paths.skydock, dir.path(), "skydock", &args)
            .await
            .expect("the host starts");
        Self {
            client: plane.client(),
            host,
            _plane: plane,
            dir,
        }
    }

    /// Panics if the scenario fails, with the end of the host's log in the message.
    async fn holds(&self, scenario: impl Future<Output = Result<()>>) {
        if let Err(error) = scenario.await {
            panic!(
                "{error:?}\n{}\nthe files were in {}",
                self.host.last_words(),
                self.dir.path().display()
            );
        }
    }

    fn services(&self) -> Api<Service> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates a node as a kubelet registers it, but without a kubelet, so that nothing else writes
    /// to it.
    async fn create_node(&self, name: &str, node_ip: Option<String>) -> Result<()> {
        let node: Node = serde_json::from_value(json!({
            "metadata": { "name": name, "annotations": node_ip.map(|ip| json!({ PROVIDED_NODE_IP: ip })) },
            "spec": { "taints": [
                { "key": UNINITIALIZED, "value": "true", "effect": "NoSchedule" },
                { "key": DEDICATED, "effect": "NoSchedule" },
            ] },
        }))?;
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes
            .create(&PostParams::default(), &node)
            .await
            .with_context(|| format!("create the node {name}"))?;
        Ok(())
    }

    /// Waits for the provider ID, the removal of the one taint, and the expected addresses of the
    /// instance.
    async fn node_is_initialized(
        &self,
        name: &str,
        number: usize,
        internal_ips: &[&str],
    ) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let others = ADDRESSES
            .iter()
            .copied()
            .filter(|(kind, _)| *kind != "InternalIP");
        let wanted = internal_ips
            .iter()
            .map(|ip| ("InternalIP", *ip))
            .chain(others);
        let mut wanted: Vec<_> = wanted
            .map(|(kind, address)| (kind.to_owned(), of_machine(address, number)))
            .collect();
        wanted.sort_by_key(|(kind, _)| kind.clone()); // stable, because the order within a type matters
        eventually(LIMIT, || async {
            let node = nodes.get(name).await?;
            let (spec, status) = (
                node.spec.unwrap_or_default(),
                node.status.unwrap_or_default(),
            );
            // Kubernetes' own taints depend on conditions and change at any time.
            let taints = spec
                .taints
                .unwrap_or_default()
                .into_iter()
                .map(|taint| taint.key);
            let taints: Vec<_> = taints
                .filter(|key| !key.starts_with("node.kubernetes.io/"))
                .collect();
            let addresses = status.addresses.unwrap_or_default();
            let mut addresses: Vec<_> = addresses
                .into_iter()
                .map(|address| (address.type_, address.address))
                .collect();
            addresses.sort_by_key(|(kind, _)| kind.clone());
            let holds = spec.provider_id == Some(format!("static://{name}"))
                && taints == [DEDICATED]
                && addresses == wanted;
            Ok(Seen::when(
                holds,
                format!("{:?} {taints:?} {addresses:?}", spec.provider_id),
            ))
        })
        .await
        .with_context(|| format!("the node {name} is to have {wanted:?}"))
    }

    /// Creates a service of type LoadBalancer with these fields in its spec.
    async fn create_service(&self, name: &str, annotations: &Value, spec: &Value) -> Result<()> {
        let mut fields = Map::from_iter([
            ("type".to_owned(), "LoadBalancer".into()),
            ("ports".to_owned(), json!([{ "port": 80 }])),
        ]);
        fields.extend(spec.as_object().cloned().unwrap_or_default());
        let metadata = json!({ "name": name, "annotations": annotations });
        let service: Service =
            serde_json::from_value(json!({ "metadata": metadata, "spec": fields }))?;
        self.services()
            .create(&PostParams::default(), &service)
            .await
            .with_context(|| format!("create {name}"))?;
        Ok(())
    }

    async fn patch(&self, name: &str, spec: &Value) -> Result<(), kube::Error> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.services()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .map(drop)
    }

    async fn patch_is_rejected(&self, name: &str, spec: &Value) -> Result<()> {
        let answer = self.patch(name, spec).await;
        ensure!(
            matches!(&answer, Err(kube::Error::Api(status)) if status.code == 422),
            "{name}: {answer:?}"
        );
        Ok(())
    }

    /// Waits until a service has its address and the finalizer.
    async fn ingress(&self, name: &str) -> Result<LoadBalancerIngress> {
        let look = || async {
            let service = self.services().get(name).await?;
            let finalizers = service.finalizers().to_vec();
            Ok(match ingress_of(service) {
                Some(ingress) if finalizers == [FINALIZER] => Seen::Yes(ingress),
                other => Seen::NotYet(format!("{other:?}, finalizers {finalizers:?}")),
            })
        };
        eventually(LIMIT, look)
            .await
            .with_context(|| format!("the address of {name}"))
    }

    /// Checks that the service has no finalizer, address or event of a controller.
    async fn is_left_alone(&self, name: &str) -> Result<()> {
        let service = self.services().get(name).await?;
        ensure!(
            service.finalizers().is_empty(),
            "{name} has the finalizers {:?}",
            service.finalizers()
        );
        ensure!(ingress_of(service).is_none(), "{name} has an address");
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        let events = events
            .list(&ListParams::default().fields(&format!("involvedObject.name={name}")))
            .await?;
        ensure!(
            events.items.is_empty(),
            "{name} has the events {:?}",
            events.items
        );
        Ok(())
    }

    /// Waits until the finalizer and the address are removed.
    async fn is_cleaned_up(&self, name: &str) -> Result<()> {
        let look = || async {
            let service = self.services().get(name).await?;
            let finalizers = service.finalizers().to_vec();
            let ingress = ingress_of(service);
            Ok(Seen::when(
                finalizers.is_empty() && ingress.is_none(),
                format!("{ingress:?}, finalizers {finalizers:?}"),
            ))
        };
        eventually(LIMIT, look)
            .await
            .with_context(|| format!("the cleanup of {name}"))
    }
}

/// Returns the address of the instance with this number.
fn of_machine(address: &str, number: usize) -> String {
    address.replace('#', &number.to_string())
}

fn ingress_of(service: Service) -> Option<LoadBalancerIngress> {
    service.status?.load_balancer?.ingress?.into_iter().next()
}
