//! The request of a Service, combined with the operator's configuration.

use std::net::IpAddr;

use ipnet::IpNet;
use skydock_sdk::types::{
    IpFamily, IpFamilyPolicy, Service, ServicePort, TrafficPolicy, Transport,
};

use crate::{
    cloud::Features,
    config::{Class, Config},
    load_balancers::{annotation, names},
};

mod subnet;

pub use subnet::SubnetSpec;

/// The reason of the event about annotations that are not valid.
const ANNOTATIONS_IGNORED: &str = "LoadBalancerAnnotationsIgnored";
const AVAILABILITY_ZONES_IGNORED: &str = "LoadBalancerAvailabilityZonesIgnored";
const SOURCE_RANGES_IGNORED: &str = "LoadBalancerSourceRangesIgnored";
const LOCAL_WITHOUT_MONITOR: &str = "LoadBalancerLocalWithoutMonitor";
const FAMILY_IGNORED: &str = "LoadBalancerIPFamilyIgnored";

/// The reasons in [`DesiredLoadBalancer::ignored`].
pub(super) const IGNORED: [&str; 5] = [
    ANNOTATIONS_IGNORED,
    AVAILABILITY_ZONES_IGNORED,
    SOURCE_RANGES_IGNORED,
    LOCAL_WITHOUT_MONITOR,
    FAMILY_IGNORED,
];

/// The request of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredLoadBalancer {
    /// The name and tag of the load balancer.
    pub name: String,
    /// The description of the load balancer.
    pub description: String,
    /// The ID in the annotation, or empty.
    pub id: String,
    /// True if the load balancer gets no floating IP.
    pub internal: bool,
    /// The address family of the load balancer and of the members.
    pub family: Option<IpFamily>,
    /// How the VIP is chosen.
    pub vip: Vip,
    /// The subnet of the members, or empty.
    pub member_subnet: String,
    /// True if this subnet was set for the members, not only for the load balancer.
    pub is_member_subnet_set: bool,
    /// True if the Service itself sets it, and so members in another one are replaced.
    pub moves_members: bool,
    /// How the floating IP is chosen.
    pub floating: FloatingIpSettings,
    /// The provider of Octavia.
    pub provider: String,
    /// The Octavia flavor, or empty.
    pub flavor_id: String,
    /// The Octavia availability zone, or empty.
    pub availability_zone: String,
    /// The algorithm of the pools.
    pub lb_method: String,
    /// True if a client is always sent to the same member.
    pub affinity: bool,
    /// The common settings of the listeners.
    pub listener: ListenerSettings,
    /// The ports, with one listener and one pool each.
    pub ports: Vec<DesiredPort>,
    /// Labels of the nodes that become members. An empty value matches any value.
    pub node_selector: Vec<(String, String)>,
    /// The features of Octavia.
    pub features: Features,
    /// True if the parts are created one by one.
    pub serial: bool,
    /// Settings that are ignored: event reason and message.
    pub ignored: Vec<(&'static str, String)>,
    /// Why the load balancer must not be created or changed, except for its members.
    pub rejected: Option<String>,
}

/// How the VIP is chosen. Empty fields are not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vip {
    /// A port of the user. If set, the other fields are ignored.
    pub port_id: String,
    /// The network.
    pub network_id: String,
    /// The subnet.
    pub subnet_id: String,
    /// The address.
    pub address: String,
}

/// How the floating IP is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FloatingIpSettings {
    /// The external network. If empty, one is searched.
    pub network_id: String,
    /// The subnet in this network.
    pub subnet: SubnetSpec,
    /// `spec.loadBalancerIP`, or empty.
    pub address: String,
    /// True if the floating IP is kept after the Service is deleted.
    pub keep: bool,
}

/// The common settings of all listeners of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerSettings {
    /// Maximum number of connections, or -1 for no limit.
    pub connection_limit: i64,
    /// True if listeners add `X-Forwarded-For`.
    pub x_forwarded_for: bool,
    /// The TLS container, or empty.
    pub tls_container_ref: String,
    /// The timeouts, or `None` if listeners do not support them.
    pub timeouts: Option<ListenerTimeouts>,
    /// The allowed client ranges, or `None` if listeners do not support them.
    pub allowed_cidrs: Option<Vec<String>>,
    /// The allowed client ranges, if security groups enforce them (OVN).
    pub source_ranges: Vec<String>,
}

/// The timeouts of a listener, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerTimeouts {
    /// For data of the client.
    pub client_data: i64,
    /// For the connection to a member.
    pub member_connect: i64,
    /// For data of a member.
    pub member_data: i64,
    /// For the first packets, if the listener inspects them.
    pub tcp_inspect: i64,
}

/// A port of the Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredPort {
    /// The index of the port in the Service.
    pub index: usize,
    /// `TCP`, `UDP` or `SCTP`.
    pub transport: &'static str,
    /// The port of the listener.
    pub port: u16,
    /// The node port. If it is 0, there are no members.
    pub node_port: u16,
    /// The protocol of the listener.
    pub listener_protocol: &'static str,
    /// The protocol of the pool.
    pub pool_protocol: &'static str,
    /// The port of the members for health checks, if it is different.
    pub monitor_port: Option<u16>,
    /// The monitor, if one is required.
    pub monitor: Option<DesiredMonitor>,
}

/// A health monitor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredMonitor {
    /// `TCP`, `UDP-CONNECT`, `SCTP` or `HTTP`.
    pub kind: &'static str,
    /// Seconds between two probes.
    pub delay: i64,
    /// Timeout of a probe in seconds.
    pub timeout: i64,
    /// Number of successful probes until a member is healthy.
    pub max_retries: i64,
    /// Number of failed probes until a member is unhealthy.
    pub max_retries_down: i64,
}

impl DesiredLoadBalancer {
    /// Reads the request of this Service.
    ///
    /// # Errors
    /// Returns one sentence about an invalid request.
    pub fn of(
        config: &Config,
        cluster: &str,
        features: Features,
        service: &Service,
    ) -> Result<Self, String> {
        let lb = &config.load_balancer;

        if service.ports.is_empty() {
            return Err("the Service has no ports".to_owned());
        }

        let class = class(config, service)?;
        let (internal, rejected) = internal(config, service);
        let family = service.ip_families.first().copied();
        let (vip, members) = vip_and_member_subnet(
            config,
            class.filter(|_| !internal),
            class,
            service,
            internal,
            family,
        );

        let mut desired = Self {
            name: names::load_balancer(cluster, service),
            description: names::description(cluster, service),
            id: annotation::text(service, annotation::LOAD_BALANCER_ID, "").to_owned(),
            internal,
            family,
            vip,
            member_subnet: members.subnet,
            is_member_subnet_set: members.is_set,
            moves_members: !annotation::text(service, annotation::MEMBER_SUBNET_ID, "").is_empty(),
            floating: FloatingIpSettings::of(config, class, service, internal),
            provider: lb.lb_provider.clone(),
            lb_method: not_empty(
                annotation::text(service, annotation::LB_METHOD, ""),
                &lb.lb_method,
            ),
            affinity: service.client_ip_affinity_seconds.is_some(),
            node_selector: selector(annotation::text(
                service,
                annotation::NODE_SELECTOR,
                &lb.node_selector,
            )),
            features,
            serial: lb.serial_api_calls,
            ignored: ignored_annotations(config, service),
            rejected,
            ..Self::default()
        };

        desired.place_in_octavia(config, service);
        desired.listener = desired.listener_settings(config, service);
        desired.ports = desired.desired_ports(config, service);
        desired.ignored.extend(second_family(service));
        desired
            .ignored
            .extend(desired.local_without_monitor(service));
        Ok(desired)
    }

    /// Returns the warning about `externalTrafficPolicy: Local` without health monitors.
    fn local_without_monitor(&self, service: &Service) -> Option<(&'static str, String)> {
        let is_unprobed = |port: &DesiredPort| port.node_port > 0 && port.monitor.is_none();
        let lacks_monitor = health_port(service).is_some() && self.ports.iter().any(is_unprobed);
        lacks_monitor.then(|| {
            let message = format!(
                "externalTrafficPolicy is Local, but health monitors are disabled or not supported by Octavia's provider: connections \
                 that reach a node without a Pod of the Service fail. Annotation {} creates monitors",
                annotation::ENABLE_HEALTH_MONITOR
            );
            (LOCAL_WITHOUT_MONITOR, message)
        })
    }

    /// Sets the flavor and the availability zone if Octavia supports them.
    fn place_in_octavia(&mut self, config: &Config, service: &Service) {
        let lb = &config.load_balancer;
        if self.features.flavors {
            self.flavor_id =
                annotation::text(service, annotation::FLAVOR_ID, &lb.flavor_id).to_owned();
        }

        let zone = annotation::text(
            service,
            annotation::AVAILABILITY_ZONE,
            &lb.availability_zone,
        );
        if self.features.availability_zones {
            self.availability_zone = zone.to_owned();
        } else if !zone.is_empty() {
            let message =
                "Octavia or its provider does not support availability zones: the load balancer is created without one"
                    .to_owned();
            self.ignored.push((AVAILABILITY_ZONES_IGNORED, message));
        }
    }

    fn listener_settings(&mut self, config: &Config, service: &Service) -> ListenerSettings {
        let ranges = source_ranges(service, self.family).unwrap_or_else(|reason| {
            self.rejected.get_or_insert(reason);
            Vec::new()
        });

        let by_group = !self.features.allowed_cidrs
            && config.load_balancer.lb_provider == "ovn"
            && config.load_balancer.manage_security_groups;

        // Upstream warns about every Service. If all clients are allowed, nothing is ignored.
        if !self.features.allowed_cidrs && !by_group && !service.source_ranges.is_empty() {
            let message = "Octavia or its provider does not support allowed CIDRs: loadBalancerSourceRanges is ignored"
                .to_owned();
            self.ignored.push((SOURCE_RANGES_IGNORED, message));
        }

        let timeout = |key: &str, unset: i64| annotation::number(service, key, unset);
        ListenerSettings {
            connection_limit: annotation::number(service, annotation::CONNECTION_LIMIT, -1),
            x_forwarded_for: annotation::boolean(service, annotation::X_FORWARDED_FOR, false),
            tls_container_ref: annotation::text(
                service,
                annotation::TLS_CONTAINER_REF,
                &config.load_balancer.tls_container_ref,
            )
            .to_owned(),
            timeouts: self.features.timeouts.then(|| ListenerTimeouts {
                client_data: timeout(annotation::TIMEOUT_CLIENT_DATA, 50_000),
                member_connect: timeout(annotation::TIMEOUT_MEMBER_CONNECT, 5000),
                member_data: timeout(annotation::TIMEOUT_MEMBER_DATA, 50_000),
                tcp_inspect: timeout(annotation::TIMEOUT_TCP_INSPECT, 0),
            }),
            allowed_cidrs: self.features.allowed_cidrs.then(|| ranges.clone()),
            source_ranges: ranges,
        }
    }

    fn desired_ports(&mut self, config: &Config, service: &Service) -> Vec<DesiredPort> {
        let proxy = annotation::proxy(service);
        if proxy.is_some() && self.listener.x_forwarded_for {
            let one = annotation::PROXY_PROTOCOL;
            let other = annotation::X_FORWARDED_FOR;
            self.rejected.get_or_insert_with(|| {
                format!("annotations {one} and {other} are mutually exclusive")
            });
        }

        let chosen =
            annotation::flag(service, annotation::ENABLE_HEALTH_MONITOR).and_then(Result::ok);
        let is_monitored = chosen.unwrap_or(config.load_balancer.create_monitor);
        // Only an explicit `false` disables the monitor for `externalTrafficPolicy: Local`.
        let health_port = health_port(service).filter(|_| chosen != Some(false));

        let port = |(index, port): (usize, &ServicePort)| {
            let transport = transport(port.transport);
            let (listener_protocol, pool_protocol) = self.protocols(transport, proxy);
            let http_probe = match transport {
                "UDP" => self.features.http_monitors_on_udp,
                _ => self.features.http_monitors,
            };
            let monitor_port = health_port.filter(|_| http_probe);
            let monitor = DesiredMonitor::of(config, service, transport, monitor_port.is_some());

            DesiredPort {
                index,
                transport,
                port: port.port,
                node_port: port.node_port,
                listener_protocol,
                pool_protocol,
                monitor_port,
                monitor: if is_monitored {
                    Some(monitor)
                } else {
                    monitor_port.map(|_| monitor.accepted())
                },
            }
        };
        service.ports.iter().enumerate().map(port).collect()
    }

    /// Returns the protocols of the listener and of the pool of a port. TCP settings of the Service
    /// are not used for its other ports, because Octavia would reject them.
    fn protocols(
        &self,
        transport: &'static str,
        proxy: Option<&'static str>,
    ) -> (&'static str, &'static str) {
        if transport != "TCP" {
            return (transport, transport);
        }

        let http = self.listener.x_forwarded_for;
        let tls = !self.listener.tls_container_ref.is_empty();
        let listener = if tls {
            "TERMINATED_HTTPS"
        } else if http {
            "HTTP"
        } else {
            transport
        };
        let pool = match proxy {
            Some(proxy) => proxy,
            None if http || tls => "HTTP",
            None => transport,
        };
        (listener, pool)
    }

    /// Returns true if pools use the PROXY protocol, so that traffic to the address must not bypass
    /// the load balancer inside the cluster.
    #[must_use]
    pub fn speaks_proxy(&self) -> bool {
        self.ports
            .iter()
            .any(|port| port.pool_protocol.starts_with("PROXY"))
    }
}

impl DesiredMonitor {
    /// Returns the monitor of a port with this transport. `is_http` is true if it asks the port for
    /// health checks.
    fn of(config: &Config, service: &Service, transport: &'static str, is_http: bool) -> Self {
        let lb = &config.load_balancer;
        let number = |key: &str, unset: u64| {
            annotation::number(service, key, i64::try_from(unset).unwrap_or(i64::MAX))
        };
        Self {
            kind: match transport {
                _ if is_http => "HTTP",
                "UDP" => "UDP-CONNECT",
                _ => transport,
            },
            delay: number(annotation::HEALTH_MONITOR_DELAY, lb.monitor_delay),
            timeout: number(annotation::HEALTH_MONITOR_TIMEOUT, lb.monitor_timeout),
            max_retries: number(
                annotation::HEALTH_MONITOR_MAX_RETRIES,
                lb.monitor_max_retries,
            ),
            max_retries_down: number(
                annotation::HEALTH_MONITOR_MAX_RETRIES_DOWN,
                lb.monitor_max_retries_down,
            ),
        }
    }

    /// Returns the monitor with values that Octavia accepts. Without `create-monitor`, those of
    /// `cloud.conf` are not checked.
    fn accepted(self) -> Self {
        let delay = self.delay.max(1);
        Self {
            delay,
            timeout: self.timeout.clamp(1, delay),
            max_retries: self.max_retries.clamp(1, 10),
            max_retries_down: self.max_retries_down.clamp(1, 10),
            ..self
        }
    }
}

impl FloatingIpSettings {
    fn of(config: &Config, class: Option<&Class>, service: &Service, internal: bool) -> Self {
        let keep = annotation::keeps_floating_ip(service);
        if internal {
            return Self {
                keep,
                ..Self::default()
            };
        }

        let defaults = &config.load_balancer.class;
        let of_class = class.map_or("", |class| class.floating_network_id.as_str());
        let of_service = annotation::text(
            service,
            annotation::FLOATING_NETWORK_ID,
            &defaults.floating_network_id,
        );

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

/// Returns the class that the Service selects.
fn class<'a>(config: &'a Config, service: &Service) -> Result<Option<&'a Class>, String> {
    match annotation::text(service, annotation::CLASS, "") {
        "" => Ok(None),
        name => config.classes.get(name).map(Some).ok_or_else(|| {
            format!(
                "annotation {}: unknown LoadBalancerClass `{name}`",
                annotation::CLASS
            )
        }),
    }
}

/// Returns the warnings about annotations that are not valid, or without effect.
fn ignored_annotations(config: &Config, service: &Service) -> Vec<(&'static str, String)> {
    let problems = annotation::problems(service);
    let mut ignored: Vec<_> = problems
        .map(|problems| (ANNOTATIONS_IGNORED, problems))
        .into_iter()
        .collect();

    if config.load_balancer.internal_lb
        && annotation::flag(service, annotation::INTERNAL).is_some_and(|it| it != Ok(true))
    {
        let message = format!(
            "Annotation {} has no effect: `internal-lb` of cloud.conf makes all load balancers internal",
            annotation::INTERNAL
        );
        ignored.push((ANNOTATIONS_IGNORED, message));
    }
    ignored
}

/// Returns the warning about a second IP family that the Service requires.
fn second_family(service: &Service) -> Option<(&'static str, String)> {
    let is_dual = service.ip_family_policy == IpFamilyPolicy::RequireDualStack;
    let [first, second, ..] = service.ip_families.as_slice() else {
        return None;
    };
    is_dual.then(|| {
        let message = format!(
            "ipFamilyPolicy is RequireDualStack, but the load balancer has only an {} address: use another Service for {}",
            version(*first),
            version(*second)
        );
        (FAMILY_IGNORED, message)
    })
}

/// Returns the port at which only nodes with a Pod of the Service are healthy, if only these
/// receive traffic. Without a monitor, the others would, too.
fn health_port(service: &Service) -> Option<u16> {
    let is_local = service.external_traffic_policy == TrafficPolicy::Local;
    Some(service.health_check_node_port).filter(|port| is_local && *port > 0)
}

/// Returns true if the load balancer gets no floating IP, and an error if the annotation does not
/// say it: a load balancer that is meant to be internal must not be reachable from outside.
fn internal(config: &Config, service: &Service) -> (bool, Option<String>) {
    if config.load_balancer.internal_lb {
        return (true, None);
    }

    match annotation::flag(service, annotation::INTERNAL) {
        None => (false, None),
        Some(Ok(internal)) => (internal, None),
        Some(Err(value)) => {
            let expected = "expected `true` or `false`";
            let error = annotation::unreadable(annotation::INTERNAL, value, expected);
            (true, Some(format!("annotation {error}")))
        }
    }
}

/// The subnet of the members of a load balancer.
struct MemberSubnet {
    /// Empty if none is set.
    subnet: String,
    /// True if it was set for the members, not only for the load balancer.
    is_set: bool,
}

/// Returns the VIP and the subnet of the members. As in upstream, the class takes precedence over
/// annotations for the VIP of an external Service.
fn vip_and_member_subnet(
    config: &Config,
    vip_class: Option<&Class>,
    class: Option<&Class>,
    service: &Service,
    internal: bool,
    family: Option<IpFamily>,
) -> (Vip, MemberSubnet) {
    let defaults = &config.load_balancer.class;
    let of = |key: &str, of_class: fn(&Class) -> &String| {
        let annotated = annotation::text(service, key, "");
        not_empty(
            annotated,
            &not_empty(
                class.map_or("", |class| of_class(class)),
                of_class(defaults),
            ),
        )
    };

    let network = of(annotation::NETWORK_ID, |class| &class.network_id);
    let subnet = of(annotation::SUBNET_ID, |class| &class.subnet_id);
    let member_subnet = of(annotation::MEMBER_SUBNET_ID, |class| {
        &class.member_subnet_id
    });
    let member_subnet = MemberSubnet {
        subnet: not_empty(&member_subnet, &subnet),
        is_set: !member_subnet.is_empty(),
    };

    // Otherwise, the requested address is that of the floating IP.
    let wants_address = internal || family == Some(IpFamily::Ipv6);
    let vip = Vip {
        port_id: annotation::text(service, annotation::PORT_ID, "").to_owned(),
        network_id: not_empty(
            vip_class.map_or("", |class| class.network_id.as_str()),
            &network,
        ),
        subnet_id: not_empty(
            vip_class.map_or("", |class| class.subnet_id.as_str()),
            &subnet,
        ),
        address: service
            .load_balancer_ip
            .clone()
            .filter(|_| wants_address)
            .unwrap_or_default(),
    };
    (vip, member_subnet)
}

/// Returns the name of an IP family.
pub(super) const fn version(family: IpFamily) -> &'static str {
    match family {
        IpFamily::Ipv4 => "IPv4",
        IpFamily::Ipv6 => "IPv6",
    }
}

fn not_empty(text: &str, otherwise: &str) -> String {
    if text.is_empty() {
        otherwise.to_owned()
    } else {
        text.to_owned()
    }
}

const fn transport(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
        Transport::Sctp => "SCTP",
    }
}

/// Parses `key=value, key` into pairs.
fn selector(text: &str) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (key, value) = part.trim().split_once('=').unwrap_or((part.trim(), ""));
        (!key.is_empty()).then(|| (key.to_owned(), value.to_owned()))
    };
    text.split(',').filter_map(pair).collect()
}

/// Returns the allowed client ranges of the address family, because Octavia rejects others. All
/// clients are allowed if the Service has no ranges.
fn source_ranges(service: &Service, family: Option<IpFamily>) -> Result<Vec<String>, String> {
    let is_v6 = family == Some(IpFamily::Ipv6);
    if service.source_ranges.is_empty() {
        return Ok(vec![if is_v6 { "::/0" } else { "0.0.0.0/0" }.to_owned()]);
    }

    let parse = |range: &String| {
        let net: IpNet = range
            .trim()
            .parse()
            .map_err(|_| format!("loadBalancerSourceRanges: `{range}` is not a valid CIDR"))?;
        Ok(net.trunc())
    };

    let mut ranges: Vec<IpNet> = service
        .source_ranges
        .iter()
        .map(parse)
        .collect::<Result<_, String>>()?;
    ranges.sort();
    ranges.dedup();

    let of_family = |net: &&IpNet| family.is_none() || matches!(net.addr(), IpAddr::V6(_)) == is_v6;
    let fitting: Vec<String> = ranges
        .iter()
        .filter(of_family)
        .map(ToString::to_string)
        .collect();

    if fitting.is_empty() {
        return Err(
            "loadBalancerSourceRanges: no range has the IP family of the Service's address"
                .to_owned(),
        );
    }

    Ok(fitting)
}

#[cfg(test)]
mod tests;
