//! The life of a cluster in a cloud, from its first node until everything is deleted.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use skydock_clusters::{NodeSpec, Plane};
use skydock_story::narrator::Narrator;

use crate::{
    cluster::Cluster,
    hosts::Hosts,
    secrets,
    site::{Machine, Site, requests},
    steps::expect::Wanted,
};

/// How long a step may take until the expected state is reached: a stopped kubelet is noticed after
/// about 15 s, and providers that make one call at a time wait for load balancers, which takes
/// minutes on a machine that is busy with something else.
const LIMIT: Duration = Duration::from_secs(300);

/// The environment of the story.
pub struct Story<'a> {
    site: &'a mut dyn Site,
    plane: &'a dyn Plane,
    cluster: Cluster,
    hosts: Hosts,
    wanted: Wanted,
}

impl<'a> Story<'a> {
    /// Creates the environment.
    ///
    /// # Errors
    /// Fails if a binary has not been built, or if files cannot be written.
    pub fn new(site: &'a mut dyn Site, plane: &'a dyn Plane, name: &str) -> Result<Self> {
        let hosts = Hosts::configure(site, name, plane.kubeconfig_path(), &["--v=4"])?;
        let wanted = Wanted::of(site);
        Ok(Self {
            cluster: Cluster::new(plane.client()),
            site,
            plane,
            hosts,
            wanted,
        })
    }

    /// Runs the story.
    ///
    /// # Errors
    /// Returns the first step that failed. The logs of the hosts are kept in this case.
    pub async fn tell(&mut self, narrator: &mut Narrator) -> Result<()> {
        let told = self.chapters(narrator).await;
        told.with_context(|| format!("the logs are in {}", self.hosts.keep().display()))
    }

    async fn chapters(&mut self, narrator: &mut Narrator) -> Result<()> {
        let before = self.site.holdings().await?;
        let mut host = None;
        narrator.chapter("Nodes");
        narrator
            .step(
                "machines run, kubelets register, and the host makes nodes of them, with routes",
                async {
                    self.join(3).await?;
                    host = Some(self.hosts.start().await?);
                    self.as_wanted().await
                },
            )
            .await?;
        narrator.chapter("Services");
        let annotations = self.site.annotations();
        let first: &[&str] = if self.site.mixes_protocols() {
            &["TCP/80", "UDP/53"]
        } else {
            &["TCP/80"]
        };
        let steps = [
            ("a Service gets a load balancer", first),
            ("its ports change", &["TCP/80", "TCP/443"]),
        ];
        for (step, ports) in steps {
            narrator
                .step(step, async {
                    self.cluster.serve("web", ports, &annotations).await?;
                    let ports = ports.iter().map(|&port| port.to_owned()).collect();
                    self.wanted.services.insert("web".to_owned(), ports);
                    let seen = self.as_wanted().await?;
                    self.cluster
                        .told("web", "EnsuredLoadBalancer", LIMIT)
                        .await?;
                    Ok(seen)
                })
                .await?;
        }
        narrator
            .step("a node joins, and is behind the load balancer", async {
                self.join(1).await?;
                self.as_wanted().await
            })
            .await?;
        narrator.chapter("Machines");
        narrator
            .step("a machine is stopped: taint", self.stop())
            .await?;
        narrator
            .step("it starts again: no taint", self.start())
            .await?;
        narrator
            .step("it is deleted: no Node, no route, no member", self.delete())
            .await?;
        narrator.chapter("The end");
        narrator
            .step(
                "the Service is deleted, then all machines and their Nodes",
                async {
                    self.cluster.withdraw("web").await?;
                    self.wanted.services.clear();
                    self.as_wanted().await?;
                    for (machine, _) in self.wanted.machines.drain(..) {
                        self.plane.stop_node(&machine.node).await?;
                        self.site.delete(&machine).await?;
                        // Only an operator deletes all nodes of a cluster: the host assumes that
                        // the cloud reports wrong states.
                        self.cluster.remove(&machine.node).await?;
                    }
                    self.as_wanted().await
                },
            )
            .await?;
        narrator
            .step("the cloud holds what it held before", async {
                let after = self.site.holdings().await?;
                ensure!(after == before, "before {before:#?}\nafter {after:#?}");
                Ok(format!("{} kinds of things", after.len()))
            })
            .await?;
        narrator
            .step(
                "nobody has seen a secret",
                secrets::shown_nowhere(
                    host.context("a host")?,
                    &self.hosts,
                    &self.cluster,
                    &self.site.secrets(),
                ),
            )
            .await
    }

    async fn join(&mut self, count: usize) -> Result<()> {
        for machine in self.site.add(count).await? {
            self.plane
                .start_node(&NodeSpec::new(&machine.node).without_provider_id())
                .await?;
            self.wanted.machines.push((machine, true));
        }
        Ok(())
    }

    fn last(&mut self) -> Result<&mut (Machine, bool)> {
        self.wanted.machines.last_mut().context("a machine")
    }

    async fn stop(&mut self) -> Result<String> {
        let (machine, runs) = self.last()?;
        *runs = false;
        let machine = machine.clone();
        self.site.stop(&machine).await?;
        self.plane.stop_node(&machine.node).await?;
        self.as_wanted().await
    }

    async fn start(&mut self) -> Result<String> {
        let (machine, runs) = self.last()?;
        *runs = true;
        let machine = machine.clone();
        self.site.start(&machine).await?;
        self.plane
            .start_node(&NodeSpec::new(&machine.node).without_provider_id())
            .await?;
        self.as_wanted().await
    }

    async fn delete(&mut self) -> Result<String> {
        let (machine, _) = self.wanted.machines.pop().context("a machine")?;
        self.plane.stop_node(&machine.node).await?;
        self.site.delete(&machine).await?;
        self.as_wanted().await
    }

    /// Waits until cluster and cloud have the expected state, and returns the requests that were
    /// needed.
    async fn as_wanted(&self) -> Result<String> {
        self.wanted.seen(self.site, &self.cluster, LIMIT).await?;
        Ok(requests(self.site))
    }
}
