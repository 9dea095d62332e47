//! The environment of the story: a control plane, files, and hosts.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, ensure};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Event, Node, Service},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams},
};
use skydock_clusters::{NodeSpec, Plane};
use skydock_support::{Host, Paths, Seen, eventually};
use tempfile::TempDir;

use crate::{PLUGINS, inventory::Inventory, narrator::Narrator};

/// Permissions of the static provider.
const CONFIGURATION: &str = "\
apiVersion: skydock.dev/v1alpha1
kind: SkydockConfiguration
plugins:
- name: static
  file: static.wasm
  permissions: {providerIDs: ['static://', 'kubemark://'], domains: [example.com]}
";

/// The lease duration of the story, which is short so that the failover after a killed leader is
/// fast.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(5);

/// The environment of the story.
pub struct Stage {
    pub(crate) plane: Box<dyn Plane>,
    pub(crate) client: Client,
    pub(crate) paths: Paths,
    pub(crate) inventory: Inventory,
    pub(crate) hosts: Vec<Host>,
    dir: TempDir,
}

impl Stage {
    /// Creates the environment on a running control plane.
    ///
    /// # Errors
    /// Fails if files cannot be written, or if the plane is not reachable.
    pub async fn set(plane: Box<dyn Plane>, paths: Paths) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("skydock-story-")
            .tempdir()?;
        std::fs::copy(
            paths.plugins.join("static.wasm"),
            dir.path().join("static.wasm"),
        )?;
        let inventory = Inventory::new(dir.path().join("inventory.yaml"));
        let client = plane.client();
        Ok(Self {
            plane,
            client,
            paths,
            inventory,
            hosts: Vec::new(),
            dir,
        })
    }

    /// Returns the directory with the files and logs of the story.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Keeps files and logs.
    pub fn keep_files(&mut self) {
        self.dir.disable_cleanup(true);
    }

    /// Returns the kubeconfig of the plane.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        self.plane.kubeconfig_path()
    }

    /// Returns a node of the story. On the embedded plane, the cloud controller sets the provider
    /// ID. Real hollow nodes register with one.
    pub(crate) fn node_spec(&self, name: &str) -> NodeSpec {
        let spec = NodeSpec::new(name);
        if self.plane.runs_pods() {
            spec
        } else {
            spec.without_provider_id()
        }
    }

    /// Returns the plugin file that the hosts watch.
    pub(crate) fn plugin_file(&self) -> PathBuf {
        self.dir.path().join("static.wasm")
    }

    /// Reads a built plugin, which is one of [`PLUGINS`].
    pub(crate) fn built(&self, name: &str) -> anyhow::Result<Vec<u8>> {
        ensure!(PLUGINS.contains(&name), "{name} is missing in PLUGINS");
        let file = self.paths.plugins.join(format!("{name}.wasm"));
        std::fs::read(&file)
            .with_context(|| format!("read {}: run `cargo xtask guests`", file.display()))
    }

    /// Replaces a file atomically.
    pub(crate) fn replace(&self, file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let new = file.with_extension("new");
        std::fs::write(&new, bytes)?;
        std::fs::rename(&new, file)?;
        Ok(())
    }

    /// Starts a host with the static provider.
    pub(crate) async fn start_host(&mut self, name: &str) -> anyhow::Result<()> {
        self.start_host_with(name, &[]).await
    }

    /// Starts a host with the static provider and additional flags.
    pub(crate) async fn start_host_with(
        &mut self,
        name: &str,
        flags: &[&str],
    ) -> anyhow::Result<()> {
        let args = self.flags_of_static()?;
        self.stand_for_election(name, args, flags).await
    }

    /// Starts a host with the plugin that has all capabilities and behaves as annotations specify.
    pub(crate) async fn start_hostile_host(
        &mut self,
        name: &str,
        flags: &[&str],
    ) -> anyhow::Result<()> {
        let plugin = self.dir().join("hostile.wasm");
        let config = self.dir().join("hostile.conf");
        self.replace(&plugin, &self.built("hostile/good")?)?;
        self.replace(&config, b"")?;
        let args = self.flags("hostile", &plugin, &config);
        self.stand_for_election(name, args, flags).await
    }

    async fn stand_for_election(
        &mut self,
        name: &str,
        mut args: Vec<OsString>,
        more: &[&str],
    ) -> anyhow::Result<()> {
        args.extend(
            [
                "--leader-elect=true",
                "--leader-elect-renew-deadline=3s",
                "--leader-elect-retry-period=1s",
            ]
            .map(OsString::from),
        );
        args.push(
            format!(
                "--leader-elect-lease-duration={}s",
                LEASE_DURATION.as_secs()
            )
            .into(),
        );
        // With real credentials and RBAC on the real plane. The embedded plane does not
        // authenticate clients, but issues tokens.
        args.push("--use-service-account-credentials".into());
        args.extend(more.iter().map(OsString::from));
        self.hosts
            .push(Host::start(&self.paths.skydock, self.dir.path(), name, &args).await?);
        Ok(())
    }

    /// Starts a host with the static provider that only logs what it would do.
    pub(crate) async fn start_dry_run(&self, name: &str) -> anyhow::Result<Host> {
        let mut args = self.flags_of_static()?;
        args.push("--dry-run".into());
        Host::start(&self.paths.skydock, self.dir.path(), name, &args).await
    }

    /// Returns the arguments of hosts with the static provider.
    fn flags_of_static(&self) -> anyhow::Result<Vec<OsString>> {
        let mut args = self.flags("static", &self.plugin_file(), self.inventory.path());
        args.push(self.permits_inventory()?.into());
        Ok(args)
    }

    /// Returns the flag with which the static provider may own all that the inventory names.
    pub(crate) fn permits_inventory(&self) -> anyhow::Result<String> {
        let file = self.dir().join("config.yaml");
        self.replace(&file, CONFIGURATION.as_bytes())?;
        Ok(format!("--config={}", file.display()))
    }

    /// Returns the arguments of all hosts.
    fn flags(&self, provider: &str, plugin: &Path, config: &Path) -> Vec<OsString> {
        vec![
            format!("--cloud-provider={provider}").into(),
            format!("--plugin={provider}={}", plugin.display()).into(),
            format!("--cloud-config={}", config.display()).into(),
            format!("--kubeconfig={}", self.kubeconfig().display()).into(),
            format!(
                "--plugin-cache-dir={}",
                self.dir.path().join("compiled").display()
            )
            .into(),
            "--cluster-name=story".into(),
            "--cluster-cidr=10.244.0.0/16".into(),
            "--controllers=*".into(),
            "--node-monitor-period=1s".into(),
            "--v=4".into(),
        ]
    }

    /// Returns the index of the leading host.
    pub(crate) async fn leader(&self) -> anyhow::Result<usize> {
        eventually(Duration::from_secs(30), || async {
            for (at, host) in self.hosts.iter().enumerate() {
                if host
                    .scrape()
                    .await
                    .is_ok_and(|scrape| scrape.sum("leader_election_master_status", &[]) > 0.0)
                {
                    return Ok(Seen::Yes(at));
                }
            }
            Ok(Seen::NotYet("no host leads".to_owned()))
        })
        .await
    }

    /// Returns the leading host.
    pub(crate) async fn leading_host(&mut self) -> anyhow::Result<&mut Host> {
        let at = self.leader().await?;
        self.hosts
            .get_mut(at)
            .context("the leader is a host of the story")
    }

    /// Keeps a host running for manual use with kubectl, until it is interrupted.
    ///
    /// # Errors
    /// Fails if the host cannot be started.
    pub async fn open_to_visitors(&mut self, narrator: &Narrator) -> anyhow::Result<()> {
        self.stop_hosts().await?;
        self.replace(&self.plugin_file(), &self.built("static")?)?;
        self.start_host("host-kept").await?;
        narrator.aside(&format!(
            "\n   It goes on. In another terminal:\n\n     export KUBECONFIG={}\n     kubectl get nodes,services\n     \
             kubectl expose deployment … or apply a Service of type LoadBalancer\n\n   Machines and addresses: {}\n   \
             The plugin: {}\n   Log: {}\n\n   Ctrl-C ends it.",
            self.kubeconfig().display(),
            self.inventory.path().display(),
            self.plugin_file().display(),
            self.hosts.first().map_or_else(String::new, |host| host.log().display().to_string()),
        ));
        tokio::signal::ctrl_c().await?;
        self.stop_hosts().await
    }

    /// Stops all hosts.
    pub(crate) async fn stop_hosts(&mut self) -> anyhow::Result<()> {
        for mut host in self.hosts.drain(..) {
            host.terminate()?;
            host.ended(Duration::from_secs(15)).await?;
        }
        Ok(())
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) fn services(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), "kube-system")
    }

    /// Returns the events about an object with this name, as `REASON: message`.
    pub(crate) async fn events(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let events: Api<Event> = Api::all(self.client.clone());
        let list = events
            .list(&ListParams::default().fields(&format!("involvedObject.name={name}")))
            .await?;
        let told = list.items.into_iter().map(|event| {
            format!(
                "{}: {}",
                event.reason.unwrap_or_default(),
                event.message.unwrap_or_default()
            )
        });
        Ok(told.collect())
    }

    /// Waits for an event about an object that contains these words.
    pub(crate) async fn event(&self, name: &str, words: &str) -> anyhow::Result<String> {
        eventually(Duration::from_secs(30), || async {
            let events = self.events(name).await?;
            Ok(match events.iter().find(|event| event.contains(words)) {
                Some(event) => Seen::Yes(event.clone()),
                None => Seen::NotYet(format!("{events:?}")),
            })
        })
        .await
        .with_context(|| format!("an event on {name} with {words:?}"))
    }

    /// Deletes a service and waits until it is gone.
    pub(crate) async fn delete_service(&self, name: &str) -> anyhow::Result<()> {
        self.services()
            .delete(name, &DeleteParams::default())
            .await?;
        eventually(Duration::from_secs(30), || async {
            Ok(match self.services().get_opt(name).await? {
                None => Seen::Yes(()),
                Some(service) => Seen::NotYet(format!(
                    "{name} with finalizers {:?}",
                    service.metadata.finalizers
                )),
            })
        })
        .await
    }
}
