//! The official cloud controller managers work with the local clouds: nodes are initialized,
//! Services get load balancers, and nothing is left. Their calls are printed by operation.

mod cluster;
mod manager;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use skydock_clouds::{Aws, NewNetwork, OpenStack, Proxy};
use skydock_peers::{Peer, Settings, aws, openstack};

use crate::cluster::Cluster;
use crate::manager::Manager;

/// How long there must be no call until the calls count as ended.
const REST: Duration = Duration::from_secs(1);
/// The address range of Pods.
const CLUSTER_CIDR: &str = "10.244.0.0/16";

/// Writes a configuration and returns its path.
fn write(folder: &Path, conf: &str) -> Result<std::path::PathBuf> {
    let path = folder.join("cloud.conf");
    std::fs::write(&path, conf)?;
    Ok(path)
}

/// Prints and forgets the calls to the cloud since the previous call, after they have ended.
async fn tell(proxy: &Proxy, what: &str) {
    let mut seen = proxy.calls().len();
    loop {
        tokio::time::sleep(REST).await;
        let now = proxy.calls().len();
        if now == seen {
            break;
        }
        seen = now;
    }
    let counts: Vec<_> = proxy
        .counts()
        .iter()
        .map(|(operation, count)| format!("{count} {operation}"))
        .collect();
    tracing::info!("{what}: {seen} calls: {}", counts.join(", "));
    proxy.forget();
}

fn log() {
    let _ = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_test_writer()
        .try_init();
}

#[tokio::test]
async fn upstream_openstack_initializes_nodes_and_serves_a_service() -> Result<()> {
    log();
    let peer = Peer::openstack().await?;
    let (cluster, cloud) = (Cluster::start().await?, OpenStack::start().await?);
    let project = cloud.project("kube").await?;
    let names = ["node-1", "node-2", "node-3"].map(str::to_owned);
    let before = project.holdings().await?;
    let servers = project.create_servers(&names).await?;
    let routes = before.get("routes").map_or(0, Vec::len);
    let proxy = Proxy::before_openstack(&cloud, 1).await?;
    let conf = write(
        cluster.folder(),
        &openstack::cloud_conf(&project, &proxy.auth_url()),
    )?;

    let mut settings = Settings::new(cluster.folder(), cluster.kubeconfig(), conf);
    settings.cluster_cidr = Some(CLUSTER_CIDR.to_owned());

    let mut manager = Manager::start(&peer, &settings).await?;
    tell(&proxy, "start").await;
    cluster.create_nodes(&names).await?;
    let nodes = manager
        .until("initialized nodes", async || cluster.initialized().await)
        .await?;
    for node in &nodes {
        let id = node
            .spec
            .as_ref()
            .and_then(|spec| spec.provider_id.clone())
            .unwrap_or_default();
        ensure!(id.starts_with("openstack:///"), "{id}");
    }
    let routed = async || {
        Ok(
            (project.holdings().await?.get("routes").map_or(0, Vec::len) == routes + 3)
                .then_some(()),
        )
    };
    manager.until("routes", routed).await?;
    tell(&proxy, "3 nodes, with routes").await;

    cluster.create_service("web", &json!({})).await?;
    let ingress = manager
        .until("a load balancer", async || cluster.ingress("web").await)
        .await?;
    tell(&proxy, "a Service").await;
    ensure!(ingress.ip.is_some(), "{ingress:?}");
    let held = project.holdings().await?;
    let kinds = ["loadbalancers", "listeners", "pools", "floatingips"];
    ensure!(
        kinds
            .iter()
            .all(|kind| held.get(kind).is_some_and(|things| things.len() == 1)),
        "{held:#?}"
    );

    cluster.delete_service("web").await?;
    manager
        .until("the Service to be gone", async || cluster.gone("web").await)
        .await?;
    tell(&proxy, "its end").await;
    for server in &servers {
        project.delete_server(&server.id).await?;
    }
    cluster.silence_nodes(&names).await?;
    manager
        .until("the Nodes to be gone", async || cluster.no_nodes().await)
        .await?;
    let unrouted = async || {
        Ok((project.holdings().await?.get("routes").map_or(0, Vec::len) == routes).then_some(()))
    };
    manager.until("no routes", unrouted).await?;
    tell(&proxy, "no nodes").await;
    let after = project.holdings().await?;
    ensure!(after == before, "left: {after:#?}, before: {before:#?}");
    Ok(())
}

#[tokio::test]
async fn upstream_aws_initializes_nodes_and_serves_services() -> Result<()> {
    log();
    let peer = Peer::aws().await?;
    let (cluster, cloud) = (Cluster::start().await?, Aws::start().await?);
    let network = cloud.network(&NewNetwork::of_cluster("kube")).await?;
    let mut names = Vec::new();
    let ids = cloud
        .run_instances(&network, 0, &["node-1", "node-2", "node-3"])
        .await?;
    for id in &ids {
        let seen = cloud
            .call("ec2", "DescribeInstances", &[("InstanceId.1", id)])
            .await?;
        let name = seen
            .split_once("<privateDnsName>")
            .and_then(|(_, rest)| rest.split_once("</"));
        names.push(name.context("no privateDnsName")?.0.to_owned());
    }
    let keys = cloud.verify_signatures().await?;
    let before = cloud.holdings().await?;
    let routes = before.get("routes").map_or(0, Vec::len);
    let proxy = Proxy::before_aws(&cloud, 1).await?;
    let conf = aws::cloud_conf(&network, "kube", proxy.url(), cloud.region());
    let mut settings = Settings::new(
        cluster.folder(),
        cluster.kubeconfig(),
        write(cluster.folder(), &conf)?,
    );
    settings.cluster_cidr = Some(CLUSTER_CIDR.to_owned());
    settings.environment = aws::environment(&keys, proxy.url(), cloud.region());

    let mut manager = Manager::start(&peer, &settings).await?;
    tell(&proxy, "start").await;
    cluster.create_nodes(&names).await?;
    let nodes = manager
        .until("initialized nodes", async || cluster.initialized().await)
        .await?;
    for node in &nodes {
        let id = node
            .spec
            .as_ref()
            .and_then(|spec| spec.provider_id.clone())
            .unwrap_or_default();
        ensure!(id.starts_with("aws:///us-east-1a/i-"), "{id}");
    }
    let routed = async || {
        Ok((cloud.holdings().await?.get("routes").map_or(0, Vec::len) == routes + 3).then_some(()))
    };
    manager.until("routes", routed).await?;
    tell(&proxy, "3 nodes, with routes").await;

    let nlb = json!({"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"});
    for (name, annotations, what, last) in [
        ("web", nlb, "a network", "elbv2:DeleteTargetGroup"),
        (
            "old",
            json!({}),
            "a classic",
            "elb:DescribeLoadBalancerAttributes",
        ),
    ] {
        cluster.create_service(name, &annotations).await?;
        let ingress = manager
            .until("a load balancer", async || cluster.ingress(name).await)
            .await?;
        ensure!(ingress.hostname.is_some(), "{ingress:?}");
        tell(&proxy, &format!("{what} load balancer")).await;
        cluster.touch_service(name).await?;
        manager
            .until("another port", async || {
                Ok((proxy.count(last) > 0).then_some(()))
            })
            .await?;
        tell(&proxy, &format!("{what} load balancer, changed")).await;
    }
    for name in ["web", "old"] {
        cluster.delete_service(name).await?;
        manager
            .until("the Service to be gone", async || cluster.gone(name).await)
            .await?;
        tell(&proxy, &format!("the end of {name}")).await;
    }
    cloud.change_instances("TerminateInstances", &ids).await?;
    cluster.silence_nodes(&names).await?;
    manager
        .until("the Nodes to be gone", async || cluster.no_nodes().await)
        .await?;
    let unrouted = async || {
        Ok((cloud.holdings().await?.get("routes").map_or(0, Vec::len) == routes).then_some(()))
    };
    manager.until("no routes", unrouted).await?;
    tell(&proxy, "no nodes").await;
    let after = cloud.holdings().await?;
    ensure!(after == before, "left: {after:#?}, before: {before:#?}");
    Ok(())
}
