//! Runs what takes too long for a test: any number of seeds of [`faults`], and everything with the
//! official providers in Go.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, Parser, ValueEnum};
use skydock_clouds::{Aws, OpenStack};
use skydock_clusters::RealPlane;
use skydock_e2e::{
    AwsSite, AzureSite, OpenStackSite, Plugin, Site, VsphereSite,
    faults::{self, Course},
    fleet, nodes, soak,
    story::Story,
    tapes::{Tapes, edited},
};
use skydock_story::narrator::{Audience, Narrator};

/// Clusters in clouds, from beginning to end.
#[derive(Parser)]
enum Run {
    /// The life of a cluster, from its first node until everything is deleted.
    Story(On),
    /// Clusters in bad clouds, served by a host that is killed: seed after seed, on one cloud
    /// without a reset. Seeds that have succeeded before are skipped.
    Faults(Faults),
    /// A cluster that changes all the time in a bad cloud, served by one host, which must not grow.
    Soak(Soak),
    /// How many requests describe the nodes of a cluster.
    Fleet(Fleet),
}

/// A cloud, and the plugin for it.
#[derive(Args, Clone, Copy)]
struct On {
    /// The cloud.
    cloud: CloudKind,
    /// The plugin: the native one in Rust, which is the default in OpenStack and AWS, or the
    /// official provider in Go.
    #[arg(long)]
    plugin: Option<Plugin>,
    /// In AWS: classic load balancers instead of network load balancers.
    #[arg(long)]
    classic: bool,
}

#[derive(Args)]
struct Faults {
    #[command(flatten)]
    on: On,
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
    /// Record the calls of the plugin in a folder `seed-N` of this directory, and verify that they
    /// replay exactly and have no secrets. Build Skydock and its plugins before, and do not change
    /// them meanwhile.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Also replay the recordings with a provider of which one line was changed, and show where it
    /// first differs.
    #[arg(long, requires = "record")]
    edit: bool,
}

#[derive(Args)]
struct Soak {
    #[command(flatten)]
    on: On,
    /// How long the cluster changes.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
}

#[derive(Args)]
struct Fleet {
    #[command(flatten)]
    on: On,
    /// Numbers of nodes, in ascending order.
    #[arg(long, value_delimiter = ',', default_value = "20,100")]
    nodes: Vec<usize>,
}

#[derive(Clone, Copy, ValueEnum)]
enum CloudKind {
    Openstack,
    Aws,
    /// A simulated vCenter. It has nodes only.
    Vsphere,
    /// A stub of Azure. It has nodes only.
    Azure,
}

enum Cloud {
    OpenStack(Box<OpenStack>),
    Aws(Box<Aws>, skydock_clouds::Keys),
    /// Each site has a cloud of its own.
    Vsphere,
    Azure,
}

#[tokio::main]
async fn main() -> Result<()> {
    match Run::parse() {
        Run::Story(on) => {
            let cloud = on.prepare().await?;
            let mut site = cloud.site("story", 1, on).await?;
            let mut narrator = Narrator::new(Audience::Person);
            if site.has_only_nodes() {
                let plane = RealPlane::start_without_controllers().await?;
                return nodes::tell(&mut *site, &plane, &mut narrator).await;
            }
            let plane = RealPlane::start().await?;
            let mut story = Story::new(&mut *site, &plane, "story")?;
            story.tell(&mut narrator).await
        }
        Run::Faults(run) => seeds(&run).await,
        Run::Soak(Soak { on, minutes }) => {
            let cloud = on.prepare().await?;
            let plane = RealPlane::start_without_controllers().await?;
            let mut site = cloud.site("soak", 1, on).await?;
            let lasting = Duration::from_secs(minutes * 60);
            let soaked =
                soak::run(&mut *site, &plane, "soak", lasting, &mut std::io::stdout()).await?;
            Ok(writeln!(std::io::stdout(), "{soaked}")?)
        }
        Run::Fleet(Fleet { on, nodes }) => {
            let cloud = on.prepare().await?;
            let plane = RealPlane::start_without_controllers().await?;
            let mut site = cloud.site("fleet", 1, on).await?;
            for described in fleet::run(&mut *site, &plane, "fleet", &nodes).await? {
                writeln!(std::io::stdout(), "{described}")?;
            }
            Ok(())
        }
    }
}

impl On {
    fn provider(self) -> &'static str {
        match self.cloud {
            CloudKind::Openstack => "openstack",
            CloudKind::Aws => "aws",
            CloudKind::Vsphere => "vsphere",
            CloudKind::Azure => "azure",
        }
    }

    fn plugin(self) -> Plugin {
        let default = match self.cloud {
            CloudKind::Openstack | CloudKind::Aws => Plugin::Native,
            CloudKind::Vsphere | CloudKind::Azure => Plugin::Go,
        };
        self.plugin.unwrap_or(default)
    }

    /// Builds the plugin and starts the cloud.
    async fn prepare(self) -> Result<Cloud> {
        let has_native = matches!(self.cloud, CloudKind::Openstack | CloudKind::Aws);
        ensure!(
            has_native || self.plugin() == Plugin::Go,
            "{} has no native plugin",
            self.provider()
        );
        self.plugin().prepare(self.provider()).await?;
        Ok(match self.cloud {
            CloudKind::Openstack => Cloud::OpenStack(Box::new(OpenStack::start().await?)),
            CloudKind::Aws => {
                let aws = Aws::start().await?;
                let keys = aws.verify_signatures().await?;
                Cloud::Aws(Box::new(aws), keys)
            }
            CloudKind::Vsphere => Cloud::Vsphere,
            CloudKind::Azure => Cloud::Azure,
        })
    }
}

impl Cloud {
    async fn site(&self, name: &str, seed: u64, on: On) -> Result<Box<dyn Site + '_>> {
        Ok(match self {
            Self::OpenStack(cloud) => Box::new(
                OpenStackSite::new(cloud, name, seed)
                    .await?
                    .served_by(on.plugin()),
            ),
            Self::Aws(cloud, keys) => {
                let site = AwsSite::new(cloud, keys.clone(), name, seed).await?;
                Box::new(
                    site.served_by(on.plugin())
                        .with_classic_balancers(on.classic),
                )
            }
            Self::Vsphere => Box::new(VsphereSite::new(seed).await?),
            Self::Azure => Box::new(AzureSite::new(seed).await?),
        })
    }
}

async fn seeds(run: &Faults) -> Result<()> {
    let plugin = if run.on.plugin() == Plugin::Go {
        "-go"
    } else {
        ""
    };
    let name = format!(
        "{}{}{plugin}",
        run.on.provider(),
        if run.on.classic { "-classic" } else { "" }
    );
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/e2e")
        .join(format!("faults-{name}.txt"));
    let done = done(&file)?;
    let seeds: Vec<u64> = match run.seed {
        Some(seed) => vec![seed],
        None => (run.first..run.seeds)
            .filter(|seed| !done.contains(seed))
            .collect(),
    };
    ensure!(
        !run.edit || run.on.plugin() == Plugin::Native,
        "--edit changes a line of the native plugin: omit --plugin"
    );
    let changed = if run.edit {
        Some(edited(run.on.provider()).await?)
    } else {
        None
    };
    let cloud = run.on.prepare().await?;
    let mut log = OpenOptions::new().append(true).create(true).open(&file)?;
    let mut bad = 0;
    for &seed in &seeds {
        match one(&cloud, run, seed, changed.as_deref()).await {
            Ok(told) => say(&mut log, &format!("{seed} {told}"))?,
            Err(error) => {
                bad += 1;
                say(&mut std::io::sink(), &format!("{seed} FAILED {error:?}"))?;
            }
        }
    }
    anyhow::ensure!(
        bad == 0,
        "{bad} of {} seeds failed; the others are in {}",
        seeds.len(),
        file.display()
    );
    Ok(())
}

async fn one(cloud: &Cloud, run: &Faults, seed: u64, changed: Option<&Path>) -> Result<String> {
    let plane = RealPlane::start_without_controllers().await?;
    let name = format!("seed-{seed}");
    let mut site = cloud.site(&name, seed, run.on).await?;
    let tapes = run
        .record
        .as_ref()
        .map(|dir| Tapes::new(&dir.join(&name)))
        .transpose()?;
    let course = Course {
        seed,
        steps: run.steps,
        tapes: tapes.as_ref(),
    };
    let report = faults::run(&mut *site, &plane, &name, course).await?;
    let (Some(tapes), Some(changed)) = (&tapes, changed) else {
        return Ok(report.to_string());
    };
    let difference = tapes.differ(changed).await?;
    Ok(format!("{report}; with one line changed: {difference}"))
}

/// Returns the seeds that have succeeded before.
fn done(file: &Path) -> Result<BTreeSet<u64>> {
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent)?;
    }
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            File::create(file).map(|_| String::new())?
        }
        Err(error) => return Err(error).with_context(|| PathBuf::from(file).display().to_string()),
    };
    Ok(text
        .lines()
        .filter_map(|line| line.split(' ').next()?.parse().ok())
        .collect())
}

fn say(log: &mut dyn std::io::Write, line: &str) -> Result<()> {
    writeln!(log, "{line}")?;
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}
