//! Computes the changes of a load balancer that the Service requires.
//!
//! Octavia accepts one change of a load balancer at a time. So a plan is a list of steps: a call
//! takes the first one, and the next calls take the others.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use skydock_sdk::http::Method;

use crate::{
    load_balancers::{
        desired_load_balancer::{DesiredLoadBalancer, DesiredPort, ListenerTimeouts},
        members::{DesiredMember, MemberNode, members},
        names,
        observed_load_balancer::{ObservedLoadBalancer, Ownership},
        plan::step::{CREATED_ID, Step},
    },
    services::octavia::{Listener, Member, Monitor, Pool},
};

pub(crate) mod body;
pub(crate) mod not_found;
pub mod step;
pub(crate) mod stored_plan;

/// The changes of a load balancer.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// All steps, in their order.
    pub steps: Vec<Step>,
    /// Why they are not all that the Service needs, in one sentence.
    pub shortfall: Option<String>,
}

/// What the steps for the ports of a Service depend on.
#[derive(Clone, Copy)]
struct Basis<'a> {
    desired: &'a DesiredLoadBalancer,
    member_nodes: &'a [MemberNode],
    observed: &'a ObservedLoadBalancer,
}

/// Returns all changes; they fall short if another Service uses a port of this one. Steps for parts
/// of resources that do not exist yet refer to them with `CREATED_ID`.
#[must_use]
pub fn plan(
    desired: &DesiredLoadBalancer,
    member_nodes: &[MemberNode],
    observed: &ObservedLoadBalancer,
    ownership: &Ownership,
    cluster: &str,
) -> Plan {
    let (observed, mut steps) = renamed(observed, ownership, cluster);
    let observed = &observed;
    let basis = Basis {
        desired,
        member_nodes,
        observed,
    };
    steps.extend(tag(desired, observed));

    // Octavia cannot change the protocol of a listener, so one with another protocol is replaced.
    let kept: Vec<&str> = desired
        .ports
        .iter()
        .filter_map(|port| Some((port, observed.listener(port)?)))
        .filter(|(port, listener)| listener.protocol == port.listener_protocol)
        .map(|(_, listener)| listener.id.as_str())
        .collect();
    let is_kept = |listener: &&Listener| kept.contains(&listener.id.as_str());

    // First, so that their ports are free.
    for listener in observed.listeners.iter().filter(|one| !is_kept(one)) {
        if observed.is_own(listener, desired, ownership) {
            steps.extend(remove(observed, listener));
        }
    }

    let mut taken = None;
    for port in &desired.ports {
        let listener = observed.listener(port);
        match listener.filter(|listener| !observed.is_own(listener, desired, ownership)) {
            Some(other) => {
                taken.get_or_insert_with(|| {
                    format!(
                        "port {} ({}) of load balancer {} is used by listener {}, which belongs to another Service",
                        port.port, port.transport, observed.load_balancer.id, other.id
                    )
                });
            }
            None => {
                let listener = listener.filter(is_kept);
                steps.extend(plan_port(basis, port, listener));
            }
        }
    }

    Plan {
        steps,
        shortfall: taken,
    }
}

/// Returns the steps that create the listener of a port with its pool, or change the existing one.
fn plan_port(basis: Basis<'_>, port: &DesiredPort, listener: Option<&Listener>) -> Vec<Step> {
    let desired = basis.desired;
    if let Some(listener) = listener {
        let mut steps: Vec<Step> = change_listener(desired, port, listener)
            .into_iter()
            .collect();
        steps.extend(change_pool(basis, port, listener));
        return steps;
    }

    let body = body::listener(desired, port, &basis.observed.load_balancer.id);
    let what = format!("cannot create the listener for port {}", port.port);
    let mut steps = vec![Step::new(
        Method::Post,
        "/lbaas/listeners".to_owned(),
        body,
        what,
    )];
    let pool = body::pool(desired, port, CREATED_ID);
    let pool_steps = create_pool(basis, port, pool);
    steps.extend(pool_steps.into_iter().map(Step::after));
    steps
}

/// Returns the steps that set the members of the existing pools to these nodes, without other
/// changes; they fall short if the load balancer has no listener of this Service.
#[must_use]
pub fn plan_members(
    desired: &DesiredLoadBalancer,
    member_nodes: &[MemberNode],
    observed: &ObservedLoadBalancer,
    ownership: &Ownership,
    cluster: &str,
) -> Plan {
    // Members do not wait until everything is renamed.
    let (observed, _) = renamed(observed, ownership, cluster);
    let basis = Basis {
        desired,
        member_nodes,
        observed: &observed,
    };

    let mut steps = Vec::new();
    let mut missing = (!desired.ports.is_empty()).then(|| {
        format!(
            "load balancer {} has no listener of this Service",
            observed.load_balancer.id
        )
    });

    for port in &desired.ports {
        let Some(listener) = observed
            .listener(port)
            .filter(|listener| observed.is_own(listener, desired, ownership))
        else {
            continue;
        };

        missing = None;
        if let Some(pool) = observed.pool(&listener.id) {
            steps.extend(change_members(basis, port, pool));
        }
    }

    Plan {
        steps,
        shortfall: missing,
    }
}

/// Returns the steps that delete the parts of this Service from a load balancer that is kept.
#[must_use]
pub fn plan_removal(
    desired: &DesiredLoadBalancer,
    observed: &ObservedLoadBalancer,
    ownership: &Ownership,
) -> Vec<Step> {
    let own = observed
        .listeners
        .iter()
        .filter(|listener| observed.is_own(listener, desired, ownership));
    own.flat_map(|listener| remove(observed, listener))
        .collect()
}

/// Returns the step that adds the Service to the tags of the load balancer. It comes first, so that
/// other Services that share the load balancer do not delete it in the meantime.
fn tag(desired: &DesiredLoadBalancer, observed: &ObservedLoadBalancer) -> Option<Step> {
    let balancer = &observed.load_balancer;
    if !desired.features.tags || balancer.tags.contains(&desired.name) {
        return None;
    }

    let tags: Vec<&String> = balancer.tags.iter().chain([&desired.name]).collect();
    Some(Step::update(
        "loadbalancer",
        &balancer.id,
        fields([("tags", json!(tags))]),
    ))
}

/// Returns the steps that delete a listener and its pool, with members and monitor.
pub(super) fn remove(observed: &ObservedLoadBalancer, listener: &Listener) -> Vec<Step> {
    let pool = observed
        .pool(&listener.id)
        .map(|pool| Step::delete("pool", &pool.id));
    pool.into_iter()
        .chain([Step::delete("listener", &listener.id)])
        .collect()
}

/// Returns the load balancer with the current name of the cluster, and the steps that rename it. These
/// are left to its owner: two Services that write its tags at the same time would undo each other's
/// changes.
fn renamed(
    observed: &ObservedLoadBalancer,
    ownership: &Ownership,
    cluster: &str,
) -> (ObservedLoadBalancer, Vec<Step>) {
    let mut observed = observed.clone();
    let steps = ownership
        .renamed_from
        .as_ref()
        .map(|old| rename(&mut observed, old, cluster))
        .filter(|_| ownership.owner);
    (observed, steps.unwrap_or_default())
}

/// Returns the steps that replace the old name of the cluster in all names and tags. Updates the
/// tree accordingly.
fn rename(observed: &mut ObservedLoadBalancer, old: &str, new: &str) -> Vec<Step> {
    let mut steps = Vec::new();

    let mut change = |kind: &str, id: &str, name: &mut String, tags: Option<&mut Vec<String>>| {
        let mut changed = Map::new();
        let named = names::with_cluster(name, old, new);
        if named != *name {
            changed.insert("name".to_owned(), json!(named));
            *name = named;
        }

        if let Some(tags) = tags {
            let tagged: Vec<String> = tags
                .iter()
                .map(|tag| names::with_cluster(tag, old, new))
                .collect();
            if tagged != *tags {
                changed.insert("tags".to_owned(), json!(tagged));
                *tags = tagged;
            }
        }

        if !changed.is_empty() {
            steps.push(Step::update(kind, id, changed));
        }
    };

    for monitor in observed.monitors.values_mut() {
        change("healthmonitor", &monitor.id, &mut monitor.name, None);
    }
    for pool in &mut observed.pools {
        change("pool", &pool.id, &mut pool.name, None);
    }
    for listener in &mut observed.listeners {
        change(
            "listener",
            &listener.id,
            &mut listener.name,
            Some(&mut listener.tags),
        );
    }

    let balancer = &mut observed.load_balancer;
    // Last, because renaming continues as long as the load balancer has the old name.
    change(
        "loadbalancer",
        &balancer.id,
        &mut balancer.name,
        Some(&mut balancer.tags),
    );
    steps
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn change_listener(
    desired: &DesiredLoadBalancer,
    port: &DesiredPort,
    listener: &Listener,
) -> Option<Step> {
    let mut changed = Map::new();
    let mut set = |key: &str, value: Value| _ = changed.insert(key.to_owned(), value);

    if desired.features.tags && !listener.tags.contains(&desired.name) {
        let tags: Vec<&String> = listener.tags.iter().chain([&desired.name]).collect();
        set("tags", json!(tags));
    }
    if listener.connection_limit.unwrap_or(-1) != desired.listener.connection_limit {
        set("connection_limit", json!(desired.listener.connection_limit));
    }

    let headers = changed_headers(listener, port.forwards(desired));
    if let Some(headers) = headers {
        set("insert_headers", json!(headers));
    }

    let container = listener.default_tls_container_ref.as_deref();
    if container.unwrap_or_default() != port.tls(desired) {
        set("default_tls_container_ref", json!(port.tls(desired)));
    }
    for (key, value) in changed_timeouts(listener, desired.listener.timeouts) {
        set(key, json!(value));
    }

    if let Some(cidrs) = &desired.listener.allowed_cidrs {
        let sorted = |cidrs: &[String]| {
            let mut cidrs = cidrs.to_vec();
            cidrs.sort();
            cidrs.dedup();
            cidrs
        };
        if sorted(listener.allowed_cidrs.as_deref().unwrap_or_default()) != sorted(cidrs) {
            set("allowed_cidrs", json!(cidrs));
        }
    }

    (!changed.is_empty()).then(|| Step::update("listener", &listener.id, changed))
}

/// Returns the headers of a listener that has to add `X-Forwarded-For`, or must not, if they change.
/// Other headers are not changed.
fn changed_headers(listener: &Listener, forwards: bool) -> Option<BTreeMap<String, String>> {
    let mut headers = listener.insert_headers.clone().unwrap_or_default();
    let forwarded = headers
        .get("X-Forwarded-For")
        .is_some_and(|value| value == "true");
    if forwarded == forwards {
        return None;
    }

    if forwards {
        headers.insert("X-Forwarded-For".to_owned(), "true".to_owned());
    } else {
        headers.remove("X-Forwarded-For");
    }
    Some(headers)
}

/// Returns the timeouts of a listener that differ from the wanted ones.
fn changed_timeouts(
    listener: &Listener,
    wanted: Option<ListenerTimeouts>,
) -> Vec<(&'static str, i64)> {
    let Some(wanted) = wanted else {
        return Vec::new();
    };

    [
        (
            "timeout_client_data",
            listener.timeout_client_data,
            wanted.client_data,
        ),
        (
            "timeout_member_connect",
            listener.timeout_member_connect,
            wanted.member_connect,
        ),
        (
            "timeout_member_data",
            listener.timeout_member_data,
            wanted.member_data,
        ),
        (
            "timeout_tcp_inspect",
            listener.timeout_tcp_inspect,
            wanted.tcp_inspect,
        ),
    ]
    .into_iter()
    .filter(|(_, current, wanted)| *current != Some(*wanted))
    .map(|(key, _, wanted)| (key, wanted))
    .collect()
}

/// Returns the steps that create a pool with this body, with members and monitor.
fn create_pool(basis: Basis<'_>, port: &DesiredPort, body: Value) -> Vec<Step> {
    let what = format!("cannot create the pool for port {}", port.port);
    let mut steps = vec![Step::new(
        Method::Post,
        "/lbaas/pools".to_owned(),
        body,
        what,
    )];

    let pool = created_pool();
    let parts = change_members(basis, port, &pool)
        .into_iter()
        .chain(change_monitor(basis.desired, port, &pool, None));
    steps.extend(parts.map(Step::after));
    steps
}

/// Returns the pool that the closest previous step creates.
fn created_pool() -> Pool {
    Pool {
        id: CREATED_ID.to_owned(),
        ..Pool::default()
    }
}

/// Returns the steps that replace a pool whose protocol, or the subnet of whose members, cannot be
/// changed. The listener uses the previous one until the new one has its members.
fn replace_pool(
    basis: Basis<'_>,
    port: &DesiredPort,
    listener: &Listener,
    pool: &Pool,
) -> Vec<Step> {
    let Basis {
        desired, observed, ..
    } = basis;
    let body = body::pool_of(desired, port, &observed.load_balancer.id);
    let mut unprobed = port.clone();
    unprobed.monitor = None;

    // Pools of replacements that were interrupted or rejected.
    let name = names::part("pool", port.index, &desired.name);
    let unused = observed
        .pools
        .iter()
        .filter(|pool| pool.listeners.is_empty() && pool.name == name);
    let mut steps: Vec<Step> = unused.map(|pool| Step::delete("pool", &pool.id)).collect();
    steps.extend(create_pool(basis, &unprobed, body));

    let switch = fields([("default_pool_id", json!(CREATED_ID))]);
    steps.push(Step::update("listener", &listener.id, switch).after());
    steps.push(Step::delete("pool", &pool.id).after());

    steps.extend(
        change_monitor(desired, port, &created_pool(), None)
            .into_iter()
            .map(Step::after),
    );
    steps
}

/// Returns true if members that the Service wants are in another subnet than the one that it sets for
/// them.
fn is_elsewhere(desired: &DesiredLoadBalancer, have: &[Member], wanted: &[DesiredMember]) -> bool {
    desired.moves_members
        && wanted.iter().any(|member| {
            have.iter().any(|other| {
                is_same(other, member)
                    && other
                        .subnet_id
                        .as_ref()
                        .is_some_and(|subnet| *subnet != desired.member_subnet)
            })
        })
}

fn change_pool(basis: Basis<'_>, port: &DesiredPort, listener: &Listener) -> Vec<Step> {
    let Basis {
        desired,
        member_nodes,
        observed,
    } = basis;
    let Some(pool) = observed.pool(&listener.id) else {
        let body = body::pool(desired, port, &listener.id);
        return create_pool(basis, port, body);
    };

    let have = observed
        .members
        .get(&pool.id)
        .map_or(&[][..], Vec::as_slice);
    if pool.protocol != port.pool_protocol
        || is_elsewhere(desired, have, &members(port, member_nodes))
    {
        return replace_pool(basis, port, listener, pool);
    }

    let mut steps = Vec::new();
    if pool.lb_algorithm != desired.lb_method {
        let step = Step::update(
            "pool",
            &pool.id,
            fields([("lb_algorithm", json!(desired.lb_method))]),
        );
        // As in upstream, an unknown method does not prevent the Service from getting its members.
        steps.push(Step {
            optional: Some("LoadBalancerLbMethodUnknown"),
            ..step
        });
    }

    steps.extend(change_persistence(desired, pool));
    steps.extend(change_members(basis, port, pool));
    let monitor = pool
        .healthmonitor_id
        .as_ref()
        .and_then(|id| observed.monitors.get(id));
    steps.extend(change_monitor(desired, port, pool, monitor));
    steps
}

/// Returns the step that sets or removes the session persistence of a pool.
fn change_persistence(desired: &DesiredLoadBalancer, pool: &Pool) -> Option<Step> {
    let current = pool.session_persistence.as_ref();
    let by_source = current.is_some_and(|persistence| persistence.kind == "SOURCE_IP");
    if by_source == desired.affinity && (desired.affinity || current.is_none()) {
        return None;
    }

    let persistence = if desired.affinity {
        json!({"type": "SOURCE_IP"})
    } else {
        Value::Null
    };
    let changed = fields([("session_persistence", persistence)]);
    Some(Step::update("pool", &pool.id, changed))
}

fn change_members(basis: Basis<'_>, port: &DesiredPort, pool: &Pool) -> Vec<Step> {
    let Basis {
        desired,
        member_nodes,
        observed,
    } = basis;
    let wanted = members(port, member_nodes);
    let have = observed
        .members
        .get(&pool.id)
        .map(Vec::as_slice)
        .unwrap_or_default();

    let path = format!("/lbaas/pools/{}/members", pool.id);
    if desired.serial {
        return serially(desired, port, &path, have, &wanted);
    }

    // Octavia's order has no meaning.
    let mut current: Vec<DesiredMember> = have.iter().map(as_desired).collect();
    current.sort();
    if current == wanted {
        return Vec::new();
    }

    let is_there = |member: &DesiredMember| have.iter().any(|other| is_same(other, member));
    let body = |member: &DesiredMember| {
        // The subnet of an existing member is immutable and is not needed.
        let subnet = if is_there(member) {
            ""
        } else {
            desired.member_subnet.as_str()
        };
        let mut body = body::member_fields(member, subnet);
        if member.monitor_port.is_none() && is_there(member) {
            // Null removes a port that is not wanted.
            body.insert("monitor_port".to_owned(), Value::Null);
        }
        Value::Object(body)
    };

    let bodies: Vec<Value> = wanted.iter().map(body).collect();
    let what = format!("cannot set the members for port {}", port.port);
    vec![Step::new(
        Method::Put,
        path,
        json!({"members": bodies}),
        what,
    )]
}

/// Returns the steps that change the members one by one, for providers that do not accept a list.
fn serially(
    desired: &DesiredLoadBalancer,
    port: &DesiredPort,
    path: &str,
    have: &[Member],
    wanted: &[DesiredMember],
) -> Vec<Step> {
    let what = format!("cannot set the members for port {}", port.port);
    let gone = have
        .iter()
        .filter(|member| !wanted.iter().any(|other| is_same(member, other)));
    let gone = gone.map(|member| Step {
        method: Method::Delete,
        path: format!("{path}/{}", member.id),
        body: None,
        what: what.clone(),
        optional: None,
        follows: false,
    });

    let new = wanted.iter().filter_map(|member| {
        let fields = |subnet: &str| json!({"member": body::member_fields(member, subnet)});
        match have.iter().find(|other| is_same(other, member)) {
            // Upstream uses other names for members here.
            Some(other) if other.monitor_port == member.monitor_port => None,
            Some(other) => {
                let changed = json!({"member": {"monitor_port": member.monitor_port}});
                Some(Step::new(
                    Method::Put,
                    format!("{path}/{}", other.id),
                    changed,
                    what.clone(),
                ))
            }
            None => Some(Step::new(
                Method::Post,
                path.to_owned(),
                fields(&desired.member_subnet),
                what.clone(),
            )),
        }
    });
    new.chain(gone).collect()
}

fn as_desired(member: &Member) -> DesiredMember {
    DesiredMember {
        name: member.name.clone(),
        address: member.address.clone(),
        port: member.protocol_port,
        monitor_port: member.monitor_port,
    }
}

/// Returns true if Octavia considers both the same member.
fn is_same(member: &Member, wanted: &DesiredMember) -> bool {
    member.address == wanted.address && member.protocol_port == wanted.port
}

fn change_monitor(
    desired: &DesiredLoadBalancer,
    port: &DesiredPort,
    pool: &Pool,
    monitor: Option<&Monitor>,
) -> Vec<Step> {
    let create = |wanted| {
        let what = format!("cannot create the health monitor for port {}", port.port);
        let body = body::monitor(desired, port, wanted, &pool.id);
        Step::new(Method::Post, "/lbaas/healthmonitors".to_owned(), body, what)
    };

    match (&port.monitor, monitor, &pool.healthmonitor_id) {
        // The monitor was deleted after the pool was read. The next plan handles it.
        (Some(_), None, Some(_)) | (None, _, None) => Vec::new(),
        (Some(wanted), None, None) => vec![create(wanted)],
        (None, _, Some(id)) => vec![Step::delete("healthmonitor", id)],
        (Some(wanted), Some(monitor), _) if monitor.kind != wanted.kind => {
            let delete = Step::delete("healthmonitor", &monitor.id);
            vec![delete, create(wanted).after()]
        }
        (Some(wanted), Some(monitor), _) => {
            let same = monitor.name == names::part("monitor", port.index, &desired.name)
                && monitor.delay == wanted.delay
                && monitor.timeout == wanted.timeout
                && monitor.max_retries == wanted.max_retries
                && monitor.max_retries_down == wanted.max_retries_down;
            let path_is_ours =
                wanted.kind != "HTTP" || monitor.url_path.as_deref() == Some("/healthz");

            if same && path_is_ours {
                return Vec::new();
            }

            let mut changed = body::monitor_settings(desired, port, wanted);
            if !path_is_ours {
                changed.insert("url_path".to_owned(), json!("/healthz"));
            }
            vec![Step::update("healthmonitor", &monitor.id, changed)]
        }
    }
}

#[cfg(test)]
mod tests;
