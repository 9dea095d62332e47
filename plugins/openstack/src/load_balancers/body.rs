//! Bodies of requests to Octavia.

use serde_json::{Map, Value, json};

use super::{
    members::{Backend, MemberWant, members},
    names,
    want::{MonitorWant, PortWant, Want},
};

/// Adds a text if it is not empty.
fn put(object: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        object.insert(key.to_owned(), json!(text));
    }
}

/// Returns the body of a load balancer, with all its parts unless they are created individually.
pub(super) fn load_balancer(want: &Want, backends: &[Backend]) -> Value {
    let mut body = Map::new();
    put(&mut body, "name", &want.name);
    put(&mut body, "description", &want.description);
    put(&mut body, "provider", &want.provider);
    put(&mut body, "flavor_id", &want.flavor_id);
    put(&mut body, "availability_zone", &want.availability_zone);

    if want.features.tags {
        body.insert("tags".to_owned(), json!([want.name]));
    }

    if want.vip.port_id.is_empty() {
        put(&mut body, "vip_subnet_id", &want.vip.subnet_id);
        put(&mut body, "vip_network_id", &want.vip.network_id);
    } else {
        put(&mut body, "vip_port_id", &want.vip.port_id);
    }
    put(&mut body, "vip_address", &want.vip.address);

    if !want.serial {
        let full = |port: &PortWant| {
            let mut listener = listener_fields(want, port);
            let mut pool = pool_fields(want, port);
            pool.insert("members".to_owned(), new_members(want, port, backends));
            if let Some(monitor) = &port.monitor {
                pool.insert(
                    "healthmonitor".to_owned(),
                    Value::Object(monitor_fields(want, port, monitor)),
                );
            }
            listener.insert("default_pool".to_owned(), Value::Object(pool));
            Value::Object(listener)
        };
        body.insert(
            "listeners".to_owned(),
            want.ports.iter().map(full).collect(),
        );
    }
    json!({"loadbalancer": body})
}

/// Returns the body of a listener for an existing load balancer.
pub(super) fn listener(want: &Want, port: &PortWant, load_balancer: &str) -> Value {
    let mut listener = listener_fields(want, port);
    put(&mut listener, "loadbalancer_id", load_balancer);
    json!({"listener": listener})
}

fn listener_fields(want: &Want, port: &PortWant) -> Map<String, Value> {
    let mut body = Map::new();
    put(
        &mut body,
        "name",
        &names::part("listener", port.index, &want.name),
    );
    put(&mut body, "protocol", port.listener_protocol);
    body.insert("protocol_port".to_owned(), json!(port.port));
    body.insert(
        "connection_limit".to_owned(),
        json!(want.listener.connection_limit),
    );

    if want.features.tags {
        body.insert("tags".to_owned(), json!([want.name]));
    }

    if let Some([client_data, member_connect, member_data, tcp_inspect]) = want.listener.timeouts {
        body.insert("timeout_client_data".to_owned(), json!(client_data));
        body.insert("timeout_member_connect".to_owned(), json!(member_connect));
        body.insert("timeout_member_data".to_owned(), json!(member_data));
        body.insert("timeout_tcp_inspect".to_owned(), json!(tcp_inspect));
    }

    if port.forwards(want) {
        body.insert(
            "insert_headers".to_owned(),
            json!({"X-Forwarded-For": "true"}),
        );
    }

    put(&mut body, "default_tls_container_ref", port.tls(want));
    if let Some(cidrs) = &want.listener.allowed_cidrs {
        body.insert("allowed_cidrs".to_owned(), json!(cidrs));
    }
    body
}

impl PortWant {
    /// Returns true if the listener adds the header `X-Forwarded-For`.
    pub(super) fn forwards(&self, want: &Want) -> bool {
        want.listener.x_forwarded_for && self.transport == "TCP"
    }

    /// Returns the TLS container of the listener, which can be empty.
    pub(super) fn tls<'a>(&self, want: &'a Want) -> &'a str {
        if self.transport == "TCP" {
            &want.listener.tls_container_ref
        } else {
            ""
        }
    }
}

/// Returns the body of a pool for an existing listener.
pub(super) fn pool(want: &Want, port: &PortWant, listener: &str) -> Value {
    let mut pool = pool_fields(want, port);
    put(&mut pool, "listener_id", listener);
    json!({"pool": pool})
}

/// Returns the body of a pool that no listener uses yet.
pub(super) fn pool_of(want: &Want, port: &PortWant, load_balancer: &str) -> Value {
    let mut pool = pool_fields(want, port);
    put(&mut pool, "loadbalancer_id", load_balancer);
    json!({"pool": pool})
}

fn pool_fields(want: &Want, port: &PortWant) -> Map<String, Value> {
    let mut body = Map::new();
    put(
        &mut body,
        "name",
        &names::part("pool", port.index, &want.name),
    );
    put(&mut body, "protocol", port.pool_protocol);
    put(&mut body, "lb_algorithm", &want.lb_method);

    if want.affinity {
        body.insert(
            "session_persistence".to_owned(),
            json!({"type": "SOURCE_IP"}),
        );
    }
    body
}

fn new_members(want: &Want, port: &PortWant, backends: &[Backend]) -> Value {
    members(port, backends)
        .iter()
        .map(|wanted| Value::Object(member_fields(wanted, &want.member_subnet)))
        .collect()
}

/// Returns the fields of a member. The subnet is only set on creation, because it is immutable.
pub(super) fn member_fields(member: &MemberWant, subnet: &str) -> Map<String, Value> {
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
pub(super) fn monitor(want: &Want, port: &PortWant, monitor: &MonitorWant, pool: &str) -> Value {
    let mut body = monitor_fields(want, port, monitor);
    put(&mut body, "pool_id", pool);
    json!({"healthmonitor": body})
}

fn monitor_fields(want: &Want, port: &PortWant, monitor: &MonitorWant) -> Map<String, Value> {
    let mut body = monitor_settings(want, port, monitor);
    put(&mut body, "type", monitor.kind);
    if monitor.kind == "HTTP" {
        put(&mut body, "url_path", "/healthz");
        put(&mut body, "http_method", "GET");
        put(&mut body, "expected_codes", "200");
    }
    body
}

/// Returns the mutable fields of a monitor.
pub(super) fn monitor_settings(
    want: &Want,
    port: &PortWant,
    monitor: &MonitorWant,
) -> Map<String, Value> {
    let mut body = Map::new();
    put(
        &mut body,
        "name",
        &names::part("monitor", port.index, &want.name),
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
