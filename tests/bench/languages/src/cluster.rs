//! `skydock dev --simcloud`, and what its user sees.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Event, Node, Service};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use skydock_support::Process;

/// How long to wait for something.
const PATIENCE: Duration = Duration::from_secs(120);
/// The interval in which it is looked for.
const POLL: Duration = Duration::from_millis(5);

/// A development cluster with a plugin.
pub(crate) struct Running {
    process: Process,
    client: Client,
    begun: Instant,
}

impl Running {
    /// Starts it.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) async fn start(skydock: &Path, plugin: &Path, dir: &Path) -> Result<Self> {
        let (log, kubeconfig) = (dir.join("dev.log"), dir.join("kubeconfig"));
        let mut command = Command::new(skydock);
        command
            .args(["--simcloud", "--nodes=1", "--plugin"])
            .arg(plugin)
            .arg("--write-kubeconfig")
            .arg(&kubeconfig);
        // Nothing is compiled yet.
        command.env("XDG_CACHE_HOME", dir.join("cache"));
        let begun = Instant::now();
        let process = Process::start("skydock dev", command, &log)?;
        let read = until("a kubeconfig", &process, async || {
            Kubeconfig::read_from(&kubeconfig).ok()
        })
        .await?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        Ok(Self {
            process,
            client: Client::try_from(config)?,
            begun,
        })
    }

    /// Waits for the initialized node, and for the address of a new Service. Returns how long the
    /// first took since the start, and the second since the Service was created.
    ///
    /// # Errors
    /// If this takes too long.
    pub(crate) async fn serve(&self, name: &str) -> Result<(Duration, Duration)> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let initialized = async || {
            let spec = nodes.get("node-1").await.ok()?.spec?;
            (spec.provider_id.is_some() && spec.taints.is_none_or(|taints| taints.is_empty()))
                .then_some(())
        };
        until("an initialized node", &self.process, initialized).await?;
        let node = self.begun.elapsed();
        let services: Api<Service> = Api::default_namespaced(self.client.clone());
        let service = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"type": "LoadBalancer", "selector": {"app": name}, "ports": [{"name": "http", "port": 80}]},
        }))?;
        let created = Instant::now();
        services.create(&PostParams::default(), &service).await?;
        let address = async || {
            services
                .get(name)
                .await
                .ok()?
                .status?
                .load_balancer?
                .ingress?
                .into_iter()
                .next()?
                .ip
        };
        until("an address of the Service", &self.process, address).await?;
        Ok((node, created.elapsed()))
    }

    /// Waits for the report that the plugin was replaced. Returns how long this took.
    ///
    /// # Errors
    /// If this takes too long.
    pub(crate) async fn swapped(&self) -> Result<Duration> {
        let begun = Instant::now();
        let events: Api<Event> = Api::all(self.client.clone());
        let reported = async || {
            let events = events.list(&Default::default()).await.ok()?.items;
            events
                .iter()
                .any(|event| event.reason.as_deref() == Some("PluginSwapped"))
                .then_some(())
        };
        until("the new plugin", &self.process, reported).await?;
        Ok(begun.elapsed())
    }
}

async fn until<T>(
    what: &str,
    process: &Process,
    mut found: impl AsyncFnMut() -> Option<T>,
) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = found().await {
            return Ok(found);
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "there is not {what} after {PATIENCE:?}:\n{}",
            process.last_lines()
        );
        tokio::time::sleep(POLL).await;
    }
}
