//! The life of claims, one after the other, in the cluster and in the cloud.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use skydock_e2e::volumes::{
    ATTACHMENTS, CLAIMS, PODS, SNAPSHOT_CONTENTS, SNAPSHOTS, VOLUMES, object,
};
use skydock_support::{Seen, eventually};

use crate::{
    LIMIT,
    lab::{FAST, IMMEDIATE, LATE, Lab, SLOW, SNAPSHOTS_OF},
    replica::Replica,
    states::{self, State},
};

/// The Pod that uses a claim, on the last node.
const POD: &str = "user";
const SNAPSHOT: &str = "before";

/// A claim's PersistentVolume, and the volume that is in the cloud.
struct Bound {
    name: String,
    object: Value,
    volume: Value,
}

/// Returns what cluster and cloud have while all claims are in use, and after that.
pub(crate) async fn run(lab: &Lab, replicas: &mut [Replica]) -> Result<State> {
    bound_at_once(lab).await.context("bound at once")?;
    bound_for_a_pod(lab).await.context("bound for a Pod")?;
    attached(lab).await.context("attached")?;
    expanded(lab).await.context("expanded")?;
    if lab.cloud.has_attributes() {
        changed(lab).await.context("changed")?;
    }
    snapshotted(lab).await.context("snapshotted")?;
    restored(lab).await.context("restored")?;
    cloned(lab).await.context("cloned")?;
    let mut state = states::settled(lab, "in use").await?;
    detached(lab).await.context("detached")?;
    state.extend(states::settled(lab, "detached").await?);
    deleted(lab).await.context("deleted")?;
    for replica in replicas {
        replica.works()?;
    }
    lab.is_empty().await?;
    Ok(state)
}

/// Returns a claim for this many GiB, with more fields of its spec.
pub(crate) fn claim(name: &str, class: &str, gib: u32, more: &Value) -> Value {
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": class,
        "resources": {"requests": {"storage": format!("{gib}Gi")}},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    object("v1", "PersistentVolumeClaim", name, json!({"spec": spec}))
}

async fn create_claim(lab: &Lab, name: &str, class: &str, gib: u32, more: &Value) -> Result<()> {
    lab.objects
        .create(CLAIMS, &claim(name, class, gib, more))
        .await
}

/// Waits until a claim is bound, and checks that cluster and cloud agree on its volume.
async fn bound(lab: &Lab, name: &str) -> Result<Bound> {
    let is_bound = |it: &Value| it["status"]["phase"] == "Bound";
    let path = format!("{CLAIMS}/{name}");
    let claim = lab.objects.becomes(&path, "bound", is_bound).await?;
    now(lab, &claim).await
}

/// Returns the volume of a bound claim.
async fn current(lab: &Lab, name: &str) -> Result<Bound> {
    let claim = lab.objects.get(&format!("{CLAIMS}/{name}")).await?;
    now(lab, &claim.context("no claim")?).await
}

async fn now(lab: &Lab, claim: &Value) -> Result<Bound> {
    let claim_name = &claim["metadata"]["name"];
    let name = claim["spec"]["volumeName"].as_str().context("no volume")?;
    let object = lab.objects.get(&format!("{VOLUMES}/{name}")).await?;
    let object = object.context("no PersistentVolume")?;
    let csi = &object["spec"]["csi"];
    ensure!(csi["driver"] == lab.cloud.driver, "{object}");

    let mut volumes = lab.cloud.has("volumes").await?.into_iter();
    let volume = volumes.find(|it| it["id"] == csi["volumeHandle"]);
    let volume = volume.with_context(|| format!("not in the cloud: {object}"))?;
    let owner = format!("default/{}", claim_name.as_str().unwrap_or_default());
    ensure!(
        volume["name"] == name && volume["labels"]["claim"] == owner.as_str(),
        "{volume}"
    );
    let terms = &object["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    let wanted = json!({"key": lab.cloud.zone, "operator": "In", "values": [volume["zone"]]});
    ensure!(terms[0]["matchExpressions"][0] == wanted, "{terms}");
    Ok(Bound {
        name: name.to_owned(),
        object,
        volume,
    })
}

async fn bound_at_once(lab: &Lab) -> Result<()> {
    let (class, iops) = if lab.cloud.has_attributes() {
        (json!({"volumeAttributesClassName": SLOW}), json!(500))
    } else {
        (Value::Null, Value::Null)
    };
    create_claim(lab, "data", IMMEDIATE, 2, &class).await?;
    let Bound { volume, .. } = bound(lab, "data").await?;
    let is = [&volume["size_gib"], &volume["iops"], &volume["server"]];
    ensure!(is == [&json!(2), &iops, &Value::Null], "{volume}");
    Ok(())
}

async fn bound_for_a_pod(lab: &Lab) -> Result<()> {
    create_claim(lab, "late", LATE, 3, &Value::Null).await?;
    lab.objects.told("late", "WaitForFirstConsumer").await?;
    ensure!(
        lab.cloud.has("volumes").await?.len() == 1,
        "it is there too early"
    );

    let [_, server] = &lab.cloud.servers;
    // The container does not mount it, because that is for the node part of the driver.
    let pod = json!({"spec": {
        "nodeSelector": {"kubernetes.io/hostname": server.node},
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "registry.example.com/main"}],
        "volumes": [{"name": "late", "persistentVolumeClaim": {"claimName": "late"}}],
    }});
    lab.objects
        .create(PODS, &object("v1", "Pod", POD, pod))
        .await?;
    let Bound { volume, .. } = bound(lab, "late").await?;
    let is = [&volume["size_gib"], &volume["zone"]];
    ensure!(is == [&json!(3), &json!(server.zone)], "{volume}");
    Ok(())
}

/// Returns the VolumeAttachment of a PersistentVolume.
async fn attachment(lab: &Lab, volume: &str) -> Result<Option<Value>> {
    let all = lab.objects.list(ATTACHMENTS).await?;
    let mut matching = all.into_iter();
    Ok(matching.find(|it| it["spec"]["source"]["persistentVolumeName"] == volume))
}

async fn attached(lab: &Lab) -> Result<()> {
    let Bound { name, .. } = current(lab, "late").await?;
    let attachment = eventually(LIMIT, || async {
        Ok(match attachment(lab, &name).await? {
            Some(it) if it["status"]["attached"] == true => Seen::Yes(it),
            other => Seen::NotYet(format!("{other:?}")),
        })
    });
    let attachment = attachment.await?;
    let spec = &attachment["spec"];
    let [_, server] = &lab.cloud.servers;
    ensure!(
        spec["attacher"] == lab.cloud.driver && spec["nodeName"] == server.node.as_str(),
        "{attachment}"
    );

    let Bound { volume, .. } = current(lab, "late").await?;
    ensure!(
        volume["status"] == "in-use" && volume["server"] == server.id.as_str(),
        "{volume}"
    );
    let device = &attachment["status"]["attachmentMetadata"][lab.cloud.device];
    ensure!(*device == volume["device"], "{device} {volume}");
    Ok(())
}

async fn expanded(lab: &Lab) -> Result<()> {
    let path = format!("{CLAIMS}/late");
    let larger = json!({"spec": {"resources": {"requests": {"storage": "5Gi"}}}});
    lab.objects.patch(&path, &larger).await?;
    let waits_for_node = |it: &Value| {
        let conditions = it["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| it["type"] == "FileSystemResizePending" && it["status"] == "True")
    };
    let wanted = "expanded up to the file system";
    lab.objects.becomes(&path, wanted, waits_for_node).await?;

    let Bound { object, volume, .. } = current(lab, "late").await?;
    let capacity = &object["spec"]["capacity"]["storage"];
    ensure!(
        *capacity == "5Gi" && volume["size_gib"] == 5,
        "{capacity} {volume}"
    );
    Ok(())
}

async fn changed(lab: &Lab) -> Result<()> {
    let path = format!("{CLAIMS}/late");
    let class = json!({"spec": {"volumeAttributesClassName": FAST}});
    lab.objects.patch(&path, &class).await?;
    let has_class = |it: &Value| it["status"]["currentVolumeAttributesClassName"] == FAST;
    lab.objects.becomes(&path, FAST, has_class).await?;

    let Bound { object, volume, .. } = current(lab, "late").await?;
    let class = &object["spec"]["volumeAttributesClassName"];
    ensure!(*class == FAST && volume["iops"] == 5000, "{class} {volume}");
    Ok(())
}

async fn snapshotted(lab: &Lab) -> Result<()> {
    let spec = json!({"spec": {
        "volumeSnapshotClassName": SNAPSHOTS_OF, "source": {"persistentVolumeClaimName": "late"},
    }});
    let version = "snapshot.storage.k8s.io/v1";
    let snapshot = object(version, "VolumeSnapshot", SNAPSHOT, spec);
    lab.objects.create(SNAPSHOTS, &snapshot).await?;
    let path = format!("{SNAPSHOTS}/{SNAPSHOT}");
    let is_ready = |it: &Value| it["status"]["readyToUse"] == true;
    let snapshot = lab.objects.becomes(&path, "ready", is_ready).await?;
    ensure!(snapshot["status"]["restoreSize"] == "5Gi", "{snapshot}");

    let Bound { volume, .. } = current(lab, "late").await?;
    let all = lab.cloud.has("snapshots").await?;
    let [cut] = all.as_slice() else {
        anyhow::bail!("not one snapshot: {all:?}")
    };
    let owner = format!("default/{SNAPSHOT}");
    ensure!(
        cut["volume"] == volume["id"]
            && cut["ready"] == true
            && cut["labels"]["snapshot"] == owner.as_str(),
        "{cut}"
    );
    Ok(())
}

async fn restored(lab: &Lab) -> Result<()> {
    let source = json!({"dataSource": {
        "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": SNAPSHOT,
    }});
    create_claim(lab, "restored", IMMEDIATE, 6, &source).await?;
    let Bound { volume, .. } = bound(lab, "restored").await?;
    let snapshots = lab.cloud.has("snapshots").await?;
    ensure!(
        snapshots.iter().any(|it| it["id"] == volume["snapshot"]) && volume["size_gib"] == 6,
        "{volume}"
    );
    Ok(())
}

async fn cloned(lab: &Lab) -> Result<()> {
    let source = json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "data"}});
    create_claim(lab, "clone", IMMEDIATE, 3, &source).await?;
    let Bound { volume: copy, .. } = bound(lab, "clone").await?;
    let Bound { volume, .. } = current(lab, "data").await?;
    ensure!(
        copy["original"] == volume["id"] && copy["zone"] == volume["zone"],
        "{copy} {volume}"
    );
    Ok(())
}

async fn detached(lab: &Lab) -> Result<()> {
    let Bound { name, .. } = current(lab, "late").await?;
    let path = format!("{PODS}/{POD}");
    lab.objects.delete(&path).await?;
    lab.objects.is_gone(&path).await?;
    let gone = eventually(LIMIT, || async {
        let attachment = attachment(lab, &name).await?;
        Ok(Seen::when(attachment.is_none(), format!("{attachment:?}")))
    });
    gone.await.context("the VolumeAttachment is gone")?;

    let Bound { volume, .. } = current(lab, "late").await?;
    ensure!(
        volume["status"] == "available" && volume["server"].is_null(),
        "{volume}"
    );
    Ok(())
}

async fn deleted(lab: &Lab) -> Result<()> {
    let snapshot = format!("{SNAPSHOTS}/{SNAPSHOT}");
    lab.objects.delete(&snapshot).await?;
    lab.objects.is_gone(&snapshot).await?;
    lab.objects.is_gone(SNAPSHOT_CONTENTS).await?;
    ensure!(
        lab.cloud.has("snapshots").await?.is_empty(),
        "the snapshot is left"
    );

    lab.objects.delete(CLAIMS).await?;
    lab.objects.is_gone(CLAIMS).await?;
    lab.objects.is_gone(VOLUMES).await
}
