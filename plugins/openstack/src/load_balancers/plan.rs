//! Computes the changes of a load balancer that the Service requires.
//!
//! Octavia accepts one change of a load balancer at a time. So a plan is a list of steps: a call
//! takes the first one, and the next calls take the others.

use serde_json::{Map, Value, json};
use skydock_sdk::http::Method;

use super::{
    body,
    members::{Backend, MemberWant, members},
    names,
    step::{MADE, Step},
    tree::{Ownership, Tree},
    want::{PortWant, Want},
};
use crate::services::octavia::{Listener, Member, Monitor, Pool};

/// Returns all steps, and one sentence if another Service uses a port of this one. Steps for parts of
/// resources that do not exist yet refer to them with `MADE`.
#[must_use]
pub fn plan(
    want: &Want,
    backends: &[Backend],
    tree: &Tree,
    ownership: &Ownership,
    cluster: &str,
) -> (Vec<Step>, Option<String>) {
    let (tree, mut steps) = renamed(tree, ownership, cluster);
    let tree = &tree;
    steps.extend(tag(want, tree));

    let mut kept: Vec<&str> = Vec::new();
    let mut ports: Vec<&PortWant> = Vec::new();
    let mut taken = None;
    for port in &want.ports {
        let listener = tree.listener(port);
        match listener.filter(|listener| !tree.is_own(listener, want, ownership)) {
            Some(other) => {
                taken.get_or_insert_with(|| {
                    format!(
                        "port {} ({}) of load balancer {} is used by listener {}, which belongs to another Service",
                        port.port, port.transport, tree.load_balancer.id, other.id
                    )
                });
            }
            None => ports.push(port),
        }

        // Octavia cannot change the protocol of a listener, so one with another protocol is
        // replaced.
        kept.extend(
            listener
                .filter(|listener| listener.protocol == port.listener_protocol)
                .map(|listener| listener.id.as_str()),
        );
    }

    // First, so that their ports are free.
    for listener in tree
        .listeners
        .iter()
        .filter(|listener| !kept.contains(&listener.id.as_str()))
    {
        if tree.is_own(listener, want, ownership) {
            steps.extend(remove(tree, listener));
        }
    }

    for port in ports {
        match tree
            .listener(port)
            .filter(|listener| kept.contains(&listener.id.as_str()))
        {
            Some(listener) => {
                steps.extend(change_listener(want, port, listener));
                steps.extend(change_pool(want, port, tree, listener, backends));
            }
            None => {
                let body = body::listener(want, port, &tree.load_balancer.id);
                let what = format!("cannot create the listener for port {}", port.port);
                steps.push(Step::new(
                    Method::Post,
                    "/lbaas/listeners".to_owned(),
                    body,
                    what,
                ));

                let pool = body::pool(want, port, MADE);
                steps.extend(
                    make_pool(want, port, tree, pool, backends)
                        .into_iter()
                        .map(Step::after),
                );
            }
        }
    }

    (steps, taken)
}

/// Returns the steps that set the members of the existing pools to these nodes, without other
/// changes, and one sentence if the load balancer has no listener of this Service.
#[must_use]
pub fn plan_members(
    want: &Want,
    backends: &[Backend],
    tree: &Tree,
    ownership: &Ownership,
    cluster: &str,
) -> (Vec<Step>, Option<String>) {
    // Members do not wait until everything is renamed.
    let (tree, _) = renamed(tree, ownership, cluster);

    let mut steps = Vec::new();
    let mut missing = (!want.ports.is_empty()).then(|| {
        format!(
            "load balancer {} has no listener of this Service",
            tree.load_balancer.id
        )
    });

    for port in &want.ports {
        let Some(listener) = tree
            .listener(port)
            .filter(|listener| tree.is_own(listener, want, ownership))
        else {
            continue;
        };

        missing = None;
        if let Some(pool) = tree.pool(&listener.id) {
            steps.extend(change_members(want, port, &tree, pool, backends));
        }
    }

    (steps, missing)
}

/// Returns the steps that delete the parts of this Service from a load balancer that is kept.
#[must_use]
pub fn plan_removal(want: &Want, tree: &Tree, ownership: &Ownership) -> Vec<Step> {
    let own = tree
        .listeners
        .iter()
        .filter(|listener| tree.is_own(listener, want, ownership));
    own.flat_map(|listener| remove(tree, listener)).collect()
}

/// Returns the step that adds the Service to the tags of the load balancer. It comes first, so that
/// other Services that share the load balancer do not delete it in the meantime.
fn tag(want: &Want, tree: &Tree) -> Option<Step> {
    let balancer = &tree.load_balancer;
    if !want.features.tags || balancer.tags.contains(&want.name) {
        return None;
    }

    let tags: Vec<&String> = balancer.tags.iter().chain([&want.name]).collect();
    Some(Step::update(
        "loadbalancer",
        &balancer.id,
        fields([("tags", json!(tags))]),
    ))
}

/// Returns the steps that delete a listener and its pool, with members and monitor.
pub(super) fn remove(tree: &Tree, listener: &Listener) -> Vec<Step> {
    let pool = tree
        .pool(&listener.id)
        .map(|pool| Step::delete("pool", &pool.id));
    pool.into_iter()
        .chain([Step::delete("listener", &listener.id)])
        .collect()
}

/// Returns the load balancer with the current name of the cluster, and the steps that rename it. These
/// are left to its owner: two Services that write its tags at the same time would undo each other's
/// changes.
fn renamed(tree: &Tree, ownership: &Ownership, cluster: &str) -> (Tree, Vec<Step>) {
    let mut tree = tree.clone();
    let steps = ownership
        .renamed_from
        .as_ref()
        .map(|old| rename(&mut tree, old, cluster))
        .filter(|_| ownership.owner);
    (tree, steps.unwrap_or_default())
}

/// Returns the steps that replace the old name of the cluster in all names and tags. Updates the
/// tree accordingly.
fn rename(tree: &mut Tree, old: &str, new: &str) -> Vec<Step> {
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

    for monitor in tree.monitors.values_mut() {
        change("healthmonitor", &monitor.id, &mut monitor.name, None);
    }
    for pool in &mut tree.pools {
        change("pool", &pool.id, &mut pool.name, None);
    }
    for listener in &mut tree.listeners {
        change(
            "listener",
            &listener.id,
            &mut listener.name,
            Some(&mut listener.tags),
        );
    }

    let balancer = &mut tree.load_balancer;
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

fn change_listener(want: &Want, port: &PortWant, listener: &Listener) -> Option<Step> {
    let mut changed = Map::new();
    let mut set = |key: &str, value: Value| _ = changed.insert(key.to_owned(), value);

    if want.features.tags && !listener.tags.contains(&want.name) {
        set(
            "tags",
            json!(listener.tags.iter().chain([&want.name]).collect::<Vec<_>>()),
        );
    }

    if listener.connection_limit.unwrap_or(-1) != want.listener.connection_limit {
        set("connection_limit", json!(want.listener.connection_limit));
    }

    // Other headers are not changed.
    let mut headers = listener.insert_headers.clone().unwrap_or_default();
    let forwards = headers
        .get("X-Forwarded-For")
        .is_some_and(|value| value == "true");
    if forwards != port.forwards(want) {
        if forwards {
            headers.remove("X-Forwarded-For");
        } else {
            headers.insert("X-Forwarded-For".to_owned(), "true".to_owned());
        }
        set("insert_headers", json!(headers));
    }

    if listener
        .default_tls_container_ref
        .as_deref()
        .unwrap_or_default()
        != port.tls(want)
    {
        set("default_tls_container_ref", json!(port.tls(want)));
    }

    if let Some([client_data, member_connect, member_data, tcp_inspect]) = want.listener.timeouts {
        for (key, is, wanted) in [
            (
                "timeout_client_data",
                listener.timeout_client_data,
                client_data,
            ),
            (
                "timeout_member_connect",
                listener.timeout_member_connect,
                member_connect,
            ),
            (
                "timeout_member_data",
                listener.timeout_member_data,
                member_data,
            ),
            (
                "timeout_tcp_inspect",
                listener.timeout_tcp_inspect,
                tcp_inspect,
            ),
        ] {
            if is != Some(wanted) {
                set(key, json!(wanted));
            }
        }
    }

    if let Some(cidrs) = &want.listener.allowed_cidrs {
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

/// Returns the steps that create a pool with this body, with members and monitor.
fn make_pool(
    want: &Want,
    port: &PortWant,
    tree: &Tree,
    body: Value,
    backends: &[Backend],
) -> Vec<Step> {
    let what = format!("cannot create the pool for port {}", port.port);
    let mut steps = vec![Step::new(
        Method::Post,
        "/lbaas/pools".to_owned(),
        body,
        what,
    )];

    let pool = made();
    let parts = change_members(want, port, tree, &pool, backends)
        .into_iter()
        .chain(change_monitor(want, port, &pool, None));
    steps.extend(parts.map(Step::after));
    steps
}

/// Returns the pool that the closest previous step creates.
fn made() -> Pool {
    Pool {
        id: MADE.to_owned(),
        ..Pool::default()
    }
}

/// Returns the steps that replace a pool whose protocol, or the subnet of whose members, cannot be
/// changed. The listener uses the previous one until the new one has its members.
fn replace_pool(
    want: &Want,
    port: &PortWant,
    tree: &Tree,
    listener: &Listener,
    pool: &Pool,
    backends: &[Backend],
) -> Vec<Step> {
    let body = body::pool_of(want, port, &tree.load_balancer.id);
    let mut unprobed = port.clone();
    unprobed.monitor = None;

    // Pools of replacements that were interrupted or rejected.
    let name = names::part("pool", port.index, &want.name);
    let unused = tree
        .pools
        .iter()
        .filter(|pool| pool.listeners.is_empty() && pool.name == name);
    let mut steps: Vec<Step> = unused.map(|pool| Step::delete("pool", &pool.id)).collect();
    steps.extend(make_pool(want, &unprobed, tree, body, backends));

    let switch = fields([("default_pool_id", json!(MADE))]);
    steps.push(Step::update("listener", &listener.id, switch).after());
    steps.push(Step::delete("pool", &pool.id).after());

    steps.extend(
        change_monitor(want, port, &made(), None)
            .into_iter()
            .map(Step::after),
    );
    steps
}

/// Returns true if members that the Service wants are in another subnet than the one that it sets for
/// them.
fn is_elsewhere(want: &Want, have: &[Member], wanted: &[MemberWant]) -> bool {
    want.moves_members
        && wanted.iter().any(|member| {
            have.iter().any(|other| {
                is_same(other, member)
                    && other
                        .subnet_id
                        .as_ref()
                        .is_some_and(|subnet| *subnet != want.member_subnet)
            })
        })
}

fn change_pool(
    want: &Want,
    port: &PortWant,
    tree: &Tree,
    listener: &Listener,
    backends: &[Backend],
) -> Vec<Step> {
    let Some(pool) = tree.pool(&listener.id) else {
        let body = body::pool(want, port, &listener.id);
        return make_pool(want, port, tree, body, backends);
    };

    let have = tree.members.get(&pool.id).map_or(&[][..], Vec::as_slice);
    if pool.protocol != port.pool_protocol || is_elsewhere(want, have, &members(port, backends)) {
        return replace_pool(want, port, tree, listener, pool, backends);
    }

    let mut steps = Vec::new();
    if pool.lb_algorithm != want.lb_method {
        let step = Step::update(
            "pool",
            &pool.id,
            fields([("lb_algorithm", json!(want.lb_method))]),
        );
        // As in upstream, an unknown method does not prevent the Service from getting its members.
        steps.push(Step {
            optional: Some("LoadBalancerLbMethodUnknown"),
            ..step
        });
    }

    let by_source = pool
        .session_persistence
        .as_ref()
        .is_some_and(|persistence| persistence.kind == "SOURCE_IP");
    if by_source != want.affinity || (!want.affinity && pool.session_persistence.is_some()) {
        let persistence = if want.affinity {
            json!({"type": "SOURCE_IP"})
        } else {
            Value::Null
        };
        steps.push(Step::update(
            "pool",
            &pool.id,
            fields([("session_persistence", persistence)]),
        ));
    }

    steps.extend(change_members(want, port, tree, pool, backends));
    let monitor = pool
        .healthmonitor_id
        .as_ref()
        .and_then(|id| tree.monitors.get(id));
    steps.extend(change_monitor(want, port, pool, monitor));
    steps
}

fn change_members(
    want: &Want,
    port: &PortWant,
    tree: &Tree,
    pool: &Pool,
    backends: &[Backend],
) -> Vec<Step> {
    let wanted = members(port, backends);
    let have = tree
        .members
        .get(&pool.id)
        .map(Vec::as_slice)
        .unwrap_or_default();

    let path = format!("/lbaas/pools/{}/members", pool.id);
    if want.serial {
        return serially(want, port, &path, have, &wanted);
    }

    // Octavia's order has no meaning.
    let mut told: Vec<MemberWant> = have.iter().map(told).collect();
    told.sort();
    if told == wanted {
        return Vec::new();
    }

    let is_there = |member: &MemberWant| have.iter().any(|other| is_same(other, member));
    let body = |member: &MemberWant| {
        // The subnet of an existing member is immutable and is not needed.
        let subnet = if is_there(member) {
            ""
        } else {
            want.member_subnet.as_str()
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
    want: &Want,
    port: &PortWant,
    path: &str,
    have: &[Member],
    wanted: &[MemberWant],
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
                fields(&want.member_subnet),
                what.clone(),
            )),
        }
    });
    new.chain(gone).collect()
}

fn told(member: &Member) -> MemberWant {
    MemberWant {
        name: member.name.clone(),
        address: member.address.clone(),
        port: member.protocol_port,
        monitor_port: member.monitor_port,
    }
}

/// Returns true if Octavia considers both the same member.
fn is_same(member: &Member, wanted: &MemberWant) -> bool {
    member.address == wanted.address && member.protocol_port == wanted.port
}

fn change_monitor(
    want: &Want,
    port: &PortWant,
    pool: &Pool,
    monitor: Option<&Monitor>,
) -> Vec<Step> {
    let make = |wanted| {
        let what = format!("cannot create the health monitor for port {}", port.port);
        let body = body::monitor(want, port, wanted, &pool.id);
        Step::new(Method::Post, "/lbaas/healthmonitors".to_owned(), body, what)
    };

    match (&port.monitor, monitor, &pool.healthmonitor_id) {
        // The monitor was deleted after the pool was read. The next plan handles it.
        (Some(_), None, Some(_)) | (None, _, None) => Vec::new(),
        (Some(wanted), None, None) => vec![make(wanted)],
        (None, _, Some(id)) => vec![Step::delete("healthmonitor", id)],
        (Some(wanted), Some(monitor), _) if monitor.kind != wanted.kind => {
            let delete = Step::delete("healthmonitor", &monitor.id);
            vec![delete, make(wanted).after()]
        }
        (Some(wanted), Some(monitor), _) => {
            let same = monitor.name == names::part("monitor", port.index, &want.name)
                && monitor.delay == wanted.delay
                && monitor.timeout == wanted.timeout
                && monitor.max_retries == wanted.max_retries
                && monitor.max_retries_down == wanted.max_retries_down;
            let path_is_ours =
                wanted.kind != "HTTP" || monitor.url_path.as_deref() == Some("/healthz");

            if same && path_is_ours {
                return Vec::new();
            }

            let mut changed = body::monitor_settings(want, port, wanted);
            if !path_is_ours {
                changed.insert("url_path".to_owned(), json!("/healthz"));
            }
            vec![Step::update("healthmonitor", &monitor.id, changed)]
        }
    }
}

#[cfg(test)]
mod tests;
