//! What cluster and cloud have, field by field, without what is different in each run: to compare the
//! sidecars with the controllers that replace them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use skydock_e2e::volumes::{ATTACHMENTS, CLAIMS, EVENTS, SNAPSHOT_CONTENTS, SNAPSHOTS, VOLUMES};

use crate::{LIMIT, lab::Lab};

/// Fields that are different without sidecars: the end of their name, and why.
const DIFFERENCES: [(&str, &str); 1] = [(
    "/spec/csi/volumeAttributes/storage.kubernetes.io/csiProvisionerIdentity",
    "all leaders are one provisioner; with csi-provisioner, each process is another one",
)];

/// Fields of objects that are different in each run.
const VARIABLE: [&str; 12] = [
    "uid",
    "resourceVersion",
    "generation",
    "managedFields",
    "creationTimestamp",
    "lastPhaseTransitionTime",
    "lastTransitionTime",
    "lastProbeTime",
    "creationTime",
    "created",
    "time",
    // The label of what the cluster has in the cloud.
    "cluster",
];

/// Finalizer of a VolumeSnapshot that was restored: csi-provisioner may remove it minutes later.
const RESTORED: &str = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";

/// Events of the sidecars after a success. Warnings depend on what is seen first.
const REASONS: [&str; 7] = [
    "Provisioning",
    "ProvisioningSucceeded",
    "Resizing",
    "VolumeResizeSuccessful",
    "FileSystemResizeRequired",
    "VolumeModify",
    "VolumeModifySuccessful",
];

/// How long nothing may have changed.
const QUIET: Duration = Duration::from_secs(10);

/// Fields by name, for example `in use: claim data/status/phase`.
pub(crate) type State = BTreeMap<String, Value>;

/// Waits until nothing changes, and returns what there is. `when` is for the names.
pub(crate) async fn settled(lab: &Lab, when: &str) -> Result<State> {
    let begun = Instant::now();
    let mut last = look(lab, when).await?;
    loop {
        tokio::time::sleep(QUIET).await;
        let now = look(lab, when).await?;
        if now == last {
            return Ok(now);
        }
        ensure!(begun.elapsed() < LIMIT, "it changes again and again");
        last = now;
    }
}

async fn look(lab: &Lab, when: &str) -> Result<State> {
    let mut all = Vec::new();
    for (kind, path) in [
        ("claim", CLAIMS),
        ("volume", VOLUMES),
        ("attachment", ATTACHMENTS),
        ("snapshot", SNAPSHOTS),
        ("content", SNAPSHOT_CONTENTS),
        ("event", EVENTS),
    ] {
        let objects = lab.objects.list(path).await?;
        all.extend(objects.into_iter().map(|it| (kind, it)));
    }
    for (kind, which) in [("cloud volume", "volumes"), ("cloud snapshot", "snapshots")] {
        let objects = lab.cloud.has(which).await?;
        all.extend(objects.into_iter().map(|it| (kind, it)));
    }

    // Volumes and snapshots are named by the UIDs of their objects.
    let uids: Vec<(String, String)> = all
        .iter()
        .filter(|(kind, _)| matches!(*kind, "claim" | "snapshot"))
        .filter_map(|(kind, it)| {
            let [uid, name] = ["uid", "name"].map(|key| it["metadata"][key].as_str());
            Some((uid?.to_owned(), format!("(UID of {kind} {})", name?)))
        })
        .collect();
    let mut state = State::new();
    for (kind, object) in all {
        let object = renamed(&object, &uids)?;
        if kind == "event" {
            add_event(when, &object, &mut state);
        } else {
            let name = object["metadata"]["name"].as_str();
            let name = name.or(object["name"].as_str()).context("no name")?;
            flatten(&format!("{when}: {kind} {name}"), &object, &mut state);
        }
    }
    Ok(state)
}

/// Replaces UIDs.
fn renamed(object: &Value, uids: &[(String, String)]) -> Result<Value> {
    let mut text = object.to_string();
    for (uid, name) in uids {
        text = text.replace(uid, name);
    }
    Ok(serde_json::from_str(&text)?)
}

fn add_event(when: &str, event: &Value, state: &mut State) {
    let reason = event["reason"].as_str().unwrap_or_default();
    if !REASONS.contains(&reason) {
        return;
    }
    let about = &event["involvedObject"];
    let [kind, name] = ["kind", "name"].map(|key| about[key].as_str().unwrap_or_default());
    let event_type = event["type"].clone();
    state.insert(format!("{when}: event {kind} {name}/{reason}"), event_type);
}

/// Adds the fields of a value whose name is `at`.
fn flatten(at: &str, value: &Value, state: &mut State) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (key, value) in fields {
                if !VARIABLE.contains(&key.as_str()) {
                    flatten(&format!("{at}/{key}"), value, state);
                }
            }
        }
        // The order of finalizers and access modes has no meaning.
        Value::Array(all) if all.iter().all(Value::is_string) => {
            let texts = all.iter().filter_map(Value::as_str);
            let sorted: BTreeSet<&str> = texts.filter(|text| *text != RESTORED).collect();
            state.insert(at.to_owned(), json!(sorted));
        }
        Value::Array(all) => {
            for (place, value) in all.iter().enumerate() {
                // Conditions.
                let key = value["type"].as_str().map(str::to_owned);
                let key = key.unwrap_or_else(|| place.to_string());
                flatten(&format!("{at}/{key}"), value, state);
            }
        }
        other => {
            state.insert(at.to_owned(), other.clone());
        }
    }
}

/// Checks that only the fields differ that may, and that they do.
pub(crate) fn are_alike(with: &State, without: &State) -> Result<()> {
    let fields: BTreeSet<&String> = with.keys().chain(without.keys()).collect();
    let differ: Vec<&String> = fields
        .into_iter()
        .filter(|field| with.get(*field) != without.get(*field))
        .collect();

    let is_known = |field: &str| DIFFERENCES.iter().any(|(end, _)| field.ends_with(end));
    let shown = |value: Option<&Value>| value.map_or("missing".to_owned(), Value::to_string);
    let others: Vec<String> = differ
        .iter()
        .filter(|field| !is_known(field))
        .map(|&field| {
            let [with, without] = [with.get(field), without.get(field)].map(shown);
            format!("{field}: {with} with sidecars, {without} without")
        })
        .collect();
    ensure!(others.is_empty(), "fields differ:\n{}", others.join("\n"));

    for (end, why) in DIFFERENCES {
        let differs = differ.iter().any(|field| field.ends_with(end));
        ensure!(differs, "{end} does not differ, though {why}");
    }
    Ok(())
}
