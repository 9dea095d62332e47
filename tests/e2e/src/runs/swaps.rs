//! Replaces the plugin repeatedly while Services change.

use std::{
    fmt::{self, Display},
    fs,
    path::PathBuf,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use skydock_clusters::Plane;
use skydock_support::{Host, Seen, TAKEN, eventually, rebuilt};

use crate::{
    hosts::Hosts,
    site::Site,
    steps::churn::{Churn, Load, Report, generation, told},
};

/// The number of alternating builds of the plugin. The compiled code of each is kept.
const BUILDS: usize = 3;
/// The number of swaps after which memory must not grow.
const WARM: usize = 50;
/// Memory is the minimum of this number of swaps, because calls need additional memory temporarily.
const CALM: usize = 25;
/// The allowed growth since then, as a fraction and in bytes, for memory that the allocator cannot
/// release.
const MORE: (f64, f64) = (0.1, 8.0 * 1024.0 * 1024.0);

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Swapped {
    /// The changes of Services during the swaps.
    pub churn: Report,
    /// The resident memory in bytes after numbers of swaps.
    pub memory: Vec<(usize, u64)>,
}

impl Display for Swapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; resident", self.churn)?;
        for (swaps, bytes) in &self.memory {
            write!(
                f,
                " {:.1} MiB after {swaps},",
                *bytes as f64 / f64::from(1 << 20)
            )?;
        }
        write!(f, " swaps")
    }
}

/// Replaces the plugin this number of times while Services change.
///
/// # Errors
/// Fails if a swap is noticed. The logs are kept in this case.
pub async fn run(
    site: &mut dyn Site,
    plane: &dyn Plane,
    name: &str,
    swaps: usize,
    load: Load,
) -> Result<Swapped> {
    let mut hosts = Hosts::configure(
        site,
        name,
        plane.kubeconfig_path(),
        &["--leader-elect=false"],
    )?;
    // As in the container image: with many arenas the allocator keeps freed memory and grows for
    // minutes, which would hide leaks of the host.
    hosts.set("MALLOC_ARENA_MAX=1");
    let plugin = Plugin::install(&hosts, site)?;
    let host = hosts.start().await?;
    let machines = site.add(2).await?;
    let mut churn = Churn::new(site, plane, machines, load);
    let swapped = async {
        churn.begin(&host).await?;
        let (memory, churned) = churn.during(&host, plugin.replace(&host, swaps)).await?;
        churn.went_unnoticed(&host).await?;
        Ok(Swapped {
            churn: churned,
            memory,
        })
    };
    let swapped = told(swapped.await, &mut hosts)?;
    Hosts::stop(host).await?;
    Ok(swapped)
}

/// Checks that memory has not grown after `WARM` swaps.
///
/// # Errors
/// Returns how much it has grown.
pub fn is_bounded(memory: &[(usize, u64)]) -> Result<()> {
    let (_, warm) = memory
        .iter()
        .find(|(swaps, _)| *swaps == WARM)
        .context("memory of a warm host")?;
    let warm = *warm as f64;
    for (swaps, bytes) in memory {
        let more = *bytes as f64 - warm;
        ensure!(
            *swaps <= WARM || more <= warm * MORE.0 + MORE.1,
            "{more} bytes more after {swaps} swaps than {warm}"
        );
    }
    Ok(())
}

/// The plugin file of a host, and the builds that replace it.
struct Plugin {
    file: PathBuf,
    builds: Vec<Vec<u8>>,
}

impl Plugin {
    fn install(hosts: &Hosts, site: &dyn Site) -> Result<Self> {
        let built = fs::read(site.plugin().file(site.provider())?)?;
        let builds: Vec<_> = (0..BUILDS)
            .map(|build| rebuilt(&built, &build.to_string()))
            .collect();
        let plugin = Self {
            file: hosts.dir().join("plugin.wasm"),
            builds,
        };
        plugin.put(0)?;
        hosts.edit(|document| {
            if let Some(file) = document.pointer_mut("/plugins/0/file") {
                *file = json!(plugin.file);
            }
        })?;
        Ok(plugin)
    }

    /// Replaces the file with a build, like the tools of an operator.
    fn put(&self, number: usize) -> Result<()> {
        let new = self.file.with_extension("new");
        fs::write(
            &new,
            self.builds
                .get(number % self.builds.len())
                .context("a build")?,
        )?;
        Ok(fs::rename(new, &self.file)?)
    }

    async fn replace(&self, host: &Host, swaps: usize) -> Result<Vec<(usize, u64)>> {
        let (mut memory, mut last) = (vec![(0, host.resident()?)], Vec::new());
        for swap in 1..=swaps {
            self.put(swap)?;
            let wanted = generation_after(swap)?;
            let served = eventually(TAKEN, || async {
                let seen = generation(&host.scrape().await?);
                Ok(if seen >= wanted {
                    Seen::Yes(seen)
                } else {
                    Seen::NotYet(format!("generation {seen}"))
                })
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

/// Returns the generation after this number of swaps. It is 1 before the first swap.
fn generation_after(swaps: usize) -> Result<f64> {
    Ok(f64::from(u32::try_from(swaps)?) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_may_grow_only_slightly() {
        let mib = 1 << 20;
        is_bounded(&[(0, 40 * mib), (50, 100 * mib), (100, 118 * mib)]).unwrap();
        is_bounded(&[(0, 40 * mib), (50, 100 * mib), (100, 119 * mib)]).unwrap_err();
        is_bounded(&[(0, 40 * mib), (20, 60 * mib)]).unwrap_err();
    }
}
