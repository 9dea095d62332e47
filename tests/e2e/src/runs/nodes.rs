//! The life of the nodes of a cluster whose provider serves nothing else.

use std::time::Duration;

use anyhow::{Context as _, Result};
use skydock_clusters::Plane;
use skydock_story::narrator::Narrator;

use crate::{
    hosts::Hosts,
    secrets,
    site::{Machine, Site, requests},
    steps::users::Users,
};

/// How long a step may take.
const LIMIT: Duration = Duration::from_secs(120);
const FLAGS: [&str; 2] = ["--leader-elect=false", "--v=4"];

/// The environment of the story.
struct Story<'a> {
    users: Users<'a>,
    hosts: Hosts,
}

/// Runs the story in an empty site and on a plane without nodes.
///
/// # Errors
/// Returns the first step that failed. The logs are kept in this case.
pub async fn tell(site: &mut dyn Site, plane: &dyn Plane, narrator: &mut Narrator) -> Result<()> {
    let hosts = Hosts::configure(site, "story", plane.kubeconfig_path(), &FLAGS)?;
    let mut story = Story {
        users: Users::of(site, plane).await?,
        hosts,
    };
    let told = story.chapters(narrator).await;
    told.with_context(|| format!("the logs are in {}", story.hosts.keep().display()))
}

impl Story<'_> {
    async fn chapters(&mut self, narrator: &mut Narrator) -> Result<()> {
        let mut host = None;
        narrator.chapter("Nodes");
        narrator
            .step(
                "virtual machines run, and Skydock initializes their nodes",
                async {
                    self.users.join(3).await?;
                    host = Some(self.hosts.start().await?);
                    self.as_wanted().await
                },
            )
            .await?;
        narrator
            .step("a node joins later", async {
                self.users.join(1).await?;
                self.as_wanted().await
            })
            .await?;
        narrator.chapter("Machines");
        let (machine, _) = self
            .users
            .wanted
            .machines
            .last()
            .context("a machine")?
            .clone();
        for (step, runs) in [
            ("one is stopped: taint", false),
            ("it starts again: no taint", true),
        ] {
            narrator.step(step, self.switch(&machine, runs)).await?;
        }
        narrator
            .step("it is deleted: no Node", async {
                self.users.delete(&machine).await?;
                self.as_wanted().await
            })
            .await?;
        let (host, secrets) = (host.context("a host")?, self.users.site.secrets());
        let search = secrets::shown_nowhere(host, &self.hosts, &self.users.cluster, &secrets);
        narrator.step("nobody has seen a secret", search).await
    }

    async fn switch(&mut self, machine: &Machine, on: bool) -> Result<String> {
        self.users.switch(machine, on).await?;
        self.as_wanted().await
    }

    /// Waits until the nodes are as expected, and returns the requests that were needed.
    async fn as_wanted(&self) -> Result<String> {
        self.users.settle(LIMIT).await?;
        Ok(requests(self.users.site))
    }
}
