//! Validation of Services.

use serde_json::Value;

use super::{Spec, is_ip, network, number};
use crate::{
    registry::strategy::host_name,
    resources::{
        names::{label, qualified_name, subdomain},
        object::{list, strings, text},
    },
    status::Cause,
};

/// The fields with a fixed set of values.
const ENUMS: [(&str, &[&str]); 6] = [
    (
        "type",
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
    ),
    ("sessionAffinity", &["ClientIP", "None"]),
    ("externalTrafficPolicy", &["Cluster", "Local"]),
    ("internalTrafficPolicy", &["Cluster", "Local"]),
    (
        "trafficDistribution",
        &["PreferClose", "PreferSameZone", "PreferSameNode"],
    ),
    (
        "ipFamilyPolicy",
        &["SingleStack", "PreferDualStack", "RequireDualStack"],
    ),
];

/// Checks a complete Service.
pub(super) fn validate(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();

    for (field, supported) in ENUMS {
        let given = text(value, &format!("/spec/{field}"));
        if !given.is_empty() && !supported.contains(&given) {
            causes.push(Cause::not_supported(
                format!("spec.{field}"),
                given,
                supported,
            ));
        }
    }

    ports(value, &mut causes);
    external_name(value, &mut causes);
    cluster_ip(value, &mut causes);
    external_access(value, &mut causes);
    balancer(value, &mut causes);
    causes
}

fn external_name(value: &Value, causes: &mut Vec<Cause>) {
    if !Spec(value).is("ExternalName") {
        return;
    }
    match text(value, "/spec/externalName") {
        "" => causes.push(Cause::required("spec.externalName", "")),
        name => {
            if let Err(why) = subdomain(name.strip_suffix('.').unwrap_or(name)) {
                causes.push(Cause::invalid("spec.externalName", &name.into(), why));
            }
        }
    }
}

fn cluster_ip(value: &Value, causes: &mut Vec<Cause>) {
    let spec = Spec(value);
    if spec.is("ExternalName") && !text(value, "/spec/clusterIP").is_empty() {
        causes.push(Cause::forbidden(
            "spec.clusterIPs",
            "may not be set when `type` is 'ExternalName'",
        ));
    } else if spec.may_have_node_ports() && spec.headless() {
        let why = format!(
            "may not be set to 'None' for {} services",
            text(value, "/spec/type")
        );
        causes.push(Cause::invalid("spec.clusterIPs[0]", &"None".into(), why));
    }
}

/// Checks the fields about traffic from outside of the cluster.
fn external_access(value: &Value, causes: &mut Vec<Cause>) {
    let spec = Spec(value);

    for (index, ip) in strings(value, "/spec/externalIPs").into_iter().enumerate() {
        if !is_ip(ip) {
            causes.push(Cause::invalid(
                format!("spec.externalIPs[{index}]"),
                &ip.into(),
                "must be a valid IP address",
            ));
        }
    }

    let policy = text(value, "/spec/externalTrafficPolicy");
    if !spec.externally_accessible() && !policy.is_empty() {
        let why = "may only be set for externally-accessible services";
        causes.push(Cause::invalid(
            "spec.externalTrafficPolicy",
            &policy.into(),
            why,
        ));
    }

    let health_check_port = number(&value["spec"], "healthCheckNodePort");
    if !spec.needs_health_check() && health_check_port != 0 {
        let why =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        causes.push(Cause::invalid(
            "spec.healthCheckNodePort",
            &health_check_port.into(),
            why,
        ));
    }
}

fn ports(value: &Value, causes: &mut Vec<Cause>) {
    let spec = Spec(value);
    let ports = list(value, "/spec/ports");
    if ports.is_empty() && spec.needs_cluster_ip() && !spec.headless() {
        causes.push(Cause::required("spec.ports", ""));
    }

    for (index, port) in ports.iter().enumerate() {
        let field = |name: &str| format!("spec.ports[{index}]{name}");
        let earlier = || ports.iter().take(index);

        let name = text(port, "/name");
        if name.is_empty() && ports.len() > 1 {
            causes.push(Cause::required(field(".name"), ""));
        } else if !name.is_empty() {
            if let Err(why) = label(name) {
                causes.push(Cause::invalid(field(".name"), &name.into(), why));
            }
            if earlier().any(|other| text(other, "/name") == name) {
                causes.push(Cause::duplicate(field(".name"), &name.into()));
            }
        }

        numbers(port, field, causes);

        if !text(port, "/appProtocol").is_empty()
            && let Err(why) = qualified_name(text(port, "/appProtocol"))
        {
            causes.push(Cause::invalid(
                field(".appProtocol"),
                &port["appProtocol"],
                why,
            ));
        }

        if number(port, "nodePort") != 0 && !spec.may_have_node_ports() {
            let why = format!(
                "may not be used when `type` is '{}'",
                text(value, "/spec/type")
            );
            causes.push(Cause::forbidden(field(".nodePort"), why));
        }

        if earlier().any(|other| identity(other) == identity(port)) {
            causes.push(Cause::duplicate(field(""), port));
        }
    }
}

/// Checks the numbers and the protocol of a port. `field` returns the path of a field of it.
fn numbers(port: &Value, field: impl Fn(&str) -> String, causes: &mut Vec<Cause>) {
    if !is_port(number(port, "port")) {
        causes.push(Cause::invalid(
            field(".port"),
            &number(port, "port").into(),
            PORT_RANGE,
        ));
    }

    let protocol = text(port, "/protocol");
    let supported = ["SCTP", "TCP", "UDP"];
    if !supported.contains(&protocol) {
        causes.push(Cause::not_supported(
            field(".protocol"),
            protocol,
            &supported,
        ));
    }

    let target = &port["targetPort"];
    match target {
        Value::Number(number) if !number.as_i64().is_some_and(is_port) => {
            causes.push(Cause::invalid(field(".targetPort"), target, PORT_RANGE));
        }
        Value::String(name) if name.len() > 15 || label(name).is_err() => {
            let why =
                "must be the name of a port: at most 15 lower case alphanumeric characters or '-'";
            causes.push(Cause::invalid(field(".targetPort"), target, why));
        }
        _ => {}
    }
}

/// Returns what only one port of a Service may have.
fn identity(port: &Value) -> (i64, &str) {
    (number(port, "port"), text(port, "/protocol"))
}

/// Rejects new ports that differ only in their names, because they would get the same node port.
pub(super) fn node_ports(value: &Value) -> Vec<Cause> {
    let ports = list(value, "/spec/ports");
    let is_repeated = |index: &usize, port: &Value| {
        ports
            .iter()
            .take(*index)
            .any(|other| identity(other) == identity(port))
    };

    let repeated = ports
        .iter()
        .enumerate()
        .filter(|(index, port)| Spec(value).may_have_node_ports() && is_repeated(index, port));
    repeated
        .map(|(index, port)| {
            Cause::duplicate(format!("spec.ports[{index}].nodePort"), &port["nodePort"])
        })
        .collect()
}

/// Checks the fields that only load balancers have.
fn balancer(value: &Value, causes: &mut Vec<Cause>) {
    let spec = Spec(value);
    let only = "may only be used when `type` is 'LoadBalancer'";
    let class = text(value, "/spec/loadBalancerClass");
    if !class.is_empty() {
        if !spec.is("LoadBalancer") {
            causes.push(Cause::forbidden("spec.loadBalancerClass", only));
        } else if let Err(why) = qualified_name(class) {
            causes.push(Cause::invalid("spec.loadBalancerClass", &class.into(), why));
        }
    }

    if value
        .pointer("/spec/allocateLoadBalancerNodePorts")
        .is_some()
        && !spec.is("LoadBalancer")
    {
        causes.push(Cause::forbidden("spec.allocateLoadBalancerNodePorts", only));
    }

    let ranges = strings(value, "/spec/loadBalancerSourceRanges");
    if !ranges.is_empty() && !spec.is("LoadBalancer") {
        // The path has a capital letter upstream, too.
        causes.push(Cause::forbidden("spec.LoadBalancerSourceRanges", only));
    }
    for (index, range) in ranges.into_iter().enumerate() {
        if network(range.trim()).is_none() {
            let why = "must be a valid CIDR value, such as 10.9.8.0/24";
            causes.push(Cause::invalid(
                format!("spec.loadBalancerSourceRanges[{index}]"),
                &range.into(),
                why,
            ));
        }
    }
}

/// Checks the fields that must not change.
pub(super) fn unchanged(value: &Value, old: &Value) -> Vec<Cause> {
    let before = Spec(old);
    let after = Spec(value);
    let mut causes = Vec::new();

    let old_ip = text(old, "/spec/clusterIP");
    if before.needs_cluster_ip() && after.needs_cluster_ip() && !old_ip.is_empty() {
        let changed = |pointer| value.pointer(pointer) != old.pointer(pointer);
        if changed("/spec/clusterIPs/0") || changed("/spec/clusterIP") {
            causes.push(Cause::invalid(
                "spec.clusterIPs[0]",
                &strings(value, "/spec/clusterIPs").into(),
                "may not change once set",
            ));
        }
    }

    let class = |value: &Value| text(value, "/spec/loadBalancerClass").to_owned();
    if before.is("LoadBalancer") && after.is("LoadBalancer") && class(old) != class(value) {
        causes.push(Cause::invalid(
            "spec.loadBalancerClass",
            &class(value).into(),
            "may not change once set",
        ));
    }

    let port = |value: &Value| number(&value["spec"], "healthCheckNodePort");
    if before.needs_health_check() && after.needs_health_check() && port(old) != port(value) {
        causes.push(Cause::forbidden(
            "spec.healthCheckNodePort",
            "field is immutable",
        ));
    }

    causes
}

/// Checks the status of a Service.
pub(super) fn status(value: &Value) -> Vec<Cause> {
    let ingress = list(value, "/status/loadBalancer/ingress");
    let field = "status.loadBalancer.ingress";
    if !ingress.is_empty() && !Spec(value).is("LoadBalancer") {
        return vec![Cause::forbidden(
            field,
            "may only be used when `spec.type` is 'LoadBalancer'",
        )];
    }

    let mut causes = Vec::new();
    for (index, entry) in ingress.iter().enumerate() {
        let at = |name: &str| format!("{field}[{index}].{name}");
        let ip = text(entry, "/ip");
        let host = text(entry, "/hostname");
        let mode = text(entry, "/ipMode");

        if !ip.is_empty() && !is_ip(ip) {
            causes.push(Cause::invalid(
                at("ip"),
                &ip.into(),
                "must be a valid IP address, such as 10.9.8.7",
            ));
        }

        if ip.is_empty() && !mode.is_empty() {
            causes.push(Cause::forbidden(
                at("ipMode"),
                "may not be specified when `ip` is not set",
            ));
        } else if !["", "VIP", "Proxy"].contains(&mode) {
            causes.push(Cause::not_supported(at("ipMode"), mode, &["Proxy", "VIP"]));
        }

        if !host.is_empty()
            && let Err(why) = host_name(host)
        {
            causes.push(Cause::invalid(at("hostname"), &host.into(), why));
        }
    }
    causes
}

const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";

fn is_port(number: i64) -> bool {
    (1..=65_535).contains(&number)
}
