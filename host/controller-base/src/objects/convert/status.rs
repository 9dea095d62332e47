//! The status of a load balancer, from the object and for it.

use k8s_openapi::api::core::v1 as k8s;
use serde_json::{Map, Value, json};
use skydock_cloud::{Ingress, IpMode, LoadBalancerStatus, PortStatus, Transport};

use super::filled;

/// Returns the status in a Service.
pub(super) fn status(object: &k8s::Service) -> LoadBalancerStatus {
    let ingress = object
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref()?.ingress.as_deref());

    let convert = |ingress: &k8s::LoadBalancerIngress| Ingress {
        ip: filled(ingress.ip.as_ref()),
        hostname: filled(ingress.hostname.as_ref()),
        ip_mode: match ingress.ip_mode.as_deref() {
            Some("VIP") => Some(IpMode::Vip),
            Some("Proxy") => Some(IpMode::Proxy),
            _ => None,
        },
        ports: ingress
            .ports
            .as_deref()
            .unwrap_or_default()
            .iter()
            .filter_map(|port| {
                Some(PortStatus {
                    port: u16::try_from(port.port).ok()?,
                    transport: Transport::parse(&port.protocol)?,
                    error: port.error.clone(),
                })
            })
            .collect(),
    };

    LoadBalancerStatus {
        ingress: ingress.unwrap_or_default().iter().map(convert).collect(),
    }
}

/// Converts a status to the JSON of `status.loadBalancer`.
#[must_use]
pub fn status_json(status: &LoadBalancerStatus) -> Value {
    let ingress = |ingress: &Ingress| {
        let mut object = Map::new();
        let mut set = |key: &str, value: Option<Value>| {
            value.map(|value| object.insert(key.to_owned(), value))
        };

        set("ip", ingress.ip.as_deref().map(Value::from));
        set("hostname", ingress.hostname.as_deref().map(Value::from));

        let mode = ingress.ip_mode.map(|mode| match mode {
            IpMode::Vip => "VIP",
            IpMode::Proxy => "Proxy",
        });
        set("ipMode", mode.map(Value::from));

        let ports: Vec<Value> = ingress.ports.iter().map(port_json).collect();
        set("ports", (!ports.is_empty()).then(|| Value::from(ports)));

        Value::from(object)
    };

    if status.ingress.is_empty() {
        // In a merge patch, null removes the old list.
        return json!({ "ingress": null });
    }
    json!({ "ingress": status.ingress.iter().map(ingress).collect::<Vec<_>>() })
}

fn port_json(port: &PortStatus) -> Value {
    let mut object = json!({ "port": port.port, "protocol": port.transport.as_str() });
    if let (Some(error), Some(object)) = (&port.error, object.as_object_mut()) {
        object.insert("error".to_owned(), Value::from(error.as_str()));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_survives_a_round_trip() {
        let status = LoadBalancerStatus {
            ingress: vec![
                Ingress {
                    ip: Some("192.0.2.1".into()),
                    ip_mode: Some(IpMode::Vip),
                    ..Ingress::default()
                },
                Ingress {
                    hostname: Some("lb.example".into()),
                    ports: vec![PortStatus {
                        port: 53,
                        transport: Transport::Udp,
                        error: Some("NoQuota".into()),
                    }],
                    ..Ingress::default()
                },
            ],
        };
        let object =
            serde_json::from_value(json!({ "status": { "loadBalancer": status_json(&status) } }))
                .unwrap();
        assert_eq!(super::status(&object), status);
    }
}
