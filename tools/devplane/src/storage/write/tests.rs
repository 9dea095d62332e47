use serde_json::json;

use super::{
    delete::{DeleteOptions, delete},
    *,
};
use crate::{
    resources::resource::{CONFIG_MAPS, EVENTS, LEASES, NODES, SERVICES},
    status::Reason,
};

fn now() -> Timestamp {
    "2024-01-01T00:00:00Z".parse().unwrap()
}

fn target(resource: &'static Resource, name: &str) -> Target {
    let namespace = if resource.namespaced { "default" } else { "" };
    Target {
        resource,
        namespace: namespace.into(),
        name: name.into(),
        subresource: None,
    }
}

fn status(resource: &'static Resource, name: &str) -> Target {
    Target {
        subresource: Some(Subresource::Status),
        ..target(resource, name)
    }
}

fn store() -> Store {
    let mut store = Store::new(0, []);
    for name in ["default", "work"] {
        create(
            &mut store,
            &target(&NAMESPACES, name),
            json!({}),
            &Options::default(),
            now(),
        )
        .unwrap();
    }
    store
}

fn make(
    store: &mut Store,
    resource: &'static Resource,
    body: Value,
) -> Result<Written, StatusError> {
    create(
        store,
        &target(resource, ""),
        body,
        &Options::default(),
        now(),
    )
}

fn merge(store: &mut Store, target: &Target, body: Value) -> Result<Arc<Object>, StatusError> {
    patch(store, target, &Patch::Merge(body), &Options::default()).map(|written| written.object)
}

#[test]
fn a_new_object_gets_name_uid_and_creation_time() {
    let mut store = store();
    let body = json!({"metadata": {"generateName": "a-", "uid": "mine", "deletionTimestamp": "2024-01-01T00:00:00Z"}});
    let made = make(&mut store, &CONFIG_MAPS, body).unwrap();
    let metadata = &made.object.value["metadata"];
    let name = metadata["name"].as_str().unwrap();
    assert!(
        made.created && name.starts_with("a-") && name.len() == 7,
        "{name}"
    );
    assert_eq!(
        (&metadata["namespace"], &metadata["creationTimestamp"]),
        (&json!("default"), &json!("2024-01-01T00:00:00Z"))
    );
    assert!(metadata.get("deletionTimestamp").is_none() && metadata["uid"] != "mine");
    assert_eq!(
        (&made.object.value["kind"], &made.object.value["apiVersion"]),
        (&json!("ConfigMap"), &json!("v1"))
    );
}

#[test]
fn rejects_invalid_creations_with_the_right_reason() {
    let mut store = store();
    make(&mut store, &CONFIG_MAPS, json!({"metadata": {"name": "a"}})).unwrap();
    for (body, expected) in [
        (json!({"metadata": {"name": "a"}}), Reason::AlreadyExists),
        (json!({"metadata": {}}), Reason::Invalid),
        (json!({"metadata": {"name": "Bad Name"}}), Reason::Invalid),
        (
            json!({"metadata": {"name": "b", "namespace": "other"}}),
            Reason::BadRequest,
        ),
        (
            json!({"metadata": {"name": "b", "resourceVersion": "1"}}),
            Reason::Unknown,
        ),
        (
            json!({"kind": "Secret", "metadata": {"name": "b"}}),
            Reason::BadRequest,
        ),
        (
            json!({"metadata": {"name": "b"}, "data": {"x": 1}}),
            Reason::BadRequest,
        ),
    ] {
        assert_eq!(
            make(&mut store, &CONFIG_MAPS, body.clone())
                .unwrap_err()
                .reason(),
            expected,
            "{body}"
        );
    }

    let nowhere = Target {
        namespace: "nowhere".into(),
        ..target(&CONFIG_MAPS, "a")
    };
    let error = create(&mut store, &nowhere, json!({}), &Options::default(), now()).unwrap_err();
    assert_eq!(error.to_string(), "namespaces \"nowhere\" not found");
}

#[test]
fn unknown_fields_warn_or_fail_as_requested() {
    let mut store = store();
    let body = json!({"metadata": {"name": "a"}, "dta": {}});
    let mut attempt = |validation| {
        let options = Options {
            validation,
            dry_run: true,
            ..Options::default()
        };
        create(
            &mut store,
            &target(&CONFIG_MAPS, "a"),
            body.clone(),
            &options,
            now(),
        )
        .map(|written| written.warnings)
    };

    assert_eq!(
        attempt(FieldValidation::Warn).unwrap(),
        ["unknown field \"dta\""]
    );
    assert!(attempt(FieldValidation::Ignore).unwrap().is_empty());
    assert_eq!(
        attempt(FieldValidation::Strict).unwrap_err().reason(),
        Reason::BadRequest
    );
}

#[test]
fn a_dry_run_returns_the_object_but_stores_nothing() {
    let mut store = store();
    let before = store.revision();
    let options = Options {
        dry_run: true,
        ..Options::default()
    };
    let body = json!({"spec": {"ports": [{"port": 80}]}});
    let made = create(&mut store, &target(&SERVICES, "a"), body, &options, now()).unwrap();
    assert!(made.object.value["spec"]["clusterIP"].is_string());
    assert_eq!(
        (
            store.revision(),
            store.get(Storage::Services, "default", "a").is_none()
        ),
        (before, true)
    );
}

#[test]
fn an_update_based_on_an_old_version_is_a_conflict() {
    let mut store = store();
    let first = make(&mut store, &CONFIG_MAPS, json!({"metadata": {"name": "a"}}))
        .unwrap()
        .object;
    let it = target(&CONFIG_MAPS, "a");

    merge(&mut store, &it, json!({"data": {"x": "1"}})).unwrap();
    let stale = update(
        &mut store,
        &it,
        first.value.clone(),
        &Options::default(),
        now(),
    )
    .unwrap_err();
    assert_eq!(stale.reason(), Reason::Conflict);

    let stale = merge(
        &mut store,
        &it,
        json!({"metadata": {"resourceVersion": "1"}}),
    )
    .unwrap_err();
    assert_eq!(stale.reason(), Reason::Conflict);

    let other = merge(&mut store, &it, json!({"metadata": {"uid": "other"}})).unwrap_err();
    assert!(
        other.reason() == Reason::Invalid && other.to_string().contains("metadata.uid"),
        "{other}"
    );

    let body = json!({"metadata": {"name": "a", "uid": "other"}});
    let other = update(&mut store, &it, body, &Options::default(), now()).unwrap_err();
    assert!(
        other.reason() == Reason::Conflict && other.to_string().contains("UID in precondition"),
        "{other}"
    );

    let blind = update(
        &mut store,
        &it,
        json!({"metadata": {"name": "a"}, "data": {"x": "2"}}),
        &Options::default(),
        now(),
    )
    .unwrap();
    assert_eq!(blind.object.value["data"]["x"], "2");

    make(&mut store, &LEASES, json!({"metadata": {"name": "a"}})).unwrap();
    let lease = update(
        &mut store,
        &target(&LEASES, "a"),
        json!({"metadata": {"name": "a"}}),
        &Options::default(),
        now(),
    )
    .unwrap_err();
    assert_eq!(
        lease.reason(),
        Reason::Invalid,
        "a lease is never updated blindly"
    );
}

#[test]
fn a_write_without_changes_keeps_the_revision() {
    let mut store = store();
    make(
        &mut store,
        &CONFIG_MAPS,
        json!({"metadata": {"name": "a"}, "data": {"x": "1"}}),
    )
    .unwrap();
    let before = store.revision();
    merge(
        &mut store,
        &target(&CONFIG_MAPS, "a"),
        json!({"data": {"x": "1"}}),
    )
    .unwrap();
    assert_eq!(store.revision(), before);
}

#[test]
fn status_and_spec_are_written_separately() {
    let mut store = store();
    make(
        &mut store,
        &NODES,
        json!({"metadata": {"name": "a"}, "status": {"phase": "Running"}}),
    )
    .unwrap();
    let it = target(&NODES, "a");

    let main = merge(
        &mut store,
        &it,
        json!({"spec": {"unschedulable": true}, "status": {"phase": "Odd"}}),
    )
    .unwrap();
    assert_eq!(
        (
            &main.value["spec"]["unschedulable"],
            &main.value["status"]["phase"]
        ),
        (&json!(true), &json!("Running"))
    );

    let body = json!({"metadata": {"finalizers": ["a/b"]}, "spec": {"providerID": "x"}, "status": {"phase": "New"}});
    let part = merge(&mut store, &status(&NODES, "a"), body).unwrap();
    assert_eq!(
        (
            &part.value["metadata"]["finalizers"],
            &part.value["status"]["phase"]
        ),
        (&json!(["a/b"]), &json!("New"))
    );
    assert!(part.value["spec"].get("providerID").is_none());
}

#[test]
fn a_provider_id_can_be_set_only_once() {
    let mut store = store();
    make(&mut store, &NODES, json!({"metadata": {"name": "a"}})).unwrap();
    let it = target(&NODES, "a");
    merge(&mut store, &it, json!({"spec": {"providerID": "x://1"}})).unwrap();
    let error = merge(&mut store, &it, json!({"spec": {"providerID": "x://2"}})).unwrap_err();
    assert_eq!(error.reason(), Reason::Invalid);
    assert!(
        error
            .to_string()
            .contains("spec.providerID: Forbidden: node updates may not change"),
        "{error}"
    );
}

#[test]
fn an_object_is_deleted_with_its_last_finalizer() {
    let mut store = store();
    make(
        &mut store,
        &CONFIG_MAPS,
        json!({"metadata": {"name": "a", "finalizers": ["a/b"]}}),
    )
    .unwrap();

    let it = target(&CONFIG_MAPS, "a");
    let marked = delete(&mut store, &it, &DeleteOptions::default(), now()).unwrap();
    assert!(
        !marked.gone
            && marked.object.value["metadata"]["deletionTimestamp"] == "2024-01-01T00:00:00Z"
    );

    let again = delete(&mut store, &it, &DeleteOptions::default(), now()).unwrap();
    assert_eq!(
        again.object.revision, marked.object.revision,
        "a second deletion changes nothing"
    );

    let more = merge(
        &mut store,
        &it,
        json!({"metadata": {"finalizers": ["a/b", "c/d"]}}),
    )
    .unwrap_err();
    assert!(more.to_string().contains("no new finalizers"), "{more}");

    merge(&mut store, &it, json!({"metadata": {"finalizers": null}})).unwrap();
    assert!(store.get(Storage::ConfigMaps, "default", "a").is_none());
}

#[test]
fn a_deletion_checks_its_preconditions() {
    let mut store = store();
    make(&mut store, &NODES, json!({"metadata": {"name": "a"}})).unwrap();

    let it = target(&NODES, "a");
    let other = DeleteOptions {
        uid: Some("other".into()),
        ..DeleteOptions::default()
    };
    assert_eq!(
        delete(&mut store, &it, &other, now()).unwrap_err().reason(),
        Reason::Conflict
    );

    let old = DeleteOptions {
        resource_version: Some("1".into()),
        ..DeleteOptions::default()
    };
    assert_eq!(
        delete(&mut store, &it, &old, now()).unwrap_err().reason(),
        Reason::Conflict
    );

    let dry = DeleteOptions {
        dry_run: true,
        ..DeleteOptions::default()
    };
    assert!(delete(&mut store, &it, &dry, now()).unwrap().gone);
    assert!(
        delete(&mut store, &it, &DeleteOptions::default(), now())
            .unwrap()
            .gone
    );

    assert_eq!(
        delete(&mut store, &it, &DeleteOptions::default(), now())
            .unwrap_err()
            .reason(),
        Reason::NotFound
    );
}

#[test]
fn a_namespace_deletes_its_content_and_waits_for_finalizers() {
    let mut store = store();
    let inside = |name| Target {
        namespace: "work".into(),
        ..target(&CONFIG_MAPS, name)
    };
    create(
        &mut store,
        &inside("a"),
        json!({}),
        &Options::default(),
        now(),
    )
    .unwrap();

    let held = json!({"metadata": {"finalizers": ["a/b"]}});
    create(&mut store, &inside("b"), held, &Options::default(), now()).unwrap();

    let namespace = target(&NAMESPACES, "work");
    assert!(
        !delete(&mut store, &namespace, &DeleteOptions::default(), now())
            .unwrap()
            .gone
    );
    let left = store.get(Storage::Namespaces, "", "work").unwrap();
    assert_eq!(left.value["status"]["phase"], "Terminating");
    assert!(store.get(Storage::ConfigMaps, "work", "a").is_none());

    let error = create(
        &mut store,
        &inside("c"),
        json!({}),
        &Options::default(),
        now(),
    )
    .unwrap_err();
    assert_eq!(error.reason(), Reason::Forbidden);
    assert_eq!(
        error.status()["details"]["causes"][0]["reason"],
        "NamespaceTerminating"
    );

    merge(
        &mut store,
        &inside("b"),
        json!({"metadata": {"finalizers": null}}),
    )
    .unwrap();
    assert!(store.get(Storage::Namespaces, "", "work").is_none());

    let error = delete(
        &mut store,
        &target(&NAMESPACES, "default"),
        &DeleteOptions::default(),
        now(),
    )
    .unwrap_err();
    assert_eq!(error.reason(), Reason::Forbidden);
}

#[test]
fn an_event_can_be_changed_in_either_version() {
    let mut store = store();
    let body = json!({
        "metadata": {"name": "e"}, "eventTime": "2024-01-01T00:00:00.000000Z", "reportingController": "c", "reportingInstance": "i",
        "action": "A", "reason": "R", "type": "Normal", "regarding": {"kind": "Node", "name": "n"}, "note": "hello",
    });
    make(&mut store, &EVENTS, body).unwrap();
    let series = json!({"series": {"count": 2, "lastObservedTime": "2024-01-01T00:00:01.000000Z"}});
    let changed = merge(&mut store, &target(&EVENTS, "e"), series).unwrap();
    assert_eq!(
        (&changed.value["apiVersion"], &changed.value["message"]),
        (&json!("v1"), &json!("hello"))
    );
    assert_eq!(changed.value["series"]["count"], 2);
}

#[test]
fn events_are_kept_for_an_hour() {
    let mut store = store();
    let event = |name: &str, at: &str| json!({"metadata": {"name": name}, "involvedObject": {"kind": "Node"}, "lastTimestamp": at});
    make(
        &mut store,
        &crate::resources::resource::CORE_EVENTS,
        event("old", "2024-01-01T00:00:00Z"),
    )
    .unwrap();
    make(
        &mut store,
        &crate::resources::resource::CORE_EVENTS,
        event("new", "2024-01-01T01:00:00Z"),
    )
    .unwrap();
    delete::expire_events(&mut store, "2024-01-01T01:30:00Z".parse().unwrap());
    let left: Vec<_> = store
        .objects(Storage::Events, None)
        .map(|event| name(&event.value).to_owned())
        .collect();
    assert_eq!(left, ["new"]);
}
