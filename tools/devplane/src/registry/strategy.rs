//! Rules of each resource: defaults, fields that an update keeps, and validation.

use serde_json::{Value, json};

use crate::{
    registry::ServiceLister,
    resources::{
        names::{NameRule, subdomain},
        object::{self, child, copy_field},
        resource::{Resource, Storage},
    },
    status::Cause,
};

mod config_map;
mod event;
mod node;
pub(crate) mod service;

/// Returns the rule for names of the resource's objects.
pub(crate) fn name_rule(resource: &Resource) -> NameRule {
    match resource.storage {
        Storage::Events if resource.group.is_empty() => NameRule::PathSegment,
        Storage::Leases => NameRule::Lease,
        Storage::Namespaces => NameRule::Label,
        Storage::Services => NameRule::Label1035,
        _ => NameRule::Subdomain,
    }
}

/// Allocates limited resources for a new object. The object is validated afterwards.
pub(crate) fn begin_create(
    resource: &Resource,
    value: &mut Value,
    services: &dyn ServiceLister,
) -> Vec<Cause> {
    if resource.storage == Storage::Services {
        service::begin_create(value, services)
    } else {
        Vec::new()
    }
}

/// Completes an object that is to be created, and returns its errors.
pub(crate) fn create(resource: &Resource, value: &mut Value) -> Vec<Cause> {
    match resource.storage {
        Storage::Services => service::create(value),
        Storage::Nodes => {
            // Unlike other resources, a Node is created with its status, because kubelets register
            // that way.
            node::create(value);
            node::validate(value, None)
        }
        Storage::Namespaces => {
            let finalizers = child(value, "spec")
                .entry("finalizers")
                .or_insert_with(|| json!([]));
            if let Some(finalizers) = finalizers.as_array_mut()
                && !finalizers
                    .iter()
                    .any(|finalizer| finalizer == KUBERNETES_FINALIZER)
            {
                finalizers.push(KUBERNETES_FINALIZER.into());
            }

            object::as_map(value).insert("status".into(), json!({"phase": "Active"}));
            label_namespace(value);
            Vec::new()
        }
        Storage::ConfigMaps => config_map::validate(value, None),
        Storage::Leases => lease(value),
        Storage::Events => {
            event::complete(value);
            event::create(value, resource)
        }
        Storage::ServiceAccounts | Storage::Pods => Vec::new(),
    }
}

/// Completes an object that is to replace `old`, except for its status, and returns its errors.
pub(crate) fn update(
    resource: &Resource,
    value: &mut Value,
    old: &Value,
    services: &dyn ServiceLister,
) -> Vec<Cause> {
    match resource.storage {
        Storage::Services => service::update(value, old, services),
        Storage::Nodes => {
            copy_field(old, object::as_map(value), "status");
            node::complete(value);
            node::validate(value, Some(old))
        }
        Storage::Namespaces => {
            copy_field(old, object::as_map(value), "status");
            // The finalizers in the spec of a namespace change only through `finalize`.
            copy_field(old, object::as_map(value), "spec");
            label_namespace(value);
            Vec::new()
        }
        Storage::ConfigMaps => config_map::validate(value, Some(old)),
        Storage::Leases => lease(value),
        Storage::Events => {
            event::complete(value);
            event::update(value, old, resource)
        }
        Storage::ServiceAccounts | Storage::Pods => Vec::new(),
    }
}

/// Completes an object whose status and metadata are to replace those of `old`, and returns its
/// errors.
pub(crate) fn update_status(resource: &Resource, value: &mut Value, old: &Value) -> Vec<Cause> {
    copy_field(old, object::as_map(value), "spec");

    match resource.storage {
        Storage::Services => service::update_status(value),
        Storage::Nodes => {
            node::complete(value);
            node::validate(value, Some(old))
        }
        _ => Vec::new(),
    }
}

/// Returns an object that contains only the fields that all objects of the resource have.
pub(crate) fn empty(resource: &Resource) -> Value {
    let mut value = match resource.storage {
        Storage::Services => json!({"spec": {}, "status": {"loadBalancer": {}}}),
        Storage::Namespaces => json!({"spec": {}, "status": {}}),
        Storage::Pods => json!({"spec": {"containers": null}, "status": {}}),
        Storage::Leases => json!({"spec": {}}),
        _ => json!({}),
    };

    match resource.storage {
        Storage::Nodes => node::complete(&mut value),
        Storage::Events => event::complete(&mut value),
        _ => {}
    }

    crate::resources::event::from_storage(value, resource)
}

/// The finalizer in `spec.finalizers` that stands for a namespace's contents.
pub(crate) const KUBERNETES_FINALIZER: &str = "kubernetes";

/// Adds the label with the namespace's name, so that selectors can use it.
fn label_namespace(value: &mut Value) {
    let name = object::name(value).to_owned();
    let metadata = child(value, "metadata");
    let labels = object::as_map(metadata.entry("labels").or_insert(Value::Null));
    labels.insert("kubernetes.io/metadata.name".into(), name.into());
}

fn lease(value: &mut Value) -> Vec<Cause> {
    // Coordinated leader election is disabled by default.
    let spec = child(value, "spec");
    spec.remove("strategy");
    spec.remove("preferredHolder");

    let number = |field| {
        value
            .pointer("/spec")
            .and_then(|spec| spec.get(field))
            .and_then(Value::as_i64)
    };

    let mut causes = Vec::new();
    if let Some(seconds) = number("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        causes.push(Cause::invalid(
            "spec.leaseDurationSeconds",
            &seconds.into(),
            "must be greater than 0",
        ));
    }
    if let Some(count) = number("leaseTransitions").filter(|count| *count < 0) {
        causes.push(Cause::invalid(
            "spec.leaseTransitions",
            &count.into(),
            "must be greater than or equal to 0",
        ));
    }

    causes
}

/// Checks a host name of a node or a Service: a DNS name that is not an IP address.
fn host_name(name: &str) -> Result<(), &'static str> {
    if name.parse::<std::net::IpAddr>().is_ok() {
        return Err("must be a DNS name, not an IP address");
    }
    subdomain(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::resource::LEASES;

    #[test]
    fn a_lease_duration_must_be_positive() {
        let mut value = json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}});
        assert_eq!(create(&LEASES, &mut value).len(), 2);
    }
}
