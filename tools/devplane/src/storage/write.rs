//! Rules for creating, changing and deleting objects of all resources.

use std::sync::Arc;

use jiff::Timestamp;
use rand::Rng as _;
use serde_json::Value;

use crate::{
    formats::patch::Patch,
    registry::{strategy, validate},
    resources::{
        event, managed,
        object::{self, Object, as_map, child, copy_field, list, name, strings, text},
        resource::{NAMESPACES, Resource, Storage, Subresource},
        schema,
    },
    status::{Cause, Reason, StatusError},
    storage::store::Store,
};

pub(crate) mod delete;

/// The object of a request.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) resource: &'static Resource,
    /// Empty for objects without a namespace.
    pub(crate) namespace: String,
    /// Empty if the server is to generate a name.
    pub(crate) name: String,
    pub(crate) subresource: Option<Subresource>,
}

/// The query parameters of a write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Everything is checked, but nothing is stored.
    pub(crate) dry_run: bool,
    pub(crate) validation: FieldValidation,
    /// Who writes, for `metadata.managedFields`.
    pub(crate) manager: String,
}

/// How unknown fields are handled. They are always dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    /// A warning for each.
    #[default]
    Warn,
    /// The request is rejected.
    Strict,
}

/// Returns whether this is a dry run, and an error for values other than `All`.
pub(crate) fn dry_run<T: AsRef<str>>(values: &[T]) -> (bool, Option<Cause>) {
    let odd = values
        .iter()
        .map(AsRef::as_ref)
        .find(|value| *value != "All");
    (
        !values.is_empty(),
        odd.map(|odd| Cause::not_supported("dryRun", odd, &["All"])),
    )
}

/// Result of a write.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) object: Arc<Object>,
    pub(crate) created: bool,
    pub(crate) warnings: Vec<String>,
}

pub(crate) fn create(
    store: &mut Store,
    target: &Target,
    body: Value,
    options: &Options,
    now: Timestamp,
) -> Result<Written, StatusError> {
    let (mut value, warnings) = decode(target.resource, body, options.validation, Source::Body)?;
    let metadata = child(&mut value, "metadata");
    // Only a deletion sets these.
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        metadata.remove(field);
    }

    create_decoded(store, target, value, warnings, options, now)
}

fn create_decoded(
    store: &mut Store,
    target: &Target,
    mut value: Value,
    warnings: Vec<String>,
    options: &Options,
    now: Timestamp,
) -> Result<Written, StatusError> {
    let resource = target.resource;
    same_identity(&value, target, true)?;
    let name = new_name(&value, target)?;
    set_identity(&mut value, target, &name, now);
    open_namespace(store, target, &name)?;
    reject_if_any(
        resource,
        &name,
        &strategy::begin_create(resource, &mut value, store),
    )?;

    let mut causes = validate::metadata(&value, strategy::name_rule(resource));
    causes.extend(strategy::create(resource, &mut value));
    reject_if_any(resource, &name, &causes)?;

    let versioned = text(&value, "/metadata/resourceVersion")
        .parse()
        .is_ok_and(|version: u64| version > 0);
    // A dry run ends before the storage, which checks this.
    if versioned && !options.dry_run {
        return Err(StatusError::new(
            Reason::Unknown,
            "resourceVersion should not be set on objects to be created",
        ));
    }

    // As in an API server, an object that is not valid is rejected as such even if its name is
    // taken.
    if store
        .get(resource.storage, &target.namespace, &name)
        .is_some()
    {
        return Err(StatusError::already_exists(resource, &name));
    }

    managed::record(&mut value, &Value::Null, &options.manager);
    let object = put_unless_dry_run(store, resource.storage, value, options);
    Ok(Written {
        object,
        created: true,
        warnings,
    })
}

/// Returns the name of a new object, which is generated if there is only a prefix.
fn new_name(value: &Value, target: &Target) -> Result<String, StatusError> {
    let wanted = if target.name.is_empty() {
        name(value)
    } else {
        &target.name
    };

    match (wanted, text(value, "/metadata/generateName")) {
        ("", "") => {
            let cause = Cause::required("metadata.name", "name or generateName is required");
            Err(StatusError::invalid(target.resource, "", &[cause]))
        }
        ("", prefix) => Ok(generate_name(prefix)),
        (wanted, _) => Ok(wanted.to_owned()),
    }
}

/// Sets the metadata that the server decides on.
fn set_identity(value: &mut Value, target: &Target, name: &str, now: Timestamp) {
    let metadata = child(value, "metadata");
    for field in ["selfLink", "managedFields", "namespace"] {
        metadata.remove(field);
    }

    metadata.insert("name".into(), name.into());
    if target.resource.namespaced {
        metadata.insert("namespace".into(), target.namespace.as_str().into());
    }
    metadata.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".into(), object::time(now).into());
}

/// Replaces an object.
pub(crate) fn update(
    store: &mut Store,
    target: &Target,
    body: Value,
    options: &Options,
    now: Timestamp,
) -> Result<Written, StatusError> {
    let resource = target.resource;
    let (mut value, warnings) = decode(resource, body, options.validation, Source::Body)?;
    same_identity(&value, target, false)?;

    let current = match current(store, target) {
        Err(_) if resource.create_on_update && target.subresource.is_none() => {
            // A UID means an object that exists, and is not for one to be created.
            let uid = text(&value, "/metadata/uid");
            if !uid.is_empty() {
                return Err(StatusError::precondition(
                    resource,
                    &target.name,
                    "UID",
                    uid,
                    "",
                ));
            }

            child(&mut value, "metadata").remove("resourceVersion");
            return create_decoded(store, target, value, warnings, options, now);
        }
        found => found?,
    };

    // A complete object with another UID is meant for an earlier object with this name. In a patch,
    // the UID is a field like any other.
    let uid = text(&value, "/metadata/uid");
    let found = text(&current.value, "/metadata/uid");
    if !uid.is_empty() && uid != found {
        return Err(StatusError::precondition(
            resource,
            &target.name,
            "UID",
            uid,
            found,
        ));
    }

    if text(&value, "/metadata/resourceVersion").is_empty() && !resource.unconditional_update {
        let cause = Cause::invalid(
            "metadata.resourceVersion",
            &0.into(),
            "must be specified for an update",
        );
        return Err(StatusError::invalid_resource(
            resource,
            &target.name,
            &[cause],
        ));
    }

    let object = replace(store, target, &current, value, options)?;
    Ok(Written {
        object,
        created: false,
        warnings,
    })
}

/// Changes a part of an object.
pub(crate) fn patch(
    store: &mut Store,
    target: &Target,
    patch: &Patch,
    options: &Options,
) -> Result<Written, StatusError> {
    let resource = target.resource;
    let current = current(store, target)?;

    let value = patch.apply(
        event::from_storage(current.value.clone(), resource),
        resource.schema,
    )?;

    let source = if matches!(patch, Patch::Strategic(_)) {
        Source::StrategicPatch
    } else {
        Source::Patch
    };

    let (value, warnings) = decode(resource, value, options.validation, source)?;
    let object = replace(store, target, &current, value, options)?;

    Ok(Written {
        object,
        created: false,
        warnings,
    })
}

/// Returns the current object of a request.
pub(crate) fn current(store: &Store, target: &Target) -> Result<Arc<Object>, StatusError> {
    let found = store.get(target.resource.storage, &target.namespace, &target.name);
    found
        .cloned()
        .ok_or_else(|| StatusError::not_found(target.resource, &target.name))
}

/// Replaces `current` by `value`, except for fields that cannot be changed.
fn replace(
    store: &mut Store,
    target: &Target,
    current: &Arc<Object>,
    mut value: Value,
    options: &Options,
) -> Result<Arc<Object>, StatusError> {
    let resource = target.resource;
    let old = &current.value;

    same_identity(&value, target, false)?;
    same_version(&value, target, old)?;

    let mut causes = restore_metadata(&mut value, old);
    causes.extend(validate::metadata(&value, strategy::name_rule(resource)));
    causes.extend(new_finalizers(&value, old));
    causes.extend(match target.subresource {
        Some(Subresource::Status) => strategy::update_status(resource, &mut value, old),
        Some(Subresource::Token) | None => strategy::update(resource, &mut value, old, store),
    });
    reject_if_any(resource, &target.name, &causes)?;

    // Without a change there is no revision: as in an API server, watches get nothing.
    if value == *old {
        return Ok(Arc::clone(current));
    }

    let last_finalizer_went = object::deleting(&value)
        && list(&value, "/metadata/finalizers").is_empty()
        && list(&value, "/spec/finalizers").is_empty();
    if last_finalizer_went && !options.dry_run {
        // Watches only get the deletion: as in an API server, the object without finalizers is
        // never stored.
        delete::discard(store, resource.storage, &target.namespace, &target.name);
        return Ok(Arc::new(Object::new(value, store.revision())));
    }

    managed::record(&mut value, old, &options.manager);
    Ok(put_unless_dry_run(store, resource.storage, value, options))
}

/// Checks that a change is based on the current version, if it says on which.
fn same_version(value: &Value, target: &Target, old: &Value) -> Result<(), StatusError> {
    let version = text(value, "/metadata/resourceVersion");
    if version.is_empty() {
        return Ok(());
    }

    if version.parse::<u64>().is_err() {
        return Err(StatusError::new(
            Reason::Unknown,
            format!("strconv.ParseUint: parsing {version:?}: invalid syntax"),
        ));
    }
    if version != text(old, "/metadata/resourceVersion") {
        return Err(StatusError::stale(target.resource, &target.name));
    }
    Ok(())
}

/// Restores the metadata that clients cannot change, and returns an error for each that this change
/// must not contain.
fn restore_metadata(value: &mut Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let immutable = |field: &str, new: &Value| {
        Cause::invalid(format!("metadata.{field}"), new, "field is immutable")
    };

    let uid = text(value, "/metadata/uid");
    if !uid.is_empty() && uid != text(old, "/metadata/uid") {
        causes.push(immutable("uid", &uid.into()));
    }

    let metadata = child(value, "metadata");
    let old_metadata = old.get("metadata").unwrap_or(&Value::Null);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let kept = old_metadata.get(field);
        let changed = metadata
            .get(field)
            .filter(|new| kept != Some(*new) && (kept.is_none() || field != "deletionTimestamp"));
        causes.extend(changed.map(|new| immutable(field, new)));
    }

    metadata.remove("selfLink");
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
    ] {
        copy_field(old_metadata, metadata, field);
    }
    causes
}

/// Returns an error for new finalizers of an object that is being deleted.
fn new_finalizers(value: &Value, old: &Value) -> Option<Cause> {
    if !object::deleting(old) {
        return None;
    }

    let before = strings(old, "/metadata/finalizers");
    let mut new = strings(value, "/metadata/finalizers");
    new.retain(|finalizer| !before.contains(finalizer));
    if new.is_empty() {
        return None;
    }

    let why = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers {new:?}"
    );
    Some(Cause::forbidden("metadata.finalizers", why))
}

/// Stores an object, or only returns it in a dry run.
fn put_unless_dry_run(
    store: &mut Store,
    storage: Storage,
    value: Value,
    options: &Options,
) -> Arc<Object> {
    if options.dry_run {
        return Arc::new(Object::new(value, store.revision()));
    }
    store.put(storage, value)
}

/// Source of an object that is decoded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Body,
    Patch,
    /// The only source whose `apiVersion` and `kind` are not checked.
    StrategicPatch,
}

/// Converts an object in the resource's version to the storage version, and returns it with
/// warnings.
fn decode(
    resource: &Resource,
    mut body: Value,
    validation: FieldValidation,
    source: Source,
) -> Result<(Value, Vec<String>), StatusError> {
    let kind = resource.kind;
    let version = resource.version;
    let api_version = resource.api_version();

    let reject = |message: String| {
        if source == Source::Body {
            StatusError::bad_request(message)
        } else {
            StatusError::bad_patch(message)
        }
    };

    for (field, expected) in [("apiVersion", api_version.as_str()), ("kind", kind)] {
        let given = body.get(field).and_then(Value::as_str).unwrap_or_default();
        if !given.is_empty() && given != expected && source != Source::StrategicPatch {
            return Err(reject(format!(
                "the {field} in the data ({given}) does not match the expected one ({expected})"
            )));
        }
        if given.is_empty() && source == Source::Patch && field == "apiVersion" {
            return Err(StatusError::bad_request(
                "the name of the object was undeterminable: name must be provided",
            ));
        }
        if body.is_object() {
            as_map(&mut body).insert(field.to_owned(), expected.into());
        }
    }

    let mut unknown = Vec::new();
    let unreadable = |why: &dyn std::fmt::Display| {
        reject(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
        ))
    };

    let value = schema::decode(body, resource.schema, &mut unknown)
        .map_err(|mismatch| unreadable(&mismatch))?;
    let mut warnings: Vec<_> = unknown
        .into_iter()
        .map(|field| format!("unknown field {field:?}"))
        .collect();

    match validation {
        FieldValidation::Ignore => warnings.clear(),
        FieldValidation::Strict if !warnings.is_empty() => {
            return Err(unreadable(&format_args!(
                "strict decoding error: {}",
                warnings.join(", ")
            )));
        }
        FieldValidation::Warn | FieldValidation::Strict => {}
    }

    Ok((event::to_storage(value, resource), warnings))
}

/// Checks that namespace and name of a body match the path. A new object may omit its name.
fn same_identity(value: &Value, target: &Target, new: bool) -> Result<(), StatusError> {
    let namespace = object::namespace(value);
    let given = name(value);

    if target.resource.namespaced && !namespace.is_empty() && namespace != target.namespace {
        return Err(StatusError::bad_request(format!(
            "the namespace of the provided object ({namespace}) does not match the namespace sent on the request ({})",
            target.namespace
        )));
    }

    if given != target.name && !(new && (target.name.is_empty() || given.is_empty())) {
        return Err(StatusError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            target.name
        )));
    }

    Ok(())
}

/// Checks that the namespace exists and is not being deleted.
fn open_namespace(store: &Store, target: &Target, name: &str) -> Result<(), StatusError> {
    if !target.resource.namespaced {
        return Ok(());
    }

    let namespace = &target.namespace;
    let found = store.get(Storage::Namespaces, "", namespace);
    let found = found.ok_or_else(|| StatusError::not_found(&NAMESPACES, namespace))?;

    if object::deleting(&found.value) {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let message = format!("namespace {namespace} is being terminated");
        let cause = Cause {
            reason: "NamespaceTerminating",
            field: "metadata.namespace".into(),
            message,
        };
        return Err(StatusError::forbidden(target.resource, name, &why).because(&cause));
    }

    Ok(())
}

fn reject_if_any(resource: &Resource, name: &str, causes: &[Cause]) -> Result<(), StatusError> {
    if causes.is_empty() {
        Ok(())
    } else {
        Err(StatusError::invalid(
            resource.storage.resource(),
            name,
            causes,
        ))
    }
}

/// Adds five letters and digits that neither form words nor look alike, like
/// `names.SimpleNameGenerator`.
fn generate_name(prefix: &str) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    /// Ensures that prefix and suffix fit into a DNS label.
    const PREFIX_LIMIT: usize = 58;

    let mut random = rand::rng();
    let letter = || {
        char::from(
            *LETTERS
                .get(random.random_range(0..LETTERS.len()))
                .unwrap_or(&b'x'),
        )
    };

    let prefix: String = prefix.chars().take(PREFIX_LIMIT).collect();
    prefix + &std::iter::repeat_with(letter).take(5).collect::<String>()
}

#[cfg(test)]
mod tests;
