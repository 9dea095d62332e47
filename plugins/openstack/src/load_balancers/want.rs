//! What a Service asks for, with the operator's configuration behind it.

use std::net::IpAddr;

use ipnet::IpNet;
use skydock_sdk::types::{IpFamily, Service, ServicePort, TrafficPolicy, Transport};

use super::{annotation, names};
use crate::{
    cloud::Features,
    config::{Class, Config},
};

mod subnet;

pub use subnet::SubnetSpec;

/// What a Service asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Want {
    /// Name and tag of its load balancer.
    pub name: String,
    /// Description of its load balancer.
    pub description: String,
    /// ID that an annotation gives; may be empty.
    pub id: String,
    /// No floating IP.
    pub internal: bool,
    /// Family of the address and of the members.
    pub family: Option<IpFamily>,
    /// Where the VIP comes from.
    pub vip: Vip,
    /// Subnet of the members; may be empty.
    pub member_subnet: String,
    /// Where the floating IP comes from.
    pub floating: Floating,
    /// Octavia's provider.
    pub provider: String,
    /// Octavia flavor; may be empty.
    pub flavor_id: String,
    /// Octavia availability zone; may be empty.
    pub availability_zone: String,
    /// Algorithm of the pools.
    pub lb_method: String,
    /// A client stays with its member.
    pub affinity: bool,
    /// What listeners have in common.
    pub listener: ListenerWant,
    /// One listener and pool each.
    pub ports: Vec<PortWant>,
    /// Labels of the nodes that become members; without a value any will do.
    pub node_selector: Vec<(String, String)>,
    /// What Octavia can do.
    pub features: Features,
    /// Parts are made one by one.
    pub serial: bool,
    /// What was asked for in vain: reason and message.
    pub ignored: Vec<(&'static str, String)>,
}

/// Where the VIP comes from. What is empty is not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vip {
    /// A port of the user's; then nothing else counts.
    pub port_id: String,
    /// Network.
    pub network_id: String,
    /// Subnet.
    pub subnet_id: String,
    /// Address.
    pub address: String,
}

/// Where the floating IP comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floating {
    /// External network; if empty, one is looked for.
    pub network_id: String,
    /// Which of its subnets.
    pub subnet: SubnetSpec,
    /// `spec.loadBalancerIP`; may be empty.
    pub address: String,
    /// It outlives the Service.
    pub keep: bool,
}

/// What all listeners of a Service have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerWant {
    /// Most connections; -1 is without limit.
    pub connection_limit: i64,
    /// Adds `X-Forwarded-For`.
    pub x_forwarded_for: bool,
    /// TLS container; may be empty.
    pub tls_container_ref: String,
    /// Client data, member connect, member data, TCP inspect: milliseconds; none where there are no time-outs.
    pub timeouts: Option<[i64; 4]>,
    /// Who may come; none where listeners cannot tell.
    pub allowed_cidrs: Option<Vec<String>>,
    /// The same for where security groups do it (OVN).
    pub source_ranges: Vec<String>,
}

/// A port of the Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortWant {
    /// Place in the Service.
    pub index: usize,
    /// `TCP`, `UDP` or `SCTP`.
    pub transport: &'static str,
    /// The listener's.
    pub port: u16,
    /// On the nodes; 0 if there is none, and then there are no members.
    pub node_port: u16,
    /// Protocol of the listener.
    pub listener_protocol: &'static str,
    /// Protocol of the pool.
    pub pool_protocol: &'static str,
    /// Port of the members that is probed, if it is another.
    pub monitor_port: Option<u16>,
    /// Its monitor, if there is to be one.
    pub monitor: Option<MonitorWant>,
}

/// A health monitor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonitorWant {
    /// `TCP`, `UDP-CONNECT`, `SCTP` or `HTTP`.
    pub kind: &'static str,
    /// Seconds between two probes.
    pub delay: i64,
    /// Seconds a probe may take.
    pub timeout: i64,
    /// Probes until a member is well.
    pub max_retries: i64,
    /// Probes until a member is not.
    pub max_retries_down: i64,
}

impl Want {
    /// What this Service asks for.
    ///
    /// # Errors
    /// What cannot be, in one sentence.
    pub fn of(config: &Config, cluster: &str, features: Features, service: &Service) -> Result<Self, String> {
        let lb = &config.load_balancer;
        if service.ports.is_empty() {
            return Err("the Service has no ports".to_owned());
        }
        let class_name = annotation::text(service, annotation::CLASS, "");
        let class = match class_name {
            "" => None,
            name => Some(config.classes.get(name).ok_or_else(|| {
                format!("annotation {}: the configuration has no LoadBalancerClass `{name}`", annotation::CLASS)
            })?),
        };
        let internal = lb.internal_lb || annotation::boolean(service, annotation::INTERNAL, false);
        let family = service.ip_families.first().copied();
        let (vip, member_subnet) = places(config, class.filter(|_| !internal), class, service, internal, family);
        let mut want = Self {
            name: names::load_balancer(cluster, service),
            description: names::description(cluster, service),
            id: annotation::text(service, annotation::LOAD_BALANCER_ID, "").to_owned(),
            internal,
            family,
            vip,
            member_subnet,
            floating: Floating::of(config, class, service, internal),
            provider: lb.lb_provider.clone(),
            lb_method: not_empty(annotation::text(service, annotation::LB_METHOD, ""), &lb.lb_method),
            affinity: service.client_ip_affinity_seconds.is_some(),
            node_selector: selector(annotation::text(service, annotation::NODE_SELECTOR, &lb.node_selector)),
            features,
            serial: lb.serial_api_calls,
            ..Self::default()
        };
        want.place_in_octavia(config, service);
        want.listener = want.listener_want(config, service)?;
        want.ports = want.port_wants(config, service)?;
        Ok(want)
    }

    /// Flavor and availability zone, where Octavia has them.
    fn place_in_octavia(&mut self, config: &Config, service: &Service) {
        let lb = &config.load_balancer;
        if self.features.flavors {
            self.flavor_id = annotation::text(service, annotation::FLAVOR_ID, &lb.flavor_id).to_owned();
        }
        let zone = annotation::text(service, annotation::AVAILABILITY_ZONE, &lb.availability_zone);
        if self.features.availability_zones {
            self.availability_zone = zone.to_owned();
        } else if !zone.is_empty() {
            let message = "this Octavia, or its provider, has no availability zones: the load balancer is made without"
                .to_owned();
            self.ignored.push(("LoadBalancerAvailabilityZonesIgnored", message));
        }
    }

    fn listener_want(&mut self, config: &Config, service: &Service) -> Result<ListenerWant, String> {
        let ranges = source_ranges(service, self.family)?;
        let by_group = !self.features.allowed_cidrs
            && config.load_balancer.lb_provider == "ovn"
            && config.load_balancer.manage_security_groups;
        // Upstream says so of every Service; nothing is ignored where anyone may come.
        if !self.features.allowed_cidrs && !by_group && !service.source_ranges.is_empty() {
            let message =
                "this Octavia, or its provider, cannot tell who may come: loadBalancerSourceRanges are ignored"
                    .to_owned();
            self.ignored.push(("LoadBalancerSourceRangesIgnored", message));
        }
        let timeout = |key: &str, unset: i64| annotation::number(service, key, unset);
        Ok(ListenerWant {
            connection_limit: annotation::number(service, annotation::CONNECTION_LIMIT, -1),
            x_forwarded_for: annotation::boolean(service, annotation::X_FORWARDED_FOR, false),
            tls_container_ref: annotation::text(
                service,
                annotation::TLS_CONTAINER_REF,
                &config.load_balancer.tls_container_ref,
            )
            .to_owned(),
            timeouts: self.features.timeouts.then(|| {
                [
                    timeout(annotation::TIMEOUT_CLIENT_DATA, 50_000),
                    timeout(annotation::TIMEOUT_MEMBER_CONNECT, 5000),
                    timeout(annotation::TIMEOUT_MEMBER_DATA, 50_000),
                    timeout(annotation::TIMEOUT_TCP_INSPECT, 0),
                ]
            }),
            allowed_cidrs: self.features.allowed_cidrs.then(|| ranges.clone()),
            source_ranges: ranges,
        })
    }

    fn port_wants(&self, config: &Config, service: &Service) -> Result<Vec<PortWant>, String> {
        let lb = &config.load_balancer;
        let proxy = match annotation::text(service, annotation::PROXY_PROTOCOL, "") {
            "true" | "v1" => Some("PROXY"),
            "v2" => Some("PROXYV2"),
            _ => None,
        };
        let (http, tls) = (self.listener.x_forwarded_for, !self.listener.tls_container_ref.is_empty());
        if proxy.is_some() && http {
            let (one, other) = (annotation::PROXY_PROTOCOL, annotation::X_FORWARDED_FOR);
            return Err(format!("annotations {one} and {other} exclude each other"));
        }
        let monitored = annotation::boolean(service, annotation::ENABLE_HEALTH_MONITOR, lb.create_monitor);
        let is_local = service.external_traffic_policy == TrafficPolicy::Local;
        let health_port = Some(service.health_check_node_port).filter(|port| monitored && is_local && *port > 0);
        let number = |key: &str, unset: u64| annotation::number(service, key, i64::try_from(unset).unwrap_or(i64::MAX));
        let port = |(index, port): (usize, &ServicePort)| {
            let transport = transport(port.transport);
            // What the Service asks of TCP is not asked of its other ports, with which Octavia refuses it.
            let is_tcp = transport == "TCP";
            let listener_protocol = if is_tcp && tls {
                "TERMINATED_HTTPS"
            } else if is_tcp && http {
                "HTTP"
            } else {
                transport
            };
            let pool_protocol = match proxy {
                Some(proxy) if is_tcp => proxy,
                _ if is_tcp && (http || tls) => "HTTP",
                _ => transport,
            };
            let http_probe = match transport {
                "UDP" => self.features.http_monitors_on_udp,
                _ => self.features.http_monitors,
            };
            let monitor_port = health_port.filter(|_| http_probe);
            let kind = if monitor_port.is_some() {
                "HTTP"
            } else if transport == "UDP" {
                "UDP-CONNECT"
            } else {
                transport
            };
            PortWant {
                index,
                transport,
                port: port.port,
                node_port: port.node_port,
                listener_protocol,
                pool_protocol,
                monitor_port,
                monitor: monitored.then(|| MonitorWant {
                    kind,
                    delay: number(annotation::HEALTH_MONITOR_DELAY, lb.monitor_delay),
                    timeout: number(annotation::HEALTH_MONITOR_TIMEOUT, lb.monitor_timeout),
                    max_retries: number(annotation::HEALTH_MONITOR_MAX_RETRIES, lb.monitor_max_retries),
                    max_retries_down: number(annotation::HEALTH_MONITOR_MAX_RETRIES_DOWN, lb.monitor_max_retries_down),
                }),
            }
        };
        Ok(service.ports.iter().enumerate().map(port).collect())
    }

    /// True if pools speak the PROXY protocol: then the address must not be short-cut inside the cluster.
    #[must_use]
    pub fn speaks_proxy(&self) -> bool {
        self.ports.iter().any(|port| port.pool_protocol.starts_with("PROXY"))
    }
}

impl Floating {
    fn of(config: &Config, class: Option<&Class>, service: &Service, internal: bool) -> Self {
        let keep = annotation::boolean(service, annotation::KEEP_FLOATING_IP, false);
        if internal {
            return Self { keep, ..Self::default() };
        }
        let defaults = &config.load_balancer.class;
        let of_class = class.map_or("", |class| class.floating_network_id.as_str());
        let of_service = annotation::text(service, annotation::FLOATING_NETWORK_ID, &defaults.floating_network_id);
        let annotated = SubnetSpec::of(
            annotation::text(service, annotation::FLOATING_SUBNET_ID, ""),
            annotation::text(service, annotation::FLOATING_SUBNET, ""),
            annotation::text(service, annotation::FLOATING_SUBNET_TAGS, ""),
        );
        let subnet = class.map(SubnetSpec::of_class).filter(SubnetSpec::is_set);
        let subnet = subnet.or(Some(annotated).filter(SubnetSpec::is_set));
        Self {
            network_id: not_empty(of_class, of_service),
            subnet: subnet.unwrap_or_else(|| SubnetSpec::of_class(defaults)),
            address: service.load_balancer_ip.clone().unwrap_or_default(),
            keep,
        }
    }
}

/// Where VIP and members are. A class counts for the VIP only if the Service is external, as upstream has it.
fn places(
    config: &Config,
    vip_class: Option<&Class>,
    class: Option<&Class>,
    service: &Service,
    internal: bool,
    family: Option<IpFamily>,
) -> (Vip, String) {
    let defaults = &config.load_balancer.class;
    let of = |key: &str, of_class: fn(&Class) -> &String| {
        let annotated = annotation::text(service, key, "");
        not_empty(annotated, &not_empty(class.map_or("", |class| of_class(class)), of_class(defaults)))
    };
    let network = of(annotation::NETWORK_ID, |class| &class.network_id);
    let subnet = of(annotation::SUBNET_ID, |class| &class.subnet_id);
    let member_subnet = of(annotation::MEMBER_SUBNET_ID, |class| &class.member_subnet_id);
    let member_subnet = not_empty(&member_subnet, &not_empty(&defaults.subnet_id, &subnet));
    let wants_address = internal || family == Some(IpFamily::Ipv6);
    let vip = Vip {
        port_id: annotation::text(service, annotation::PORT_ID, "").to_owned(),
        network_id: not_empty(vip_class.map_or("", |class| class.network_id.as_str()), &network),
        subnet_id: not_empty(vip_class.map_or("", |class| class.subnet_id.as_str()), &subnet),
        address: service.load_balancer_ip.clone().filter(|_| wants_address).unwrap_or_default(),
    };
    (vip, member_subnet)
}

fn not_empty(text: &str, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text.to_owned() }
}

const fn transport(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
        Transport::Sctp => "SCTP",
    }
}

/// `key=value, key` as pairs.
fn selector(text: &str) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (key, value) = part.trim().split_once('=').unwrap_or((part.trim(), ""));
        (!key.is_empty()).then(|| (key.to_owned(), value.to_owned()))
    };
    text.split(',').filter_map(pair).collect()
}

/// Who may come, of the family of the address: Octavia takes no others. Anyone, if the Service does not say.
fn source_ranges(service: &Service, family: Option<IpFamily>) -> Result<Vec<String>, String> {
    let is_v6 = family == Some(IpFamily::Ipv6);
    if service.source_ranges.is_empty() {
        return Ok(vec![if is_v6 { "::/0" } else { "0.0.0.0/0" }.to_owned()]);
    }
    let parse = |range: &String| {
        let net: IpNet = range.trim().parse().map_err(|_| format!("loadBalancerSourceRanges: `{range}` is no CIDR"))?;
        Ok(net.trunc())
    };
    let mut ranges: Vec<IpNet> = service.source_ranges.iter().map(parse).collect::<Result<_, String>>()?;
    ranges.sort();
    ranges.dedup();
    let of_family = |net: &&IpNet| family.is_none() || matches!(net.addr(), IpAddr::V6(_)) == is_v6;
    let fitting: Vec<String> = ranges.iter().filter(of_family).map(ToString::to_string).collect();
    if fitting.is_empty() {
        return Err("loadBalancerSourceRanges: no range is of the family of the Service's address".to_owned());
    }
    Ok(fitting)
}

#[cfg(test)]
mod tests;
