//! Many claims at once, and what becomes of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use skydock_e2e::{
    churn::number,
    volumes::{CLAIMS, VOLUMES},
};

use crate::{
    lab::{IMMEDIATE, Lab},
    life::claim,
    replica::Replica,
};

/// How long it may take until all claims are bound or deleted. The sidecars send five requests a second
/// to the API server, and wait longer after each failure.
const LONG: Duration = Duration::from_secs(1800);
/// How often the claims are looked at.
const OFTEN: Duration = Duration::from_secs(1);
/// Claims that are created at a time.
const AT_ONCE: usize = 20;

/// Returns the number of claims for the test with most of them.
pub(crate) fn claims() -> usize {
    number("SKYDOCK_CLAIMS", 500)
}

/// Compares the number of requests to the cloud with the number of claims.
pub(crate) async fn run(lab: &Lab, replicas: &mut [Replica]) -> Result<()> {
    let count = claims();
    // In a cloud that needs time for a volume, the plugin is also asked whether it is there.
    lab.cloud
        .hook("PATCH", "/_sim/settings", &json!({"volume_delay_ms": 0}))?;

    let begun = Requests::so_far(lab, replicas).await?;
    create(lab, count).await?;
    until(lab, replicas, "bound", not_bound).await?;
    are_those_of_the_cloud(lab, count).await?;
    let others = begun.others(lab, replicas, "created", count).await?;
    ensure!(others * 10 <= count, "{others} other requests");

    let begun = Requests::so_far(lab, replicas).await?;
    lab.objects.delete(CLAIMS).await?;
    until(lab, replicas, "deleted", not_deleted).await?;
    let others = begun.others(lab, replicas, "deleted", count).await?;
    // Each is read before, because it could be another cluster's.
    let others = others.saturating_sub(count);
    ensure!(others * 10 <= count, "{others} other requests");
    lab.is_empty().await
}

/// Creates claims, named by number.
pub(crate) async fn create(lab: &Lab, count: usize) -> Result<()> {
    let create = |number: usize| async move {
        let claim = claim(&format!("crowd-{number}"), IMMEDIATE, 1, &Value::Null);
        lab.objects.create(CLAIMS, &claim).await
    };
    stream::iter((0..count).map(create))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// Waits until this returns 0, and restarts sidecars in the meantime.
pub(crate) async fn until(
    lab: &Lab,
    replicas: &mut [Replica],
    wanted: &str,
    left: impl AsyncFn(&Lab) -> Result<usize>,
) -> Result<()> {
    let begun = Instant::now();
    loop {
        let left = left(lab).await?;
        if left == 0 {
            return Ok(());
        }
        ensure!(begun.elapsed() < LONG, "{left} are not {wanted}");
        for replica in &mut *replicas {
            replica.tend(lab)?;
        }
        tokio::time::sleep(OFTEN).await;
    }
}

/// Returns the number of claims that are not bound.
pub(crate) async fn not_bound(lab: &Lab) -> Result<usize> {
    let all = lab.objects.list(CLAIMS).await?;
    let waiting = all.iter().filter(|it| it["status"]["phase"] != "Bound");
    Ok(waiting.count())
}

/// Returns the number of PersistentVolumes and claims.
pub(crate) async fn not_deleted(lab: &Lab) -> Result<usize> {
    let volumes = lab.objects.list(VOLUMES).await?;
    Ok(volumes.len() + lab.objects.list(CLAIMS).await?.len())
}

/// Checks that there are so many volumes in the cloud, and that each is a PersistentVolume.
pub(crate) async fn are_those_of_the_cloud(lab: &Lab, count: usize) -> Result<()> {
    let ids = |all: Vec<Value>, id: &str| -> BTreeSet<String> {
        let ids = all.iter().filter_map(|it| it.pointer(id)?.as_str());
        ids.map(str::to_owned).collect()
    };
    let known = ids(lab.objects.list(VOLUMES).await?, "/spec/csi/volumeHandle");
    let there = ids(lab.cloud.has("volumes").await?, "/id");
    ensure!(
        known == there && there.len() == count,
        "{} in the cluster and {} in the cloud of {count}; only in one of them: {:?}",
        known.len(),
        there.len(),
        known.symmetric_difference(&there).collect::<Vec<_>>()
    );
    Ok(())
}

/// The number of requests to the cloud.
struct Requests(usize);

impl Requests {
    async fn so_far(lab: &Lab, replicas: &[Replica]) -> Result<Self> {
        lab.cloud.hook("DELETE", "/_sim/calls", &Value::Null)?;
        Self::of(replicas).await
    }

    async fn of(replicas: &[Replica]) -> Result<Self> {
        let [replica] = replicas else {
            bail!("only one replica has all requests")
        };
        Ok(Self(replica.requests().await?))
    }

    /// Returns the number of requests since then that were not one for each claim, and prints it.
    async fn others(
        self,
        lab: &Lab,
        replicas: &[Replica],
        what: &str,
        count: usize,
    ) -> Result<usize> {
        let now = Self::of(replicas).await?;
        let sent = now.0.saturating_sub(self.0);
        let log = lab.cloud.hook("GET", "/_sim/calls", &Value::Null)?;
        let mut operations = BTreeMap::<&str, usize>::new();
        for call in log["calls"].as_array().into_iter().flatten() {
            let operation = call["operation"].as_str().unwrap_or("other");
            *operations.entry(operation).or_default() += 1;
        }
        let others = sent.saturating_sub(count);
        println!("{count} volumes {what}: {sent} requests, {others} besides: {operations:?}");
        Ok(others)
    }
}
