//! What is to be changed of a load balancer, so that it is what the Service asks for.
//!
//! Octavia takes one change of a load balancer at a time, and takes no other until that one is done. So a plan is a list of
//! which the first step is taken, and the next call makes a plan anew.

use serde_json::{Map, Value, json};
use skydock_sdk::http::Method;

use super::{
    body,
    members::{Backend, MemberWant, members},
    names,
    tree::{Ownership, Tree},
    want::{PortWant, Want},
};
use crate::octavia::{Listener, Member, Monitor, Pool};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// How.
    pub method: Method,
    /// Of what, below Octavia's address.
    pub path: String,
    /// To what.
    pub body: Option<Value>,
    /// What for, as the beginning of a message.
    pub what: String,
    /// Reason of the event if it is refused; then the steps behind it are taken all the same.
    pub optional: Option<&'static str>,
}

impl Step {
    fn new(method: Method, path: String, body: Value, what: String) -> Self {
        Self { method, path, body: Some(body), what, optional: None }
    }

    fn delete(kind: &str, id: &str) -> Self {
        let path = format!("/lbaas/{kind}s/{id}");
        Self { method: Method::Delete, path, body: None, what: format!("cannot delete {kind} {id}"), optional: None }
    }

    fn update(kind: &str, id: &str, fields: Map<String, Value>) -> Self {
        let path = format!("/lbaas/{kind}s/{id}");
        Self::new(Method::Put, path, json!({kind: Value::Object(fields)}), format!("cannot update {kind} {id}"))
    }
}

/// All steps that can be known now. Parts of something that is yet to be made come with later plans.
///
/// # Errors
/// If a port of the Service is taken by somebody else, in one sentence.
pub fn plan(
    want: &Want,
    backends: &[Backend],
    tree: &Tree,
    ownership: &Ownership,
    cluster: &str,
) -> Result<Vec<Step>, String> {
    let mut renamed = tree.clone();
    let mut steps = Vec::new();
    if let Some(old) = &ownership.renamed_from {
        steps.extend(rename(&mut renamed, old, cluster));
    }
    let tree = &renamed;
    steps.extend(tag(want, tree));
    let mut kept: Vec<&str> = Vec::new();
    for port in &want.ports {
        let Some(listener) = tree.listener(port) else { continue };
        if !tree.is_own(listener, want, ownership) {
            return Err(format!(
                "port {} ({}) of load balancer {} is taken by listener {}, which is not this Service's",
                port.port, port.transport, tree.load_balancer.id, listener.id
            ));
        }
        if listener.protocol == port.listener_protocol {
            kept.push(&listener.id);
        }
    }
    // First, so that their ports are free.
    for listener in tree.listeners.iter().filter(|listener| !kept.contains(&listener.id.as_str())) {
        if tree.is_own(listener, want, ownership) {
            steps.extend(remove(tree, listener));
        }
    }
    for port in &want.ports {
        match tree.listener(port).filter(|listener| kept.contains(&listener.id.as_str())) {
            Some(listener) => {
                steps.extend(change_listener(want, port, listener));
                steps.extend(change_pool(want, port, tree, listener, backends));
            }
            None => {
                let body = body::listener(want, port, &tree.load_balancer.id);
                let what = format!("cannot make the listener of port {}", port.port);
                steps.push(Step::new(Method::Post, "/lbaas/listeners".to_owned(), body, what));
            }
        }
    }
    Ok(steps)
}

/// Brings the members of the pools there are to these nodes, and nothing else.
#[must_use]
pub fn plan_members(want: &Want, backends: &[Backend], tree: &Tree, ownership: &Ownership) -> Vec<Step> {
    let mut steps = Vec::new();
    for port in &want.ports {
        let own = tree.listener(port).filter(|listener| tree.is_own(listener, want, ownership));
        if let Some(pool) = own.and_then(|listener| tree.pool(&listener.id)) {
            steps.extend(change_members(want, port, tree, pool, backends));
        }
    }
    steps
}

/// Takes what is this Service's from a load balancer that stays, or from one whose parts are deleted one by one.
#[must_use]
pub fn plan_removal(want: &Want, tree: &Tree, ownership: &Ownership) -> Vec<Step> {
    let own = tree.listeners.iter().filter(|listener| tree.is_own(listener, want, ownership));
    own.flat_map(|listener| remove(tree, listener)).collect()
}

/// The Service among the tags of the load balancer. First of all: so nobody who shares it deletes it meanwhile.
fn tag(want: &Want, tree: &Tree) -> Option<Step> {
    let balancer = &tree.load_balancer;
    if !want.features.tags || balancer.tags.contains(&want.name) {
        return None;
    }
    let tags: Vec<&String> = balancer.tags.iter().chain([&want.name]).collect();
    Some(Step::update("loadbalancer", &balancer.id, fields([("tags", json!(tags))])))
}

/// A listener and its pool, with members and monitor.
fn remove(tree: &Tree, listener: &Listener) -> Vec<Step> {
    let pool = tree.pool(&listener.id).map(|pool| Step::delete("pool", &pool.id));
    pool.into_iter().chain([Step::delete("listener", &listener.id)]).collect()
}

/// Steps after which all is called after the cluster as it is called now; the tree is as after them.
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
            let tagged: Vec<String> = tags.iter().map(|tag| names::with_cluster(tag, old, new)).collect();
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
        change("listener", &listener.id, &mut listener.name, Some(&mut listener.tags));
    }
    let balancer = &mut tree.load_balancer;
    // At last: as long as it has the old name, this goes on.
    change("loadbalancer", &balancer.id, &mut balancer.name, Some(&mut balancer.tags));
    steps
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn change_listener(want: &Want, port: &PortWant, listener: &Listener) -> Option<Step> {
    let mut changed = Map::new();
    let mut set = |key: &str, value: Value| _ = changed.insert(key.to_owned(), value);
    if want.features.tags && !listener.tags.contains(&want.name) {
        set("tags", json!(listener.tags.iter().chain([&want.name]).collect::<Vec<_>>()));
    }
    if listener.connection_limit.unwrap_or(-1) != want.listener.connection_limit {
        set("connection_limit", json!(want.listener.connection_limit));
    }
    let mut headers = listener.insert_headers.clone().unwrap_or_default();
    let forwards = headers.get("X-Forwarded-For").is_some_and(|value| value == "true");
    if forwards != port.forwards(want) {
        if forwards {
            headers.remove("X-Forwarded-For");
        } else {
            headers.insert("X-Forwarded-For".to_owned(), "true".to_owned());
        }
        set("insert_headers", json!(headers));
    }
    if listener.default_tls_container_ref.as_deref().unwrap_or_default() != port.tls(want) {
        set("default_tls_container_ref", json!(port.tls(want)));
    }
    if let Some([client_data, member_connect, member_data, tcp_inspect]) = want.listener.timeouts {
        for (key, is, wanted) in [
            ("timeout_client_data", listener.timeout_client_data, client_data),
            ("timeout_member_connect", listener.timeout_member_connect, member_connect),
            ("timeout_member_data", listener.timeout_member_data, member_data),
            ("timeout_tcp_inspect", listener.timeout_tcp_inspect, tcp_inspect),
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

fn change_pool(want: &Want, port: &PortWant, tree: &Tree, listener: &Listener, backends: &[Backend]) -> Vec<Step> {
    let make = || {
        let what = format!("cannot make the pool of port {}", port.port);
        Step::new(Method::Post, "/lbaas/pools".to_owned(), body::pool(want, port, &listener.id), what)
    };
    let Some(pool) = tree.pool(&listener.id) else { return vec![make()] };
    if pool.protocol != port.pool_protocol {
        return vec![Step::delete("pool", &pool.id), make()];
    }
    let mut steps = Vec::new();
    if pool.lb_algorithm != want.lb_method {
        let step = Step::update("pool", &pool.id, fields([("lb_algorithm", json!(want.lb_method))]));
        // As upstream: a method nobody knows does not keep the Service from its members.
        steps.push(Step { optional: Some("LoadBalancerLbMethodUnknown"), ..step });
    }
    let by_source = pool.session_persistence.as_ref().is_some_and(|persistence| persistence.kind == "SOURCE_IP");
    if by_source != want.affinity || (!want.affinity && pool.session_persistence.is_some()) {
        let persistence = if want.affinity { json!({"type": "SOURCE_IP"}) } else { Value::Null };
        steps.push(Step::update("pool", &pool.id, fields([("session_persistence", persistence)])));
    }
    steps.extend(change_members(want, port, tree, pool, backends));
    let monitor = pool.healthmonitor_id.as_ref().and_then(|id| tree.monitors.get(id));
    steps.extend(change_monitor(want, port, pool, monitor));
    steps
}

fn change_members(want: &Want, port: &PortWant, tree: &Tree, pool: &Pool, backends: &[Backend]) -> Vec<Step> {
    let wanted = members(port, backends);
    let have = tree.members.get(&pool.id).map(Vec::as_slice).unwrap_or_default();
    let mut told: Vec<MemberWant> = have.iter().map(told).collect();
    told.sort();
    if told == wanted {
        return Vec::new();
    }
    let path = format!("/lbaas/pools/{}/members", pool.id);
    let is_there = |member: &MemberWant| have.iter().any(|other| is_same(other, member));
    if want.serial {
        return serially(want, port, &path, have, &wanted);
    }
    let body = |member: &MemberWant| {
        // The subnet of a member that is there cannot change, and need not be known.
        let subnet = if is_there(member) { "" } else { want.member_subnet.as_str() };
        let mut body = body::member_fields(member, subnet);
        if member.monitor_port.is_none() && is_there(member) {
            body.insert("monitor_port".to_owned(), Value::Null);
        }
        Value::Object(body)
    };
    let bodies: Vec<Value> = wanted.iter().map(body).collect();
    let what = format!("cannot set the members of port {}", port.port);
    vec![Step::new(Method::Put, path, json!({"members": bodies}), what)]
}

/// One member after the other, for providers that take no list.
fn serially(want: &Want, port: &PortWant, path: &str, have: &[Member], wanted: &[MemberWant]) -> Vec<Step> {
    let what = format!("cannot set the members of port {}", port.port);
    let gone = have.iter().filter(|member| !wanted.iter().any(|other| is_same(member, other)));
    let gone = gone.map(|member| Step {
        method: Method::Delete,
        path: format!("{path}/{}", member.id),
        body: None,
        what: what.clone(),
        optional: None,
    });
    let new = wanted.iter().filter_map(|member| {
        let fields = |subnet: &str| json!({"member": body::member_fields(member, subnet)});
        match have.iter().find(|other| is_same(other, member)) {
            Some(other) if told(other) == *member => None,
            Some(other) => {
                let changed = fields_of_update(member);
                Some(Step::new(Method::Put, format!("{path}/{}", other.id), json!({"member": changed}), what.clone()))
            }
            None => Some(Step::new(Method::Post, path.to_owned(), fields(&want.member_subnet), what.clone())),
        }
    });
    new.chain(gone).collect()
}

fn fields_of_update(member: &MemberWant) -> Map<String, Value> {
    fields([("name", json!(member.name)), ("monitor_port", json!(member.monitor_port))])
}

fn told(member: &Member) -> MemberWant {
    MemberWant {
        name: member.name.clone(),
        address: member.address.clone(),
        port: member.protocol_port,
        monitor_port: member.monitor_port,
    }
}

/// What Octavia tells members by.
fn is_same(member: &Member, wanted: &MemberWant) -> bool {
    member.address == wanted.address && member.protocol_port == wanted.port
}

fn change_monitor(want: &Want, port: &PortWant, pool: &Pool, monitor: Option<&Monitor>) -> Vec<Step> {
    let make = |wanted| {
        let what = format!("cannot make the health monitor of port {}", port.port);
        let body = body::monitor(want, port, wanted, &pool.id);
        Step::new(Method::Post, "/lbaas/healthmonitors".to_owned(), body, what)
    };
    match (&port.monitor, monitor, &pool.healthmonitor_id) {
        // One that is gone since the pool was read; the next plan knows.
        (Some(_), None, Some(_)) | (None, _, None) => Vec::new(),
        (Some(wanted), None, None) => vec![make(wanted)],
        (None, _, Some(id)) => vec![Step::delete("healthmonitor", id)],
        (Some(wanted), Some(monitor), _) if monitor.kind != wanted.kind => {
            vec![Step::delete("healthmonitor", &monitor.id), make(wanted)]
        }
        (Some(wanted), Some(monitor), _) => {
            let same = monitor.name == names::part("monitor", port.index, &want.name)
                && monitor.delay == wanted.delay
                && monitor.timeout == wanted.timeout
                && monitor.max_retries == wanted.max_retries
                && monitor.max_retries_down == wanted.max_retries_down;
            let path_is_ours = wanted.kind != "HTTP" || monitor.url_path.as_deref() == Some("/healthz");
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
