//! What a Service asks of a network load balancer.

use std::collections::BTreeMap;

use skydock_sdk::{
    Result,
    types::{IpFamily, IpFamilyPolicy, Service, ServicePort, Transport},
};

use super::health::{self, Health};
use crate::{
    balancer::{
        annotation::{self, Annotations},
        name::{self, GroupKey},
    },
    cloud::invalid,
    config::Config,
    tags::{self, Cluster, Tags},
};

/// Attributes of a load balancer that Services decide about.
const CROSS_ZONE: &str = "load_balancing.cross_zone.enabled";
const LOGS_ENABLED: &str = "access_logs.s3.enabled";
const LOGS_BUCKET: &str = "access_logs.s3.bucket";
const LOGS_PREFIX: &str = "access_logs.s3.prefix";

/// Attributes of target groups that Services may set.
const PRESERVE_CLIENT: &str = "preserve_client_ip.enabled";
const PROXY_PROTOCOL: &str = "proxy_protocol_v2.enabled";

/// What a Service asks for, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Name of the load balancer.
    pub(crate) name: String,
    /// Tags of all that is made.
    pub(crate) tags: Tags,
    /// Reached from inside only.
    pub(crate) internal: bool,
    /// Subnets by ID or name; empty to have them found.
    pub(crate) subnets: Vec<String>,
    /// Elastic addresses, one a subnet; or none.
    pub(crate) allocations: Vec<String>,
    /// Private addresses, one a subnet; or none.
    pub(crate) private_addresses: Vec<String>,
    /// What it listens to, by port.
    pub(crate) fronts: Vec<Front>,
    /// Attributes of the load balancer.
    pub(crate) attributes: BTreeMap<String, String>,
    /// Attributes of each target group; others are left alone.
    pub(crate) group_attributes: BTreeMap<String, String>,
    /// Who may reach it; never empty.
    pub(crate) ranges: Vec<String>,
    /// Which security groups it has.
    pub(crate) security: Security,
    /// Which addresses it has.
    pub(crate) stack: Stack,
}

/// One listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Front {
    /// Port.
    pub(crate) port: u16,
    /// `TCP`, `UDP`, `TCP_UDP` or `TLS`.
    pub(crate) protocol: &'static str,
    /// ARN of the certificate, of TLS.
    pub(crate) certificate: Option<String>,
    /// Name of the security policy, of TLS; none leaves what is there.
    pub(crate) policy: Option<String>,
    /// Where it leads.
    pub(crate) group: Group,
}

/// One target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its name if it is to be made.
    pub(crate) name: String,
    /// Port on every node.
    pub(crate) port: u16,
    /// `TCP`, `UDP`, `TCP_UDP` or `TLS`.
    pub(crate) protocol: &'static str,
    /// Its health check.
    pub(crate) health: Health,
    /// True if nodes are reached by IPv6.
    pub(crate) ipv6: bool,
}

/// Which security groups a load balancer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    /// Those it has, whatever they are.
    Left,
    /// These, which are the user's.
    Given(Vec<String>),
    /// One of its own, of this name.
    Managed(String),
}

/// Which addresses a load balancer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    /// IPv4, or what it has already.
    Left,
    /// IPv6 too, if it is new and its subnets have it.
    Preferred,
    /// IPv4 only.
    Ipv4,
    /// Both.
    Dual,
}

impl Wish {
    /// Reads a Service.
    ///
    /// # Errors
    /// If it asks for what cannot be.
    pub(crate) fn of(service: &Service, cluster: &Cluster, config: &Config) -> Result<Self> {
        let annotations = Annotations(&service.annotations);
        if annotations.get(annotation::EXTRA_SECURITY_GROUPS).is_some() {
            let key = annotation::key(annotation::EXTRA_SECURITY_GROUPS);
            return Err(invalid(format!("annotation {key} is for classic load balancers only")));
        }
        let health = health::of(service, config)?;
        let fronts = fronts(service, annotations, &health, cluster)?;
        let mut tags = annotations.pairs(annotation::TAGS);
        tags.insert(tags::SERVICE.into(), name::service(service));
        let mut ranges = service.source_ranges.clone();
        let stack = stack(service, annotations)?;
        if ranges.is_empty() {
            ranges.push("0.0.0.0/0".into());
            if stack != Stack::Ipv4 && service.ip_families.contains(&IpFamily::Ipv6) || stack == Stack::Dual {
                ranges.push("::/0".into());
            }
        }
        Ok(Self {
            name: name::balancer(service),
            tags: cluster.owned(&tags),
            internal: annotations.internal(),
            subnets: annotations.list(annotation::SUBNETS),
            allocations: annotations.list(annotation::ALLOCATIONS),
            private_addresses: annotations.list(annotation::PRIVATE_ADDRESSES),
            attributes: attributes(annotations)?,
            group_attributes: group_attributes(annotations, &fronts)?,
            fronts,
            ranges,
            security: security(service, annotations, config),
            stack,
        })
    }
}

fn fronts(service: &Service, annotations: Annotations<'_>, health: &Health, cluster: &Cluster) -> Result<Vec<Front>> {
    let mut fronts: Vec<Front> = Vec::new();
    let ipv6 = service.ip_families.first() == Some(&IpFamily::Ipv6) && !service.ip_families.contains(&IpFamily::Ipv4);
    // A port without a node port is unreachable; the official provider leaves it out, too.
    for port in service.ports.iter().filter(|port| port.node_port != 0) {
        let mut front = front(port, annotations, health, ipv6)?;
        if let Some(other) = fronts.iter_mut().find(|other| other.port == front.port) {
            // UDP beside TCP: one listener takes both if both lead to the same port of the nodes.
            let both = [other.protocol, front.protocol];
            if !(both.contains(&"TCP") && both.contains(&"UDP")) || other.group.port != front.group.port {
                return Err(invalid(format!(
                    "port {} is there for TCP and for UDP: give both the same nodePort, and no TLS",
                    front.port
                )));
            }
            (other.protocol, other.group.protocol) = ("TCP_UDP", "TCP_UDP");
            front = other.clone();
        } else {
            fronts.push(front.clone());
        }
        let key = GroupKey {
            port: front.port,
            node_port: front.group.port,
            protocol: front.group.protocol,
            health_protocol: front.group.health.protocol,
            health_interval: front.group.health.interval,
            ipv6,
        };
        let group = name::group(&cluster.id, service, key);
        if let Some(same) = fronts.iter_mut().find(|other| other.port == front.port) {
            same.group.name = group;
        }
    }
    if fronts.is_empty() {
        return Err(invalid("no port has a node port, and a network load balancer reaches nodes by no other way"));
    }
    Ok(fronts)
}

fn front(port: &ServicePort, annotations: Annotations<'_>, health: &Health, ipv6: bool) -> Result<Front> {
    let protocol = match port.transport {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
        Transport::Sctp => return Err(invalid("a network load balancer cannot do SCTP")),
    };
    let group = Group { name: String::new(), port: port.node_port, protocol, health: health.clone(), ipv6 };
    let plain = Front { port: port.port, protocol, certificate: None, policy: None, group };
    let certificate = annotations.text(annotation::CERTIFICATE);
    match certificate {
        Some(certificate) if protocol == "TCP" && annotations.is_tls_port(port.port, &port.name) => {
            let behind = if annotations.get(annotation::BACKEND_PROTOCOL) == Some("ssl") { "TLS" } else { "TCP" };
            Ok(Front {
                protocol: "TLS",
                certificate: Some(certificate.to_owned()),
                policy: annotations.text(annotation::TLS_POLICY).map(str::to_owned),
                group: Group { protocol: behind, ..plain.group },
                ..plain
            })
        }
        _ => Ok(plain),
    }
}

fn attributes(annotations: Annotations<'_>) -> Result<BTreeMap<String, String>> {
    let flag = |name| annotations.flag(name).map(Option::unwrap_or_default);
    let logs = flag(annotation::ACCESS_LOG_ENABLED)?;
    let mut attributes = BTreeMap::from([
        (CROSS_ZONE.to_owned(), flag(annotation::CROSS_ZONE)?.to_string()),
        (LOGS_ENABLED.to_owned(), logs.to_string()),
    ]);
    // AWS takes no empty bucket: where logs are off, it stays as it is.
    if logs {
        let text = |name| annotations.get(name).unwrap_or_default().to_owned();
        attributes.insert(LOGS_BUCKET.into(), text(annotation::ACCESS_LOG_BUCKET));
        attributes.insert(LOGS_PREFIX.into(), text(annotation::ACCESS_LOG_PREFIX));
    }
    Ok(attributes)
}

/// What a load balancer has that is new.
pub(crate) fn default_attributes() -> BTreeMap<String, String> {
    BTreeMap::from([
        (CROSS_ZONE.to_owned(), "false".to_owned()),
        (LOGS_ENABLED.to_owned(), "false".to_owned()),
        (LOGS_BUCKET.to_owned(), String::new()),
        (LOGS_PREFIX.to_owned(), String::new()),
    ])
}

fn group_attributes(annotations: Annotations<'_>, fronts: &[Front]) -> Result<BTreeMap<String, String>> {
    let wanted = annotations.pairs(annotation::GROUP_ATTRIBUTES);
    for (key, value) in &wanted {
        let wrong = |reason: &str| {
            Err(invalid(format!("annotation {}: {key} {reason}", annotation::key(annotation::GROUP_ATTRIBUTES))))
        };
        if key != PRESERVE_CLIENT && key != PROXY_PROTOCOL {
            return wrong("is not one of preserve_client_ip.enabled and proxy_protocol_v2.enabled");
        }
        if value != "true" && value != "false" {
            return wrong("is true or false");
        }
        let udp = fronts.iter().any(|front| front.protocol.contains("UDP"));
        if key == PRESERVE_CLIENT && value == "false" && udp {
            return wrong("cannot be false for UDP");
        }
    }
    Ok(wanted)
}

fn security(service: &Service, annotations: Annotations<'_>, config: &Config) -> Security {
    if !config.nlb_groups_managed {
        return Security::Left;
    }
    let given = annotations.list(annotation::SECURITY_GROUPS);
    if given.is_empty() {
        Security::Managed(name::network_security_group(&config.cluster_name, service))
    } else {
        Security::Given(given)
    }
}

fn stack(service: &Service, annotations: Annotations<'_>) -> Result<Stack> {
    match annotations.text(annotation::IP_ADDRESS_TYPE) {
        Some("ipv4") => return Ok(Stack::Ipv4),
        Some("dualstack") => return Ok(Stack::Dual),
        Some(_) => return Err(annotation::wrong(annotation::IP_ADDRESS_TYPE, "ipv4 or dualstack")),
        None => {}
    }
    let v6 = service.ip_families.contains(&IpFamily::Ipv6);
    let v4 = service.ip_families.contains(&IpFamily::Ipv4);
    Ok(match service.ip_family_policy {
        _ if !v6 => Stack::Left,
        IpFamilyPolicy::PreferDualStack if v4 => Stack::Preferred,
        _ => Stack::Dual,
    })
}

#[cfg(test)]
mod tests;
