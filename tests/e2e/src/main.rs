//! Runs the requested number of seeds of [`faults`]. Seeds that have succeeded before are skipped.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use skydock_clouds::{Aws, OpenStack};
use skydock_clusters::RealPlane;
use skydock_e2e::{AwsSite, OpenStackSite, faults};

/// Clusters in bad clouds, served by a host that is killed: seed after seed, on one cloud without a reset.
#[derive(Parser)]
struct Args {
    /// The cloud.
    cloud: CloudKind,
    /// Seeds 0 to this, less one.
    #[arg(long, default_value_t = 10)]
    seeds: u64,
    /// Begin with this seed, while another run does those before it on a cloud of its own.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// This seed alone, though it went well before.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Steps of each.
    #[arg(long, default_value_t = 12)]
    steps: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum CloudKind {
    Openstack,
    Aws,
}

enum Cloud {
    OpenStack(Box<OpenStack>),
    Aws(Box<Aws>, skydock_clouds::Keys),
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let (cloud, name) = match args.cloud {
        CloudKind::Openstack => (Cloud::OpenStack(Box::new(OpenStack::start().await?)), "openstack"),
        CloudKind::Aws => {
            let aws = Aws::start().await?;
            let keys = aws.verify_signatures().await?;
            (Cloud::Aws(Box::new(aws), keys), "aws")
        }
    };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/e2e").join(format!("faults-{name}.txt"));
    let done = done(&file)?;
    let seeds: Vec<u64> = match args.seed {
        Some(seed) => vec![seed],
        None => (args.first..args.seeds).filter(|seed| !done.contains(seed)).collect(),
    };
    let mut log = OpenOptions::new().append(true).create(true).open(&file)?;
    let mut bad = 0;
    for &seed in &seeds {
        match run(&cloud, seed, args.steps).await {
            Ok(report) => say(&mut log, &format!("{seed} {report}"))?,
            Err(error) => {
                bad += 1;
                say(&mut std::io::sink(), &format!("{seed} FAILED {error:?}"))?;
            }
        }
    }
    anyhow::ensure!(bad == 0, "{bad} of {} seeds failed; the others are in {}", seeds.len(), file.display());
    Ok(())
}

async fn run(cloud: &Cloud, seed: u64, steps: usize) -> Result<faults::Report> {
    let plane = RealPlane::start_without_controllers().await?;
    let name = format!("seed-{seed}");
    match cloud {
        Cloud::OpenStack(cloud) => {
            let mut site = OpenStackSite::new(cloud, &name, seed).await?;
            faults::run(&mut site, &plane, &name, seed, steps).await
        }
        Cloud::Aws(cloud, keys) => {
            let mut site = AwsSite::new(cloud, keys.clone(), &name, seed).await?;
            faults::run(&mut site, &plane, &name, seed, steps).await
        }
    }
}

/// Returns the seeds that have succeeded before.
fn done(file: &Path) -> Result<BTreeSet<u64>> {
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent)?;
    }
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => File::create(file).map(|_| String::new())?,
        Err(error) => return Err(error).with_context(|| PathBuf::from(file).display().to_string()),
    };
    Ok(text.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect())
}

fn say(log: &mut dyn std::io::Write, line: &str) -> Result<()> {
    writeln!(log, "{line}")?;
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}
