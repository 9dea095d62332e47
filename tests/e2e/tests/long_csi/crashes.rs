//! Leaders are killed while they create and delete volumes: their standby takes over with its own
//! sidecars.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use skydock_e2e::volumes::CLAIMS;

use crate::{
    crowd::{are_those_of_the_cloud, claims, create, not_bound, not_deleted, until},
    lab::Lab,
    replica::Replica,
};

/// How long the first volumes may need.
const SOON: Duration = Duration::from_secs(300);

pub(crate) async fn run(lab: &Lab, replicas: &mut [Replica]) -> Result<()> {
    let count = claims() / 5;
    lab.cloud
        .hook("PATCH", "/_sim/settings", &json!({"volume_delay_ms": 3000}))?;
    create(lab, count).await?;
    cloud_has(lab, "a part of the volumes", |volumes| volumes > count / 5).await?;
    leader(replicas).await?.crashes().await?;
    until(lab, replicas, "bound", not_bound).await?;
    are_those_of_the_cloud(lab, count).await?;

    lab.objects.delete(CLAIMS).await?;
    cloud_has(lab, "fewer volumes", |volumes| volumes < count).await?;
    leader(replicas).await?.crashes().await?;
    until(lab, replicas, "deleted", not_deleted).await?;
    lab.is_empty().await?;

    // The same with a leader that is stopped, as in a rolling update.
    create(lab, count).await?;
    cloud_has(lab, "a part of the volumes", |volumes| volumes > count / 5).await?;
    leader(replicas).await?.restarts().await?;
    until(lab, replicas, "bound", not_bound).await?;
    are_those_of_the_cloud(lab, count).await?;
    lab.objects.delete(CLAIMS).await?;
    until(lab, replicas, "deleted", not_deleted).await?;
    lab.is_empty().await
}

/// Waits until the number of volumes in the cloud is as wanted.
pub(crate) async fn cloud_has(
    lab: &Lab,
    wanted: &str,
    is_wanted: impl Fn(usize) -> bool,
) -> Result<()> {
    let begun = Instant::now();
    loop {
        let volumes = lab.cloud.has("volumes").await?.len();
        if is_wanted(volumes) {
            return Ok(());
        }
        ensure!(begun.elapsed() < SOON, "{volumes}, not {wanted}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the replica that leads.
pub(crate) async fn leader(replicas: &mut [Replica]) -> Result<&mut Replica> {
    let mut found = None;
    for (place, replica) in replicas.iter().enumerate() {
        if replica.is_leader().await? {
            found = Some(place);
        }
    }
    let place = found.context("no replica leads")?;
    replicas.get_mut(place).context("no such replica")
}
