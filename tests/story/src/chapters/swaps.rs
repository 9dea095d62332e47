//! The plugin file is replaced under a running host, by valid and by invalid builds.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context, ensure};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use skydock_support::{Scrape, Seen, TAKEN, eventually, rebuilt};

use super::services::{address, create, ingress};
use crate::{narrator::Narrator, stage::Stage};

const LIMIT: Duration = Duration::from_secs(60);
const LEASE: &str = "cloud-controller-manager";

pub(crate) async fn tell(stage: &mut Stage, narrator: &mut Narrator) -> anyhow::Result<()> {
    narrator.chapter("The plugin is replaced without a restart");
    let good = stage.built("static")?;
    narrator
        .step(
            "another build takes over while Services are created, changed and deleted",
            good_swap(stage, &good),
        )
        .await?;
    for (what, bytes, stage_name) in [
        ("garbage", b"this is no WebAssembly".to_vec(), "type"),
        (
            "a component with a wrong type",
            stage.built("hostile/wrong_type")?,
            "type",
        ),
        (
            "one that traps in configure",
            stage.built("hostile/traps_in_configure")?,
            "configure",
        ),
    ] {
        let step = format!("{what} is rejected, with the reason; the last good one goes on");
        narrator
            .step(&step, bad_swap(stage, &bytes, stage_name))
            .await?;
    }
    narrator
        .step("and a valid build is accepted again", async {
            let before = generation(&scrape(stage).await?);
            stage.replace(&stage.plugin_file(), &rebuilt(&good, "after the bad ones"))?;
            let now = generation_after(stage, before).await?;
            Ok(format!("generation {now}"))
        })
        .await
}

async fn scrape(stage: &Stage) -> anyhow::Result<Scrape> {
    let leader = stage.leader().await?;
    stage
        .hosts
        .get(leader)
        .context("a host leads")?
        .scrape()
        .await
}

fn generation(scrape: &Scrape) -> f64 {
    scrape.sum("skydock_plugin_generation", &[])
}

/// Returns the number of failed calls, whatever the reason.
fn failed_calls(scrape: &Scrape) -> f64 {
    scrape.sum("skydock_plugin_calls_total", &[])
        - scrape.sum("skydock_plugin_calls_total", &[("outcome", "ok")])
}

async fn generation_after(stage: &Stage, before: f64) -> anyhow::Result<f64> {
    eventually(TAKEN, || async {
        let now = generation(&scrape(stage).await?);
        Ok(if now > before {
            Seen::Yes(now)
        } else {
            Seen::NotYet(format!("generation {now}"))
        })
    })
    .await
}

async fn good_swap(stage: &Stage, good: &[u8]) -> anyhow::Result<String> {
    let before = scrape(stage).await?;
    let stop = AtomicBool::new(false);
    let swap = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        stage.replace(&stage.plugin_file(), &rebuilt(good, "another build"))?;
        let now = generation_after(stage, generation(&before)).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        stop.store(true, Ordering::Relaxed);
        now
    };
    let (changes, generation) = tokio::try_join!(churn(stage, &stop), swap)?;
    let kept = settled(stage).await?;
    stage
        .event(LEASE, &format!("is in service as generation {generation}"))
        .await?;
    let after = scrape(stage).await?;
    let failed = failed_calls(&after) - failed_calls(&before);
    let calls = after.sum("skydock_plugin_calls_total", &[])
        - before.sum("skydock_plugin_calls_total", &[]);
    ensure!(failed == 0.0, "{failed} of {calls} calls failed");
    Ok(format!(
        "generation {generation} after {changes} changes: {calls} calls, 0 failed; {kept} Services, all as they should be"
    ))
}

/// The maximum number of Services that are kept. The pool has enough addresses for them, however
/// long the compilation of the new build takes.
const LEFT: usize = 100;

/// The pause between two changes, so that the new build can be compiled.
const PAUSE: Duration = Duration::from_millis(50);

/// Creates, changes and deletes Services until `stop` is set, and returns how many.
async fn churn(stage: &Stage, stop: &AtomicBool) -> anyhow::Result<usize> {
    let mut changes = 0;
    while !stop.load(Ordering::Relaxed) {
        let name = format!("churn-{changes}");
        create(stage, &name, json!({})).await?;
        let edit = json!({"metadata": {"annotations": {"example.com/edit": changes.to_string()}}});
        stage
            .services()
            .patch(&name, &PatchParams::default(), &Patch::Merge(edit))
            .await?;
        if changes % 2 == 1 || changes >= 2 * LEFT {
            stage
                .services()
                .delete(&name, &DeleteParams::default())
                .await?;
        }
        changes += 1;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(changes)
}

/// Waits until every remaining Service has its own address and every deleted one is gone, and then
/// deletes them all.
async fn settled(stage: &Stage) -> anyhow::Result<usize> {
    let services = stage.services();
    let count = eventually(LIMIT, || async {
        let all = services.list(&ListParams::default()).await?.items;
        let all: Vec<_> = all
            .into_iter()
            .filter(|service| service.name_any().starts_with("churn-"))
            .collect();
        let odd = all.iter().find(|service| {
            service.metadata.deletion_timestamp.is_some() || ingress(service).is_none()
        });
        if let Some(service) = odd {
            return Ok(Seen::NotYet(format!(
                "{}: {:?}",
                service.name_any(),
                ingress(service)
            )));
        }
        let mut holders = BTreeMap::new();
        for service in &all {
            if let Some(other) = holders.insert(ingress(service), service.name_any()) {
                anyhow::bail!("{other} and {} have the same address", service.name_any());
            }
        }
        Ok(Seen::Yes(all.len()))
    })
    .await?;
    for service in services.list(&ListParams::default()).await? {
        if service.name_any().starts_with("churn-") {
            services
                .delete(&service.name_any(), &DeleteParams::default())
                .await?;
        }
    }
    eventually(LIMIT, || async {
        let left = services.list(&ListParams::default()).await?.items;
        let left = left
            .iter()
            .filter(|service| service.name_any().starts_with("churn-"))
            .count();
        Ok(Seen::when(left == 0, format!("{left} Services left")))
    })
    .await?;
    Ok(count)
}

async fn bad_swap(stage: &Stage, bytes: &[u8], stage_name: &str) -> anyhow::Result<String> {
    let before = scrape(stage).await?;
    let rejections = |scrape: &Scrape| {
        scrape.sum(
            "skydock_plugin_reloads_total",
            &[("result", "failure"), ("stage", stage_name)],
        )
    };
    let events = stage.events(LEASE).await?.len();
    stage.replace(&stage.plugin_file(), bytes)?;
    let after = eventually(TAKEN, || async {
        let after = scrape(stage).await?;
        Ok(if rejections(&after) > rejections(&before) {
            Seen::Yes(after)
        } else {
            Seen::NotYet("no rejection".to_owned())
        })
    })
    .await?;
    ensure!(
        generation(&after) == generation(&before),
        "the generation has changed"
    );
    let event = eventually(LIMIT, || async {
        let told = stage.events(LEASE).await?;
        let rejected = told
            .iter()
            .rfind(|event| event.starts_with("PluginRejected"))
            .cloned();
        Ok(match rejected {
            Some(event) if told.len() > events => Seen::Yes(event),
            _ => Seen::NotYet(format!("{told:?}")),
        })
    })
    .await?;
    create(stage, "meanwhile", json!({})).await?;
    address(stage, "meanwhile").await?;
    stage.delete_service("meanwhile").await?;
    Ok(event)
}
