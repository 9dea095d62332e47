//! What is particular to each resource: defaults, what an update keeps, and what is refused.

use serde_json::{Value, json};

use crate::{
    object::{self, child, copy_field, text},
    refusal::Cause,
    resource::{Resource, Shelf},
    store::Store,
    validate::{NameRule, subdomain},
};

mod config_map;
mod node;
pub(crate) mod service;

/// Names of the resource's objects.
pub(crate) fn name_rule(shelf: Shelf) -> NameRule {
    match shelf {
        Shelf::Namespaces => NameRule::Label,
        Shelf::Services => NameRule::Label1035,
        _ => NameRule::Subdomain,
    }
}

/// Completes an object that is about to be created, and says what is wrong with it.
pub(crate) fn create(resource: &Resource, value: &mut Value, store: &Store) -> Vec<Cause> {
    match resource.shelf {
        Shelf::Services => service::create(value, store),
        Shelf::Nodes => {
            // Unlike for other resources, a Node is created with its status: kubelets register that way.
            node::create(value);
            node::validate(value, None)
        }
        Shelf::Namespaces => {
            child(value, "spec").insert("finalizers".into(), json!([KUBERNETES_FINALIZER]));
            object::as_map(value).insert("status".into(), json!({"phase": "Active"}));
            label_namespace(value);
            Vec::new()
        }
        Shelf::ConfigMaps => config_map::validate(value, None),
        Shelf::Leases => lease(value),
        Shelf::Events => {
            crate::event::complete(value);
            event(value, resource)
        }
        Shelf::ServiceAccounts | Shelf::Pods => Vec::new(),
    }
}

/// Completes an object that is about to replace `old`, its status excepted.
pub(crate) fn update(resource: &Resource, value: &mut Value, old: &Value, store: &Store) -> Vec<Cause> {
    match resource.shelf {
        Shelf::Services => service::update(value, old, store),
        Shelf::Nodes => {
            copy_field(old, object::as_map(value), "status");
            node::complete(value);
            node::validate(value, Some(old))
        }
        Shelf::Namespaces => {
            copy_field(old, object::as_map(value), "status");
            copy_field(old, object::as_map(value), "spec");
            label_namespace(value);
            Vec::new()
        }
        Shelf::ConfigMaps => config_map::validate(value, Some(old)),
        Shelf::Leases => lease(value),
        Shelf::Events => {
            crate::event::complete(value);
            Vec::new()
        }
        Shelf::ServiceAccounts | Shelf::Pods => Vec::new(),
    }
}

/// Completes an object whose status and metadata are about to replace those of `old`.
pub(crate) fn update_status(resource: &Resource, value: &mut Value, old: &Value) -> Vec<Cause> {
    copy_field(old, object::as_map(value), "spec");
    match resource.shelf {
        Shelf::Services => service::update_status(value),
        Shelf::Nodes => {
            node::complete(value);
            node::validate(value, Some(old))
        }
        _ => Vec::new(),
    }
}

/// The finalizer in `spec.finalizers` that stands for a namespace's content.
pub(crate) const KUBERNETES_FINALIZER: &str = "kubernetes";

/// Every namespace carries its name as a label, so that selectors can name it.
fn label_namespace(value: &mut Value) {
    let name = object::name(value).to_owned();
    let metadata = child(value, "metadata");
    let labels = object::as_map(metadata.entry("labels").or_insert(Value::Null));
    labels.insert("kubernetes.io/metadata.name".into(), name.into());
}

fn lease(value: &mut Value) -> Vec<Cause> {
    // Coordinated leader election is switched off by default.
    let spec = child(value, "spec");
    spec.remove("strategy");
    spec.remove("preferredHolder");
    let number = |field| value.pointer("/spec").and_then(|spec| spec.get(field)).and_then(Value::as_i64);
    let mut causes = Vec::new();
    if let Some(seconds) = number("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        causes.push(Cause::invalid("spec.leaseDurationSeconds", &seconds.into(), "must be greater than 0"));
    }
    if let Some(count) = number("leaseTransitions").filter(|count| *count < 0) {
        causes.push(Cause::invalid("spec.leaseTransitions", &count.into(), "must be greater than or equal to 0"));
    }
    causes
}

/// An event lives in the namespace of what it is about; about cluster-wide things, in `default`. The newer API asks for
/// more than the older one.
fn event(value: &Value, resource: &Resource) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (namespace, about) = (object::namespace(value), text(value, "/involvedObject/namespace"));
    let expected = if about.is_empty() { "default" } else { about };
    if namespace != expected && !(about.is_empty() && namespace == "kube-system") {
        causes.push(Cause::invalid("involvedObject.namespace", &about.into(), "does not match event.namespace"));
    }
    if !resource.group.is_empty() {
        for (pointer, field) in [
            ("/eventTime", "eventTime"),
            ("/reportingComponent", "reportingController"),
            ("/reportingInstance", "reportingInstance"),
            ("/action", "action"),
            ("/reason", "reason"),
        ] {
            if text(value, pointer).is_empty() {
                causes.push(Cause::required(field, ""));
            }
        }
        if !matches!(text(value, "/type"), "Normal" | "Warning") {
            causes.push(Cause::not_supported("type", text(value, "/type"), &["Normal", "Warning"]));
        }
    }
    causes
}

/// Shared by nodes and services: a DNS name that is not an address.
fn host_name(name: &str) -> Result<(), &'static str> {
    if name.parse::<std::net::IpAddr>().is_ok() {
        return Err("must be a DNS name, not an IP address");
    }
    subdomain(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::{CORE_EVENTS, EVENTS, LEASES};

    #[test]
    fn an_event_lives_beside_what_it_is_about() {
        let event = |namespace: &str, about: &str| {
            let mut value = json!({"metadata": {"namespace": namespace}, "involvedObject": {"namespace": about}});
            create(&CORE_EVENTS, &mut value, &Store::new(0, [])).len()
        };
        assert_eq!((event("a", "a"), event("a", "b"), event("default", ""), event("a", "")), (0, 1, 0, 1));
    }

    #[test]
    fn the_newer_event_api_asks_for_more() {
        let mut value = json!({"metadata": {"namespace": "default"}, "reason": "R", "type": "Odd"});
        let causes = create(&EVENTS, &mut value, &Store::new(0, []));
        let fields: Vec<_> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["eventTime", "reportingController", "reportingInstance", "action", "type"]);
    }

    #[test]
    fn a_lease_lasts_a_positive_time() {
        let mut value = json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}});
        assert_eq!(create(&LEASES, &mut value, &Store::new(0, [])).len(), 2);
    }
}
