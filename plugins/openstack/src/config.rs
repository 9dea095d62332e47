//! The operator's `cloud.conf`, in the form of openstack-cloud-controller-manager v1.36.
//!
//! Settings that only identify the operator (user, password, token, …) are accepted and ignored:
//! the host logs in, and removes the settings that it knows from the text. Unsupported settings are
//! rejected with name and line. Unknown settings are rejected with the most similar known one;
//! upstream only logs a warning.
//!
//! A setting is a field here, and a row of the table of its section in `config/sections.rs`.

use std::{collections::BTreeMap, time::Duration};

use ipnet::IpNet;

mod go;
mod problem;
mod sections;

pub(crate) use go::words;
pub(crate) use problem::nearest;
pub use problem::{Problem, Problems};

/// The endpoint of a service that is used (`os-endpoint-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// The endpoint for everybody.
    #[default]
    Public,
    /// The endpoint for the cloud itself.
    Internal,
    /// The endpoint for administrators.
    Admin,
}

impl Interface {
    /// Returns the name in the catalog.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}

/// The configuration. Empty texts are not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Section `Global`: the URL of Keystone, and what to use from its catalog.
    pub global: Global,
    /// Section `Networking`: the addresses of nodes.
    pub networking: Networking,
    /// `router-id` of section `Route`. Without it, no routes are created.
    pub router_id: String,
    /// Section `LoadBalancer`.
    pub load_balancer: LoadBalancer,
    /// Sections `LoadBalancerClass` by name.
    pub classes: BTreeMap<String, Class>,
    /// `request-timeout` of section `Metadata`, which upstream uses for every request. 60 s by
    /// default.
    pub request_timeout: Duration,
    /// Option `regional-provider-ids` of the host: provider IDs are `openstack://REGION/ID`.
    pub regional_ids: bool,
    /// Option `volumes` of the host: this is the controller part of the driver for volumes.
    pub volumes: bool,
    /// `ignore-volume-az` of section `BlockStorage`: the zone of a volume says nothing about servers.
    pub ignore_volume_az: bool,
}

/// Section `Global`, without the operator's credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Global {
    /// The URL of Keystone with its version: `https://keystone:5000/v3`.
    pub auth_url: String,
    /// The region. If empty, the first one in the catalog is used.
    pub region: String,
    /// The endpoints that are used.
    pub interface: Interface,
}

/// Section `Networking`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networking {
    /// True if nodes get no IPv6 addresses.
    pub ipv6_support_disabled: bool,
    /// Networks whose addresses are external.
    pub public_networks: Vec<String>,
    /// Networks whose addresses are internal. If set, addresses in other networks are ignored.
    pub internal_networks: Vec<String>,
    /// Addresses in these networks come first, in this order.
    pub address_sort_order: Vec<IpNet>,
}

/// Where load balancers get their addresses from: set in section `LoadBalancer` and in each
/// `LoadBalancerClass`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// The external network of the floating IP.
    pub floating_network_id: String,
    /// The subnet of the floating IP. If set, the next two fields are not used.
    pub floating_subnet_id: String,
    /// A pattern for the name of the floating IP's subnet.
    pub floating_subnet: String,
    /// Tags of the floating IP's subnet.
    pub floating_subnet_tags: String,
    /// The network of the VIP.
    pub network_id: String,
    /// The subnet of the VIP.
    pub subnet_id: String,
    /// The subnet of the members.
    pub member_subnet_id: String,
}

/// Section `LoadBalancer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancer {
    /// If false, another controller handles Services of type LoadBalancer.
    pub enabled: bool,
    /// Defaults for values that neither a class nor a Service sets.
    pub class: Class,
    /// The algorithm of the pools.
    pub lb_method: String,
    /// The provider of Octavia.
    pub lb_provider: String,
    /// True if health monitors are created unless a Service disables them.
    pub create_monitor: bool,
    /// Seconds between two probes.
    pub monitor_delay: u64,
    /// Timeout of a probe in seconds.
    pub monitor_timeout: u64,
    /// Number of successful probes until a member is healthy.
    pub monitor_max_retries: u64,
    /// Number of failed probes until a member is unhealthy.
    pub monitor_max_retries_down: u64,
    /// True if security groups for the nodes' ports are created and updated.
    pub manage_security_groups: bool,
    /// True if load balancers never get a floating IP.
    pub internal_lb: bool,
    /// Labels of the nodes that become members.
    pub node_selector: String,
    /// True if a load balancer is deleted with all its parts in one step.
    pub cascade_delete: bool,
    /// The Octavia flavor.
    pub flavor_id: String,
    /// The Octavia availability zone.
    pub availability_zone: String,
    /// True if the status has a host name instead of the address when the PROXY protocol is used.
    pub enable_ingress_hostname: bool,
    /// The suffix of this host name.
    pub ingress_hostname_suffix: String,
    /// Maximum number of Services that share one load balancer.
    pub max_shared_lb: usize,
    /// The TLS container of the listeners.
    pub tls_container_ref: String,
    /// False if TLS containers are not in Barbican (`container-store=external`).
    pub barbican: bool,
    /// True if the provider cannot create a load balancer with all its parts, or set all members,
    /// in one step.
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
            volumes: false,
            ignore_volume_az: false,
        }
    }
}

impl Config {
    /// Reads `cloud.conf` and the options of the host.
    ///
    /// # Errors
    /// Returns all problems.
    pub fn parse(text: &str, options: &[(String, String)]) -> Result<Self, Problems> {
        let file = skydock_gcfg::parse(text);
        let entries = &file.entries;
        let mut problems: Vec<Problem> = file.problems.iter().map(Problem::from).collect();
        let mut config = Self::default();

        let mut rejected = Vec::new();
        for entry in entries {
            if let Err(problem) = sections::apply(&mut config, entry) {
                problems.push(problem);
                rejected.push(entry.section.as_str());
            }
        }

        for (key, value) in options {
            problems.extend(sections::option(&mut config, key, value).err());
        }

        // A statement that was rejected might have set what these rules miss.
        let is_known = |section: &str| {
            file.problems.is_empty()
                && !rejected
                    .iter()
                    .any(|other| other.eq_ignore_ascii_case(section))
        };
        if is_known("Global") {
            problems.extend(config.missing_settings());
        }
        // These read the complete section: a default can contradict a setting.
        if is_known("LoadBalancer") {
            sections::set_ovn_default(&mut config, entries);
            problems.extend(sections::monitor_problems(&config, entries));
            problems.extend(sections::default_problems(&config, entries));
            problems.extend(sections::ovn_method_problem(&config, entries));
        }

        problems.sort_by_key(|problem| problem.line);
        // An unknown section is reported by its header and by each of its settings.
        problems.dedup_by(|next, problem| next.reason == problem.reason);

        if problems.is_empty() {
            Ok(config)
        } else {
            Err(Problems(problems))
        }
    }

    /// Returns the problems that only the complete section `Global` shows.
    fn missing_settings(&self) -> impl Iterator<Item = Problem> {
        let auth_url =
            self.global.auth_url.is_empty().then_some(
                "`auth-url` is missing in section `Global`: set it to the URL of Keystone",
            );
        let region = (self.regional_ids && self.global.region.is_empty())
            .then_some("option `regional-provider-ids` needs `region` in section `Global`");

        [auth_url, region]
            .into_iter()
            .flatten()
            .map(|reason| Problem {
                line: None,
                reason: reason.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests;
