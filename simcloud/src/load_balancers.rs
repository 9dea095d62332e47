//! Load balancers.
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use crate::check::{self, Labels};
use crate::cloud::Cloud;
use crate::error::{Error, Result};
use crate::history::Millis;
use crate::{parse, servers};

/// Maximum number of load balancers.
const MOST: usize = 1_000;

/// Transport protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    Tcp,
    Udp,
}

/// Family of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Family {
    Ipv4,
    Ipv6,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listener {
    protocol: Protocol,
    port: NonZeroU16,
    target_port: NonZeroU16,
}

/// What a client sends to create one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct New {
    name: String,
    #[serde(default = "ipv4")]
    ip_families: Vec<Family>,
    listeners: Vec<Listener>,
    #[serde(default)]
    targets: Vec<String>,
    #[serde(default)]
    allowed_cidrs: Vec<String>,
    #[serde(default)]
    health_check_port: Option<NonZeroU16>,
    #[serde(default)]
    labels: Labels,
}

/// What a client sends to change one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    listeners: Option<Vec<Listener>>,
    targets: Option<Vec<String>>,
    allowed_cidrs: Option<Vec<String>>,
    #[serde(default, deserialize_with = "parse::present")]
    health_check_port: Option<Option<NonZeroU16>>,
    labels: Option<Labels>,
}

/// What a test can set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hook {
    #[serde(default)]
    health: BTreeMap<String, Health>,
    status: Option<Broken>,
}

/// The only status that a test can set.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Broken {
    Error,
}

/// Health of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Healthy,
    Unhealthy,
}

/// Status of a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Pending,
    Active,
    Error,
}

/// A load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadBalancer {
    spec: New,
    /// Number of its addresses: no other one has it.
    slot: u16,
    /// When it is created completely.
    ready: Millis,
    /// Whether it will never work.
    broken: bool,
    /// What a test has set.
    health: BTreeMap<String, Health>,
}

/// A load balancer as clients see it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct View<'a> {
    id: String,
    name: &'a str,
    status: Status,
    ip_families: &'a [Family],
    addresses: Vec<IpAddr>,
    listeners: &'a [Listener],
    targets: &'a [String],
    health: BTreeMap<&'a str, Health>,
    allowed_cidrs: &'a [String],
    health_check_port: Option<NonZeroU16>,
    labels: &'a Labels,
}

impl New {
    fn check(&self) -> Result<()> {
        check::name(&self.name, 128)?;
        check::list("ip_families", &self.ip_families, 1, 2)?;
        let ports: Vec<_> = self.listeners.iter().map(|listener| (listener.protocol, listener.port)).collect();
        check::list("listeners", &ports, 1, 50)?;
        check::list("targets", &self.targets, 0, 1000)?;
        let wrong = |target: &String| target.parse::<IpAddr>().is_err() && servers::number(target).is_none();
        if let Some(index) = self.targets.iter().position(wrong) {
            return Err(Error::field(format!("targets[{index}]"), "expected the ID of a server, or an IP address"));
        }
        check::list("allowed_cidrs", &self.allowed_cidrs, 0, 100)?;
        for (index, cidr) in self.allowed_cidrs.iter().enumerate() {
            check::cidr(&format!("allowed_cidrs[{index}]"), cidr)?;
        }
        check::labels(&self.labels)
    }
}

impl LoadBalancer {
    /// Returns the name.
    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }

    /// Returns the labels.
    pub(crate) fn labels(&self) -> &Labels {
        &self.spec.labels
    }

    fn status(&self, at: Millis) -> Status {
        match () {
            () if self.broken => Status::Error,
            () if at < self.ready => Status::Pending,
            () => Status::Active,
        }
    }

    fn addresses(&self) -> Vec<IpAddr> {
        let [high, low] = self.slot.to_be_bytes();
        let address = |family: &Family| match family {
            Family::Ipv4 => [198, 19, high, low].into(),
            Family::Ipv6 => Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, self.slot).into(),
        };
        self.spec.ip_families.iter().map(address).collect()
    }
}

fn ipv4() -> Vec<Family> {
    vec![Family::Ipv4]
}

/// Returns the ID of a load balancer.
pub(crate) fn id(number: u64) -> String {
    format!("lb-{number}")
}

impl Cloud {
    /// Returns a load balancer as clients see it.
    pub(crate) fn load_balancer_view<'a>(&self, at: Millis, number: u64, it: &'a LoadBalancer) -> View<'a> {
        let status = it.status(at);
        let health = |target: &String| {
            let default = if self.answers(at, target) { Health::Healthy } else { Health::Unhealthy };
            it.health.get(target).copied().unwrap_or(default)
        };
        View {
            id: id(number),
            name: &it.spec.name,
            status,
            ip_families: &it.spec.ip_families,
            addresses: if status == Status::Pending { Vec::new() } else { it.addresses() },
            listeners: &it.spec.listeners,
            targets: &it.spec.targets,
            health: it.spec.targets.iter().map(|target| (target.as_str(), health(target))).collect(),
            allowed_cidrs: &it.spec.allowed_cidrs,
            health_check_port: it.spec.health_check_port,
            labels: &it.spec.labels,
        }
    }

    /// Returns the load balancer with this ID.
    pub(crate) fn load_balancer(&self, now: Millis, id: &str) -> Result<(u64, &LoadBalancer)> {
        let number = id.strip_prefix("lb-").and_then(|number| number.parse().ok()).filter(|it| self::id(*it) == id);
        let found = number.and_then(|number| Some((number, self.load_balancers.get(now, number)?)));
        found.ok_or_else(|| Error::not_found("load balancer", id))
    }

    /// Creates a load balancer.
    pub(crate) fn create_load_balancer(&mut self, now: Millis, spec: New) -> Result<u64> {
        spec.check()?;
        if let Some((number, _)) = self.load_balancers.all(now).find(|(_, other)| other.spec.name == spec.name) {
            return Err(Error::exists("load balancer", id(number), &spec.name));
        }
        if self.load_balancers.len() >= MOST {
            return Err(Error::quota(MOST, "load balancers"));
        }
        let taken: BTreeSet<u16> = self.load_balancers.all(now).map(|(_, other)| other.slot).collect();
        let slot = (1..=u16::MAX).find(|slot| !taken.contains(slot)).unwrap_or_default();
        let ready = now + self.settings.lb_delay_ms;
        let created = LoadBalancer { spec, slot, ready, broken: false, health: BTreeMap::new() };
        Ok(self.load_balancers.create(now, created))
    }

    /// Changes a load balancer.
    pub(crate) fn change_load_balancer(&mut self, now: Millis, number: u64, change: Change) -> Result<()> {
        let Some(current) = self.load_balancers.get(now, number) else { return Ok(()) };
        if current.status(now) == Status::Pending {
            return Err(Error::pending(&id(number)));
        }
        let mut it = current.clone();
        let spec = &mut it.spec;
        spec.listeners = change.listeners.unwrap_or_else(|| std::mem::take(&mut spec.listeners));
        spec.targets = change.targets.unwrap_or_else(|| std::mem::take(&mut spec.targets));
        spec.allowed_cidrs = change.allowed_cidrs.unwrap_or_else(|| std::mem::take(&mut spec.allowed_cidrs));
        spec.health_check_port = change.health_check_port.unwrap_or(spec.health_check_port);
        spec.labels = change.labels.unwrap_or_else(|| std::mem::take(&mut spec.labels));
        spec.check()?;
        it.health.retain(|target, _| spec.targets.contains(target));
        self.load_balancers.change(now, number, it);
        Ok(())
    }

    /// Sets what only a test can set.
    pub(crate) fn hook_load_balancer(&mut self, now: Millis, id: &str, hook: Hook) -> Result<u64> {
        let (number, current) = self.load_balancer(now, id)?;
        let mut it = current.clone();
        if let Some(target) = hook.health.keys().find(|target| !it.spec.targets.contains(target)) {
            return Err(Error::field("health", format!("no target {target}")));
        }
        it.health.extend(hook.health);
        it.broken |= hook.status.is_some();
        self.load_balancers.change(now, number, it);
        Ok(number)
    }
}
