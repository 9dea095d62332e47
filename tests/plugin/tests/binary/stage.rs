//! A cluster with a host whose plugin behaves well until its file is replaced.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Event, Node};
use kube::{Api, api::ListParams};
use skydock_clusters::{EmbeddedPlane, NodeSpec, Plane};
use skydock_support::{Host, Paths, Seen, eventually, kubernetes::UNINITIALIZED};
use tempfile::TempDir;

use crate::guest;

/// The file name of the plugin.
const PLUGIN: &str = "plugin.wasm";

pub(crate) struct Stage {
    plane: EmbeddedPlane,
    host: Host,
    dir: TempDir,
}

impl Stage {
    /// Starts a host and waits until it has initialized one node.
    pub(crate) async fn set() -> anyhow::Result<Self> {
        let more = [
            "--cluster-cidr=10.244.0.0/16",
            "--node-monitor-period=1s",
            "--route-check-period=1s",
        ];
        let stage = Self::with("kubemark", &guest::good()?, &more).await?;
        stage.start_node("first").await?;
        stage.initialized("first", Duration::from_secs(30)).await?;
        Ok(stage)
    }

    /// Starts a host with this plugin.
    pub(crate) async fn with(name: &str, component: &[u8], more: &[&str]) -> anyhow::Result<Self> {
        let (plane, dir) = (EmbeddedPlane::start().await?, tempfile::tempdir()?);
        std::fs::write(dir.path().join(PLUGIN), component)?;
        std::fs::write(dir.path().join("cloud.yaml"), "")?;
        let file = |name: &str| dir.path().join(name).display().to_string();
        let args = [
            format!("--cloud-provider={name}"),
            format!("--plugin={name}={}", file(PLUGIN)),
            format!("--cloud-config={}", file("cloud.yaml")),
            format!("--plugin-cache-dir={}", file("compiled")),
            format!("--kubeconfig={}", plane.kubeconfig_path().display()),
        ];
        let args: Vec<_> = args
            .iter()
            .map(String::as_str)
            .chain(more.iter().copied())
            .map(Into::into)
            .collect();
        let host = Host::start(&Paths::of_checkout()?.skydock, dir.path(), "host", &args).await?;
        Ok(Self { plane, host, dir })
    }

    /// Returns the API for nodes.
    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.plane.client())
    }

    /// Replaces the component in service.
    pub(crate) fn replace(&self, component: &[u8]) -> anyhow::Result<()> {
        let aside = self.path("new.wasm");
        std::fs::write(&aside, component)?;
        Ok(std::fs::rename(aside, self.path(PLUGIN))?)
    }

    /// Changes the configuration, so that the component is loaded again.
    pub(crate) fn configure(&self, text: &str) -> anyhow::Result<()> {
        Ok(std::fs::write(self.path("cloud.yaml"), text)?)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) async fn start_node(&self, name: &str) -> anyhow::Result<()> {
        Ok(self.plane.start_node(&NodeSpec::new(name)).await?)
    }

    /// Waits until the node is initialized.
    pub(crate) async fn initialized(&self, name: &str, limit: Duration) -> anyhow::Result<()> {
        let nodes = self.nodes();
        let seen = eventually(limit, || async {
            let taints = nodes
                .get(name)
                .await?
                .spec
                .unwrap_or_default()
                .taints
                .unwrap_or_default();
            let waits = taints.iter().any(|taint| taint.key == UNINITIALIZED);
            Ok(if waits {
                Seen::NotYet(self.host.last_words())
            } else {
                Seen::Yes(())
            })
        });
        seen.await
            .with_context(|| format!("node {name} is initialized"))
    }

    /// Waits for an event that contains these words, and returns its message.
    pub(crate) async fn event(
        &self,
        reason: &str,
        words: &str,
        limit: Duration,
    ) -> anyhow::Result<String> {
        let events: Api<Event> = Api::all(self.plane.client());
        let seen = eventually(limit, || async {
            let list = events.list(&ListParams::default()).await?.items;
            let mut messages = list
                .into_iter()
                .filter(|event| event.reason.as_deref() == Some(reason));
            let found =
                messages.find_map(|event| event.message.filter(|message| message.contains(words)));
            Ok(found.map_or_else(|| Seen::NotYet(self.host.last_words()), Seen::Yes))
        });
        seen.await
            .with_context(|| format!("an event {reason} with {words:?}"))
    }

    /// Waits until another capability is called successfully, even while this one fails.
    pub(crate) async fn neighbor_is_served(&self, limit: Duration) -> anyhow::Result<()> {
        let served = async || -> anyhow::Result<f64> {
            let labels = [("function", "list-routes"), ("outcome", "ok")];
            Ok(self
                .host
                .scrape()
                .await?
                .sum("skydock_plugin_calls_total", &labels))
        };
        let before = served().await?;
        let seen = eventually(limit, || async {
            let now = served().await?;
            Ok(Seen::when(
                now > before,
                format!("list-routes was served {now} times"),
            ))
        });
        seen.await.context("a neighboring capability is served")
    }

    /// Returns the peak of resident memory in MiB.
    pub(crate) fn peak_memory(&self) -> anyhow::Result<u64> {
        Ok(self.host.peak_memory()? >> 20)
    }

    /// Checks that the log contains only lines of this host, without overlong lines and without
    /// control characters.
    pub(crate) fn log_is_sane(&self) -> anyhow::Result<()> {
        let log = std::fs::read_to_string(self.host.log())?;
        for line in log.lines() {
            ensure!(
                line.len() < 8 << 10,
                "a line of {} bytes: {:.200}",
                line.len(),
                line
            );
            ensure!(
                !line.contains(char::is_control),
                "a line with control characters: {line:?}"
            );
            ensure!(
                !line.starts_with("2026-11-22T02:40:00Z"),
                "a forged line: {line}"
            );
        }
        Ok(())
    }

    /// Asks the host to stop and waits for its end.
    pub(crate) async fn ends_within(mut self, limit: Duration) -> anyhow::Result<()> {
        let start = Instant::now();
        self.host.terminate()?;
        let code = self.host.ended(limit).await?;
        ensure!(
            code == Some(0),
            "it ended with {code:?}; {}",
            self.host.last_words()
        );
        println!("ended in {:?}", start.elapsed());
        Ok(())
    }
}
