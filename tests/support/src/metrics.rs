//! Reads what a manager serves at its metrics address.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The metrics at one moment.
pub struct Scrape(String);

/// Sends a GET request and returns the status and the body of the answer.
///
/// # Errors
/// Fails if there is no answer.
pub async fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)
        .await
        .with_context(|| format!("cannot connect to {address}"))?;
    stream
        .write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())
        .await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let (head, body) = text
        .split_once("\r\n\r\n")
        .context("not an answer of HTTP")?;
    let status = head
        .split_whitespace()
        .nth(1)
        .and_then(|status| status.parse().ok());
    Ok((
        status.context("an answer of HTTP without a status")?,
        body.to_owned(),
    ))
}

/// Returns whether a manager could lead: its plugin is loaded, the API server is reachable, and it
/// may use the Lease.
///
/// # Errors
/// Fails if there is no answer.
pub async fn is_ready(address: SocketAddr) -> Result<bool> {
    Ok(get(address, "/readyz").await?.0 == 200)
}

impl Scrape {
    /// Requests `/metrics`.
    ///
    /// # Errors
    /// Fails if there is no answer.
    pub async fn of(address: SocketAddr) -> Result<Self> {
        Ok(Self(get(address, "/metrics").await?.1))
    }

    /// Returns the complete text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns the sum of all series with this name.
    ///
    /// # Errors
    /// Fails if there is none: after a change of the name, its sum would be 0 forever.
    pub fn measured(&self, name: &str) -> Result<f64> {
        let has = |line: &str| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        };
        ensure!(self.0.lines().any(has), "there is no metric {name}");
        Ok(self.sum(name, &[]))
    }

    /// Returns the sum of all series with this name and these labels.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let values = self
            .0
            .lines()
            .filter(|line| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with(['{', ' ']))
            })
            .filter(|line| {
                labels
                    .iter()
                    .all(|(key, value)| line.contains(&format!("{key}=\"{value}\"")))
            })
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        // The sum of nothing is -0.
        values.sum::<f64>() + 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_summed_by_name_and_labels() {
        let text = "# TYPE calls counter\ncalls_total{f=\"a\",o=\"ok\"} 3\ncalls_total{f=\"b\",o=\"ok\"} 4\ncalls_total_x 9\n";
        let scrape = Scrape(text.to_owned());
        assert_eq!(scrape.sum("calls_total", &[]), 7.0);
        assert_eq!(scrape.sum("calls_total", &[("f", "b")]), 4.0);
        assert_eq!(
            scrape.sum("calls_total", &[("o", "failed")]).to_string(),
            "0"
        );
        assert_eq!(scrape.measured("calls_total").unwrap(), 7.0);
        assert_eq!(
            scrape.measured("calls").unwrap_err().to_string(),
            "there is no metric calls"
        );
    }
}
