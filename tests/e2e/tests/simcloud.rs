//! The life of a cluster in simcloud, with the built host and the example provider, on the embedded
//! control plane.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::handshake;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client, api::PostParams};
use prost::{Message, bytes::Bytes};
use serde_json::{Value, json};
use skydock_clusters::{EmbeddedPlane, Plane as _};
use skydock_csi::proto::{
    CreateVolumeRequest, CreateVolumeResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    ProbeRequest, ProbeResponse, VolumeCapability,
    volume_capability::{AccessMode, AccessType, MountVolume, access_mode::Mode},
};
use skydock_e2e::{Cluster, Hosts, Plugin};
use skydock_simcloud::{Options, Settings, Simcloud};
use skydock_support::{Host, Paths, Seen, eventually};
use tokio::net::UnixStream;

/// Codes of gRPC.
const OK: i32 = 0;
const ABORTED: i32 = 10;
const UNAVAILABLE: i32 = 14;

const LIMIT: Duration = Duration::from_secs(60);

/// A cloud that is slow and lags.
fn cloud() -> Simcloud {
    let settings = Settings {
        lag_ms: 500,
        lb_delay_ms: 1000,
        volume_delay_ms: 0,
        latency_ms: 5,
        rate_limit: None,
    };
    Simcloud::start(Options {
        servers: 2,
        token: "a-secret-token".to_owned(),
        settings,
        ..Options::default()
    })
    .unwrap()
}

/// Starts a host whose only way to the cloud is a rule, and to its token a file.
async fn start(cloud: &Simcloud, kubeconfig: &Path, dir: &Path, more: &[&str]) -> Result<Host> {
    let paths = Paths::of_checkout()?;
    fs::write(
        dir.join("cloud.json"),
        json!({"url": cloud.url(), "region": "sim"}).to_string(),
    )?;
    fs::write(dir.join("token"), cloud.token())?;
    let rule = json!({
        "name": "api", "to": cloud.url(), "addresses": ["127.0.0.1/32"], "paths": ["/v1"], "credential": "token",
    });
    let plugin = json!({
        "name": "simcloud", "file": paths.plugins.join("simcloud.wasm"), "cloudConfig": dir.join("cloud.json"), "egress": [rule],
    });
    let credential = json!({
        "name": "token", "type": "header", "for": {"plugin": "simcloud", "digest": "any"},
        "prefix": "Bearer ", "valueFile": dir.join("token"),
    });
    let config = json!({
        "apiVersion": "skydock.dev/v1alpha1", "kind": "SkydockConfiguration", "plugins": [plugin], "credentials": [credential],
    });
    fs::write(dir.join("config.yaml"), config.to_string())?;
    let compiled = Plugin::compiled()?;
    fs::create_dir_all(&compiled)?;
    let files = [
        format!("--config={}", dir.join("config.yaml").display()),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--plugin-cache-dir={}", compiled.display()),
    ];
    let flags = [
        "--cluster-name=simcloud",
        "--cluster-cidr=10.244.0.0/16",
        "--controllers=*",
        "--allocate-node-cidrs",
        "--configure-cloud-routes",
        "--route-reconciliation-period=2s",
        "--node-monitor-period=1s",
    ];
    let args: Vec<_> = files
        .iter()
        .map(String::as_str)
        .chain(flags)
        .chain(more.iter().copied())
        .map(Into::into)
        .collect();
    Host::start(&paths.skydock, dir, "host", &args).await
}

fn hook(cloud: &Simcloud, method: &str, path: &str, body: &Value) -> Value {
    let (status, answer) = cloud.request(method, path, body);
    assert!(
        (200..300).contains(&status),
        "{method} {path}: {status} {answer}"
    );
    answer
}

/// Waits until the load balancers have these targets, and the routes lead to these servers.
async fn is(cloud: &Simcloud, targets: &[&[&str]], routes: &[&str]) -> Result<()> {
    eventually(LIMIT, || async {
        let state = hook(cloud, "GET", "/_sim/state", &Value::Null);
        let all = |kind: &str| state[kind].as_array().cloned().unwrap_or_default();
        let mut led: Vec<_> = all("routes")
            .iter()
            .map(|route| route["target"].clone())
            .collect();
        led.sort_unstable_by_key(Value::to_string);
        let balanced: Vec<_> = all("load_balancers")
            .iter()
            .map(|balancer| balancer["targets"].clone())
            .collect();
        Ok(Seen::when(
            json!([balanced, led]) == json!([targets, routes]),
            format!("{balanced:?} {led:?}"),
        ))
    })
    .await
    .with_context(|| format!("load balancers of {targets:?}, routes to {routes:?}"))
}

/// Creates the Service `web`. The embedded plane has no server-side apply, which [`Cluster::serve`]
/// uses.
async fn serve(client: &Client) -> Result<()> {
    let ports =
        json!([{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]);
    let spec = json!({"type": "LoadBalancer", "selector": {"app": "web"}, "ports": ports});
    let service: Service =
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec}))?;
    Api::namespaced(client.clone(), "default")
        .create(&PostParams::default(), &service)
        .await?;
    Ok(())
}

async fn live(cloud: &Simcloud, client: &Client) -> Result<()> {
    let cluster = Cluster::new(client.clone());
    for name in ["node-1", "node-2"] {
        cluster.register(name).await?;
    }
    is(cloud, &[], &["srv-1", "srv-2"]).await?;
    let nodes = cluster.nodes().await?;
    let ids: Vec<_> = nodes
        .iter()
        .filter_map(|node| node.spec.as_ref()?.provider_id.as_deref())
        .collect();
    ensure!(
        ids == ["simcloud:///zone-a/srv-1", "simcloud:///zone-b/srv-2"],
        "{ids:?}"
    );

    // The answer to the first request is lost.
    hook(
        cloud,
        "POST",
        "/_sim/failures",
        &json!({"operation": "load-balancers.create", "after": true}),
    );
    serve(client).await?;
    cluster.told("web", "EnsuredLoadBalancer", LIMIT).await?;
    is(cloud, &[&["srv-1", "srv-2"]], &["srv-1", "srv-2"]).await?;
    let services = serde_json::to_value(cluster.services().await?)?;
    ensure!(
        services[0]["status"]["loadBalancer"]["ingress"][0]["ip"] == "198.19.0.1",
        "{services}"
    );

    hook(cloud, "DELETE", "/_sim/servers/srv-2", &Value::Null);
    cluster.allow_deletion("node-2").await?;
    cluster.set_ready("node-2", false).await?;
    is(cloud, &[&["srv-1"]], &["srv-1"]).await?;
    ensure!(cluster.nodes().await?.len() == 1, "node-2 is still there");

    cluster.withdraw("web").await?;
    is(cloud, &[], &["srv-1"]).await?;
    cluster.remove("node-1").await?;
    is(cloud, &[], &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_life_of_a_cluster_works_on_simcloud() {
    let (cloud, plane) = (cloud(), EmbeddedPlane::start().await.unwrap());
    let dir = tempfile::tempdir().unwrap();
    let host = start(&cloud, plane.kubeconfig_path(), dir.path(), &[])
        .await
        .unwrap();
    let lived = live(&cloud, &plane.client()).await;
    let calls = hook(&cloud, "GET", "/_sim/calls", &Value::Null);
    if let Err(error) = lived {
        panic!("{error:?}\n{calls}\n{}", host.last_words());
    }
    let denied = |call: &&Value| call["status"] == 401 || call["status"] == 403;
    assert_eq!(calls["calls"].as_array().unwrap().iter().find(denied), None);
    Hosts::stop(host).await.unwrap();
    let log = fs::read_to_string(dir.path().join("host.log")).unwrap();
    assert!(!log.contains(cloud.token()), "the token is in the log");
}

/// A host with a socket for the sidecars of CSI.
struct CsiHost {
    host: Host,
    dir: tempfile::TempDir,
}

impl CsiHost {
    async fn start(cloud: &Simcloud, kubeconfig: &Path, more: &[&str]) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let endpoint = format!("--csi-endpoint=unix://{}/csi.sock", dir.path().display());
        let flags = [&[endpoint.as_str()], more].concat();
        let host = start(cloud, kubeconfig, dir.path(), &flags).await?;
        Ok(Self { host, dir })
    }

    /// Makes a request as a sidecar does. Returns the code, and the answer with that of success.
    async fn ask<A: Message + Default>(
        &self,
        method: &str,
        request: impl Message,
    ) -> Result<(i32, A)> {
        let socket = UnixStream::connect(self.dir.path().join("csi.sock")).await?;
        let (mut sender, connection) =
            handshake(TokioExecutor::new(), TokioIo::new(socket)).await?;
        tokio::spawn(connection);

        let message = request.encode_to_vec();
        let length = u32::try_from(message.len())?.to_be_bytes();
        let body = [&[0][..], &length, &message].concat();
        let request = Request::post(format!("http://localhost/csi.v1.{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(Bytes::from(body)))?;

        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?;
        let trailers = body.trailers().cloned().unwrap_or_default();
        let code = head
            .headers
            .get("grpc-status")
            .or(trailers.get("grpc-status"));
        let code = code.context("without a code")?.to_str()?.parse()?;
        let message = body.to_bytes();
        Ok((code, A::decode(message.get(5..).unwrap_or_default())?))
    }

    async fn is_ready(&self) -> Result<bool> {
        let (code, probe): (_, ProbeResponse) = self.ask("Identity/Probe", ProbeRequest {}).await?;
        ensure!(code == OK, "Probe: {code}");
        Ok(probe.ready == Some(true))
    }

    async fn leads(&self) -> Result<()> {
        let ready = eventually(LIMIT, || async {
            Ok(Seen::when(self.is_ready().await?, "it is not ready"))
        });
        ready.await.with_context(|| self.host.last_words())
    }

    /// Asks for a volume, and returns its ID.
    async fn create(&self, name: &str) -> Result<(i32, String)> {
        let mode = Mode::SingleNodeWriter.into();
        let request = CreateVolumeRequest {
            name: name.to_owned(),
            volume_capabilities: vec![VolumeCapability {
                access_mode: Some(AccessMode { mode }),
                access_type: Some(AccessType::Mount(MountVolume::default())),
            }],
            ..CreateVolumeRequest::default()
        };
        let (code, created): (_, CreateVolumeResponse) =
            self.ask("Controller/CreateVolume", request).await?;
        Ok((code, created.volume.unwrap_or_default().volume_id))
    }

    /// Creates a volume when the host knows the cluster.
    async fn created(&self, name: &str) -> Result<String> {
        eventually(LIMIT, || async {
            let (code, id) = self.create(name).await?;
            Ok(match code {
                OK => Seen::Yes(id),
                code => Seen::NotYet(format!("code {code}")),
            })
        })
        .await
        .with_context(|| self.host.last_words())
    }
}

fn volumes(cloud: &Simcloud) -> Vec<String> {
    let state = hook(cloud, "GET", "/_sim/state", &Value::Null);
    let all = state["volumes"].as_array().unwrap().iter();
    all.map(|it| it["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_leader_serves_the_sidecars_of_csi() {
    let (cloud, plane) = (cloud(), EmbeddedPlane::start().await.unwrap());
    let kubeconfig = plane.kubeconfig_path();
    let first = CsiHost::start(&cloud, kubeconfig, &[]).await.unwrap();
    first.leads().await.unwrap();
    let second = CsiHost::start(&cloud, kubeconfig, &[]).await.unwrap();

    let id = first.created("pvc-1").await.unwrap();
    assert_eq!(id, "vol-1");
    assert!(!second.is_ready().await.unwrap(), "a standby");
    assert_eq!(second.create("pvc-2").await.unwrap().0, UNAVAILABLE);
    let (_, info): (_, GetPluginInfoResponse) = second
        .ask("Identity/GetPluginInfo", GetPluginInfoRequest {})
        .await
        .unwrap();
    assert_eq!(info.name, "csi.simcloud.example");
    assert_eq!(volumes(&cloud), ["pvc-1"]);

    // A request waits for the cloud when the leader is stopped, and the next one continues.
    hook(
        &cloud,
        "PATCH",
        "/_sim/settings",
        &json!({"volume_delay_ms": 30_000}),
    );
    let waits = first.create("pvc-3");
    let stops = async {
        eventually(LIMIT, || async {
            let is_there = volumes(&cloud).contains(&"pvc-3".to_owned());
            Ok(Seen::when(is_there, "not yet created"))
        })
        .await?;
        first.host.terminate()
    };
    let (waited, stopped) = tokio::join!(waits, stops);
    stopped.unwrap();
    assert_eq!(waited.unwrap().0, ABORTED);

    second.leads().await.unwrap();
    hook(&cloud, "POST", "/_sim/advance", &json!({"ms": 30_000}));
    assert_eq!(second.created("pvc-3").await.unwrap(), "vol-2");
    assert_eq!(volumes(&cloud), ["pvc-1", "pvc-3"]);

    let metrics = second.host.scrape().await.unwrap();
    let answered = metrics.sum(
        "skydock_csi_request_duration_seconds_count",
        &[("code", "OK")],
    );
    assert!(answered > 0.0);
    Hosts::stop(first.host).await.unwrap();
    Hosts::stop(second.host).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_refuses_to_change_volumes() {
    let (cloud, plane) = (cloud(), EmbeddedPlane::start().await.unwrap());
    let dry = CsiHost::start(&cloud, plane.kubeconfig_path(), &["--dry-run"])
        .await
        .unwrap();
    dry.leads().await.unwrap();
    assert_eq!(dry.create("pvc-1").await.unwrap().0, UNAVAILABLE);
    assert_eq!(volumes(&cloud), [""; 0]);
    let log = fs::read_to_string(dry.host.log()).unwrap();
    assert!(log.contains("dry run: would create volume pvc-1"), "{log}");
    Hosts::stop(dry.host).await.unwrap();
}
