//! A plugin with pinned digests is replaced on the real control plane while Services change, and
//! nobody notices: by a rollover of two digests, and with a restart in its middle.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use skydock_clusters::{Plane as _, RealPlane};
use skydock_e2e::{Hosts, Plugin};
use skydock_simcloud::{Options, Settings, Simcloud};
use skydock_support::{Host, Paths, Scrape, Seen, eventually, rebuilt};
use tokio::{task::JoinHandle, time::sleep};

const SERVICES: usize = 50;
const LIMIT: Duration = Duration::from_secs(120);
/// Between two changes of one Service.
const PACE: Duration = Duration::from_millis(1500);

/// The host, its files, and the cloud.
struct Site {
    cloud: Simcloud,
    plane: RealPlane,
    dir: tempfile::TempDir,
    hosts: usize,
}

/// Returns the digest of a component as in a configuration file.
fn pin(component: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(component)))
}

impl Site {
    async fn start() -> Result<Self> {
        let settings = Settings {
            lag_ms: 100,
            lb_delay_ms: 200,
            volume_delay_ms: 0,
            latency_ms: 2,
            rate_limit: None,
        };
        let cloud = Simcloud::start(Options {
            servers: 2,
            token: "a-secret-token".to_owned(),
            settings,
            ..Options::default()
        })?;
        let dir = tempfile::tempdir()?;
        let config = json!({"url": cloud.url(), "region": "sim"});
        fs::write(dir.path().join("cloud.json"), config.to_string())?;
        fs::write(dir.path().join("token"), cloud.token())?;
        Ok(Self {
            cloud,
            plane: RealPlane::start().await?,
            dir,
            hosts: 0,
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Replaces the component.
    fn install(&self, component: &[u8]) -> Result<()> {
        fs::write(self.file("new"), component)?;
        Ok(fs::rename(self.file("new"), self.file("simcloud.wasm"))?)
    }

    /// Writes the configuration with the digests of the plugin and of its credential.
    fn configure(&self, plugin: &[&str], credential: &[&str]) -> Result<()> {
        let rule = json!({
            "name": "api", "to": self.cloud.url(), "addresses": ["127.0.0.1/32"], "paths": ["/v1"], "credential": "token",
            "limits": {"rate": 10_000, "burst": 10_000},
        });
        let config = json!({
            "apiVersion": "skydock.dev/v1alpha1", "kind": "SkydockConfiguration",
            "plugins": [{
                "name": "simcloud", "file": "simcloud.wasm", "digest": plugin, "cloudConfig": "cloud.json", "egress": [rule],
            }],
            "credentials": [{
                "name": "token", "type": "header", "for": {"plugin": "simcloud", "digest": credential},
                "prefix": "Bearer ", "valueFile": self.file("token"),
            }],
        });
        fs::write(self.file("config.new"), config.to_string())?;
        Ok(fs::rename(
            self.file("config.new"),
            self.file("config.yaml"),
        )?)
    }

    async fn host(&mut self) -> Result<Host> {
        self.hosts += 1;
        let compiled = Plugin::compiled()?;
        fs::create_dir_all(&compiled)?;
        let args = [
            format!("--config={}", self.file("config.yaml").display()),
            format!("--kubeconfig={}", self.plane.kubeconfig_path().display()),
            format!("--plugin-cache-dir={}", compiled.display()),
            "--cluster-name=rollover".to_owned(),
            "--configure-cloud-routes=false".to_owned(),
            "--concurrent-service-syncs=10".to_owned(),
        ];
        let args: Vec<_> = args.into_iter().map(Into::into).collect();
        let name = format!("host-{}", self.hosts);
        Host::start(
            &Paths::of_checkout()?.skydock,
            self.dir.path(),
            &name,
            &args,
        )
        .await
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.plane.client(), "default")
    }

    /// Creates all Services, and waits until each has a load balancer.
    async fn create(&self) -> Result<()> {
        let services = self.services();
        let creating = (0..SERVICES).map(|number| {
            let services = services.clone();
            async move {
                let spec = json!({"type": "LoadBalancer", "ports": [{"port": 80}]});
                let service = json!({"metadata": {"name": format!("web-{number}")}, "spec": spec});
                let service = serde_json::from_value(service)?;
                services.create(&PostParams::default(), &service).await?;
                anyhow::Ok(())
            }
        });
        try_join_all(creating).await?;
        self.serves(80).await
    }

    /// Waits until all load balancers serve this port.
    async fn serves(&self, port: u16) -> Result<()> {
        eventually(LIMIT, || async {
            let (_, state) = self.cloud.request("GET", "/_sim/state", &Value::Null);
            let all = state["load_balancers"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let right = all.iter().filter(|balancer| {
                let ports = balancer["listeners"].as_array();
                ports.is_some_and(|ports| ports.len() == 1 && ports[0]["port"] == port)
            });
            let right = right.count();
            let seen = format!(
                "{right} of {} serve port {port}: {:?}",
                all.len(),
                all.first()
            );
            Ok(Seen::when(right == SERVICES, seen))
        })
        .await
    }

    /// Changes the Services until it is stopped. Returns the number of changes.
    fn churn(&self, stop: &Arc<AtomicBool>) -> JoinHandle<Result<usize>> {
        let (services, stop) = (self.services(), Arc::clone(stop));
        let changes = Arc::new(AtomicUsize::new(0));
        tokio::spawn(async move {
            let changing = (0..SERVICES).map(|number| {
                let (services, stop, changes) =
                    (services.clone(), Arc::clone(&stop), Arc::clone(&changes));
                async move {
                    let mut port = 1000;
                    sleep(PACE * u32::try_from(number)? / u32::try_from(SERVICES)?).await;
                    while !stop.load(SeqCst) {
                        port += 1;
                        change(&services, number, port).await?;
                        changes.fetch_add(1, SeqCst);
                        sleep(PACE).await;
                    }
                    anyhow::Ok(())
                }
            });
            try_join_all(changing).await?;
            Ok(changes.load(SeqCst))
        })
    }
}

async fn change(services: &Api<Service>, number: usize, port: u16) -> Result<()> {
    let patch = json!({"spec": {"ports": [{"port": port}]}});
    let name = format!("web-{number}");
    services
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

/// Waits until a generation is in service.
async fn generation(host: &Host, number: f64) -> Result<()> {
    eventually(LIMIT, || async {
        let found = host.scrape().await?.sum("skydock_plugin_generation", &[]);
        Ok(Seen::when(
            (found - number).abs() < 0.1,
            format!("generation {found}"),
        ))
    })
    .await
}

/// Checks that nothing failed since the host was started.
async fn went_unnoticed(host: &Host) -> Result<()> {
    let scrape: Scrape = host.scrape().await?;
    for name in [
        "skydock_egress_denials_total",
        "skydock_controller_errors_total",
        "skydock_plugin_traps_total",
    ] {
        let failed = scrape.sum(name, &[]);
        ensure!(
            failed == 0.0,
            "{name} is {failed}:\n{}\n{}",
            scrape.text(),
            host.last_words()
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_plugin_is_replaced_without_a_failure() {
    roll_over().await.unwrap();
}

async fn roll_over() -> Result<()> {
    let mut site = Site::start().await?;
    let first = fs::read(Paths::of_checkout()?.plugins.join("simcloud.wasm"))?;
    let [second, third] = ["second", "third"].map(|note| rebuilt(&first, note));
    let pins = [&first, &second, &third].map(|component| pin(component));
    let [one, two, three] = pins.each_ref().map(String::as_str);
    site.install(&first)?;
    site.configure(&[one], &[one])?;
    let host = site.host().await?;
    site.create().await?;
    let stop = Arc::new(AtomicBool::new(false));
    let churn = site.churn(&stop);

    // By a rollover of two digests.
    site.configure(&[one, two], &[one, two])?;
    host.said("configuration file applied").await?;
    site.install(&second)?;
    generation(&host, 2.0).await?;
    site.configure(&[two], &[two])?;
    sleep(PACE * 3).await;
    went_unnoticed(&host).await?;

    // A replacement that the credential is not for is rejected, and the previous one serves on.
    site.configure(&[two, three], &[two])?;
    sleep(Duration::from_secs(6)).await;
    site.install(&third)?;
    let said = host.said("it could not use the egress rules").await?;
    ensure!(said.contains(three), "{said}");
    sleep(PACE * 2).await;
    generation(&host, 2.0).await?;
    went_unnoticed(&host).await?;

    // With a restart in the middle of the rollover: the file on disk is the new one, and allowed.
    site.configure(&[two, three], &[two, three])?;
    Hosts::stop(host).await?;
    let host = site.host().await?;
    eventually(LIMIT, || async {
        let leads = host
            .scrape()
            .await?
            .sum("leader_election_master_status", &[]);
        Ok(Seen::when(leads > 0.0, "it does not lead"))
    })
    .await?;
    site.configure(&[three], &[three])?;
    sleep(PACE * 3).await;
    stop.store(true, SeqCst);
    let changes = churn.await??;
    let services = site.services();
    for number in 0..SERVICES {
        change(&services, number, 443).await?;
    }
    site.serves(443).await.context("after the rollovers")?;
    went_unnoticed(&host).await?;
    let (_, calls) = site.cloud.request("GET", "/_sim/calls", &Value::Null);
    let calls = calls["calls"].as_array().cloned().unwrap_or_default();
    let denied = calls
        .iter()
        .find(|call| call["status"] == 401 || call["status"] == 403);
    ensure!(denied.is_none(), "{denied:?}");
    eprintln!(
        "{changes} changes of {SERVICES} Services in two rollovers, a rejection and a restart: nothing failed"
    );
    Hosts::stop(host).await
}
