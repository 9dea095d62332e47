//! The operator's `cloud.conf`, in the form of openstack-cloud-controller-manager v1.36.
//!
//! Settings that only say who the operator is (user, password, token …) are accepted and not looked at: the host logs in, and
//! takes them out of the text where it knows them. What is not supported is refused by name and line, and a
//! setting nobody knows is refused with the nearest one that is known; upstream passes over it with a warning.

use std::{collections::BTreeMap, time::Duration};

use ipnet::IpNet;

mod go;
mod ini;
mod problem;
mod sections;

pub(crate) use go::words;
pub use problem::{Problem, Problems};

/// Which endpoint of a service is used (`os-endpoint-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// What everybody may reach.
    #[default]
    Public,
    /// What the cloud itself uses.
    Internal,
    /// What administrators use.
    Admin,
}

impl Interface {
    /// As the catalogue writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}

/// What the operator has configured. Texts that are empty are not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Section `Global`: where Keystone is, and what to take from its catalogue.
    pub global: Global,
    /// Section `Networking`: which addresses a node gets.
    pub networking: Networking,
    /// `router-id` of section `Route`; without it no routes are made.
    pub router_id: String,
    /// Section `LoadBalancer`.
    pub load_balancer: LoadBalancer,
    /// Sections `LoadBalancerClass`, by their name.
    pub classes: BTreeMap<String, Class>,
    /// `request-timeout` of section `Metadata`, which upstream uses for every request; 60 s unless set.
    pub request_timeout: Duration,
    /// Option `regional-provider-ids` of the host: provider IDs are `openstack://REGION/ID`.
    pub regional_ids: bool,
}

/// Section `Global`, without who the operator is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Global {
    /// Keystone's address, ending in its version: `https://keystone:5000/v3`.
    pub auth_url: String,
    /// Region to work in; empty takes what the catalogue names first.
    pub region: String,
    /// Which endpoints to use.
    pub interface: Interface,
}

/// Section `Networking`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networking {
    /// No IPv6 addresses for nodes.
    pub ipv6_support_disabled: bool,
    /// Networks whose addresses are external.
    pub public_networks: Vec<String>,
    /// Networks whose addresses are internal; if there are any, addresses in others are left out.
    pub internal_networks: Vec<String>,
    /// Addresses inside these come first, in this order.
    pub address_sort_order: Vec<IpNet>,
}

/// Where the address of a load balancer comes from: section `LoadBalancer` has one, and each `LoadBalancerClass`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// External network of the floating IP.
    pub floating_network_id: String,
    /// Subnet of the floating IP; the next two are not used then.
    pub floating_subnet_id: String,
    /// Pattern of the name of the floating IP's subnet.
    pub floating_subnet: String,
    /// Tags of the floating IP's subnet.
    pub floating_subnet_tags: String,
    /// Network of the VIP.
    pub network_id: String,
    /// Subnet of the VIP.
    pub subnet_id: String,
    /// Subnet of the members.
    pub member_subnet_id: String,
}

/// Section `LoadBalancer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancer {
    /// False leaves Services of type LoadBalancer to others.
    pub enabled: bool,
    /// Defaults of what a class or a Service says.
    pub class: Class,
    /// Algorithm of the pools.
    pub lb_method: String,
    /// Octavia's provider.
    pub lb_provider: String,
    /// Health monitors unless a Service says otherwise.
    pub create_monitor: bool,
    /// Seconds between two probes.
    pub monitor_delay: u64,
    /// Seconds a probe may take.
    pub monitor_timeout: u64,
    /// Probes until a member is well.
    pub monitor_max_retries: u64,
    /// Probes until a member is not.
    pub monitor_max_retries_down: u64,
    /// Security groups for the nodes' ports are made and kept.
    pub manage_security_groups: bool,
    /// Never a floating IP.
    pub internal_lb: bool,
    /// Labels of the nodes that become members.
    pub node_selector: String,
    /// A load balancer is deleted with all it has in one step.
    pub cascade_delete: bool,
    /// Octavia flavor.
    pub flavor_id: String,
    /// Octavia availability zone.
    pub availability_zone: String,
    /// With PROXY protocol, a name in place of the address in the status.
    pub enable_ingress_hostname: bool,
    /// What that name ends in.
    pub ingress_hostname_suffix: String,
    /// Services that may share one load balancer.
    pub max_shared_lb: usize,
    /// TLS container of the listeners.
    pub tls_container_ref: String,
    /// False where TLS containers are not Barbican's (`container-store=external`).
    pub barbican: bool,
    /// The provider cannot make a load balancer with all it has, nor set all members, in one step.
    pub serial_api_calls: bool,
}

impl Default for LoadBalancer {
    fn default() -> Self {
        Self {
            enabled: true,
            class: Class::default(),
            lb_method: "ROUND_ROBIN".to_owned(),
            lb_provider: "amphora".to_owned(),
            create_monitor: false,
            monitor_delay: 5,
            monitor_timeout: 3,
            monitor_max_retries: 1,
            monitor_max_retries_down: 3,
            manage_security_groups: false,
            internal_lb: false,
            node_selector: String::new(),
            cascade_delete: true,
            flavor_id: String::new(),
            availability_zone: String::new(),
            enable_ingress_hostname: false,
            ingress_hostname_suffix: "nip.io".to_owned(),
            max_shared_lb: 2,
            tls_container_ref: String::new(),
            barbican: true,
            serial_api_calls: false,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            global: Global::default(),
            networking: Networking::default(),
            router_id: String::new(),
            load_balancer: LoadBalancer::default(),
            classes: BTreeMap::new(),
            request_timeout: Duration::from_secs(60),
            regional_ids: false,
        }
    }
}

impl Config {
    /// Reads `cloud.conf` and the options of the host.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub fn parse(text: &str, options: &[(String, String)]) -> Result<Self, Problems> {
        let (entries, mut problems) = ini::read(text);
        let mut config = Self::default();
        for entry in &entries {
            problems.extend(sections::apply(&mut config, entry).err());
        }
        for (key, value) in options {
            problems.extend(sections::option(&mut config, key, value).err());
        }
        problems.extend(config.lacks());
        problems.sort_by_key(|problem| problem.line);
        if problems.is_empty() { Ok(config) } else { Err(Problems(problems)) }
    }

    /// What only the whole can tell.
    fn lacks(&self) -> Option<Problem> {
        let problem = |reason: &str| Some(Problem { line: 0, reason: reason.to_owned() });
        if self.global.auth_url.is_empty() {
            return problem("`auth-url` is missing in section `Global`: give the address of Keystone");
        }
        if self.regional_ids && self.global.region.is_empty() {
            return problem("option `regional-provider-ids` needs `region` in section `Global`");
        }
        None
    }
}

#[cfg(test)]
mod tests;
