//! Computes what changes a classic load balancer to what is requested: listeners, instances.

use std::collections::BTreeSet;

use super::{
    desired_load_balancer::DesiredLoadBalancer, observed_load_balancer::ObservedLoadBalancer,
};
use crate::{
    client::api::{
        call::Call,
        elb::{self, AccessLog, Attributes, Description, Listener},
    },
    tags::Tags,
};

/// The names of the official provider's policies.
const PROXY_POLICY: &str = "k8s-proxyprotocol-enabled";

fn tls_policy(policy: &str) -> String {
    format!("k8s-SSLNegotiationPolicy-{policy}")
}

/// The listeners to delete and to create.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenerChanges {
    /// The current listeners that are not requested in this form.
    pub(crate) gone: Vec<Listener>,
    /// The requested listeners that do not exist.
    pub(crate) fresh: Vec<Listener>,
    /// The current listeners that get another certificate, and what they become. Other properties may
    /// differ too.
    pub(crate) certified: Vec<(Listener, Listener)>,
}

/// Compares the listeners with the requested ones.
pub(crate) fn listener_changes(
    desired: &DesiredLoadBalancer,
    there: &Description,
) -> ListenerChanges {
    let lacking = |these: &[Listener], others: &[Listener]| -> Vec<Listener> {
        let is_lacking = |one: &&Listener| !others.iter().any(|other| one.is(other));
        these.iter().filter(is_lacking).cloned().collect()
    };

    let descriptions = there.listener_descriptions.items.iter();
    let listeners: Vec<Listener> = descriptions.map(|one| one.listener.clone()).collect();
    let mut changes = ListenerChanges {
        gone: lacking(&listeners, &desired.listeners),
        fresh: lacking(&desired.listeners, &listeners),
        certified: Vec::new(),
    };

    for after in std::mem::take(&mut changes.fresh) {
        let same = |before: &Listener| {
            before.load_balancer_port == after.load_balancer_port
                && (before.is_tls() && after.is_tls())
                && !before.certificate.eq_ignore_ascii_case(&after.certificate)
        };
        match changes.gone.iter().position(same) {
            Some(index) => changes.certified.push((changes.gone.remove(index), after)),
            None => changes.fresh.push(after),
        }
    }
    changes
}

/// Returns the calls that change the properties of the load balancer to what is requested: those
/// before its listeners are changed, and those after it.
pub(crate) fn stages(
    desired: &DesiredLoadBalancer,
    observed: &ObservedLoadBalancer,
    groups: &[String],
) -> [Vec<Call>; 2] {
    let there = &observed.balancer;
    let name = desired.name.as_str();
    let mut stages = [Vec::new(), Vec::new()];
    let [first, second] = &mut stages;

    let secured: BTreeSet<&String> = there.security_groups.items.iter().collect();
    if groups.iter().collect::<BTreeSet<_>>() != secured {
        second.push(
            elb::on("ApplySecurityGroupsToLoadBalancer", name).list("SecurityGroups", groups),
        );
    }

    // AWS may reject the bucket of the logs, which has nothing to do with the other attributes.
    if logs_differ(
        &desired.attributes.access_log,
        &observed.attributes.access_log,
    ) {
        second.push(elb::set_access_log(name, &desired.attributes.access_log));
    }
    if differ(&desired.attributes, &observed.attributes) {
        second.push(elb::set_attributes(name, &desired.attributes));
    }

    let lacks = |tags: &Tags| {
        desired
            .tags
            .iter()
            .any(|(key, value)| tags.get(key) != Some(value))
    };
    if observed.tags.as_ref().is_some_and(lacks) {
        second.push(elb::add_tags(name, &desired.tags));
    }
    let excess = |tags: &Tags| {
        desired
            .removed_tags
            .iter()
            .any(|key| tags.contains_key(key))
    };
    if observed.tags.as_ref().is_some_and(excess) {
        second.push(elb::remove_tags(name, &desired.removed_tags));
    }

    if desired.health != there.health_check {
        second.push(elb::set_health(name, &desired.health));
    }
    proxy(desired, there, first, second);
    tls(desired, there, first, second);

    stages
}

/// Returns the instances to register and the instances to deregister.
pub(crate) fn instance_changes(
    there: &Description,
    instance_ids: &BTreeSet<String>,
) -> (Vec<String>, Vec<String>) {
    let behind: BTreeSet<String> = there
        .instances
        .items
        .iter()
        .map(|one| one.instance_id.clone())
        .collect();

    (
        instance_ids.difference(&behind).cloned().collect(),
        behind.difference(instance_ids).cloned().collect(),
    )
}

fn other<T: PartialEq>(wanted: Option<&T>, there: Option<&T>) -> bool {
    wanted.is_some() && wanted != there
}

/// Returns true if a requested setting of the access log differs.
fn logs_differ(wanted: &AccessLog, there: &AccessLog) -> bool {
    wanted.enabled != there.enabled
        || (wanted.enabled
            && (other(wanted.emit_interval.as_ref(), there.emit_interval.as_ref())
                || other(wanted.bucket.as_ref(), there.bucket.as_ref())
                || wanted.prefix.as_deref().unwrap_or_default()
                    != there.prefix.as_deref().unwrap_or_default()))
}

/// Returns true if another requested attribute differs. Attributes that are not requested are
/// ignored.
fn differ(wanted: &Attributes, there: &Attributes) -> bool {
    wanted.connection_draining.enabled != there.connection_draining.enabled
        || other(
            wanted.connection_draining.timeout.as_ref(),
            there.connection_draining.timeout.as_ref(),
        )
        || other(
            wanted.connection_settings.idle_timeout.as_ref(),
            there.connection_settings.idle_timeout.as_ref(),
        )
        || wanted.cross_zone_load_balancing != there.cross_zone_load_balancing
}

/// Enables or disables the PROXY protocol for the ports of the instances.
fn proxy(
    desired: &DesiredLoadBalancer,
    there: &Description,
    first: &mut Vec<Call>,
    second: &mut Vec<Call>,
) {
    let exists = there
        .policies
        .other_policies
        .items
        .iter()
        .any(|policy| policy == PROXY_POLICY);
    if desired.proxy && !exists {
        let kind = "ProxyProtocolPolicyType";
        first.push(elb::create_policy(
            &desired.name,
            PROXY_POLICY,
            kind,
            "ProxyProtocol",
            "true",
        ));
    }

    let wanted: BTreeSet<u16> = desired
        .listeners
        .iter()
        .map(|one| one.instance_port)
        .filter(|_| desired.proxy)
        .collect();
    let has = |port: &&elb::Backend| {
        port.policy_names
            .items
            .iter()
            .any(|policy| policy == PROXY_POLICY)
    };
    let there: BTreeSet<u16> = there
        .backend_server_descriptions
        .items
        .iter()
        .filter(has)
        .map(|one| one.instance_port)
        .collect();

    let set = |port: &u16| {
        elb::on("SetLoadBalancerPoliciesForBackendServer", &desired.name).with("InstancePort", port)
    };
    second.extend(
        wanted
            .difference(&there)
            .map(|port| set(port).list("PolicyNames", [PROXY_POLICY])),
    );

    // An empty list removes all policies.
    second.extend(
        there
            .difference(&wanted)
            .map(|port| set(port).with("PolicyNames", "")),
    );
}

/// Sets the TLS policy of the listeners, if one is requested.
fn tls(
    desired: &DesiredLoadBalancer,
    there: &Description,
    first: &mut Vec<Call>,
    second: &mut Vec<Call>,
) {
    let Some(reference) = &desired.policy else {
        return;
    };
    let policy = tls_policy(reference);
    if !there.policies.other_policies.items.contains(&policy) {
        let kind = "SSLNegotiationPolicyType";
        first.push(elb::create_policy(
            &desired.name,
            &policy,
            kind,
            "Reference-Security-Policy",
            reference,
        ));
    }

    for listener in desired
        .listeners
        .iter()
        .filter(|listener| listener.is_tls())
    {
        let set = there
            .listener_descriptions
            .items
            .iter()
            .any(|one| one.listener.is(listener) && one.policy_names.items == [policy.clone()]);
        if !set {
            second.push(
                elb::on("SetLoadBalancerPoliciesOfListener", &desired.name)
                    .with("LoadBalancerPort", listener.load_balancer_port)
                    .list("PolicyNames", [&policy]),
            );
        }
    }
}

#[cfg(test)]
mod tests;
