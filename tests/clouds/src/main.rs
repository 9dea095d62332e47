//! `skydock-clouds`: clouds on loopback for manual use. See `README.md` for details.

#![forbid(unsafe_code)]

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use skydock_clouds::{Cloud, Standing};

/// Clouds on loopback that stay until they are taken down.
#[derive(Debug, Parser)]
#[command(name = "skydock-clouds")]
struct Args {
    /// Which cloud.
    cloud: Kind,
    /// What to do with it.
    chore: Chore,
    /// One of several clouds of a kind.
    #[arg(long, default_value = "default", value_parser = name)]
    name: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// Keystone, Nova, Neutron, Octavia, Cinder, Glance, Placement.
    #[value(name = "openstack")]
    OpenStack,
    /// EC2, Elastic Load Balancing, IAM, STS and the metadata service, by moto.
    Aws,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Chore {
    /// Start it, unless it stands, and print its environment; the first time it is installed.
    Up,
    /// End it, and remove all that was in it.
    Down,
    /// Where it is, and what it takes.
    Status,
    /// Print its environment: `eval "$(skydock-clouds openstack env)"`.
    Env,
    /// Start again, empty, with the same addresses.
    Reset,
}

fn name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !text.is_empty() && text.len() <= 20 && text.chars().all(plain) {
        return Ok(text.to_owned());
    }
    Err("1 to 20 letters, digits and dashes".to_owned())
}

#[tokio::main]
async fn main() -> ExitCode {
    let info = tracing::Level::INFO;
    tracing_subscriber::fmt()
        .with_max_level(info)
        .with_writer(std::io::stderr)
        .with_target(false)
        .init();
    match run(&Args::parse()).await {
        Ok(text) => {
            let _ = std::io::stdout().write_all(text.as_bytes()); // a closed pipe is not an error
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<String> {
    let kind = match args.cloud {
        Kind::OpenStack => Cloud::OpenStack,
        Kind::Aws => Cloud::Aws,
    };
    let cloud = Standing::new(kind, &args.name)?;
    Ok(match args.chore {
        Chore::Up => cloud.up().await?,
        Chore::Reset => cloud.reset().await?,
        Chore::Env => cloud.environment()?,
        Chore::Down if cloud.down()? => "it is gone\n".to_owned(),
        Chore::Down => "it did not stand\n".to_owned(),
        Chore::Status => match cloud.status()? {
            lines if lines.is_empty() => "it does not stand\n".to_owned(),
            lines => lines.join("\n") + "\n",
        },
    })
}
