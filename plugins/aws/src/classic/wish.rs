//! What a Service asks of a classic load balancer.

use skydock_sdk::{
    Result,
    types::{Service, ServicePort, Transport},
};

use super::health;
use crate::{
    api::elb::{AccessLog, Attributes, Draining, Enabled, HealthCheck, Listener, Settings},
    balancer::{
        annotation::{self, Annotations},
        name,
    },
    cloud::invalid,
    config::Config,
    tags::{self, Cluster, Tags},
};

/// What a Service asks for, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Name of the load balancer.
    pub(crate) name: String,
    /// NAMESPACE/NAME.
    pub(crate) service: String,
    /// Tags of all that is made.
    pub(crate) tags: Tags,
    /// Reached from inside only.
    pub(crate) internal: bool,
    /// Subnets by ID or name; empty to have them found.
    pub(crate) subnets: Vec<String>,
    /// What it listens to.
    pub(crate) listeners: Vec<Listener>,
    /// Protocols and ports of the Service, for the security group.
    pub(crate) ports: Vec<u16>,
    /// Who may reach it; never empty.
    pub(crate) ranges: Vec<String>,
    /// True if machines are told the client's address by the PROXY protocol.
    pub(crate) proxy: bool,
    /// Name of the TLS policy; none leaves what is there.
    pub(crate) policy: Option<String>,
    /// What is set of it.
    pub(crate) attributes: Attributes,
    /// How machines are checked.
    pub(crate) health: HealthCheck,
    /// The user's own security groups; empty for one that is made.
    pub(crate) groups: Vec<String>,
    /// More security groups.
    pub(crate) extra_groups: Vec<String>,
}

impl Wish {
    /// Reads a Service.
    ///
    /// # Errors
    /// If it asks for what cannot be.
    pub(crate) fn of(service: &Service, cluster: &Cluster, config: &Config) -> Result<Self> {
        let annotations = Annotations(&service.annotations);
        if annotations.get(annotation::GROUP_ATTRIBUTES).is_some() {
            let key = annotation::key(annotation::GROUP_ATTRIBUTES);
            return Err(invalid(format!("annotation {key} is for network load balancers only")));
        }
        if let Some(port) = service.ports.iter().find(|port| port.transport != Transport::Tcp) {
            return Err(invalid(format!(
                "port {} is not TCP, which is all a classic load balancer can do; ask for a network load balancer by \
                 annotation {}: nlb",
                port.port,
                annotation::key(annotation::TYPE)
            )));
        }
        let proxy = match annotations.text(annotation::PROXY_PROTOCOL) {
            None => false,
            Some("*") => true,
            Some(_) => return Err(annotation::wrong(annotation::PROXY_PROTOCOL, "*, which is all there is")),
        };
        let reachable = service.ports.iter().filter(|port| port.node_port != 0);
        let listeners: Vec<Listener> = reachable.map(|port| listener(port, annotations)).collect::<Result<_>>()?;
        let first = listeners.first().map(|listener| listener.instance_port).ok_or_else(|| {
            invalid("no port has a node port, and a classic load balancer reaches nodes by no other way")
        })?;
        let mut tags = annotations.pairs(annotation::TAGS);
        tags.insert(tags::SERVICE.into(), name::service(service));
        let ranges = match service.source_ranges.as_slice() {
            [] => vec!["0.0.0.0/0".to_owned()],
            ranges => ranges.to_vec(),
        };
        let mut groups = annotations.list(annotation::SECURITY_GROUPS);
        if groups.is_empty() {
            groups.extend(config.elb_security_group.clone());
        }
        Ok(Self {
            name: name::balancer(service),
            service: name::service(service),
            tags: cluster.owned(&tags),
            internal: annotations.internal(),
            subnets: annotations.list(annotation::SUBNETS),
            ports: service.ports.iter().map(|port| port.port).collect(),
            ranges,
            proxy,
            policy: annotations.text(annotation::TLS_POLICY).map(str::to_owned),
            attributes: attributes(annotations)?,
            health: health::of(service, first, config)?,
            listeners,
            groups,
            extra_groups: annotations.list(annotation::EXTRA_SECURITY_GROUPS),
        })
    }
}

fn listener(port: &ServicePort, annotations: Annotations<'_>) -> Result<Listener> {
    let behind = annotations.get(annotation::BACKEND_PROTOCOL);
    let certificate = annotations.text(annotation::CERTIFICATE);
    let certificate = certificate.filter(|_| annotations.is_tls_port(port.port, &port.name));
    let (protocol, instance_protocol) = match (certificate, behind) {
        (Some(_), None | Some("")) => ("ssl", "tcp"),
        (Some(_), Some(behind @ ("http" | "https"))) => ("https", behind),
        (Some(_), Some(behind @ ("ssl" | "tcp"))) => ("ssl", behind),
        (Some(_), Some(_)) => {
            return Err(annotation::wrong(annotation::BACKEND_PROTOCOL, "http, https, ssl or tcp"));
        }
        (None, Some("http")) => ("http", "http"),
        (None, _) => ("tcp", "tcp"),
    };
    Ok(Listener {
        protocol: protocol.into(),
        load_balancer_port: port.port,
        instance_protocol: instance_protocol.into(),
        instance_port: port.node_port,
        certificate: certificate.unwrap_or_default().to_owned(),
    })
}

fn attributes(annotations: Annotations<'_>) -> Result<Attributes> {
    let flag = |name| annotations.flag(name).map(Option::unwrap_or_default);
    let number = |name| match annotations.text(name) {
        None => Ok(None),
        Some(_) => annotations.number(name),
    };
    let text = |name| annotations.text(name).map(str::to_owned);
    Ok(Attributes {
        access_log: AccessLog {
            enabled: flag(annotation::ACCESS_LOG_ENABLED)?,
            emit_interval: number(annotation::ACCESS_LOG_INTERVAL)?,
            bucket: text(annotation::ACCESS_LOG_BUCKET),
            prefix: text(annotation::ACCESS_LOG_PREFIX),
        },
        connection_draining: Draining {
            enabled: flag(annotation::DRAINING_ENABLED)?,
            timeout: number(annotation::DRAINING_TIMEOUT)?,
        },
        connection_settings: Settings {
            // AWS' own, and the official provider's.
            idle_timeout: Some(number(annotation::IDLE_TIMEOUT)?.unwrap_or(60)),
        },
        cross_zone_load_balancing: Enabled { enabled: flag(annotation::CROSS_ZONE)? },
    })
}
