//! A cloud that loses answers, throttles and fails, and a host that is killed: each volume becomes a
//! PersistentVolume, or is deleted. `SKYDOCK_SEED=123` has the faults of this seed.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result, ensure};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};
use skydock_clusters::{Plane as _, RealPlane};
use skydock_e2e::{
    Hosts,
    volumes::{CLAIMS, Objects, VOLUMES, failure, seed},
};
use skydock_simcloud::Simcloud;
use skydock_support::{Host, Seen, eventually};

use crate::{
    cloud, start,
    world::{CLASS, Cloud as _, Place, World, claim},
};

/// A killed leader is replaced soon.
const FLAGS: [&str; 4] = [
    "--controllers=volume-attach,volume-provision",
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
];

/// Number of claims.
const COUNT: usize = 10;
/// Number of failures at a time.
const FAILURES: usize = 20;
/// How long a step may take: the delays after several failures of one claim, and a new leader.
const LIMIT: Duration = Duration::from_secs(180);

#[tokio::test(flavor = "multi_thread")]
async fn no_volume_is_lost_without_sidecars() {
    let seed = seed().unwrap();
    println!("SKYDOCK_SEED={seed}");
    let plane = RealPlane::start().await.unwrap();
    let cloud = cloud();
    let world = World {
        objects: Objects::new(plane.client(), LIMIT),
        cloud: &cloud,
        place: Place::of_simcloud(),
    };
    world.prepare().await.unwrap();

    let (mut hosts, mut host) = start(&cloud, &plane, &FLAGS).await;
    let mut chance = StdRng::seed_from_u64(seed);
    let kept = Box::pin(world.keeps_volumes(&mut hosts, &mut host, &mut chance)).await;
    if let Err(error) = kept {
        let warnings = world.objects.warnings().await;
        let logs = hosts.keep().display();
        panic!("SKYDOCK_SEED={seed}: {error:?}\n{warnings}\nlogs: {logs}");
    }
    Hosts::stop(host).await.unwrap();
}

impl World<'_, Simcloud> {
    async fn keeps_volumes(
        &self,
        hosts: &mut Hosts,
        host: &mut Host,
        chance: &mut StdRng,
    ) -> Result<()> {
        // A new leader takes seconds: one of them is enough.
        let is_early = chance.random_bool(0.5);
        let few = chance.random_range(1..COUNT);

        self.spoil(chance)?;
        for number in 0..COUNT {
            let attributes = ("volumeAttributesClassName", json!(CLASS));
            let claim = claim(&format!("data-{number}"), 1, attributes);
            self.objects.create(CLAIMS, &claim).await?;
        }
        if is_early {
            self.cloud_has("some volumes", |volumes| volumes >= few)
                .await?;
            restart(hosts, host).await?;
        }
        self.are_bound().await?;
        self.all_are_known().await?;

        self.spoil(chance)?;
        self.objects.delete(CLAIMS).await?;
        if !is_early {
            self.cloud_has("fewer volumes", |volumes| volumes <= few)
                .await?;
            restart(hosts, host).await?;
        }
        self.objects.is_gone(CLAIMS).await?;
        self.objects.is_gone(VOLUMES).await?;
        let left = self.cloud.disks().await?;
        ensure!(left.is_empty(), "volumes are left: {left:?}");
        Ok(())
    }

    /// Makes the cloud bad, instead of how bad it was before.
    fn spoil(&self, chance: &mut StdRng) -> Result<()> {
        self.hook("DELETE", "/_sim/failures", &Value::Null)?;
        for _ in 0..FAILURES {
            self.hook("POST", "/_sim/failures", &failure(chance, COUNT))?;
        }
        let settings = json!({
            "lag_ms": chance.random_range(0..2000),
            "volume_delay_ms": chance.random_range(0..1000),
        });
        self.hook("PATCH", "/_sim/settings", &settings)
    }

    fn hook(&self, method: &str, path: &str, body: &Value) -> Result<()> {
        let (status, answer) = self.cloud.request(method, path, body);
        ensure!(
            (200..300).contains(&status),
            "{method} {path}: {status} {answer}"
        );
        Ok(())
    }

    async fn cloud_has(&self, wanted: &str, is_wanted: impl Fn(usize) -> bool) -> Result<()> {
        let has = eventually(LIMIT, || async {
            let volumes = self.cloud.disks().await?.len();
            Ok(Seen::when(is_wanted(volumes), format!("{volumes} volumes")))
        });
        has.await.with_context(|| format!("the cloud has {wanted}"))
    }

    async fn are_bound(&self) -> Result<()> {
        let bound = eventually(LIMIT, || async {
            let claims = self.objects.list(CLAIMS).await?;
            let bound = claims.iter().filter(|it| it["status"]["phase"] == "Bound");
            let bound = bound.count();
            Ok(Seen::when(bound == COUNT, format!("{bound} are bound")))
        });
        bound.await.context("all claims are bound")
    }

    /// Checks that each volume of the cloud is a PersistentVolume, and the other way around.
    async fn all_are_known(&self) -> Result<()> {
        let objects = self.objects.list(VOLUMES).await?;
        let ids = objects
            .iter()
            .filter_map(|it| it["spec"]["csi"]["volumeHandle"].as_str());
        let known: BTreeSet<String> = ids.map(str::to_owned).collect();
        let disks = self.cloud.disks().await?.into_iter();
        let there: BTreeSet<String> = disks.map(|it| it.id).collect();
        ensure!(
            known == there && there.len() == COUNT,
            "{known:?} in the cluster, {there:?} in the cloud"
        );
        Ok(())
    }
}

/// Kills the host, and starts it again.
async fn restart(hosts: &mut Hosts, host: &mut Host) -> Result<()> {
    host.kill()?;
    host.ended(LIMIT).await?;
    *host = hosts.start().await?;
    Ok(())
}
