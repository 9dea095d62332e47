//! Checks that nothing is left of a cloud after it is dropped, and after the process that held it
//! is killed without any cleanup.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use skydock_clouds::{Aws, OpenStack};

/// Set in the process that holds the clouds, which runs this test again.
const HOLDER: &str = "SKYDOCK_TEST_HOLDS_CLOUDS";
const NAME: &str = "clouds_end_with_the_process_that_holds_them";
/// The supervisor, MariaDB, and seven services.
const PROCESSES: usize = 9;

#[tokio::test]
async fn clouds_end_with_the_process_that_holds_them() -> Result<()> {
    if std::env::var_os(HOLDER).is_some() {
        return hold().await;
    }
    let mut holder = Command::new(std::env::current_exe()?)
        .args(["--exact", NAME, "--nocapture"])
        .env(HOLDER, "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(holder.stdout.take().context("no output")?)
        .lines()
        .map_while(Result::ok);
    let folders: Vec<String> = lines
        .filter_map(|line| Some(line.split_once("FOLDER=")?.1.to_owned()))
        .take(2)
        .collect();
    let [openstack, aws] = folders.as_slice() else {
        anyhow::bail!("the holder started {folders:?}")
    };
    let running = (processes_in(openstack)?, processes_in(aws)?);
    // The supervisor is killed too, so that only the kernel can end its children.
    let supervisor = supervisor_of(openstack)?;
    Command::new("kill")
        .args(["-9", &supervisor.to_string()])
        .status()?;
    holder.kill()?;
    holder.wait()?;
    ensure!(running == (PROCESSES, 1), "running were {running:?}");
    let began = Instant::now();
    while processes_in(openstack)? + processes_in(aws)? > 0 {
        ensure!(
            began.elapsed() < Duration::from_secs(10),
            "processes outlived the holder"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ensure!(!Path::new(aws).exists(), "{aws} is still there");
    std::fs::remove_dir_all(openstack)?; // everything that could delete it was killed
    Ok(())
}

#[tokio::test]
async fn a_dropped_cloud_leaves_nothing_behind() -> Result<()> {
    let cloud = OpenStack::start().await?;
    let folder = cloud.folder().to_owned();
    let name = folder.to_str().context("an odd path")?;
    ensure!(
        processes_in(name)? == PROCESSES,
        "{} processes",
        processes_in(name)?
    );
    drop(cloud);
    ensure!(
        processes_in(name)? == 0 && !folder.exists(),
        "something is left of {name}"
    );
    Ok(())
}

#[tokio::test]
async fn a_dead_service_ends_its_cloud_and_is_named() -> Result<()> {
    let cloud = OpenStack::start().await?;
    let folder = cloud.folder().to_owned();
    let of_nova = pids_in(folder.to_str().context("an odd path")?)?
        .into_iter()
        .find(|pid| {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&command).contains("nova_all")
        });
    let of_nova = of_nova.context("Nova does not run")?;
    Command::new("kill")
        .args(["-9", &of_nova.to_string()])
        .status()?;
    let told = || std::fs::read_to_string(folder.join("supervisor.out")).unwrap_or_default();
    let began = Instant::now();
    while !told().contains("nova ended with status -9") {
        ensure!(
            began.elapsed() < Duration::from_secs(10),
            "it says {:?}",
            told()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(cloud);
    ensure!(
        processes_in(folder.to_str().context("an odd path")?)? == 0 && folder.join("log").exists()
    );
    std::fs::remove_dir_all(&folder)?; // the folder of a failed cloud is kept
    Ok(())
}

/// Starts both clouds and waits until it is killed.
async fn hold() -> Result<()> {
    use std::io::Write;

    let (openstack, aws) = (OpenStack::start().await?, Aws::start().await?);
    for folder in [openstack.folder(), aws.folder()] {
        writeln!(std::io::stdout(), "FOLDER={}", folder.display())?;
    }
    std::future::pending().await
}

/// Returns the processes with the folder in their command line, except zombies.
fn pids_in(folder: &str) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let entry = entry?;
        // The process may have ended in the meantime.
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if let (true, Some(pid)) = (
            String::from_utf8_lossy(&command).contains(folder),
            entry.file_name().to_str(),
        ) {
            found.extend(pid.parse::<u32>().ok());
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn processes_in(folder: &str) -> Result<usize> {
    Ok(pids_in(folder)?.len())
}

/// Returns the ID of the supervisor.
fn supervisor_of(folder: &str) -> Result<u32> {
    let pids = pids_in(folder)?;
    let ready: serde_json::Value =
        serde_json::from_slice(&std::fs::read(Path::new(folder).join("ready.json"))?)?;
    let pid = ready
        .get("pid")
        .and_then(serde_json::Value::as_u64)
        .context("no pid")?;
    pids.into_iter()
        .find(|one| u64::from(*one) == pid)
        .context("it does not run")
}
