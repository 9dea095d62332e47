//! Describes the resources of a cluster in a project.

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};
use skydock_clouds::{Project, Service};

use super::Words;

/// Describes load balancers with all their parts, floating IPs, ports and security groups, by name.
pub(crate) async fn openstack(project: &Project, words: &mut Words) -> Result<Value> {
    let list = async |service: Service, path: &str, kind: &str| -> Result<Vec<Value>> {
        let all = project
            .session
            .list(service, path, kind)
            .await
            .with_context(|| path.to_owned())?;
        let mine = |thing: &Value| {
            thing
                .get("project_id")
                .is_none_or(|owner| *owner == json!(project.id))
        };
        Ok(all.into_iter().filter(mine).collect())
    };
    let fixed = [
        (&project.id, "project"),
        (&project.user_id, "user"),
        (&project.network_id, "network"),
        (&project.subnet_id, "subnet"),
        (&project.subnet6_id, "subnet6"),
        (&project.router_id, "router"),
        (&project.external_network_id, "public"),
    ];
    fixed.into_iter().for_each(|(id, word)| words.say(id, word));
    let balancing = Service::LoadBalancer;
    let balancers = list(balancing, "/v2/lbaas/loadbalancers", "loadbalancers").await?;
    let listeners = list(balancing, "/v2/lbaas/listeners", "listeners").await?;
    let pools = list(balancing, "/v2/lbaas/pools", "pools").await?;
    let monitors = list(balancing, "/v2/lbaas/healthmonitors", "healthmonitors").await?;
    for (kind, things) in [
        ("", &balancers),
        ("listener ", &listeners),
        ("pool ", &pools),
        ("monitor ", &monitors),
    ] {
        for thing in things {
            words.say(text(thing, "id"), &format!("{kind}{}", text(thing, "name")));
        }
    }
    for balancer in &balancers {
        words.say(
            text(balancer, "vip_port_id"),
            &format!("port({})", text(balancer, "name")),
        );
        words.say(
            text(balancer, "vip_address"),
            &format!("vip({})", text(balancer, "name")),
        );
    }
    let floating = list(Service::Network, "/v2.0/floatingips", "floatingips").await?;
    for one in &floating {
        let port = words.text(text(one, "port_id"));
        words.say(
            text(one, "floating_ip_address"),
            &format!("floating({port})"),
        );
    }
    let groups = list(Service::Network, "/v2.0/security-groups", "security_groups").await?;
    for group in &groups {
        words.say(text(group, "id"), &format!("group {}", text(group, "name")));
    }
    let mut members = Map::new();
    for pool in &pools {
        let path = format!("/v2/lbaas/pools/{}/members", text(pool, "id"));
        let found = list(balancing, &path, "members").await?;
        members.insert(words.text(text(pool, "name")), by(&found, "address", words));
    }
    let mut ports = list(Service::Network, "/v2.0/ports", "ports").await?;
    // Ports of the router belong to the test fixture.
    ports.retain(|port| !text(port, "device_owner").starts_with("network:"));
    for port in &ports {
        // The second address of an instance is IPv6.
        let device = words.text(text(port, "device_id"));
        for address in port
            .get("fixed_ips")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let address = text(address, "ip_address");
            if words.text(address) == address {
                words.say(address, &format!("address6({device})"));
            }
        }
        words.say(text(port, "mac_address"), "mac");
    }
    Ok(json!({
        "load balancers": by(&balancers, "name", words), "listeners": by(&listeners, "name", words),
        "pools": by(&pools, "name", words), "monitors": by(&monitors, "name", words), "members": members,
        "floating IPs": by(&floating, "port_id", words), "ports": by(&ports, "device_id", words),
        "security groups": by(&groups, "name", words),
    }))
}

/// Returns resources as an object, keyed by the value of this field.
fn by(things: &[Value], field: &str, words: &Words) -> Value {
    let mut all = Map::new();
    for thing in things {
        let mut name = words.text(text(thing, field));
        while all.contains_key(&name) {
            name.push_str(" again");
        }
        let mut told = thing.clone();
        if let Some(fields) = told.as_object_mut() {
            fields.remove("id");
        }
        all.insert(name, words.value(&told));
    }
    Value::Object(all)
}

fn text<'a>(thing: &'a Value, field: &str) -> &'a str {
    thing.get(field).and_then(Value::as_str).unwrap_or_default()
}
