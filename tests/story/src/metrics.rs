//! Reads the metrics of a host.

use std::net::SocketAddr;

use anyhow::Context;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The metrics at one moment.
pub struct Scrape(String);

/// Requests `/metrics`.
pub(crate) async fn scrape(address: SocketAddr) -> anyhow::Result<Scrape> {
    get(address, "/metrics").await.map(Scrape)
}

/// Returns whether the host has started: its plugin is loaded, and the API server is reachable.
pub(crate) async fn is_ready(address: SocketAddr) -> anyhow::Result<bool> {
    let answer = get(address, "/readyz").await?;
    Ok(answer.split_whitespace().nth(1) == Some("200"))
}

async fn get(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await.context("connect to the metrics")?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

impl Scrape {
    /// Returns the complete text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns the sum of all series with this name and these labels.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.0
            .lines()
            .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])))
            .filter(|line| labels.iter().all(|(key, value)| line.contains(&format!("{key}=\"{value}\""))))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_summed_by_name_and_labels() {
        let text =
            "# TYPE calls counter\ncalls_total{f=\"a\",o=\"ok\"} 3\ncalls_total{f=\"b\",o=\"ok\"} 4\ncalls_total_x 9\n";
        let scrape = Scrape(text.to_owned());
        assert_eq!(scrape.sum("calls_total", &[]), 7.0);
        assert_eq!(scrape.sum("calls_total", &[("f", "b")]), 4.0);
        assert_eq!(scrape.sum("calls_total", &[("o", "failed")]), 0.0);
    }
}
