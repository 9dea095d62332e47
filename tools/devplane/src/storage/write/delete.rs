//! Deletion: finalizers, preconditions, and namespaces with their contents.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Target, current};
use crate::{
    registry::strategy::KUBERNETES_FINALIZER,
    resources::{
        object::{self, Object, as_map, child, list, text},
        resource::{NAMESPACES, Storage},
    },
    status::{Cause, StatusError},
    storage::store::Store,
};

/// Lifetime of events: the API server's `--event-ttl`.
const EVENT_LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// The namespaces that always exist.
pub(crate) const SYSTEM_NAMESPACES: [&str; 4] =
    ["default", "kube-node-lease", "kube-public", "kube-system"];

/// `metav1.DeleteOptions`, as far as it is used here.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    /// Preconditions.
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    /// `Background`, `Foreground` or `Orphan`.
    pub(crate) propagation: Option<String>,
    /// The predecessor of `propagation`.
    pub(crate) orphan_dependents: Option<bool>,
}

impl DeleteOptions {
    /// Adds the values of `dryRun`, and returns an error if any of the options is not valid.
    pub(crate) fn checked<T: AsRef<str>>(mut self, dry_run: &[T]) -> Result<Self, StatusError> {
        let mut causes = Vec::new();
        if let Some(policy) = &self.propagation {
            if self.orphan_dependents.is_some() {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                causes.push(Cause::invalid(
                    "propagationPolicy",
                    &policy.as_str().into(),
                    why,
                ));
            }

            let known = ["Foreground", "Background", "Orphan"];
            if !known.contains(&policy.as_str()) {
                causes.push(Cause::not_supported("propagationPolicy", policy, &known));
            }
        }

        let (only_tried, odd) = super::dry_run(dry_run);
        causes.extend(odd);
        self.dry_run = only_tried;

        if causes.is_empty() {
            Ok(self)
        } else {
            Err(StatusError::invalid_options("DeleteOptions", &causes))
        }
    }

    /// Returns the finalizer for the dependents of the object, which the garbage collector removes:
    /// `Some(None)` if it needs none, `None` if its finalizers are not to be changed.
    fn finalizer(&self, storage: Storage) -> Option<Option<&'static str>> {
        match (self.orphan_dependents, self.propagation.as_deref()) {
            (Some(true), _) | (None, Some("Orphan")) => Some(Some(ORPHAN)),
            (None, Some("Foreground")) => Some(Some(FOREGROUND)),
            (Some(false), _) if storage == Storage::Namespaces => Some(Some(FOREGROUND)),
            (Some(false), _) | (None, Some(_)) => Some(None),
            (None, None) => None,
        }
    }
}

/// The finalizers of the garbage collector.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Result of a deletion.
#[derive(Clone, Debug)]
pub(crate) struct Deleted {
    /// Its last state, or the state in which it waits for its finalizers.
    pub(crate) object: Arc<Object>,
    /// Whether the object was deleted completely.
    pub(crate) gone: bool,
}

/// Deletes an object, or marks it as being deleted if it has finalizers.
pub(crate) fn delete(
    store: &mut Store,
    target: &Target,
    options: &DeleteOptions,
    now: Timestamp,
) -> Result<Deleted, StatusError> {
    let storage = target.resource.storage;
    let is_namespace = storage == Storage::Namespaces;
    let object = current(store, target)?;
    check_preconditions(target, &object.value, options)?;

    if is_namespace && SYSTEM_NAMESPACES.contains(&target.name.as_str()) {
        return Err(StatusError::forbidden(
            &NAMESPACES,
            &target.name,
            "this namespace may not be deleted",
        ));
    }

    let mut value = object.value.clone();
    let again = object::deleting(&value);
    if !(is_namespace && again) {
        set_finalizer(&mut value, storage, options);
    }

    // The first deletion of a namespace only marks it, even if it has no finalizers.
    let pending = |field| !list(&value, field).is_empty();
    if !pending("/metadata/finalizers")
        && !(is_namespace && (!again || pending("/spec/finalizers")))
    {
        let last = if options.dry_run {
            None
        } else {
            discard(store, storage, &target.namespace, &target.name)
        };
        return Ok(Deleted {
            object: last.unwrap_or(object),
            gone: true,
        });
    }

    if !again {
        mark(&mut value, is_namespace, now);
    }

    let object = if value == object.value {
        // A repeated deletion changes nothing, and gets no revision.
        object
    } else if options.dry_run {
        Arc::new(Object::new(value, store.revision()))
    } else {
        let object = store.put(storage, value);
        if store.has_controllers() {
            run_controllers(store, target, now);
        }
        object
    };

    Ok(Deleted {
        object,
        gone: false,
    })
}

/// Checks that an object is the one that is to be deleted.
fn check_preconditions(
    target: &Target,
    value: &Value,
    options: &DeleteOptions,
) -> Result<(), StatusError> {
    let storage = target.resource.storage;
    // Upstream, namespaces check preconditions themselves, with another message.
    let conflict = if storage == Storage::Namespaces {
        StatusError::precondition
    } else {
        StatusError::not_to_delete
    };

    let version = &options.resource_version;
    for (wanted, pointer, what) in [
        (&options.uid, "/metadata/uid", "UID"),
        (version, "/metadata/resourceVersion", "ResourceVersion"),
    ] {
        let found = text(value, pointer);
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
            return Err(conflict(
                storage.resource(),
                &target.name,
                what,
                wanted,
                found,
            ));
        }
    }
    Ok(())
}

/// Marks an object as being deleted.
fn mark(value: &mut Value, is_namespace: bool, now: Timestamp) {
    let metadata = child(value, "metadata");
    metadata.insert("deletionTimestamp".into(), object::time(now).into());
    if is_namespace {
        child(value, "status").insert("phase".into(), "Terminating".into());
    } else {
        metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
    }
}

/// Replaces the garbage collector's finalizers of a deleted object by the one for its dependents.
/// Events have no dependents.
fn set_finalizer(value: &mut Value, storage: Storage, options: &DeleteOptions) {
    let Some(finalizer) = options
        .finalizer(storage)
        .filter(|_| storage != Storage::Events)
    else {
        return;
    };

    let metadata = child(value, "metadata");
    let mut finalizers = metadata
        .get("finalizers")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    if finalizer.is_some_and(|finalizer| finalizers.iter().any(|other| other == finalizer)) {
        return;
    }

    finalizers.retain(|other| other != ORPHAN && other != FOREGROUND);
    finalizers.extend(finalizer.map(Value::from));

    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), finalizers.into());
    }
}

/// Does at once what Kubernetes' controllers do about a deletion: the garbage collector releases an
/// object without dependents, and the namespace controller deletes the contents of a namespace.
fn run_controllers(store: &mut Store, target: &Target, now: Timestamp) {
    let storage = target.resource.storage;
    let Some(object) = store.get(storage, &target.namespace, &target.name).cloned() else {
        return;
    };

    let mut value = object.value.clone();
    if let Some(Value::Array(finalizers)) = child(&mut value, "metadata").get_mut("finalizers") {
        finalizers.retain(|finalizer| finalizer != ORPHAN && finalizer != FOREGROUND);
        if finalizers.is_empty() {
            child(&mut value, "metadata").remove("finalizers");
        }
    }

    let free = list(&value, "/metadata/finalizers").is_empty();
    if free && storage != Storage::Namespaces {
        discard(store, storage, &target.namespace, &target.name);
    } else if value != object.value {
        store.put(storage, value);
    }

    if storage == Storage::Namespaces {
        empty_namespace(store, &target.name, now);
    }
}

/// Removes an object from the store. With the last object of a namespace that is being deleted, the
/// namespace is deleted, too.
pub(super) fn discard(
    store: &mut Store,
    storage: Storage,
    namespace: &str,
    name: &str,
) -> Option<Arc<Object>> {
    let last = store.remove(storage, namespace, name);
    if !namespace.is_empty() && store.has_controllers() {
        finish_namespace(store, namespace);
    }
    last
}

/// Deletes events that are older than an hour.
pub(crate) fn expire_events(store: &mut Store, now: Timestamp) {
    let old = |object: &&Arc<Object>| {
        let times = [
            "/lastTimestamp",
            "/series/lastObservedTime",
            "/eventTime",
            "/metadata/creationTimestamp",
        ];

        // An event that occurs again lives on from its last occurrence.
        let latest = times
            .iter()
            .filter_map(|time| text(&object.value, time).parse::<Timestamp>().ok())
            .max();
        latest.is_some_and(|latest| now.duration_since(latest) > EVENT_LIFETIME)
    };

    let old: Vec<_> = store
        .objects(Storage::Events, None)
        .filter(old)
        .cloned()
        .collect();

    for event in old {
        discard(
            store,
            Storage::Events,
            object::namespace(&event.value),
            object::name(&event.value),
        );
    }
}

fn empty_namespace(store: &mut Store, namespace: &str, now: Timestamp) {
    for storage in Storage::ALL
        .into_iter()
        .filter(|storage| storage.resource().namespaced)
    {
        let names: Vec<_> = store
            .objects(storage, Some(namespace))
            .map(|object| object::name(&object.value).to_owned())
            .collect();

        for name in names {
            let target = Target {
                resource: storage.resource(),
                namespace: namespace.to_owned(),
                name,
                subresource: None,
            };
            if let Err(error) = delete(store, &target, &DeleteOptions::default(), now) {
                tracing::warn!(namespace, name = target.name, rejection = %error, "an object of a deleted namespace stays");
            }
        }
    }

    finish_namespace(store, namespace);
}

/// Deletes a namespace that is being deleted and is empty.
fn finish_namespace(store: &mut Store, namespace: &str) {
    let Some(object) = store.get(Storage::Namespaces, "", namespace).cloned() else {
        return;
    };

    let namespaced = Storage::ALL
        .into_iter()
        .filter(|storage| storage.resource().namespaced);
    let empty = namespaced
        .into_iter()
        .all(|storage| store.objects(storage, Some(namespace)).next().is_none());

    if !object::deleting(&object.value) || !empty {
        return;
    }

    let mut value = object.value.clone();
    if let Some(Value::Array(finalizers)) = child(&mut value, "spec").get_mut("finalizers") {
        finalizers.retain(|finalizer| finalizer != KUBERNETES_FINALIZER);
    }

    let done = list(&value, "/metadata/finalizers").is_empty()
        && list(&value, "/spec/finalizers").is_empty();
    if done {
        store.remove(Storage::Namespaces, "", namespace);
    } else if value != object.value {
        if list(&value, "/spec/finalizers").is_empty() {
            as_map(&mut value).insert("spec".into(), json!({}));
        }
        store.put(Storage::Namespaces, value);
    }
}
