//! Decides when the properties of a volume have to be changed, and what is written about it, as csi-resizer
//! does (`modify_volume.go`, `modify_status.go`).

use k8s_openapi::{
    api::core::v1::{PersistentVolume, PersistentVolumeClaim},
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde_json::{Value, json};

/// Conditions about changes.
const MODIFYING: &str = "ModifyingVolume";
const FAILED: &str = "ModifyVolumeError";

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    /// Nobody wants a change any more: the condition goes.
    Cancel,
    /// Change the volume to this VolumeAttributesClass.
    Modify(String),
}

/// Returns what a claim needs (`modify`). `is_uncertain` says that the cloud may still be at work on the
/// last change, so that it must end first.
pub(super) fn step(claim: &PersistentVolumeClaim, is_uncertain: bool) -> Step {
    let spec = claim.spec.as_ref();
    let status = claim.status.as_ref();
    let wanted = spec.and_then(|it| it.volume_attributes_class_name.as_deref());
    let wanted = wanted.unwrap_or_default();
    let has = status.and_then(|it| it.current_volume_attributes_class_name.as_deref());
    let change = status.and_then(|it| it.modify_volume_status.as_ref());

    let begun = change.filter(|it| it.status == "InProgress");
    let begun = begun.and_then(|it| it.target_volume_attributes_class_name.as_deref());
    match begun {
        Some(begun) if is_uncertain || wanted.is_empty() => Step::Modify(begun.to_owned()),
        None if wanted.is_empty() && has_condition(claim) => Step::Cancel,
        None if wanted.is_empty() => Step::Nothing,
        None if change.is_none() && has == Some(wanted) => Step::Nothing,
        _ => Step::Modify(wanted.to_owned()),
    }
}

fn has_condition(claim: &PersistentVolumeClaim) -> bool {
    let status = claim.status.as_ref();
    let all = status.and_then(|it| it.conditions.as_ref());
    all.is_some_and(|all| all.iter().any(|it| it.type_ == MODIFYING))
}

fn condition(type_: &str, reason: Option<&str>, message: &str, time: &Time) -> Value {
    json!({
        "type": type_, "status": "True", "reason": reason, "message": message, "lastProbeTime": time,
        "lastTransitionTime": time,
    })
}

/// Returns what removes a condition. Those of others are never written: they may have changed while the cloud
/// was asked.
fn no(type_: &str) -> Value {
    json!({"$patch": "delete", "type": type_})
}

fn patch(claim: &PersistentVolumeClaim, status: &Value) -> Value {
    json!({"metadata": {"uid": claim.metadata.uid}, "status": status})
}

/// Returns the strategic merge patch of the status while the class does not exist.
pub(super) fn pending(claim: &PersistentVolumeClaim) -> Value {
    patch(claim, &json!({"modifyVolumeStatus": {"status": "Pending"}}))
}

/// Returns the strategic merge patch of the status before a request.
pub(super) fn begun(claim: &PersistentVolumeClaim, class: &str, time: &Time) -> Value {
    let message = format!("Modifying volume to {class:?} is in progress.");
    let all = [condition(MODIFYING, None, &message, time), no(FAILED)];
    let change = json!({"status": "InProgress", "targetVolumeAttributesClassName": class});
    patch(
        claim,
        &json!({"conditions": all, "modifyVolumeStatus": change}),
    )
}

/// Returns the strategic merge patch of the status after a failure. `code` is the name of its gRPC code.
pub(super) fn failed(
    claim: &PersistentVolumeClaim,
    class: &str,
    (code, message): (&str, &str),
    is_final: bool,
    time: &Time,
) -> Value {
    let what = if is_final {
        "failed. Waiting for retry."
    } else {
        "is still in progress."
    };
    let modifying = format!("Modifying volume to {class:?} {what}");
    let all = [
        condition(MODIFYING, None, &modifying, time),
        condition(FAILED, Some(code), message, time),
    ];

    let state = if code == "InvalidArgument" {
        "Infeasible"
    } else {
        "InProgress"
    };
    let change = json!({"status": state, "targetVolumeAttributesClassName": class});
    patch(
        claim,
        &json!({"conditions": all, "modifyVolumeStatus": change}),
    )
}

/// Returns the strategic merge patch of the status of a volume that was changed.
pub(super) fn finished(claim: &PersistentVolumeClaim, class: &str) -> Value {
    let status = json!({
        "conditions": [no(MODIFYING), no(FAILED)], "modifyVolumeStatus": null,
        "currentVolumeAttributesClassName": class,
    });
    patch(claim, &status)
}

/// Returns the strategic merge patch of the status of a claim that wants no change any more.
pub(super) fn canceled(claim: &PersistentVolumeClaim) -> Value {
    patch(claim, &json!({"conditions": [no(MODIFYING)]}))
}

/// Returns the merge patch of a PersistentVolume with this class.
pub(super) fn changed(volume: &PersistentVolume, class: &str) -> Value {
    json!({
        "metadata": {"uid": volume.metadata.uid},
        "spec": {"volumeAttributesClassName": class},
    })
}

/// Returns true if a change of a claim may need work: its own writes are no reason.
pub(super) fn is_news(old: &PersistentVolumeClaim, new: &PersistentVolumeClaim) -> bool {
    let needs = |it: &PersistentVolumeClaim| {
        let spec = it.spec.as_ref();
        let class = spec.and_then(|it| it.volume_attributes_class_name.clone());
        let volume = spec.and_then(|it| it.volume_name.clone());
        let phase = it.status.as_ref().and_then(|it| it.phase.clone());
        (it.metadata.uid.clone(), class, volume, phase)
    };
    needs(old) != needs(new)
}

#[cfg(test)]
mod tests {
    use skydock_controller_base::testing::with;

    use super::*;

    fn claim(change: &Value) -> PersistentVolumeClaim {
        let object = json!({
            "metadata": {"name": "data", "uid": "u"},
            "spec": {"volumeName": "pv", "volumeAttributesClassName": "gold"},
            "status": {"phase": "Bound", "currentVolumeAttributesClassName": "silver"},
        });
        serde_json::from_value(with(&object, change)).unwrap()
    }

    fn change(state: &str, class: &str) -> Value {
        let change = json!({"status": state, "targetVolumeAttributesClassName": class});
        json!({"status": {"modifyVolumeStatus": change}})
    }

    fn time() -> Time {
        Time("2026-01-01T00:00:00Z".parse().unwrap())
    }

    #[test]
    fn a_volume_is_changed_to_the_class_of_its_claim() {
        let gold = || Step::Modify("gold".to_owned());
        let bronze = || Step::Modify("bronze".to_owned());
        let none = json!({"spec": {"volumeAttributesClassName": null}});
        let has = json!({"status": {"currentVolumeAttributesClassName": "gold"}});
        let told = json!({"status": {"conditions": [{"type": MODIFYING, "status": "True"}]}});
        for (it, uncertain, expected) in [
            (json!({}), false, gold()),
            (has.clone(), false, Step::Nothing),
            (with(&has, &change("Infeasible", "bronze")), false, gold()),
            (change("InProgress", "bronze"), false, gold()),
            (change("InProgress", "bronze"), true, bronze()),
            (
                with(&none, &change("InProgress", "bronze")),
                false,
                bronze(),
            ),
            (
                with(&none, &change("Infeasible", "bronze")),
                false,
                Step::Nothing,
            ),
            (with(&none, &told), false, Step::Cancel),
            (none, false, Step::Nothing),
        ] {
            assert_eq!(step(&claim(&it), uncertain), expected, "{it} {uncertain}");
        }
    }

    #[test]
    fn the_status_tells_each_step() {
        let other = json!({"type": "Resizing", "status": "True"});
        let claim = claim(&json!({"status": {"conditions": [other]}}));

        let status = &begun(&claim, "gold", &time())["status"];
        assert_eq!(status["modifyVolumeStatus"]["status"], "InProgress");
        assert_eq!(
            status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
            "gold"
        );
        assert_eq!(status["conditions"].as_array().unwrap().len(), 2);
        assert_eq!(status["conditions"][0]["type"], MODIFYING);
        assert_eq!(status["conditions"][1], no(FAILED));

        for (code, is_final, state) in [
            ("InvalidArgument", true, "Infeasible"),
            ("NotFound", true, "InProgress"),
            ("Unavailable", false, "InProgress"),
        ] {
            let status = &failed(&claim, "gold", (code, "why"), is_final, &time())["status"];
            assert_eq!(status["modifyVolumeStatus"]["status"], state, "{code}");
            assert_eq!(status["conditions"][0]["type"], MODIFYING);
            assert_eq!(status["conditions"][1]["reason"], code);
        }

        let status = &finished(&claim, "gold")["status"];
        assert_eq!(status["conditions"], json!([no(MODIFYING), no(FAILED)]));
        assert_eq!(status["modifyVolumeStatus"], Value::Null);
        assert_eq!(status["currentVolumeAttributesClassName"], "gold");
        assert_eq!(
            canceled(&claim)["status"]["conditions"],
            json!([no(MODIFYING)])
        );
    }

    #[test]
    fn what_this_controller_writes_is_no_news() {
        for (it, expected) in [
            (change("InProgress", "gold"), false),
            (
                json!({"status": {"currentVolumeAttributesClassName": "gold"}}),
                false,
            ),
            (
                json!({"spec": {"volumeAttributesClassName": "bronze"}}),
                true,
            ),
            (json!({"status": {"phase": "Lost"}}), true),
        ] {
            assert_eq!(is_news(&claim(&json!({})), &claim(&it)), expected, "{it}");
        }
    }
}
