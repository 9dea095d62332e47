//! The client of the benchmark's API server.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use skydock_bench::Process;
use skydock_bench_scale::{ORDERS, Order, STATS, Stats};
use skydock_support::metrics;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

/// How long it may take until the API server listens.
const LISTEN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
/// The number of nodes in one order, during which the cluster is locked.
const AT_ONCE: u32 = 1000;

pub(crate) struct Cluster {
    pub(crate) process: Process,
    pub(crate) kubeconfig: PathBuf,
    address: SocketAddr,
}

impl Cluster {
    /// Starts the API server, with its files in this folder.
    pub(crate) async fn start(program: &Path, folder: &Path) -> Result<Self> {
        let log = folder.join("api.log");
        let process = Process::start(Command::new(program), &log)?;
        let address = listening(&log)
            .await
            .with_context(|| process.last_words())?;
        let kubeconfig = folder.join("kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "scale",
            "clusters": [{"name": "scale", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "scale", "user": {}}],
            "contexts": [{"name": "scale", "context": {"cluster": "scale", "user": "scale"}}],
        });
        fs::write(&kubeconfig, config.to_string()).context("cannot write the kubeconfig")?;
        Ok(Self {
            process,
            kubeconfig,
            address,
        })
    }

    pub(crate) async fn stats(&self) -> Result<Stats> {
        serde_json::from_str(&metrics::get(self.address, STATS).await?.1)
            .context("cannot read the figures of the API server")
    }

    /// Sends an order.
    pub(crate) async fn order(&self, order: &Order) -> Result<()> {
        let (address, body) = (self.address, serde_json::to_string(order)?);
        let mut stream = TcpStream::connect(address).await?;
        let request = format!(
            "POST {ORDERS} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let code = answer.split_whitespace().nth(1).unwrap_or_default();
        ensure!(code == "204", "the API server rejects {body}: {answer}");
        Ok(())
    }

    /// Sends an order for many objects, in batches.
    pub(crate) async fn order_each(
        &self,
        numbers: std::ops::Range<u32>,
        order: impl Fn(std::ops::Range<u32>) -> Order,
    ) -> Result<()> {
        for part in parts(numbers, AT_ONCE) {
            self.order(&order(part)).await?;
        }
        Ok(())
    }
}

fn parts(numbers: std::ops::Range<u32>, size: u32) -> impl Iterator<Item = std::ops::Range<u32>> {
    let end = numbers.end;
    let step = usize::try_from(size.max(1)).unwrap_or(usize::MAX);
    numbers
        .step_by(step)
        .map(move |begin| begin..begin.saturating_add(size).min(end))
}

/// Returns the address that the server prints when it listens.
async fn listening(log: &Path) -> Result<SocketAddr> {
    let begun = Instant::now();
    loop {
        let text = fs::read_to_string(log).unwrap_or_default();
        if let Some((line, _)) = text.split_once('\n') {
            return line
                .trim()
                .parse()
                .context("the API server says no address");
        }
        ensure!(
            begun.elapsed() < LISTEN,
            "the API server does not listen after {} s",
            LISTEN.as_secs()
        );
        sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_range_without_overlap() {
        let all: Vec<_> = parts(5..32, 10).collect();
        assert_eq!(all, [5..15, 15..25, 25..32]);
        assert_eq!(parts(3..3, 10).count(), 0);
    }
}
