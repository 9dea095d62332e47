//! A real Prometheus, which reads the metrics of a manifest as that says.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use skydock_clusters::prometheus_program;
use skydock_support::{Process, Seen, eventually, free_address, metrics::get};

use crate::cluster::PATIENCE;

/// The query for a metric that Skydock always has.
const QUERY: &str = "/api/v1/query?query=skydock_build_info";
/// What Prometheus says about its scrapes.
const TARGETS: &str = "/api/v1/targets?state=active";

/// Waits until Prometheus has metrics from this entry of its `scrape_configs`. Its files are in this
/// folder.
pub(crate) async fn reads(folder: &Path, job: &Value) -> Result<()> {
    fs::create_dir_all(folder)?;
    let config = json!({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]});
    let file = folder.join("prometheus.yaml");
    // JSON is valid YAML.
    fs::write(&file, config.to_string())?;

    let address = free_address()?;
    let mut command = Command::new(prometheus_program("prometheus")?);
    command
        .arg(format!("--config.file={}", file.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            folder.join("data").display()
        ))
        .arg(format!("--web.listen-address={address}"));
    let process = Process::start("prometheus", command, &folder.join("prometheus.log"))?;

    let reads = eventually(PATIENCE, async || {
        let (found, targets) = match (get(address, QUERY).await, get(address, TARGETS).await) {
            (Ok((_, found)), Ok((_, targets))) => (found, targets),
            // It takes a moment to start.
            (Err(error), _) | (_, Err(error)) => return Ok(Seen::NotYet(error.to_string())),
        };
        let found: Value = serde_json::from_str(&found).unwrap_or_default();
        let series = found["data"]["result"].as_array();
        let is_read = series.is_some_and(|series| !series.is_empty());
        Ok(Seen::when(is_read, targets))
    });
    reads.await.with_context(|| process.last_words())
}
