//! The leader ends, and the other host takes over.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::json;
use skydock_support::Host;

use super::services::{address, create};
use crate::{
    narrator::Narrator,
    stage::{LEASE_DURATION, Stage},
};

/// How long the other host may take after the lease is free.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) async fn tell(stage: &mut Stage, narrator: &mut Narrator) -> anyhow::Result<()> {
    narrator.chapter("The leader stops, and the standby takes over");
    narrator
        .step("the leader receives SIGTERM: it exits with status 0, and the other one takes over within 2 s", async {
            let mut leader = take_leader(stage).await?;
            leader.terminate()?;
            let took = serves_again(stage, "after-term").await?;
            let code = leader.ended(Duration::from_secs(15)).await?;
            ensure!(code == Some(0), "the leader ended with {code:?}; {}", leader.last_words());
            ensure!(took < GRACE, "the other acted after {took:?}");
            Ok(format!("address given {} ms after SIGTERM", took.as_millis()))
        })
        .await?;
    stage.start_host("host-3").await?;
    narrator
        .step(
            "the leader receives SIGKILL: the other one takes over within the lease duration + 2 s",
            async {
                let mut leader = take_leader(stage).await?;
                leader.kill()?;
                let took = serves_again(stage, "after-kill").await?;
                leader.ended(Duration::from_secs(5)).await?;
                ensure!(
                    took < LEASE_DURATION + GRACE,
                    "the other acted after {took:?}"
                );
                Ok(format!(
                    "address given {:.1} s after SIGKILL, lease duration {LEASE_DURATION:?}",
                    took.as_secs_f64()
                ))
            },
        )
        .await?;
    narrator
        .step("the Lease shows it like client-go's", async {
            let lease = stage.leases().get("cloud-controller-manager").await?;
            let spec = lease.spec.context("a spec")?;
            let transitions = spec.lease_transitions.unwrap_or_default();
            ensure!(transitions >= 2, "{transitions} transitions");
            Ok(format!(
                "holder {}, {transitions} transitions",
                spec.holder_identity.unwrap_or_default()
            ))
        })
        .await
}

async fn take_leader(stage: &mut Stage) -> anyhow::Result<Host> {
    let at = stage.leader().await?;
    Ok(stage.hosts.remove(at))
}

/// Returns how long it takes until a new Service has an address.
async fn serves_again(stage: &Stage, name: &str) -> anyhow::Result<Duration> {
    let start = Instant::now();
    create(stage, name, json!({})).await?;
    address(stage, name).await?;
    let took = start.elapsed();
    stage.delete_service(name).await?;
    Ok(took)
}
