//! Load balancers.
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use crate::api::check::{self, Labels};
use crate::api::error::{Error, Result};
use crate::history::Millis;
use crate::{api::parse, resources::servers};

pub(crate) const MOST: usize = 1_000;

/// Transport protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

/// Family of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Family {
    Ipv4,
    Ipv6,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listener {
    protocol: Protocol,
    port: NonZeroU16,
    target_port: NonZeroU16,
}

/// What a client sends to create one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct New {
    pub(crate) name: String,
    #[serde(default = "ipv4")]
    pub(crate) ip_families: Vec<Family>,
    pub(crate) listeners: Vec<Listener>,
    #[serde(default)]
    pub(crate) targets: Vec<String>,
    #[serde(default)]
    pub(crate) allowed_cidrs: Vec<String>,
    #[serde(default)]
    pub(crate) health_check_port: Option<NonZeroU16>,
    #[serde(default)]
    pub(crate) labels: Labels,
}

/// What a client sends to change one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    pub(crate) listeners: Option<Vec<Listener>>,
    pub(crate) targets: Option<Vec<String>>,
    pub(crate) allowed_cidrs: Option<Vec<String>>,
    #[serde(default, deserialize_with = "parse::present")]
    pub(crate) health_check_port: Option<Option<NonZeroU16>>,
    pub(crate) labels: Option<Labels>,
}

/// What a test can set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hook {
    #[serde(default)]
    pub(crate) health: BTreeMap<String, Health>,
    pub(crate) status: Option<Broken>,
}

/// The only status that a test can set.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Broken {
    Error,
}

/// Health of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Health {
    Healthy,
    Unhealthy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Pending,
    Active,
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadBalancer {
    pub(crate) spec: New,
    /// Number of its addresses: no other one has it.
    pub(crate) slot: u16,
    /// When it is created completely.
    pub(crate) ready: Millis,
    /// Whether it will never work.
    pub(crate) broken: bool,
    /// What a test has set.
    pub(crate) health: BTreeMap<String, Health>,
}

/// A load balancer as clients see it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct View<'a> {
    pub(crate) id: String,
    pub(crate) name: &'a str,
    pub(crate) status: Status,
    pub(crate) ip_families: &'a [Family],
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) listeners: &'a [Listener],
    pub(crate) targets: &'a [String],
    pub(crate) health: BTreeMap<&'a str, Health>,
    pub(crate) allowed_cidrs: &'a [String],
    pub(crate) health_check_port: Option<NonZeroU16>,
    pub(crate) labels: &'a Labels,
}

impl New {
    pub(crate) fn check(&self) -> Result<()> {
        check::name(&self.name, 128)?;
        check::list("ip_families", &self.ip_families, 1, 2)?;

        let ports: Vec<_> = self
            .listeners
            .iter()
            .map(|listener| (listener.protocol, listener.port))
            .collect();
        check::list("listeners", &ports, 1, 50)?;

        check::list("targets", &self.targets, 0, 1000)?;
        let wrong = |target: &String| {
            target.parse::<IpAddr>().is_err() && servers::number(target).is_none()
        };
        if let Some(index) = self.targets.iter().position(wrong) {
            return Err(Error::field(
                format!("targets[{index}]"),
                "expected the ID of a server, or an IP address",
            ));
        }

        check::list("allowed_cidrs", &self.allowed_cidrs, 0, 100)?;
        for (index, cidr) in self.allowed_cidrs.iter().enumerate() {
            check::cidr(&format!("allowed_cidrs[{index}]"), cidr)?;
        }
        check::labels(&self.labels)
    }
}

impl LoadBalancer {
    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }

    pub(crate) fn labels(&self) -> &Labels {
        &self.spec.labels
    }

    pub(crate) fn status(&self, at: Millis) -> Status {
        match () {
            () if self.broken => Status::Error,
            () if at < self.ready => Status::Pending,
            () => Status::Active,
        }
    }

    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
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
