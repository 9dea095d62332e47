//! Credentials that are replaced while Services change.

mod aws;
mod files;
mod front;
mod openstack;
mod tls;

use std::{fmt, time::Duration};

use anyhow::{Context as _, Result, ensure};
use skydock_story::{
    host::Host,
    observe::{Seen, until},
};

pub use self::{
    aws::access_keys,
    openstack::{passwords, tokens},
    tls::certificates,
};
use crate::{
    churn::{Churn, Load, Report, generation},
    hosts::Hosts,
    secrets::{self, Secrets},
};

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What changes.
    pub load: Load,
    /// How often the credential is replaced.
    pub rotations: usize,
    /// How long each is used at least.
    pub every: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Rotated {
    /// What changed meanwhile.
    pub churn: Report,
    /// How often the credential was replaced.
    pub rotations: usize,
    /// How often it was got anew.
    pub renewals: f64,
    /// Forms of secrets that were looked for everywhere.
    pub forms: usize,
    /// Bytes that they were looked for in.
    pub searched: usize,
}

impl fmt::Display for Rotated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { churn, rotations, renewals, forms, searched } = self;
        let mib = searched >> 20;
        write!(f, "{rotations} rotations, {renewals} renewals, {churn}; no secret of {forms} forms in {mib} MiB")
    }
}

/// Flags of all hosts here: all that they could log, and no lease to wait for.
const FLAGS: [&str; 2] = ["--leader-elect=false", "--v=5"];

/// The end of each rotation: nobody has noticed it, and nobody has seen a secret.
async fn end(churn: &Churn<'_>, report: Report, rotations: usize, ended: Ended<'_>) -> Result<Rotated> {
    let Ended { host, hosts, secrets } = ended;
    churn.went_unnoticed(&host).await?;
    let renewals = renewals(&host).await?;
    let seen = generation(&host.scrape().await?);
    ensure!(seen == 1.0, "the plugin is its generation {seen}");
    let places = secrets::places(host, hosts, &churn.cluster, &secrets, &churn.known_to_the_guest()?).await?;
    secrets.are_not_in(&places)?;
    let searched = places.iter().map(|place| place.bytes.len()).sum();
    Ok(Rotated { churn: report, rotations, renewals, forms: secrets.len(), searched })
}

/// What is left when all rotations are done.
struct Ended<'a> {
    host: Host,
    hosts: &'a Hosts,
    secrets: Secrets,
}

/// How often a credential was got.
async fn renewals(host: &Host) -> Result<f64> {
    Ok(host.scrape().await?.sum("skydock_credential_renewals_total", &[("outcome", "renewed")]))
}

/// Waits until it was got more often than before.
async fn renewed(host: &Host, before: f64) -> Result<()> {
    let seen = until(Duration::from_secs(30), || async {
        let now = renewals(host).await?;
        Ok(if now > before { Seen::Yes(()) } else { Seen::NotYet(format!("{now} renewals")) })
    });
    seen.await.context("the credential to be got anew")
}
