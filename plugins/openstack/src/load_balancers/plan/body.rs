//! Bodies of requests to Octavia.

use serde_json::{Map, Value, json};

use crate::load_balancers::{
    desired_load_balancer::{DesiredLoadBalancer, DesiredMonitor, DesiredPort},
    members::{DesiredMember, MemberNode, members},
    names,
};

/// Adds a text if it is not empty.
fn put(object: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        object.insert(key.to_owned(), json!(text));
    }
}

/// Returns the body of a load balancer, with all its parts unless they are created individually.
pub(crate) fn load_balancer(desired: &DesiredLoadBalancer, member_nodes: &[MemberNode]) -> Value {
    let mut body = Map::new();
    put(&mut body, "name", &desired.name);
    put(&mut body, "description", &desired.description);
    put(&mut body, "provider", &desired.provider);
    put(&mut body, "flavor_id", &desired.flavor_id);
    put(&mut body, "availability_zone", &desired.availability_zone);

    if desired.features.tags {
        body.insert("tags".to_owned(), json!([desired.name]));
    }

    if desired.vip.port_id.is_empty() {
        put(&mut body, "vip_subnet_id", &desired.vip.subnet_id);
        put(&mut body, "vip_network_id", &desired.vip.network_id);
    } else {
        put(&mut body, "vip_port_id", &desired.vip.port_id);
    }
    put(&mut body, "vip_address", &desired.vip.address);

    if !desired.serial {
        let full = |port: &DesiredPort| {
            let mut listener = listener_fields(desired, port);
            let mut pool = pool_fields(desired, port);
            pool.insert(
                "members".to_owned(),
                new_members(desired, port, member_nodes),
            );
            if let Some(monitor) = &port.monitor {
                pool.insert(
                    "healthmonitor".to_owned(),
                    Value::Object(monitor_fields(desired, port, monitor)),
                );
            }
            listener.insert("default_pool".to_owned(), Value::Object(pool));
            Value::Object(listener)
        };
        body.insert(
            "listeners".to_owned(),
            desired.ports.iter().map(full).collect(),
        );
    }
    json!({"loadbalancer": body})
}

/// Returns the body of a listener for an existing load balancer.
pub(crate) fn listener(
    desired: &DesiredLoadBalancer,
    port: &DesiredPort,
    load_balancer: &str,
) -> Value {
    let mut listener = listener_fields(desired, port);
    put(&mut listener, "loadbalancer_id", load_balancer);
    json!({"listener": listener})
}

fn listener_fields(desired: &DesiredLoadBalancer, port: &DesiredPort) -> Map<String, Value> {
    let mut body = Map::new();
    put(
        &mut body,
        "name",
        &names::part("listener", port.index, &desired.name),
    );
    put(&mut body, "protocol", port.listener_protocol);
    body.insert("protocol_port".to_owned(), json!(port.port));
    body.insert(
        "connection_limit".to_owned(),
        json!(desired.listener.connection_limit),
    );

    if desired.features.tags {
        body.insert("tags".to_owned(), json!([desired.name]));
    }

    if let Some(timeouts) = desired.listener.timeouts {
        for (key, timeout) in [
            ("timeout_client_data", timeouts.client_data),
            ("timeout_member_connect", timeouts.member_connect),
            ("timeout_member_data", timeouts.member_data),
            ("timeout_tcp_inspect", timeouts.tcp_inspect),
        ] {
            body.insert(key.to_owned(), json!(timeout));
        }
    }

    if port.forwards(desired) {
        body.insert(
            "insert_headers".to_owned(),
            json!({"X-Forwarded-For": "true"}),
        );
    }

    put(&mut body, "default_tls_container_ref", port.tls(desired));
    if let Some(cidrs) = &desired.listener.allowed_cidrs {
        body.insert("allowed_cidrs".to_owned(), json!(cidrs));
    }
    body
}

impl DesiredPort {
    /// Returns true if the listener adds the header `X-Forwarded-For`.
    pub(crate) fn forwards(&self, desired: &DesiredLoadBalancer) -> bool {
        desired.listener.x_forwarded_for && self.transport == "TCP"
    }

    /// Returns the TLS container of the listener, which can be empty.
    pub(crate) fn tls<'a>(&self, desired: &'a DesiredLoadBalancer) -> &'a str {
        if self.transport == "TCP" {
            &desired.listener.tls_container_ref
        } else {
            ""
        }
    }
}

/// Returns the body of a pool for an existing listener.
pub(crate) fn pool(desired: &DesiredLoadBalancer, port: &DesiredPort, listener: &str) -> Value {
    let mut pool = pool_fields(desired, port);
    put(&mut pool, "listener_id", listener);
    json!({"pool": pool})
}

/// Returns the body of a pool that no listener uses yet.
pub(crate) fn pool_of(
    desired: &DesiredLoadBalancer,
    port: &DesiredPort,
    load_balancer: &str,
) -> Value {
    let mut pool = pool_fields(desired, port);
    put(&mut pool, "loadbalancer_id", load_balancer);
    json!({"pool": pool})
}

fn pool_fields(desired: &DesiredLoadBalancer, port: &DesiredPort) -> Map<String, Value> {
    let mut body = Map::new();
    put(
        &mut body,
        "name",
        &names::part("pool", port.index, &desired.name),
    );
    put(&mut body, "protocol", port.pool_protocol);
    put(&mut body, "lb_algorithm", &desired.lb_method);

    if desired.affinity {
        body.insert(
            "session_persistence".to_owned(),
            json!({"type": "SOURCE_IP"}),
        );
    }
    body
}

fn new_members(
    desired: &DesiredLoadBalancer,
    port: &DesiredPort,
    member_nodes: &[MemberNode],
) -> Value {
    members(port, member_nodes)
        .iter()
        .map(|wanted| Value::Object(member_fields(wanted, &desired.member_subnet)))
        .collect()
}

/// Returns the fields of a member. The subnet is only set on creation, because it is immutable.
pub(crate) fn member_fields(member: &DesiredMember, subnet: &str) -> Map<String, Value> {
    let mut body = Map::new();
    put(&mut body, "name", &member.name);
    put(&mut body, "address", &member.address);
    body.insert("protocol_port".to_owned(), json!(member.port));
    put(&mut body, "subnet_id", subnet);
    if let Some(port) = member.monitor_port {
        body.insert("monitor_port".to_owned(), json!(port));
    }
    body
}

/// Returns the body of a monitor for an existing pool.
pub(crate) fn monitor(
    desired: &DesiredLoadBalancer,
    port: &DesiredPort,
    monitor: &DesiredMonitor,
    pool: &str,
) -> Value {
    let mut body = monitor_fields(desired, port, monitor);
    put(&mut body, "pool_id", pool);
    json!({"healthmonitor": body})
}

fn monitor_fields(
    desired: &DesiredLoadBalancer,
    port: &DesiredPort,
    monitor: &DesiredMonitor,
) -> Map<String, Value> {
    let mut body = monitor_settings(desired, port, monitor);
    put(&mut body, "type", monitor.kind);
    if monitor.kind == "HTTP" {
        put(&mut body, "url_path", "/healthz");
        put(&mut body, "http_method", "GET");
        put(&mut body, "expected_codes", "200");
    }
    body
}

/// Returns the mutable fields of a monitor.
pub(crate) fn monitor_settings(
    desired: &DesiredLoadBalancer,
    port: &DesiredPort,
    monitor: &DesiredMonitor,
) -> Map<String, Value> {
    let mut body = Map::new();
    put(
        &mut body,
        "name",
        &names::part("monitor", port.index, &desired.name),
    );
    body.insert("delay".to_owned(), json!(monitor.delay));
    body.insert("timeout".to_owned(), json!(monitor.timeout));
    body.insert("max_retries".to_owned(), json!(monitor.max_retries));
    body.insert(
        "max_retries_down".to_owned(),
        json!(monitor.max_retries_down),
    );
    body
}
