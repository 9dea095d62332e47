//! A plugin that is replaced again and again while Services change.

use std::{
    fmt::{self, Display},
    fs,
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use skydock_planes::Plane;
use skydock_story::{
    Paths,
    host::Host,
    observe::{Seen, until},
    rebuild::rebuilt,
};

use crate::{
    churn::{Churn, Load, Report, generation, told},
    hosts::Hosts,
    site::Site,
};

/// How long a swap may take.
const SWAP: Duration = Duration::from_secs(60);
/// Builds of the plugin that take turns: machine code is kept of each.
const BUILDS: usize = 3;
/// After so many swaps memory is not to grow any more.
const WARM: usize = 50;
/// The least of so many swaps counts: what calls need for a moment comes and goes.
const CALM: usize = 25;
/// How much it may be more than then, as a share and in bytes: what an allocator cannot give back.
const MORE: (f64, f64) = (0.1, 8.0 * 1024.0 * 1024.0);

/// What came of it.
#[derive(Clone, Debug)]
pub struct Swapped {
    /// What changed meanwhile.
    pub churn: Report,
    /// Resident memory in bytes after so many swaps.
    pub memory: Vec<(usize, u64)>,
}

impl Display for Swapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; resident", self.churn)?;
        for (swaps, bytes) in &self.memory {
            write!(f, " {:.1} MiB after {swaps},", *bytes as f64 / f64::from(1 << 20))?;
        }
        write!(f, " swaps")
    }
}

/// Replaces the plugin so often, while Services change.
///
/// # Errors
/// When somebody notices; the logs stay then.
pub async fn run(site: &mut dyn Site, plane: &dyn Plane, name: &str, swaps: usize, load: Load) -> Result<Swapped> {
    let mut hosts = Hosts::configure(site, name, plane.kubeconfig_path(), &["--leader-elect=false"])?;
    // As in the image: arenas of many threads keep what is freed, grow for minutes, and hide what the host keeps.
    hosts.set("MALLOC_ARENA_MAX=2");
    let plugin = Plugin::install(&hosts, site.provider())?;
    let host = hosts.start().await?;
    let machines = site.add(2).await?;
    let mut churn = Churn::new(site, plane, machines, load);
    let swapped = async {
        churn.begin(&host).await?;
        let (memory, churned) = churn.during(&host, plugin.replace(&host, swaps)).await?;
        churn.went_unnoticed(&host).await?;
        Ok(Swapped { churn: churned, memory })
    };
    let swapped = told(swapped.await, &mut hosts)?;
    Hosts::stop(host).await?;
    Ok(swapped)
}

/// Memory that grew after it had been warm.
///
/// # Errors
/// How much it grew.
pub fn is_bounded(memory: &[(usize, u64)]) -> Result<()> {
    let (_, warm) = memory.iter().find(|(swaps, _)| *swaps == WARM).context("memory of a warm host")?;
    let warm = *warm as f64;
    for (swaps, bytes) in memory {
        let more = *bytes as f64 - warm;
        ensure!(*swaps <= WARM || more <= warm * MORE.0 + MORE.1, "{more} bytes more after {swaps} swaps than {warm}");
    }
    Ok(())
}

/// The file that a host serves with, and what it is replaced by.
struct Plugin {
    file: PathBuf,
    builds: Vec<Vec<u8>>,
}

impl Plugin {
    fn install(hosts: &Hosts, provider: &str) -> Result<Self> {
        let built = fs::read(Paths::of_checkout()?.plugins.join(format!("{provider}.wasm")))?;
        let builds: Vec<_> = (0..BUILDS).map(|build| rebuilt(&built, &build.to_string())).collect();
        let plugin = Self { file: hosts.dir().join("plugin.wasm"), builds };
        plugin.put(0)?;
        hosts.edit(|document| {
            if let Some(file) = document.pointer_mut("/plugins/0/file") {
                *file = json!(plugin.file);
            }
        })?;
        Ok(plugin)
    }

    /// Puts the build in the file's place, as an operator's tools do.
    fn put(&self, number: usize) -> Result<()> {
        let new = self.file.with_extension("new");
        fs::write(&new, self.builds.get(number % self.builds.len()).context("a build")?)?;
        Ok(fs::rename(new, &self.file)?)
    }

    async fn replace(&self, host: &Host, swaps: usize) -> Result<Vec<(usize, u64)>> {
        let (mut memory, mut last) = (vec![(0, host.resident()?)], Vec::new());
        for swap in 1..=swaps {
            self.put(swap)?;
            let wanted = generation_after(swap)?;
            let served = until(SWAP, || async {
                let seen = generation(&host.scrape().await?);
                Ok(if seen >= wanted { Seen::Yes(seen) } else { Seen::NotYet(format!("generation {seen}")) })
            });
            let served = served.await.with_context(|| format!("swap {swap}"))?;
            ensure!(served == wanted, "generation {served} after {swap} swaps");
            last.push(host.resident()?);
            if [WARM, WARM * 2, WARM * 5, WARM * 10, swaps].contains(&swap)
                && memory.last().is_none_or(|it| it.0 < swap)
            {
                let least = last.iter().rev().take(CALM).min().context("a swap")?;
                memory.push((swap, *least));
            }
        }
        Ok(memory)
    }
}

/// The first one is there before any swap.
fn generation_after(swaps: usize) -> Result<f64> {
    Ok(f64::from(u32::try_from(swaps)?) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_may_be_a_little_more_and_not_grow() {
        let mib = 1 << 20;
        is_bounded(&[(0, 40 * mib), (50, 100 * mib), (100, 118 * mib)]).unwrap();
        is_bounded(&[(0, 40 * mib), (50, 100 * mib), (100, 119 * mib)]).unwrap_err();
        is_bounded(&[(0, 40 * mib), (20, 60 * mib)]).unwrap_err();
    }
}
