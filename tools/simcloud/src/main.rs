//! `skydock-simcloud`: serves a cloud until it is interrupted.
use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use jiff::SignedDuration;
use skydock_simcloud::{Options, RateLimit, Settings, Simcloud};

/// A small cloud in one process, for the examples and tests of providers.
#[derive(Debug, Parser)]
#[command(name = "skydock-simcloud", version)]
struct Args {
    /// Address to listen on. Anyone who can reach it can use the hooks for tests, without a token.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "IP:PORT")]
    listen: SocketAddr,
    /// File with the token of clients; the default token is `simcloud`.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Number of servers.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=10_000))]
    servers: u32,
    /// Beginning of the names of these servers; the end is a number.
    #[arg(long, default_value = "node-", value_name = "TEXT")]
    name_prefix: String,
    /// Zones, separated by commas.
    #[arg(long, default_value = "zone-a,zone-b,zone-c", value_delimiter = ',')]
    zones: Vec<String>,
    /// The only region.
    #[arg(long, default_value = "sim")]
    region: String,
    /// How long each answer takes, for example 20ms.
    #[arg(long, default_value = "0s", value_parser = duration, value_name = "DURATION")]
    latency: Duration,
    /// How long lists lag behind writes.
    #[arg(long, default_value = "0s", value_parser = duration, value_name = "DURATION")]
    lag: Duration,
    /// How long a new load balancer is pending.
    #[arg(long, default_value = "0s", value_parser = duration, value_name = "DURATION")]
    lb_delay: Duration,
    /// How long a volume is being created, attached or detached.
    #[arg(long, default_value = "0s", value_parser = duration, value_name = "DURATION")]
    volume_delay: Duration,
    /// Requests per second; unlimited by default.
    #[arg(long, value_name = "NUMBER")]
    rate_limit: Option<NonZeroU32>,
    /// Requests at once after a pause; by default those of a second.
    #[arg(long, value_name = "NUMBER", requires = "rate_limit")]
    burst: Option<NonZeroU32>,
}

fn main() -> Result<()> {
    let cloud = start(Args::parse())?;
    writeln!(io::stdout(), "{}", cloud.url())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(interrupted())
}

fn start(args: Args) -> Result<Simcloud> {
    let mut options = Options {
        listen: args.listen,
        servers: args.servers,
        name_prefix: args.name_prefix,
        zones: args.zones,
        region: args.region,
        ..Options::default()
    };

    if let Some(path) = args.token_file {
        let token =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        token.trim().clone_into(&mut options.token);
        ensure!(!options.token.is_empty(), "{} is empty", path.display());
    }

    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    options.settings = Settings {
        latency_ms: millis(args.latency),
        lag_ms: millis(args.lag),
        lb_delay_ms: millis(args.lb_delay),
        volume_delay_ms: millis(args.volume_delay),
        rate_limit: args.rate_limit.map(|per_second| RateLimit {
            per_second,
            burst: args.burst.unwrap_or(per_second),
        }),
    };

    Simcloud::start(options).with_context(|| format!("cannot listen on {}", args.listen))
}

/// Reads a duration of at most a minute, the longest that the cloud takes.
fn duration(text: &str) -> Result<Duration, String> {
    let time = text
        .parse::<SignedDuration>()
        .ok()
        .and_then(|time| Duration::try_from(time).ok());
    time.filter(|time| *time <= Duration::from_secs(60))
        .ok_or_else(|| "expected 0s to 1m, for example 500ms or 2s".to_owned())
}

/// Waits for Ctrl-C, or on Unix for the signal to terminate.
async fn interrupted() -> Result<()> {
    #[cfg(unix)]
    {
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            _ = terminate.recv() => Ok(()),
            result = tokio::signal::ctrl_c() => Ok(result?),
        }
    }
    #[cfg(not(unix))]
    Ok(tokio::signal::ctrl_c().await?)
}
