//! What a Service requests of a classic load balancer.

use std::collections::BTreeSet;

use skydock_sdk::{
    Result,
    types::{IpFamily, Service, ServicePort, Transport},
};

use super::health;
use crate::{
    client::api::elb::{AccessLog, Attributes, Draining, Enabled, HealthCheck, Listener, Settings},
    cloud::invalid,
    config::Config,
    load_balancing::common::{
        annotation::{self, Annotations},
        applied::Applied,
        name,
        subnet::Need,
    },
    tags::{self, Cluster, Tags},
};

/// The checked request of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DesiredLoadBalancer {
    /// The name of the load balancer.
    pub(crate) name: String,
    /// `NAMESPACE/NAME`.
    pub(crate) service: String,
    /// The tags of all created resources.
    pub(crate) tags: Tags,
    /// The keys of tags that were requested before.
    pub(crate) removed_tags: BTreeSet<String>,
    pub(crate) internal: bool,
    /// Subnets by ID or name. Empty if they are chosen automatically.
    pub(crate) subnets: Vec<String>,
    pub(crate) listeners: Vec<Listener>,
    /// The ports of the Service, for the security group.
    pub(crate) ports: Vec<u16>,
    /// The ranges that can reach it. Never empty.
    pub(crate) ranges: Vec<String>,
    /// True if instances get the client's address with the PROXY protocol.
    pub(crate) proxy: bool,
    /// The name of the TLS policy. `None` keeps the current one.
    pub(crate) policy: Option<String>,
    pub(crate) attributes: Attributes,
    /// The health check of the instances.
    pub(crate) health: HealthCheck,
    /// The security groups set by the user or by the operator. If empty, one is created.
    pub(crate) groups: Vec<String>,
    /// Additional security groups.
    pub(crate) extra_groups: Vec<String>,
}

impl DesiredLoadBalancer {
    /// Reads the request of a Service.
    ///
    /// # Errors
    /// Fails if the Service is invalid.
    pub(crate) fn of(service: &Service, cluster: &Cluster, config: &Config) -> Result<Self> {
        check(service)?;
        let annotations = Annotations(&service.annotations);
        let proxy = match annotations.text(annotation::PROXY_PROTOCOL) {
            None => false,
            Some("*") => true,
            Some(_) => return Err(annotation::wrong(annotation::PROXY_PROTOCOL, "*")),
        };

        let listeners = listeners(service, annotations)?;
        let (mut tags, _) = annotations.tags();
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
            removed_tags: BTreeSet::new(),
            internal: annotations.internal()?,
            subnets: annotations.list(annotation::SUBNETS),
            ports: service.ports.iter().map(|port| port.port).collect(),
            ranges,
            proxy,
            policy: annotations.text(annotation::TLS_POLICY).map(str::to_owned),
            attributes: attributes(annotations)?,
            health: health::of(service, &listeners, config)?,
            listeners,
            groups,
            extra_groups: annotations.list(annotation::EXTRA_SECURITY_GROUPS),
        })
    }
}

impl DesiredLoadBalancer {
    /// Returns what annotations set.
    pub(crate) fn applied(&self, service: &Service) -> Applied {
        let (tags, _) = Annotations(&service.annotations).tags();
        let has_tls = self.listeners.iter().any(Listener::is_tls);
        Applied {
            tags: tags.into_keys().collect(),
            has_policy: self.policy.is_some() && has_tls,
            ..Applied::default()
        }
    }

    /// Requests the defaults of AWS for what annotations set before.
    pub(crate) fn undo(&mut self, before: &Applied) {
        self.removed_tags = before.removed_tags(&self.tags);
        if before.has_policy {
            self.policy
                .get_or_insert_with(|| annotation::DEFAULT_POLICY.to_owned());
        }
    }

    /// Returns what the load balancer needs of its subnets.
    pub(crate) fn need(&self) -> Need {
        Need {
            internal: self.internal,
            ipv6: false,
        }
    }
}

/// Rejects what no classic load balancer supports.
fn check(service: &Service) -> Result<()> {
    let annotations = Annotations(&service.annotations);
    if annotations.get(annotation::GROUP_ATTRIBUTES).is_some() {
        let key = annotation::key(annotation::GROUP_ATTRIBUTES);
        return Err(invalid(format!(
            "annotation {key} is for network load balancers only"
        )));
    }

    if let Some(port) = service
        .ports
        .iter()
        .find(|port| port.transport != Transport::Tcp)
    {
        return Err(invalid(format!(
            "port {} is not TCP, but classic load balancers support only TCP; for a network load balancer, set \
             annotation {}: nlb",
            port.port,
            annotation::key(annotation::TYPE)
        )));
    }

    let families = &service.ip_families;
    if families.contains(&IpFamily::Ipv6) && !families.contains(&IpFamily::Ipv4) {
        return Err(invalid(format!(
            "classic load balancers reach nodes only over IPv4; for a network load balancer, set annotation {}: nlb",
            annotation::key(annotation::TYPE)
        )));
    }
    Ok(())
}

fn listeners(service: &Service, annotations: Annotations<'_>) -> Result<Vec<Listener>> {
    // A port without a node port is unreachable. The official provider leaves it out too.
    let reachable = service.ports.iter().filter(|port| port.node_port != 0);
    let listeners: Vec<Listener> = reachable
        .map(|port| listener(port, annotations))
        .collect::<Result<_>>()?;
    if listeners.is_empty() {
        return Err(invalid(
            "no port has a node port, which classic load balancers require",
        ));
    }
    Ok(listeners)
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
            return Err(annotation::wrong(
                annotation::BACKEND_PROTOCOL,
                "http, https, ssl or tcp",
            ));
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
    // An empty annotation is like none.
    let number = |name| match annotations.text(name) {
        None => Ok(None),
        Some(_) => annotations.number(name),
    };
    let text = |name| annotations.text(name).map(str::to_owned);
    let logs = flag(annotation::ACCESS_LOG_ENABLED)?;
    let draining = flag(annotation::DRAINING_ENABLED)?;

    Ok(Attributes {
        // Without the annotations, the defaults of AWS.
        access_log: AccessLog {
            enabled: logs,
            emit_interval: number(annotation::ACCESS_LOG_INTERVAL)?.or(logs.then_some(60)),
            bucket: text(annotation::ACCESS_LOG_BUCKET),
            prefix: text(annotation::ACCESS_LOG_PREFIX).or_else(|| logs.then(String::new)),
        },
        connection_draining: Draining {
            enabled: draining,
            timeout: number(annotation::DRAINING_TIMEOUT)?
                .or(Some(300))
                .filter(|_| draining),
        },
        connection_settings: Settings {
            // The default of AWS and of the official provider.
            idle_timeout: Some(number(annotation::IDLE_TIMEOUT)?.unwrap_or(60)),
        },
        cross_zone_load_balancing: Enabled {
            enabled: flag(annotation::CROSS_ZONE)?,
        },
    })
}
