//! A cloud that loses answers, throttles and fails at random.

use anyhow::{Context as _, Result};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};
use skydock_e2e::volumes::{CLAIMS, failure, seed};

use crate::{
    crashes::{cloud_has, leader},
    crowd::{are_those_of_the_cloud, claims, create, not_bound, not_deleted, until},
    lab::Lab,
    replica::Replica,
};

/// Failures at a time; the cloud accepts up to 100.
const FAILURES: usize = 60;

pub(crate) async fn run(lab: &Lab, replicas: &mut [Replica]) -> Result<()> {
    let seed = seed()?;
    println!("SKYDOCK_SEED={seed}");
    let ran = with_seed(lab, replicas, seed).await;
    ran.with_context(|| format!("again: SKYDOCK_SEED={seed}"))
}

async fn with_seed(lab: &Lab, replicas: &mut [Replica], seed: u64) -> Result<()> {
    let mut chance = StdRng::seed_from_u64(seed);
    let count = claims() / 10;

    spoil(lab, &mut chance, count)?;
    create(lab, count).await?;
    if chance.random_bool(0.5) {
        let few = chance.random_range(1..=count.max(2) / 2);
        cloud_has(lab, "some volumes", |volumes| volumes >= few).await?;
        leader(replicas).await?.crashes().await?;
    }
    until(lab, replicas, "bound", not_bound).await?;
    are_those_of_the_cloud(lab, count).await?;

    spoil(lab, &mut chance, count)?;
    lab.objects.delete(CLAIMS).await?;
    if chance.random_bool(0.5) {
        cloud_has(lab, "fewer volumes", |volumes| volumes < count).await?;
        leader(replicas).await?.crashes().await?;
    }
    until(lab, replicas, "deleted", not_deleted).await?;
    lab.is_empty().await
}

/// Makes the cloud worse, instead of how bad it was before.
fn spoil(lab: &Lab, chance: &mut StdRng, count: usize) -> Result<()> {
    lab.cloud.hook("DELETE", "/_sim/failures", &Value::Null)?;
    for _ in 0..FAILURES {
        lab.cloud
            .hook("POST", "/_sim/failures", &failure(chance, count))?;
    }
    let rate = chance.random_range(20..100);
    let settings = json!({
        "lag_ms": chance.random_range(0..5000),
        "volume_delay_ms": chance.random_range(0..3000),
        "rate_limit": {"per_second": rate, "burst": rate},
    });
    lab.cloud.hook("PATCH", "/_sim/settings", &settings)?;
    Ok(())
}
