//! Skydock and the official cloud controller manager serve a cluster one after the other, and each
//! keeps the resources of the other.

use std::{
    collections::BTreeMap,
    fs,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use skydock_clouds::Proxy;
use skydock_clusters::Plane;
use skydock_peers::{Peer, Settings};
use tokio::{
    process::{Child, Command},
    time::sleep,
};

use crate::{
    cluster::Cluster,
    hosts::Hosts,
    site::{PODS, Site},
    steps::expect::Wanted,
};

const LIMIT: Duration = Duration::from_secs(120);
/// How long there must be no request until a manager has read everything. Both list routes every
/// ten seconds.
const QUIET: Duration = Duration::from_secs(4);

/// The official cloud controller manager and its settings.
pub struct Official {
    /// The program.
    pub program: Peer,
    /// The content of its `cloud.conf`.
    pub conf: String,
    /// The environment variables.
    pub environment: Vec<(String, String)>,
    /// Operations that it also sends for its own load balancers, each time it processes them.
    pub habits: &'static [&'static str],
}

/// Lets Skydock create resources, the official manager keep them and create others, and Skydock
/// keep those and delete everything.
///
/// # Errors
/// Fails if one of them changed existing resources, or left some.
pub async fn both_ways(
    site: &mut dyn Site,
    plane: &dyn Plane,
    name: &str,
    official: &Official,
) -> Result<()> {
    let before = site.holdings().await?;
    let cluster = Cluster::new(plane.client());
    let mut wanted = Wanted::of(site);
    for machine in site.add(2).await? {
        cluster.register(&machine.node).await?;
        wanted.machines.push((machine, true));
    }
    let mut hosts = Hosts::configure(
        site,
        name,
        plane.kubeconfig_path(),
        &["--leader-elect=false"],
    )?;
    let host = hosts.start().await?;
    serve(&cluster, site, &mut wanted, "web", &["TCP/80"]).await?;
    wanted
        .seen(site, &cluster, LIMIT)
        .await
        .context("Skydock")?;
    Hosts::stop(host).await?;

    let made = site.holdings().await?;
    let peer = start(plane, name, official, &hosts).await?;
    keeps(site, &made, official.habits)
        .await
        .context("the official one takes over")?;
    serve(&cluster, site, &mut wanted, "mail", &["TCP/25"]).await?;
    wanted
        .seen(site, &cluster, LIMIT)
        .await
        .context("the official one")?;
    settled(site.proxy()).await?;
    drop(peer);

    let made = site.holdings().await?;
    let host = hosts.start().await?;
    keeps(site, &made, &[])
        .await
        .context("Skydock takes over")?;
    for service in std::mem::take(&mut wanted.services).into_keys() {
        cluster.withdraw(&service).await?;
    }
    for (machine, _) in std::mem::take(&mut wanted.machines) {
        site.delete(&machine).await?;
        cluster.remove(&machine.node).await?;
    }
    wanted
        .seen(site, &cluster, LIMIT)
        .await
        .context("the end")?;
    Hosts::stop(host).await?;
    let after = site.holdings().await?;
    ensure!(after == before, "before {before:#?}\nafter {after:#?}");
    Ok(())
}

async fn serve(
    cluster: &Cluster,
    site: &dyn Site,
    wanted: &mut Wanted,
    name: &str,
    ports: &[&str],
) -> Result<()> {
    cluster.serve(name, ports, &site.annotations()).await?;
    wanted.services.insert(
        name.to_owned(),
        ports.iter().map(|&port| port.to_owned()).collect(),
    );
    Ok(())
}

/// Starts the official manager. It ends when the value is dropped, because its standard input is
/// closed.
async fn start(plane: &dyn Plane, name: &str, official: &Official, hosts: &Hosts) -> Result<Child> {
    let folder = hosts.dir().join("official");
    fs::create_dir_all(&folder)?;
    let conf = folder.join("cloud.conf");
    fs::write(&conf, &official.conf)?;
    let mut settings = Settings::new(&folder, plane.kubeconfig_path(), &conf);
    settings.cluster = name.to_owned();
    settings.leader_elect = false;
    settings.cluster_cidr = Some(PODS.to_owned());
    settings.environment.clone_from(&official.environment);
    let log = fs::File::create(folder.join("log"))?;
    let mut command = Command::from(official.program.command(&settings));
    let command = command
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true);
    command.spawn().with_context(|| official.program.name())
}

/// Waits until a started manager has read everything, and checks that it has changed nothing.
async fn keeps(
    site: &dyn Site,
    made: &BTreeMap<&'static str, Vec<String>>,
    habits: &[&str],
) -> Result<()> {
    settled(site.proxy()).await?;
    let writes: Vec<_> = site
        .proxy()
        .counts()
        .into_keys()
        .filter(|operation| writes(operation) && !habits.contains(&operation.as_str()))
        .collect();
    ensure!(writes.is_empty(), "it did {writes:?}");
    let kept = site.holdings().await?;
    ensure!(kept == *made, "made {made:#?}\nkept {kept:#?}");
    Ok(())
}

async fn settled(proxy: &Proxy) -> Result<()> {
    proxy.forget();
    let (began, mut seen) = (Instant::now(), 0);
    loop {
        sleep(QUIET).await;
        let calls = proxy.calls().len();
        if calls > 0 && calls == seen {
            return Ok(());
        }
        if began.elapsed() > LIMIT {
            bail!("{calls} calls and no end: {:?}", proxy.counts());
        }
        seen = calls;
    }
}

/// Returns whether an operation changes something. Creating tokens does not count.
fn writes(operation: &str) -> bool {
    let reads = ["GET ", "imds:", "POST identity/auth/tokens"];
    !reads.iter().any(|read| operation.starts_with(read)) && !operation.contains(":Describe")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_operations_are_recognized() {
        for operation in [
            "POST network/floatingips",
            "PUT network/ports/{id}",
            "DELETE x",
            "ec2:CreateRoute",
        ] {
            assert!(writes(operation), "{operation}");
        }
        for operation in [
            "GET network/ports",
            "POST identity/auth/tokens",
            "elbv2:DescribeTags",
            "imds:PUT /latest",
        ] {
            assert!(!writes(operation), "{operation}");
        }
    }
}
