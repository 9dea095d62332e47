//! What a Service requests of a network load balancer.

pub(super) mod attributes;

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{
    Result,
    types::{IpFamily, IpFamilyPolicy, Service, ServicePort, Transport},
};

use super::health::{self, Health};
use crate::{
    cloud::invalid,
    config::Config,
    load_balancing::common::{
        annotation::{self, Annotations},
        applied::Applied,
        name::{self, GroupKey},
        subnet::Need,
    },
    tags::{self, Cluster, Tags},
};

/// Attributes of target groups that Services can set.
const PRESERVE_CLIENT: &str = "preserve_client_ip.enabled";
const PROXY_PROTOCOL: &str = "proxy_protocol_v2.enabled";

/// The checked request of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DesiredLoadBalancer {
    /// The name of the load balancer.
    pub(crate) name: String,
    /// The tags of all created resources.
    pub(crate) tags: Tags,
    /// The keys of tags that were requested before.
    pub(crate) removed_tags: BTreeSet<String>,
    pub(crate) internal: bool,
    /// Subnets by ID or name. Empty if they are chosen automatically.
    pub(crate) subnets: Vec<String>,
    /// Elastic IP addresses, one per subnet, or empty.
    pub(crate) allocations: Vec<String>,
    /// Private addresses, one per subnet, or empty.
    pub(crate) private_addresses: Vec<String>,
    /// The listeners by port.
    pub(crate) listeners: Vec<DesiredListener>,
    /// The attributes of the load balancer.
    pub(crate) attributes: BTreeMap<String, String>,
    /// The attributes of each target group. Others are not changed.
    pub(crate) group_attributes: BTreeMap<String, String>,
    /// The ranges that can reach it. Never empty.
    pub(crate) ranges: Vec<String>,
    /// The security groups of the load balancer.
    pub(crate) security: Security,
    /// The address families of the load balancer.
    pub(crate) ip_address_type: IpAddressType,
}

/// One listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DesiredListener {
    pub(crate) port: u16,
    /// `TCP`, `UDP`, `TCP_UDP` or `TLS`.
    pub(crate) protocol: &'static str,
    /// The ARN of the certificate, for TLS.
    pub(crate) certificate: Option<String>,
    /// The name of the security policy, for TLS. `None` keeps the current one.
    pub(crate) policy: Option<String>,
    /// The target group that it forwards to.
    pub(crate) group: DesiredTargetGroup,
}

/// One target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DesiredTargetGroup {
    /// The name, used if the group is created.
    pub(crate) name: String,
    /// The port on every node.
    pub(crate) port: u16,
    /// `TCP`, `UDP`, `TCP_UDP` or `TLS`.
    pub(crate) protocol: &'static str,
    pub(crate) health: Health,
    /// True if nodes are reached over IPv6.
    pub(crate) ipv6: bool,
}

/// The security groups of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    /// The current ones are not changed.
    Unchanged,
    /// These groups of the user.
    Given(Vec<String>),
    /// A group with this name, created for the load balancer.
    Managed(String),
}

/// The address families of a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IpAddressType {
    /// IPv4 for a new load balancer; an existing one is not changed.
    Unchanged,
    /// IPv4 and IPv6 for a new load balancer whose subnets have IPv6; an existing one is not
    /// changed.
    DualstackIfPossible,
    /// Only IPv4.
    Ipv4,
    /// IPv4 and IPv6.
    Dualstack,
}

impl DesiredLoadBalancer {
    /// Reads the request of a Service.
    ///
    /// # Errors
    /// Fails if the Service is invalid.
    pub(crate) fn of(service: &Service, cluster: &Cluster, config: &Config) -> Result<Self> {
        let annotations = Annotations(&service.annotations);
        if annotations.get(annotation::EXTRA_SECURITY_GROUPS).is_some() {
            let key = annotation::key(annotation::EXTRA_SECURITY_GROUPS);
            return Err(invalid(format!(
                "annotation {key} is for classic load balancers only"
            )));
        }

        let health = health::of(service, config)?;
        let listeners = listeners(service, annotations, &health, cluster)?;
        let (mut tags, _) = annotations.tags();
        tags.insert(tags::SERVICE.into(), name::service(service));

        let mut ranges = service.source_ranges.clone();
        let ip_address_type = ip_address_type(service, annotations)?;
        if ranges.is_empty() {
            ranges.push("0.0.0.0/0".into());
            if ip_address_type != IpAddressType::Ipv4
                && service.ip_families.contains(&IpFamily::Ipv6)
                || ip_address_type == IpAddressType::Dualstack
            {
                ranges.push("::/0".into());
            }
        }

        Ok(Self {
            name: name::balancer(service),
            tags: cluster.owned(&tags),
            removed_tags: BTreeSet::new(),
            internal: annotations.internal()?,
            subnets: annotations.list(annotation::SUBNETS),
            allocations: annotations.list(annotation::ALLOCATIONS),
            private_addresses: annotations.list(annotation::PRIVATE_ADDRESSES),
            attributes: attributes::of(annotations)?,
            group_attributes: group_attributes(annotations, &listeners)?,
            listeners,
            ranges,
            security: security(service, annotations, config),
            ip_address_type,
        })
    }
}

impl DesiredLoadBalancer {
    /// Returns what annotations set.
    pub(crate) fn applied(&self, service: &Service) -> Applied {
        let annotations = Annotations(&service.annotations);
        Applied {
            tags: annotations.tags().0.into_keys().collect(),
            group_attributes: self.group_attributes.keys().cloned().collect(),
            has_policy: self
                .listeners
                .iter()
                .any(|listener| listener.policy.is_some()),
            has_timeout: annotations.text(annotation::HEALTH_TIMEOUT).is_some(),
            has_address_type: annotations.text(annotation::IP_ADDRESS_TYPE).is_some(),
        }
    }

    /// Requests the defaults of AWS for what annotations set before.
    pub(crate) fn undo(&mut self, before: &Applied) {
        self.removed_tags = before.removed_tags(&self.tags);

        for key in &before.group_attributes {
            // AWS's default: only the preservation of client addresses is enabled.
            let default = (key == PRESERVE_CLIENT).to_string();
            self.group_attributes.entry(key.clone()).or_insert(default);
        }

        for listener in self.listeners.iter_mut().filter(|_| before.has_timeout) {
            listener.group.health.reset_timeout();
        }

        let tls = self
            .listeners
            .iter_mut()
            .filter(|one| one.protocol == "TLS");
        for listener in tls.filter(|_| before.has_policy) {
            listener
                .policy
                .get_or_insert_with(|| annotation::DEFAULT_POLICY.to_owned());
        }

        if before.has_address_type && self.ip_address_type == IpAddressType::Unchanged {
            self.ip_address_type = IpAddressType::Ipv4;
        }
    }

    /// Returns the keys of the tags that tell the cluster.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = &String> {
        let tells = |key: &&String| {
            key.starts_with(tags::CLUSTER_PREFIX) || key.as_str() == tags::LEGACY_CLUSTER
        };
        self.tags.keys().filter(tells)
    }

    /// Returns what a new load balancer needs of its subnets.
    pub(crate) fn need(&self) -> Need {
        Need {
            internal: self.internal,
            ipv6: self.ip_address_type == IpAddressType::Dualstack,
        }
    }
}

/// Returns true if these attributes of target groups let nodes see the addresses of clients, which
/// is the default for instances.
pub(super) fn preserves(attributes: &BTreeMap<String, String>) -> bool {
    attributes
        .get(PRESERVE_CLIENT)
        .is_none_or(|value| value != "false")
}

fn listeners(
    service: &Service,
    annotations: Annotations<'_>,
    health: &Health,
    cluster: &Cluster,
) -> Result<Vec<DesiredListener>> {
    let mut listeners: Vec<DesiredListener> = Vec::new();
    // Target groups have one family. Nodes with both are reached over IPv4.
    let ipv6 = service.ip_families.first() == Some(&IpFamily::Ipv6)
        && !service.ip_families.contains(&IpFamily::Ipv4);

    // A port without a node port is unreachable. The official provider leaves it out too.
    for port in service.ports.iter().filter(|port| port.node_port != 0) {
        let mut listener = listener(port, annotations, health, ipv6)?;
        if let Some(other) = listeners
            .iter_mut()
            .find(|other| other.port == listener.port)
        {
            // UDP and TCP on the same port: one listener takes both if both use the same node port.
            let both = [other.protocol, listener.protocol];
            if !(both.contains(&"TCP") && both.contains(&"UDP"))
                || other.group.port != listener.group.port
            {
                return Err(invalid(format!(
                    "port {} is used with TCP and UDP: set the same nodePort for both, and no TLS",
                    listener.port
                )));
            }
            (other.protocol, other.group.protocol) = ("TCP_UDP", "TCP_UDP");
            listener = other.clone();
        } else {
            listeners.push(listener.clone());
        }

        // The name depends on the protocol, which a second port on the same number changes.
        let key = GroupKey {
            port: listener.port,
            node_port: listener.group.port,
            protocol: listener.group.protocol,
            health_protocol: listener.group.health.protocol,
            health_interval: listener.group.health.interval,
            ipv6,
        };
        let group = name::group(&cluster.id, service, key);
        if let Some(same) = listeners
            .iter_mut()
            .find(|other| other.port == listener.port)
        {
            same.group.name = group;
        }
    }

    if listeners.is_empty() {
        return Err(invalid(
            "no port has a node port, which network load balancers require",
        ));
    }
    Ok(listeners)
}

fn listener(
    port: &ServicePort,
    annotations: Annotations<'_>,
    health: &Health,
    ipv6: bool,
) -> Result<DesiredListener> {
    let protocol = match port.transport {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
        Transport::Sctp => return Err(invalid("network load balancers do not support SCTP")),
    };
    let group = DesiredTargetGroup {
        name: String::new(),
        port: port.node_port,
        protocol,
        health: health.clone(),
        ipv6,
    };
    let plain = DesiredListener {
        port: port.port,
        protocol,
        certificate: None,
        policy: None,
        group,
    };

    let certificate = annotations.text(annotation::CERTIFICATE);
    match certificate {
        Some(certificate)
            if protocol == "TCP" && annotations.is_tls_port(port.port, &port.name) =>
        {
            let behind = if annotations.get(annotation::BACKEND_PROTOCOL) == Some("ssl") {
                "TLS"
            } else {
                "TCP"
            };
            Ok(DesiredListener {
                protocol: "TLS",
                certificate: Some(certificate.to_owned()),
                policy: annotations.text(annotation::TLS_POLICY).map(str::to_owned),
                group: DesiredTargetGroup {
                    protocol: behind,
                    ..plain.group
                },
                ..plain
            })
        }
        _ => Ok(plain),
    }
}

fn group_attributes(
    annotations: Annotations<'_>,
    listeners: &[DesiredListener],
) -> Result<BTreeMap<String, String>> {
    let wanted = annotations.pairs(annotation::GROUP_ATTRIBUTES);
    for (key, value) in &wanted {
        let wrong = |reason: &str| {
            Err(invalid(format!(
                "annotation {}: {key} {reason}",
                annotation::key(annotation::GROUP_ATTRIBUTES)
            )))
        };

        if key != PRESERVE_CLIENT && key != PROXY_PROTOCOL {
            return wrong("is not one of preserve_client_ip.enabled and proxy_protocol_v2.enabled");
        }
        if value != "true" && value != "false" {
            return wrong("must be true or false");
        }

        let udp = listeners
            .iter()
            .any(|listener| listener.protocol.contains("UDP"));
        if key == PRESERVE_CLIENT && value == "false" && udp {
            return wrong("cannot be false for UDP");
        }
    }

    Ok(wanted)
}

/// Groups that the user names restrict the clients, so they are used in any mode.
fn security(service: &Service, annotations: Annotations<'_>, config: &Config) -> Security {
    let given = annotations.list(annotation::SECURITY_GROUPS);
    if !given.is_empty() {
        Security::Given(given)
    } else if config.nlb_groups_managed {
        Security::Managed(name::network_security_group(&config.cluster_name, service))
    } else {
        Security::Unchanged
    }
}

fn ip_address_type(service: &Service, annotations: Annotations<'_>) -> Result<IpAddressType> {
    match annotations.text(annotation::IP_ADDRESS_TYPE) {
        Some("ipv4") => return Ok(IpAddressType::Ipv4),
        Some("dualstack") => return Ok(IpAddressType::Dualstack),
        Some(_) => {
            return Err(annotation::wrong(
                annotation::IP_ADDRESS_TYPE,
                "ipv4 or dualstack",
            ));
        }
        None => {}
    }

    let v6 = service.ip_families.contains(&IpFamily::Ipv6);
    let v4 = service.ip_families.contains(&IpFamily::Ipv4);
    Ok(match service.ip_family_policy {
        _ if !v6 => IpAddressType::Unchanged,
        IpFamilyPolicy::PreferDualStack if v4 => IpAddressType::DualstackIfPossible,
        // A network load balancer with IPv6 always has IPv4, too.
        _ => IpAddressType::Dualstack,
    })
}

#[cfg(test)]
mod tests;
