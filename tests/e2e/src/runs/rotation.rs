//! Replaces credentials while Services change.

mod aws;
mod files;
mod openstack;
mod tls;

use std::{fmt, time::Duration};

use anyhow::{Context as _, Result, ensure};
use skydock_support::{Host, Seen, eventually};

pub use self::{
    aws::access_keys,
    openstack::{passwords, tokens},
    tls::certificates,
};
use crate::{
    hosts::Hosts,
    secrets::{self, Secrets},
    steps::churn::{Churn, Load, Report, generation},
};

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The changes of Services.
    pub load: Load,
    /// How often the credentials are replaced.
    pub rotations: usize,
    /// How long each credential is used at least.
    pub every: Duration,
}

/// The results of a run.
#[derive(Clone, Copy, Debug)]
pub struct Rotated {
    /// The changes of Services during the rotations.
    pub churn: Report,
    /// How often the credentials were replaced.
    pub rotations: usize,
    /// How often the host renewed its credential.
    pub renewals: f64,
    /// The number of encoded secrets that were searched for.
    pub forms: usize,
    /// The number of bytes that were searched.
    pub searched: usize,
}

impl fmt::Display for Rotated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            churn,
            rotations,
            renewals,
            forms,
            searched,
        } = self;
        let mib = searched >> 20;
        write!(
            f,
            "{rotations} rotations, {renewals} renewals, {churn}; no secret of {forms} forms in {mib} MiB"
        )
    }
}

/// Flags of all hosts: maximum log level, and no leader election.
const FLAGS: [&str; 2] = ["--leader-elect=false", "--v=5"];

/// Finishes a run: checks that the rotations were not noticed, that the plugin was not replaced,
/// and that no secret has leaked.
async fn end(
    churn: &Churn<'_>,
    report: Report,
    rotations: usize,
    ended: Ended<'_>,
) -> Result<Rotated> {
    let Ended {
        host,
        hosts,
        secrets,
    } = ended;
    churn.went_unnoticed(&host).await?;
    let renewals = renewals(&host).await?;
    let seen = generation(&host.scrape().await?);
    ensure!(seen == 1.0, "the plugin is its generation {seen}");
    let places = secrets::places(
        host,
        hosts,
        &churn.cluster,
        &secrets,
        &churn.known_to_the_guest()?,
    )
    .await?;
    secrets.are_not_in(&places)?;
    let searched = places.iter().map(|place| place.bytes.len()).sum();
    Ok(Rotated {
        churn: report,
        rotations,
        renewals,
        forms: secrets.len(),
        searched,
    })
}

/// The state at the end of all rotations.
struct Ended<'a> {
    host: Host,
    hosts: &'a Hosts,
    secrets: Secrets,
}

/// Returns how often credentials were renewed.
async fn renewals(host: &Host) -> Result<f64> {
    Ok(host.scrape().await?.sum(
        "skydock_credential_renewals_total",
        &[("outcome", "renewed")],
    ))
}

/// Waits until a credential has been renewed again.
async fn renewed(host: &Host, before: f64) -> Result<()> {
    let seen = eventually(Duration::from_secs(30), || async {
        let now = renewals(host).await?;
        Ok(Seen::when(now > before, format!("{now} renewals")))
    });
    seen.await.context("the credential to be fetched again")
}
