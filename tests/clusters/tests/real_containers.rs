//! Nodes with containers: their Pods run, and nothing is left of them, however they end.
//!
//! Needs root. Where that is missing, `SKYDOCK_NO_CONTAINERS=1` skips these tests.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use skydock_clusters::{Error, NodeSpec, PAUSE, Plane, RealPlane};
use skydock_support::{Seen, eventually};

const PATIENCE: Duration = Duration::from_secs(60);
/// Set in the process that holds the plane, which runs that test again.
const HOLDER: &str = "SKYDOCK_TEST_HOLDS_CONTAINERS";
const HELD: &str = "a_node_ends_with_the_process_that_holds_it";
/// Kernel settings that a kubelet changes.
const SETTINGS: [&str; 4] = [
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
];

/// Starts a plane with a node, on which a static Pod runs. Returns `None` if that is to be skipped.
async fn plane() -> Result<Option<RealPlane>> {
    let plane = RealPlane::start().await?;
    let started = start(&plane, "node-1").await;
    match started {
        Ok(()) => Ok(Some(plane)),
        Err(error) if error.downcast_ref().is_some_and(Error::skips_test) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Starts a node, and waits until its static Pod serves.
async fn start(plane: &RealPlane, name: &str) -> Result<()> {
    let manifests = plane
        .start_container_node(&NodeSpec::new(name), &[])
        .await?;
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{
            "name": "web",
            "image": PAUSE,
            "args": [":8080"],
            "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1},
        }]},
    });
    fs::write(manifests.join("web.json"), pod.to_string())?;
    let pods: Api<Pod> = Api::default_namespaced(plane.client());
    let mirror = format!("web-{name}");
    eventually(PATIENCE, async || {
        let pod = pods.get_opt(&mirror).await?;
        let conditions = pod.and_then(|pod| pod.status?.conditions);
        let mut conditions = conditions.unwrap_or_default().into_iter();
        Ok(Seen::when(
            conditions.any(|it| it.type_ == "Ready" && it.status == "True"),
            "the Pod is not ready",
        ))
    })
    .await
}

fn settings() -> Result<Vec<String>> {
    let read = |name| fs::read_to_string(Path::new("/proc/sys").join(name));
    let values: std::io::Result<_> = SETTINGS.into_iter().map(read).collect();
    Ok(values?)
}

/// Returns the processes with the folder in their command line.
fn processes_in(folder: &Path) -> Result<Vec<i32>> {
    let folder = folder.display().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        // The process may have ended in the meantime.
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&command).contains(&folder) {
            found.extend(entry.file_name().to_string_lossy().parse::<i32>());
        }
    }
    Ok(found)
}

/// Returns the control groups of nodes that one of these processes holds.
fn groups_of(processes: &[i32]) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for mount in fs::read_to_string("/proc/self/mountinfo")?.lines() {
        if !mount.contains(" - cgroup") {
            continue;
        }
        let place = Path::new(mount.split(' ').nth(4).context("no mount point")?);
        let groups = processes
            .iter()
            .map(|process| place.join(format!("skydock-node-{process}")));
        found.extend(groups.filter(|group| group.exists()));
    }
    Ok(found)
}

/// Waits until nothing is left of processes and their control groups.
async fn nothing_is_left(folder: &Path, processes: &[i32]) -> Result<()> {
    eventually(PATIENCE, async || {
        let left = processes_in(folder)?;
        let groups = groups_of(processes)?;
        Ok(Seen::when(
            left.is_empty() && groups.is_empty(),
            format!("processes {left:?}, groups {groups:?}"),
        ))
    })
    .await
}

#[tokio::test]
async fn a_stopped_node_leaves_nothing_behind() -> Result<()> {
    let before = settings()?;
    let Some(plane) = plane().await? else {
        return Ok(());
    };
    let node = plane.folder().join("nodes/node-1");
    let processes = processes_in(&node)?;
    ensure!(!groups_of(&processes)?.is_empty(), "no control groups");
    ensure!(settings()? == before, "{:?}, not {before:?}", settings()?);

    plane.stop_node("node-1").await?;
    ensure!(processes_in(&node)?.is_empty(), "a process still runs");
    let left = groups_of(&processes)?;
    ensure!(left.is_empty(), "control groups are left: {left:?}");
    Ok(())
}

#[tokio::test]
async fn control_groups_of_a_killed_node_are_removed_by_the_next() -> Result<()> {
    let Some(plane) = plane().await? else {
        return Ok(());
    };
    let node = plane.folder().join("nodes/node-1");
    let processes = processes_in(&node)?;
    // The first one holds the others, and would remove the groups.
    let holder = processes.iter().min().copied().and_then(Pid::from_raw);
    kill_process(holder.context("no process")?, Signal::KILL)?;
    eventually(PATIENCE, async || {
        let left = processes_in(&node)?;
        Ok(Seen::when(left.is_empty(), format!("{left:?}")))
    })
    .await?;
    ensure!(!groups_of(&processes)?.is_empty(), "who has removed them?");

    // Until it is waited for, the killed process exists.
    plane.stop_node("node-1").await?;
    start(&plane, "node-2").await?;
    let left = groups_of(&processes)?;
    ensure!(left.is_empty(), "control groups are left: {left:?}");
    Ok(())
}

#[tokio::test]
async fn a_node_ends_with_the_process_that_holds_it() -> Result<()> {
    if std::env::var_os(HOLDER).is_some() {
        let plane = plane().await?;
        let folder = plane.as_ref().map(|plane| plane.folder().to_owned());
        let folder = folder.unwrap_or_default();
        writeln!(std::io::stdout(), "FOLDER={}", folder.display())?;
        return std::future::pending().await;
    }
    let before = settings()?;
    let mut holder = Command::new(std::env::current_exe()?)
        .args(["--exact", HELD, "--nocapture"])
        .env(HOLDER, "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(holder.stdout.take().context("no output")?).lines();
    let folder = lines.map_while(Result::ok).find_map(|line| {
        let (_, folder) = line.split_once("FOLDER=")?;
        Some(PathBuf::from(folder))
    });
    let processes = match &folder {
        Some(folder) if folder.exists() => processes_in(folder)?,
        _ => Vec::new(),
    };
    holder.kill()?;
    holder.wait()?;
    let folder = folder.context("the holder started no plane")?;
    if folder.as_os_str().is_empty() {
        return Ok(());
    }
    ensure!(processes.len() > 5, "processes: {processes:?}");
    nothing_is_left(&folder, &processes).await?;
    ensure!(settings()? == before, "{:?}, not {before:?}", settings()?);
    fs::remove_dir_all(&folder)?; // everything that could delete it was killed
    Ok(())
}
