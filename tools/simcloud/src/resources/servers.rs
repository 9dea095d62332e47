//! Servers.
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::api::check::{self, Labels};
use crate::api::error::{Error, Result};
use crate::api::parse;
use crate::options::Options;

/// Maximum number of servers.
pub(crate) const MOST: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Running,
    Stopped,
}

/// Where an address can be reached from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Internal,
    External,
}

/// An address of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Address {
    kind: Kind,
    pub(crate) address: IpAddr,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) state: State,
    r#type: String,
    zone: String,
    pub(crate) addresses: Vec<Address>,
    pub(crate) labels: Labels,
}

/// A server as clients see it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct View<'a> {
    id: String,
    name: &'a str,
    state: State,
    r#type: &'a str,
    zone: &'a str,
    region: &'a str,
    addresses: &'a [Address],
    labels: &'a Labels,
}

/// What a test can set. To create a server, only the name is required.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    pub(crate) name: Option<String>,
    pub(crate) state: Option<State>,
    pub(crate) r#type: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) addresses: Option<Vec<Address>>,
    pub(crate) labels: Option<Labels>,
}

impl Server {
    /// Creates the server that a cloud has as its `number`th.
    pub(crate) fn numbered(number: u64, options: &Options) -> Self {
        let [.., high, low] = number.to_be_bytes();

        // At least 1, because there may be no zones.
        let zones = u64::try_from(options.zones.len())
            .unwrap_or(u64::MAX)
            .max(1);
        let zone = usize::try_from(number.wrapping_sub(1) % zones).unwrap_or_default();

        Self {
            name: format!("{}{number}", options.name_prefix),
            state: State::Running,
            r#type: "small".to_owned(),
            zone: options.zones.get(zone).cloned().unwrap_or_default(),
            addresses: vec![
                Address {
                    kind: Kind::Internal,
                    address: [10, 0, high, low].into(),
                },
                Address {
                    kind: Kind::External,
                    address: [198, 18, high, low].into(),
                },
            ],
            labels: Labels::new(),
        }
    }

    pub(crate) fn zone(&self) -> &str {
        &self.zone
    }

    /// Returns what clients see.
    pub(crate) fn view<'a>(&'a self, number: u64, region: &'a str) -> View<'a> {
        View {
            id: id(number),
            name: &self.name,
            state: self.state,
            r#type: &self.r#type,
            zone: &self.zone,
            region,
            addresses: &self.addresses,
            labels: &self.labels,
        }
    }

    pub(crate) fn changed(mut self, change: Change, options: &Options) -> Result<Self> {
        if let Some(name) = change.name {
            check::name(&name, 253)?;
            self.name = name;
        }

        if let Some(kind) = change.r#type {
            check::name(&kind, 63).map_err(|_| {
                Error::field("type", "a type has 1 to 63 letters, digits, `.`, `_`, `-`")
            })?;
            self.r#type = kind;
        }

        if let Some(zone) = change.zone {
            if !options.zones.contains(&zone) {
                return Err(Error::field("zone", format!("no zone {zone}")));
            }
            self.zone = zone;
        }

        if let Some(addresses) = change.addresses {
            check::list("addresses", &addresses, 0, 16)?;
            self.addresses = addresses;
        }

        if let Some(labels) = change.labels {
            check::labels(&labels)?;
            self.labels = labels;
        }

        self.state = change.state.unwrap_or(self.state);
        Ok(self)
    }
}

/// Returns the ID of a server.
pub(crate) fn id(number: u64) -> String {
    format!("srv-{number}")
}

/// Returns the number of a server with this ID.
pub(crate) fn number(id: &str) -> Option<u64> {
    parse::number("srv-", id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_form() {
        assert_eq!(
            (number("srv-1"), number(&id(70_000))),
            (Some(1), Some(70_000))
        );
        for bad in ["srv-01", "srv-", "srv-+1", "lb-1", "1", ""] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }

    #[test]
    fn servers_are_spread_over_zones_and_addresses() {
        let options = Options::default();
        let [first, second, far] = [1, 2, 300].map(|number| Server::numbered(number, &options));
        assert_eq!(
            (first.zone.as_str(), second.zone.as_str()),
            ("zone-a", "zone-b")
        );
        assert_eq!(far.addresses[0].address.to_string(), "10.0.1.44");
        assert_eq!(far.addresses[1].address.to_string(), "198.18.1.44");
    }
}
