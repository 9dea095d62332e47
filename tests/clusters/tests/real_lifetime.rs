//! Checks that nothing is left of a control plane after it is dropped, and after the process that
//! held it is killed without any cleanup.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use skydock_clusters::{Plane, RealPlane};

/// Set in the process that holds the plane, which runs this test again.
const HOLDER: &str = "SKYDOCK_TEST_HOLDS_A_PLANE";
const NAME: &str = "a_control_plane_ends_with_the_process_that_holds_it";

#[tokio::test]
async fn a_control_plane_ends_with_the_process_that_holds_it() -> Result<()> {
    if std::env::var_os(HOLDER).is_some() {
        return hold().await;
    }
    let mut holder = Command::new(std::env::current_exe()?)
        .args(["--exact", NAME, "--nocapture"])
        .env(HOLDER, "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(holder.stdout.take().context("no output")?).lines();
    let folder = lines
        .map_while(Result::ok)
        .find_map(|line| {
            line.split_once("FOLDER=")
                .map(|(_, folder)| folder.to_owned())
        })
        .context("the holder started no plane")?;
    let running = processes_in(&folder)?;
    holder.kill()?;
    holder.wait()?;
    ensure!(
        running == 5,
        "expected four programs and a kubelet, found {running}"
    );

    let began = Instant::now();
    while processes_in(&folder)? > 0 {
        ensure!(
            began.elapsed() < Duration::from_secs(5),
            "{} processes outlived the holder",
            processes_in(&folder)?
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    std::fs::remove_dir_all(&folder)?; // everything that could delete it was killed
    Ok(())
}

#[tokio::test]
async fn a_dropped_control_plane_leaves_nothing_behind() -> Result<()> {
    let plane = RealPlane::start().await?;
    plane.start_node(&"node-1".into()).await?;
    let folder = plane.folder().to_owned();
    let name = folder.to_str().context("an odd path")?;
    ensure!(
        processes_in(name)? == 5,
        "expected four programs and a kubelet"
    );
    drop(plane);
    ensure!(processes_in(name)? == 0, "a process is still running");
    ensure!(!folder.exists(), "{} is still there", folder.display());
    Ok(())
}

/// Starts a plane and waits until it is killed.
async fn hold() -> Result<()> {
    use std::io::Write;

    let plane = RealPlane::start().await?;
    plane.start_node(&"node-1".into()).await?;
    writeln!(std::io::stdout(), "FOLDER={}", plane.folder().display())?;
    std::future::pending().await
}

/// Returns the number of processes with the folder in their command line.
fn processes_in(folder: &str) -> Result<usize> {
    let mut found = 0;
    for entry in std::fs::read_dir("/proc")? {
        // The process may have ended in the meantime.
        let command = std::fs::read(entry?.path().join("cmdline")).unwrap_or_default();
        found += usize::from(String::from_utf8_lossy(&command).contains(folder));
    }
    Ok(found)
}
