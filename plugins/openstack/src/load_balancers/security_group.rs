//! The security group of a Service, which allows traffic from the load balancer to the nodes
//! (`manage-security-groups`).

use std::time::Duration;

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::{Value, json};
use skydock_sdk::{
    Result,
    http::Method,
    types::{CloudError, Service},
};

use crate::{
    cloud::{Cloud, Kind, ServiceRequest, send_all_for},
    instances::ports_of,
    load_balancers::{
        Context,
        desired_load_balancer::{DesiredLoadBalancer, DesiredPort},
        members::{MemberNode, subnet},
        names,
    },
    provider_id::{self, Reference},
    services::{
        network::{Port, SecurityGroup, SecurityGroupRule},
        octavia::LoadBalancer,
    },
};

/// How long the absence of a security group is cached if security groups are not managed.
const NONE: Duration = Duration::from_secs(3600);

#[derive(Deserialize)]
struct Answer {
    security_group: SecurityGroup,
}

/// A required rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DesiredRule {
    protocol: String,
    prefix: String,
    port: u16,
}

impl DesiredRule {
    fn ethertype(&self) -> &'static str {
        let is_v6 = self
            .prefix
            .parse()
            .is_ok_and(|net: IpNet| net.addr().is_ipv6());
        if is_v6 { "IPv6" } else { "IPv4" }
    }

    fn is(&self, rule: &SecurityGroupRule) -> bool {
        rule.direction == "ingress"
            && rule
                .protocol
                .as_deref()
                .is_some_and(|protocol| protocol.eq_ignore_ascii_case(&self.protocol))
            && rule.ethertype == self.ethertype()
            && rule.remote_ip_prefix.as_deref() == Some(self.prefix.as_str())
            && (rule.port_range_min, rule.port_range_max) == (Some(self.port), Some(self.port))
    }

    fn body(&self, group: &str) -> Value {
        json!({
            "security_group_id": group,
            "direction": "ingress",
            "ethertype": self.ethertype(),
            "protocol": self.protocol,
            "remote_ip_prefix": self.prefix,
            "port_range_min": self.port,
            "port_range_max": self.port,
        })
    }
}

/// Returns the rules of a Service's group: its node ports for the network of the load balancer, and
/// the port for health checks. OVN preserves the addresses of clients, so its node ports are opened
/// for the allowed clients.
fn rules(
    desired: &DesiredLoadBalancer,
    service: &Service,
    cidr: &str,
    ovn: bool,
) -> Vec<DesiredRule> {
    let rule = |protocol: &str, prefix: &str, port: u16| DesiredRule {
        protocol: protocol.to_ascii_lowercase(),
        prefix: prefix.to_owned(),
        port,
    };

    let own = [cidr.to_owned()];
    let prefixes: &[String] = if ovn {
        &desired.listener.source_ranges
    } else {
        &own
    };

    let of_port = |port: &DesiredPort| {
        let transport = port.transport;
        let node_port = port.node_port;
        prefixes
            .iter()
            .map(move |prefix| rule(transport, prefix, node_port))
            .collect::<Vec<_>>()
    };

    let mut rules: Vec<DesiredRule> = desired
        .ports
        .iter()
        // The others have no members.
        .filter(|port| port.node_port > 0)
        .flat_map(of_port)
        .collect();

    if service.health_check_node_port > 0 {
        rules.push(rule("tcp", cidr, service.health_check_node_port));
    }

    rules.sort();
    rules.dedup();
    rules
}

/// Updates the group and the nodes' ports that have it. Without `manage-security-groups`, deletes
/// it.
pub(super) fn ensure(
    context: Context<'_>,
    balancer: &LoadBalancer,
    member_nodes: &[MemberNode],
) -> Result<()> {
    let Context { cloud, service, .. } = context;
    if !cloud.config.load_balancer.manage_security_groups {
        return remove(cloud, service);
    }
    apply(context, balancer, member_nodes, true)
}

/// Adds what is missing in the group and at the ports, before the load balancer sends traffic there.
/// What is not needed any more stays until [`ensure`].
pub(super) fn open(
    context: Context<'_>,
    balancer: &LoadBalancer,
    member_nodes: &[MemberNode],
) -> Result<()> {
    let Context { cloud, .. } = context;
    if !cloud.config.load_balancer.manage_security_groups {
        return Ok(());
    }
    apply(context, balancer, member_nodes, false)
}

fn apply(
    context: Context<'_>,
    balancer: &LoadBalancer,
    member_nodes: &[MemberNode],
    closes: bool,
) -> Result<()> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    // From here on, the Service may have a group.
    cloud.host.uncache(&none_key(service));

    let subnet = if desired.member_subnet.is_empty() {
        balancer.vip_subnet_id.clone().unwrap_or_default()
    } else {
        desired.member_subnet.clone()
    };

    let cidr = subnet::known(cloud, &subnet)?
        .ok_or_else(|| {
            CloudError::not_found(format!("cannot read subnet {subnet} of the members"))
        })?
        .cidr;

    let mut found = find(cloud, service)?.into_iter();
    let group = match found.next() {
        Some(group) => group,
        None => create_group(cloud, service)?,
    };

    let is_ovn = cloud.config.load_balancer.lb_provider == "ovn";
    let wanted = rules(desired, service, &cidr, is_ovn);
    let ruled = set_rules(cloud, &group, &wanted, closes);

    // If a rule is rejected, the others are also for the ports of new nodes.
    set_ports(cloud, &group.id, member_nodes, &subnet, closes).and(ruled)?;
    if closes {
        // Duplicates of creation requests without an answer. The ports have the first group.
        found.try_for_each(|other| delete(cloud, &other))?;
    }
    Ok(())
}

fn none_key(service: &Service) -> String {
    format!("no group {}", service.uid)
}

/// Caches that the Service has no security group.
pub(super) fn cache_absence(cloud: &Cloud<'_>, service: &Service) {
    cloud.host.cache(&none_key(service), &[1], NONE);
}

/// Returns the groups of this Service in a stable order. There can be several, because a creation
/// request without an answer may succeed after the next one.
fn find(cloud: &Cloud<'_>, service: &Service) -> Result<Vec<SecurityGroup>> {
    let name = names::security_group(service);
    let mut found: Vec<SecurityGroup> = cloud.list(
        Kind::Network,
        "/security-groups",
        vec![("name", name.as_str())],
    )?;

    found.retain(|group| group.name == name);
    found.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(found)
}

fn create_group(cloud: &Cloud<'_>, service: &Service) -> Result<SecurityGroup> {
    let body = json!({"security_group": {
        "name": names::security_group(service),
        "description": names::security_group_description(cloud.cluster, service),
    }});

    let what = "cannot create the security group of the Service";
    let answer: Answer = cloud
        .request(Method::Post, Kind::Network, "/security-groups", what)?
        .json(&body)?
        .send()?
        .json()?;
    Ok(answer.security_group)
}

fn set_rules(
    cloud: &Cloud<'_>,
    group: &SecurityGroup,
    wanted: &[DesiredRule],
    closes: bool,
) -> Result<()> {
    let missing: Vec<Value> = wanted
        .iter()
        .filter(|wanted| !group.rules.iter().any(|rule| wanted.is(rule)))
        .map(|wanted| wanted.body(&group.id))
        .collect();

    if !missing.is_empty() {
        let what = "cannot create the rules of the Service's security group";
        let request = cloud.request(Method::Post, Kind::Network, "/security-group-rules", what)?;
        request
            .json(&json!({"security_group_rules": missing}))?
            .send()?;
    }

    let stale = group
        .rules
        .iter()
        .filter(|rule| closes && !wanted.iter().any(|wanted| wanted.is(rule)));
    let delete = |rule: &SecurityGroupRule| {
        let what = "cannot delete a rule of the Service's security group";
        cloud.request(
            Method::Delete,
            Kind::Network,
            &format!("/security-group-rules/{}", rule.id),
            what,
        )
    };

    all_gone(stale.map(delete).collect::<Result<_>>()?)
}

/// Sends all requests. Resources that do not exist count as a success.
fn all_gone(requests: Vec<ServiceRequest>) -> Result<()> {
    send_all_for(requests, "NeutronError")
        .into_iter()
        .try_for_each(|answer| answer.map(|_| ()))
}

/// Returns the ports that have this group. A Neutron without this filter returns other ports, too.
fn ports_with(cloud: &Cloud<'_>, group: &str) -> Result<Vec<Port>> {
    let mut ports: Vec<Port> =
        cloud.list(Kind::Network, "/ports", vec![("security_groups", group)])?;
    ports.retain(|port| port.security_groups.iter().any(|other| other == group));
    Ok(ports)
}

/// Adds the group to the members' ports and, if `closes`, removes it from others. Upstream keeps it on
/// nodes that are not members.
fn set_ports(
    cloud: &Cloud<'_>,
    group: &str,
    member_nodes: &[MemberNode],
    subnet: &str,
    closes: bool,
) -> Result<()> {
    let server = |node: &MemberNode| match provider_id::read(cloud.config, &node.provider_id) {
        Reference::Server(id) => Some((id.to_owned(), node.address.clone())),
        Reference::NotOurs => None,
    };

    let servers: Vec<(String, String)> = member_nodes.iter().filter_map(server).collect();
    let ids: Vec<&str> = servers.iter().map(|(id, _)| id.as_str()).collect();
    let ports = ports_of(cloud, &ids)?;

    let having = if closes {
        ports_with(cloud, group)?
    } else {
        Vec::new()
    };

    let is_member = |port: &Port| {
        servers.iter().any(|(id, address)| {
            port.device_id == *id && port.is_at(address) && {
                // Two ports of a server can have the same address, in different networks.
                let is_near = |port: &Port| port.device_id == *id && port.is_in(subnet, address);
                is_near(port) || !ports.iter().any(is_near)
            }
        })
    };

    let lacks = |port: &&Port| {
        port.port_security_enabled
            && is_member(port)
            && !port.security_groups.iter().any(|other| other == group)
    };

    let added = ports
        .iter()
        .filter(lacks)
        .map(|port| set_groups(cloud, port, group, true));
    let taken = having
        .iter()
        .filter(|port| !is_member(port))
        .map(|port| set_groups(cloud, port, group, false));
    all_gone(added.chain(taken).collect::<Result<_>>()?)
}

/// Returns the request that adds the group to a port or removes it. If the port was changed since
/// it was read, the request fails, so that no change is lost.
fn set_groups(cloud: &Cloud<'_>, port: &Port, group: &str, with: bool) -> Result<ServiceRequest> {
    let mut groups: Vec<&str> = port
        .security_groups
        .iter()
        .map(String::as_str)
        .filter(|other| *other != group)
        .collect();
    groups.extend(Some(group).filter(|_| with));
    let what = format!("cannot set the security groups of port {}", port.id);
    let request = cloud.request(
        Method::Put,
        Kind::Network,
        &format!("/ports/{}", port.id),
        what,
    )?;
    request
        .if_revision(port.revision_number)
        .json(&json!({"port": {"security_groups": groups}}))
}

/// Returns true if the Service is known to have no security group. If groups are managed, the cache
/// is not sufficient: another instance of the provider may have created one since.
fn has_none(cloud: &Cloud<'_>, service: &Service) -> bool {
    !cloud.config.load_balancer.manage_security_groups
        && cloud.host.cached(&none_key(service)).is_some()
}

/// Returns true if the Service has a security group.
pub(super) fn exists(cloud: &Cloud<'_>, service: &Service) -> Result<bool> {
    Ok(!has_none(cloud, service) && !find(cloud, service)?.is_empty())
}

/// Removes the group from all ports and deletes it.
pub(super) fn remove(cloud: &Cloud<'_>, service: &Service) -> Result<()> {
    if !has_none(cloud, service) {
        for group in find(cloud, service)? {
            delete(cloud, &group)?;
        }
        cache_absence(cloud, service);
    }
    Ok(())
}

fn delete(cloud: &Cloud<'_>, group: &SecurityGroup) -> Result<()> {
    let having = ports_with(cloud, &group.id)?;
    all_gone(
        having
            .iter()
            .map(|port| set_groups(cloud, port, &group.id, false))
            .collect::<Result<_>>()?,
    )?;

    // Earlier versions of upstream added a tag to the ports.
    let tagged = having.iter().filter(|port| port.tags.contains(&group.id));
    let untag = |port: &Port| {
        let path = format!("/ports/{}/tags/{}", port.id, group.id);
        cloud.request(
            Method::Delete,
            Kind::Network,
            &path,
            "cannot remove a tag from a port",
        )
    };
    all_gone(tagged.map(untag).collect::<Result<_>>()?)?;

    let what = "cannot delete the security group of the Service";
    let request = cloud.request(
        Method::Delete,
        Kind::Network,
        &format!("/security-groups/{}", group.id),
        what,
    )?;
    all_gone(vec![request])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desired() -> DesiredLoadBalancer {
        let port = |transport, node_port| DesiredPort {
            transport,
            node_port,
            ..DesiredPort::default()
        };
        let mut desired = DesiredLoadBalancer {
            ports: vec![port("TCP", 30080), port("UDP", 30053), port("TCP", 0)],
            ..DesiredLoadBalancer::default()
        };
        desired.listener.source_ranges =
            vec!["198.51.100.0/24".to_owned(), "192.0.2.0/24".to_owned()];
        desired
    }

    fn shown(rules: &[DesiredRule]) -> Vec<String> {
        rules
            .iter()
            .map(|rule| format!("{} {} {}", rule.protocol, rule.prefix, rule.port))
            .collect()
    }

    #[test]
    fn node_ports_are_open_to_the_load_balancer_subnet() {
        let service = Service {
            health_check_node_port: 31000,
            ..Service::default()
        };
        let rules = rules(&desired(), &service, "10.0.0.0/24", false);
        assert_eq!(
            shown(&rules),
            [
                "tcp 10.0.0.0/24 30080",
                "tcp 10.0.0.0/24 31000",
                "udp 10.0.0.0/24 30053"
            ]
        );
    }

    #[test]
    fn with_ovn_node_ports_are_open_to_the_source_ranges() {
        let rules = rules(&desired(), &Service::default(), "10.0.0.0/24", true);
        let expected = [
            "tcp 192.0.2.0/24 30080",
            "tcp 198.51.100.0/24 30080",
            "udp 192.0.2.0/24 30053",
            "udp 198.51.100.0/24 30053",
        ];
        assert_eq!(shown(&rules), expected);
    }

    #[test]
    fn a_rule_matches_only_if_all_fields_match() {
        let wanted = DesiredRule {
            protocol: "tcp".to_owned(),
            prefix: "2001:db8::/64".to_owned(),
            port: 30080,
        };
        let rule = SecurityGroupRule {
            id: "r".to_owned(),
            direction: "ingress".to_owned(),
            protocol: Some("TCP".to_owned()),
            ethertype: "IPv6".to_owned(),
            remote_ip_prefix: Some("2001:db8::/64".to_owned()),
            port_range_min: Some(30080),
            port_range_max: Some(30080),
        };
        assert!(wanted.is(&rule));

        let mut others = vec![rule.clone(); 5];
        others[0].direction = "egress".to_owned();
        others[1].protocol = Some("udp".to_owned());
        others[2].ethertype = "IPv4".to_owned();
        others[3].remote_ip_prefix = None;
        others[4].port_range_max = Some(30081);
        assert!(!others.iter().any(|other| wanted.is(other)));
    }
}
