//! What Skydock counts.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// What a server answers to a GET.
///
/// # Errors
/// If it does not.
pub async fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let (_, body) = text.split_once("\r\n\r\n").context("not an answer of HTTP")?;
    Ok(body.to_owned())
}

/// Calls to the cloud out of Skydock's metrics: those of the capabilities, not those to the plugin about itself.
#[must_use]
pub fn calls(metrics: &str) -> BTreeMap<String, u64> {
    let mut calls = BTreeMap::new();
    for line in metrics.lines() {
        let Some((labels, count)) =
            line.strip_prefix("skydock_plugin_calls_total{").and_then(|rest| rest.split_once("} "))
        else {
            continue;
        };
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\""))?;
            Some(rest.split_once('"')?.0)
        };
        let (Some(interface), Some(function)) = (label("interface"), label("function")) else { continue };
        if interface != "plugin" {
            *calls.entry(format!("{interface}.{function}")).or_default() += count.parse::<u64>().unwrap_or_default();
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_summed_over_their_outcomes_and_those_about_the_plugin_left_out() {
        let metrics = "# TYPE skydock_plugin_calls counter
skydock_plugin_calls_total{plugin=\"bench\",interface=\"instances\",function=\"describe\",outcome=\"ok\"} 10
skydock_plugin_calls_total{plugin=\"bench\",interface=\"instances\",function=\"describe\",outcome=\"denied\"} 2
skydock_plugin_calls_total{plugin=\"bench\",interface=\"plugin\",function=\"info\",outcome=\"ok\"} 5
skydock_plugin_instances{plugin=\"bench\",state=\"idle\"} 1
";
        assert_eq!(calls(metrics), BTreeMap::from([("instances.describe".to_owned(), 12)]));
    }
}
