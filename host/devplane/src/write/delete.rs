//! Deleting: finalizers, preconditions, and namespaces with all that is in them.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Target, current};
use crate::{
    object::{self, Object, as_map, child, list, text},
    refusal::Refusal,
    resource::{NAMESPACES, Shelf},
    store::Store,
    strategy::KUBERNETES_FINALIZER,
};

/// How long events are kept: the API server's `--event-ttl`.
const EVENT_LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// The namespaces that are always there.
pub(crate) const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// `metav1.DeleteOptions`, as far as it matters. Dependents are neither waited for nor orphaned: nothing collects garbage here.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    /// Preconditions.
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

/// What a deletion led to.
#[derive(Clone, Debug)]
pub(crate) struct Deleted {
    /// Its last state, or the state in which it waits for its finalizers.
    pub(crate) object: Arc<Object>,
    /// Whether the object is gone already.
    pub(crate) gone: bool,
}

/// Deletes an object, or marks it if it has finalizers.
pub(crate) fn delete(
    store: &mut Store,
    target: &Target,
    options: &DeleteOptions,
    now: Timestamp,
) -> Result<Deleted, Refusal> {
    let (resource, name) = (target.resource, target.name.as_str());
    let object = current(store, target)?;
    for (wanted, pointer, what) in [
        (&options.uid, "/metadata/uid", "UID"),
        (&options.resource_version, "/metadata/resourceVersion", "ResourceVersion"),
    ] {
        let found = text(&object.value, pointer);
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
            return Err(Refusal::precondition(resource, name, what, wanted, found));
        }
    }
    if resource.shelf == Shelf::Namespaces && SYSTEM_NAMESPACES.contains(&name) {
        return Err(Refusal::forbidden(&NAMESPACES, name, "this namespace may not be deleted"));
    }
    let waits =
        !list(&object.value, "/metadata/finalizers").is_empty() || !list(&object.value, "/spec/finalizers").is_empty();
    if !waits {
        let last = if options.dry_run { None } else { discard(store, resource.shelf, &target.namespace, name) };
        return Ok(Deleted { object: last.unwrap_or(object), gone: true });
    }
    if object::deleting(&object.value) || options.dry_run {
        return Ok(Deleted { object, gone: false });
    }
    let mut value = object.value.clone();
    let metadata = child(&mut value, "metadata");
    metadata.insert("deletionTimestamp".into(), object::time(now).into());
    metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
    if resource.shelf == Shelf::Namespaces {
        child(&mut value, "status").insert("phase".into(), "Terminating".into());
    }
    let object = store.put(resource.shelf, value);
    if resource.shelf == Shelf::Namespaces {
        empty_namespace(store, name, now);
    }
    Ok(Deleted { object, gone: false })
}

/// Takes an object off its shelf. The last one of a namespace that is going away takes the namespace along.
pub(super) fn discard(store: &mut Store, shelf: Shelf, namespace: &str, name: &str) -> Option<Arc<Object>> {
    let last = store.remove(shelf, namespace, name);
    if !namespace.is_empty() {
        finish_namespace(store, namespace);
    }
    last
}

/// Removes events that are older than an hour.
pub(crate) fn expire_events(store: &mut Store, now: Timestamp) {
    let old = |object: &&Arc<Object>| {
        let times = ["/lastTimestamp", "/series/lastObservedTime", "/eventTime", "/metadata/creationTimestamp"];
        let latest = times.iter().filter_map(|time| text(&object.value, time).parse::<Timestamp>().ok()).max();
        latest.is_some_and(|latest| now.duration_since(latest) > EVENT_LIFETIME)
    };
    let old: Vec<_> = store.objects(Shelf::Events, None).filter(old).cloned().collect();
    for event in old {
        discard(store, Shelf::Events, object::namespace(&event.value), object::name(&event.value));
    }
}

fn empty_namespace(store: &mut Store, namespace: &str, now: Timestamp) {
    for shelf in Shelf::ALL.into_iter().filter(|shelf| shelf.storage().namespaced) {
        let names: Vec<_> =
            store.objects(shelf, Some(namespace)).map(|object| object::name(&object.value).to_owned()).collect();
        for name in names {
            let target = Target { resource: shelf.storage(), namespace: namespace.to_owned(), name, subresource: None };
            if let Err(refusal) = delete(store, &target, &DeleteOptions::default(), now) {
                tracing::warn!(namespace, name = target.name, %refusal, "an object of a deleted namespace stays");
            }
        }
    }
    finish_namespace(store, namespace);
}

/// Ends a namespace that is being deleted and has nothing left in it.
fn finish_namespace(store: &mut Store, namespace: &str) {
    let Some(object) = store.get(Shelf::Namespaces, "", namespace).cloned() else { return };
    let namespaced = Shelf::ALL.into_iter().filter(|shelf| shelf.storage().namespaced);
    let empty = namespaced.into_iter().all(|shelf| store.objects(shelf, Some(namespace)).next().is_none());
    if !object::deleting(&object.value) || !empty {
        return;
    }
    let mut value = object.value.clone();
    if let Some(Value::Array(finalizers)) = child(&mut value, "spec").get_mut("finalizers") {
        finalizers.retain(|finalizer| finalizer != KUBERNETES_FINALIZER);
    }
    let done = list(&value, "/metadata/finalizers").is_empty() && list(&value, "/spec/finalizers").is_empty();
    if done {
        store.remove(Shelf::Namespaces, "", namespace);
    } else if value != object.value {
        if list(&value, "/spec/finalizers").is_empty() {
            as_map(&mut value).insert("spec".into(), json!({}));
        }
        store.put(Shelf::Namespaces, value);
    }
}
