//! Services as providers see them.

use std::collections::HashSet;

use ipnet::IpNet;
use k8s_openapi::{api::core::v1 as k8s, apimachinery::pkg::util::intstr::IntOrString};
use skydock_cloud::{IpFamily, IpFamilyPolicy, Service, ServicePort, TrafficPolicy, Transport};

use super::{filled, status::status, text};
use crate::objects::constants::ANNOTATION_SOURCE_RANGES;

/// A value in a Service that cannot be passed to a provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// A source range is not a valid CIDR.
    #[error(
        "{field}: {value:?} is not a valid CIDR; expected for example 10.0.0.0/24 or 2001:db8::/32"
    )]
    SourceRange {
        /// Field that contains it.
        field: &'static str,
        /// The invalid value.
        value: String,
    },
    /// A port is out of range.
    #[error("spec.ports: {0} is not a valid port; expected 1 to 65535")]
    Port(i32),
    /// A node selector is not a label selector.
    #[error(
        "annotation service.skydock.dev/node-selector: {part:?} is not a valid label requirement; \
         expected for example pool=edge, zone in (a,b) or !gpu, separated by commas"
    )]
    NodeSelector {
        /// The requirement that is not valid.
        part: String,
    },
    /// A node selector is too long.
    #[error(
        "annotation service.skydock.dev/node-selector: {length} bytes exceed the limit of {most}; \
         add a label to the nodes, and select it"
    )]
    LongNodeSelector {
        /// Its length in bytes.
        length: usize,
        /// The maximum length in bytes.
        most: usize,
    },
    /// Kubernetes does not define the protocol.
    #[error("spec.ports: protocol {0:?} is unknown; use TCP, UDP or SCTP")]
    Protocol(String),
}

/// Converts a Service, and returns an error if something in it is not valid. Invalid values are
/// omitted, so that the load balancer of such a Service can still be deleted.
#[must_use]
pub(crate) fn service(object: &k8s::Service) -> (Service, Option<ConvertError>) {
    let meta = &object.metadata;
    let default = k8s::ServiceSpec::default();
    let spec = object.spec.as_ref().unwrap_or(&default);

    let mut problem = None;
    let source_ranges = source_ranges(object, spec).unwrap_or_else(|error| {
        problem = Some(error);
        Vec::new()
    });

    let mut ports = Vec::new();
    for given in spec.ports.as_deref().unwrap_or_default() {
        match port(given) {
            Ok(port) => ports.push(port),
            Err(error) => problem = Some(error),
        }
    }

    let service = Service {
        namespace: text(meta.namespace.as_ref()),
        name: text(meta.name.as_ref()),
        uid: text(meta.uid.as_ref()),
        labels: meta.labels.clone().unwrap_or_default(),
        annotations: meta.annotations.clone().unwrap_or_default(),
        ports,
        load_balancer_ip: filled(spec.load_balancer_ip.as_ref()),
        load_balancer_class: spec.load_balancer_class.clone(),
        source_ranges,
        external_traffic_policy: traffic_policy(spec.external_traffic_policy.as_deref()),
        internal_traffic_policy: traffic_policy(spec.internal_traffic_policy.as_deref()),
        health_check_node_port: spec
            .health_check_node_port
            .and_then(|port| u16::try_from(port).ok())
            .unwrap_or(0),
        client_ip_affinity_seconds: affinity(spec),
        ip_families: ip_families(spec),
        ip_family_policy: match spec.ip_family_policy.as_deref() {
            Some("PreferDualStack") => IpFamilyPolicy::PreferDualStack,
            Some("RequireDualStack") => IpFamilyPolicy::RequireDualStack,
            _ => IpFamilyPolicy::SingleStack,
        },
        // Kubernetes allocates node ports by default.
        allocate_node_ports: spec.allocate_load_balancer_node_ports.unwrap_or(true),
        publish_not_ready_addresses: spec.publish_not_ready_addresses.unwrap_or(false),
        cluster_ips: spec.cluster_ips.clone().unwrap_or_default(),
        external_ips: spec.external_ips.clone().unwrap_or_default(),
        selector: spec.selector.clone().unwrap_or_default(),
        status: status(object),
        deleting: meta.deletion_timestamp.is_some(),
    };

    (service, problem)
}

fn ip_families(spec: &k8s::ServiceSpec) -> Vec<IpFamily> {
    let families = spec.ip_families.as_deref().unwrap_or_default();
    families
        .iter()
        .filter_map(|family| match family.as_str() {
            "IPv4" => Some(IpFamily::V4),
            "IPv6" => Some(IpFamily::V6),
            _ => None,
        })
        .collect()
}

fn traffic_policy(text: Option<&str>) -> TrafficPolicy {
    if text == Some("Local") {
        TrafficPolicy::Local
    } else {
        TrafficPolicy::Cluster
    }
}

/// Returns the ranges of the spec, or else those of the annotation, each once; both are lists of
/// CIDRs.
fn source_ranges(
    object: &k8s::Service,
    spec: &k8s::ServiceSpec,
) -> Result<Vec<String>, ConvertError> {
    let mut seen = HashSet::new();
    Ok(listed_ranges(object, spec)?
        .into_iter()
        .filter(|range| seen.insert(range.clone()))
        .collect())
}

fn listed_ranges(
    object: &k8s::Service,
    spec: &k8s::ServiceSpec,
) -> Result<Vec<String>, ConvertError> {
    let parse = |field: &'static str, value: &str| {
        let value = value.trim();
        let range: IpNet = value.parse().map_err(|_| ConvertError::SourceRange {
            field,
            value: value.to_owned(),
        })?;
        // Without host bits, so that equal ranges are equal texts.
        Ok(range.trunc().to_string())
    };

    let ranges = spec
        .load_balancer_source_ranges
        .as_deref()
        .unwrap_or_default();
    if !ranges.is_empty() {
        return ranges
            .iter()
            .map(|range| parse("spec.loadBalancerSourceRanges", range))
            .collect();
    }

    let annotation = object
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(ANNOTATION_SOURCE_RANGES));
    match annotation
        .map(|value| value.trim())
        .filter(|value| !value.is_empty())
    {
        Some(list) => list
            .split(',')
            .map(|range| {
                parse(
                    "annotation service.beta.kubernetes.io/load-balancer-source-ranges",
                    range,
                )
            })
            .collect(),
        None => Ok(Vec::new()),
    }
}

fn port(port: &k8s::ServicePort) -> Result<ServicePort, ConvertError> {
    let number = |value: i32| u16::try_from(value).map_err(|_| ConvertError::Port(value));
    Ok(ServicePort {
        name: text(port.name.as_ref()),
        transport: transport(port.protocol.as_deref().unwrap_or("TCP"))?,
        app_protocol: port.app_protocol.clone(),
        port: number(port.port)?,
        target_port: match &port.target_port {
            Some(IntOrString::Int(target)) => target.to_string(),
            Some(IntOrString::String(name)) => name.clone(),
            // As in Kubernetes, the default is the port itself.
            None => port.port.to_string(),
        },
        node_port: number(port.node_port.unwrap_or(0))?,
    })
}

fn transport(protocol: &str) -> Result<Transport, ConvertError> {
    Transport::parse(protocol).ok_or_else(|| ConvertError::Protocol(protocol.to_owned()))
}

/// Returns the timeout of session affinity in seconds. Kubernetes' default is three hours.
fn affinity(spec: &k8s::ServiceSpec) -> Option<u32> {
    let seconds = spec
        .session_affinity_config
        .as_ref()
        .and_then(|config| config.client_ip.as_ref()?.timeout_seconds);

    (spec.session_affinity.as_deref() == Some("ClientIP")).then(|| {
        seconds
            .and_then(|seconds| u32::try_from(seconds).ok())
            .unwrap_or(10_800)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use skydock_cloud::IpMode;

    use super::*;

    fn parse(object: Value) -> k8s::Service {
        serde_json::from_value(object).unwrap()
    }

    fn ranges(spec: &[&str], annotation: Option<&str>) -> Result<Vec<String>, ConvertError> {
        let mut object = parse(json!({ "spec": { "loadBalancerSourceRanges": spec } }));
        if let Some(annotation) = annotation {
            object.metadata.annotations =
                Some([(ANNOTATION_SOURCE_RANGES.to_owned(), annotation.to_owned())].into());
        }
        let (service, problem) = service(&object);
        problem.map_or(Ok(service.source_ranges), Err)
    }

    #[test]
    fn source_ranges_in_the_spec_override_the_annotation() {
        assert_eq!(
            ranges(&["10.0.0.0/8"], Some("nonsense")).unwrap(),
            ["10.0.0.0/8"]
        );
        assert_eq!(
            ranges(&[], Some(" 10.0.0.0/8 , 2001:db8::/32")).unwrap(),
            ["10.0.0.0/8", "2001:db8::/32"]
        );
        assert_eq!(ranges(&[], Some("  ")).unwrap(), Vec::<String>::new());
        assert_eq!(ranges(&[], None).unwrap(), Vec::<String>::new());
        assert_eq!(
            ranges(&["10.1.2.3/8", "10.0.0.0/8", "::/0"], None).unwrap(),
            ["10.0.0.0/8", "::/0"]
        );
    }

    #[test]
    fn an_invalid_source_range_is_an_error_that_says_where() {
        for bad in [
            "foo.bar",
            "10.0.0.1",
            "10.0.0.1/foo",
            "1.2.3.0/33",
            "1.2.3.4/24,",
            "1.2.3.4.5/24",
        ] {
            assert!(ranges(&[], Some(bad)).is_err(), "{bad}");
        }
        let error = ranges(&["10.0.0.1"], None).unwrap_err().to_string();
        assert!(
            error.starts_with("spec.loadBalancerSourceRanges: \"10.0.0.1\" is not a valid CIDR"),
            "{error}"
        );
    }

    #[test]
    fn a_service_keeps_the_fields_that_providers_read() {
        let (service, problem) = service(&parse(json!({
            "metadata": {"namespace": "ns", "name": "web", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "ports": [
                    {"name": "http", "port": 80, "targetPort": "web", "nodePort": 30080, "appProtocol": "http"},
                    {"name": "dns", "port": 53, "targetPort": 5353, "protocol": "UDP"},
                ],
                "sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000,
                "ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "PreferDualStack", "loadBalancerIP": "",
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "Proxy"}]}},
        })));
        assert_eq!(problem, None);
        let [http, dns] = service.ports.as_slice() else {
            panic!("{:?}", service.ports)
        };
        assert_eq!(
            (http.target_port.as_str(), http.node_port, http.transport),
            ("web", 30080, Transport::Tcp)
        );
        assert_eq!(
            (dns.target_port.as_str(), dns.node_port, dns.transport),
            ("5353", 0, Transport::Udp)
        );
        assert_eq!(service.client_ip_affinity_seconds, Some(10_800));
        assert_eq!(service.ip_families, [IpFamily::V6, IpFamily::V4]);
        assert_eq!(
            (
                service.external_traffic_policy,
                service.health_check_node_port
            ),
            (TrafficPolicy::Local, 31000)
        );
        assert_eq!(service.load_balancer_ip, None);
        assert!(service.deleting && service.allocate_node_ports);
        assert_eq!(service.status.ingress[0].ip_mode, Some(IpMode::Proxy));
    }
}
