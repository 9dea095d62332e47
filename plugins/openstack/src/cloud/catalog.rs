//! The endpoints of the services, chosen from Keystone's catalog like gophercloud does.

use std::collections::BTreeMap;

use serde::Deserialize;
use skydock_sdk::{
    Result,
    http::{self, Request},
};

use super::{CACHED, Cloud, explain, is_there};
use crate::config::Global;

/// A service of the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nova.
    Compute,
    /// Neutron.
    Network,
    /// Octavia.
    LoadBalancer,
    /// Barbican.
    KeyManager,
    /// Cinder.
    BlockStorage,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Compute,
        Self::Network,
        Self::LoadBalancer,
        Self::KeyManager,
        Self::BlockStorage,
    ];

    /// Returns the type in the catalog.
    #[must_use]
    pub const fn service_type(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Network => "network",
            Self::LoadBalancer => "load-balancer",
            Self::KeyManager => "key-manager",
            Self::BlockStorage => "block-storage",
        }
    }

    /// Returns whether this is its type in a catalog.
    fn is_named(self, name: &str) -> bool {
        // The official name is younger than the others.
        let aliases: &[&str] = match self {
            Self::BlockStorage => &["volumev3", "block-store", "volume"],
            _ => &[],
        };
        name == self.service_type() || aliases.contains(&name)
    }

    /// Returns the version of the API, as used in URLs.
    const fn version(self) -> &'static str {
        match self {
            Self::Compute => "v2.1",
            Self::Network | Self::LoadBalancer => "v2.0",
            Self::KeyManager => "v1",
            Self::BlockStorage => "v3",
        }
    }

    /// Returns the base URL of requests, from the URL in the catalog, which can contain a version,
    /// a project, or neither.
    fn base(self, url: &str) -> String {
        let url = url.trim_end_matches('/');
        let is_version = |part: &str| {
            part.strip_prefix('v').is_some_and(|rest| {
                rest.starts_with(|c: char| c.is_ascii_digit()) && rest.len() < 6
            })
        };

        match self {
            // The URLs of Nova and Cinder can contain the project after the version.
            Self::Compute | Self::BlockStorage if url.rsplit('/').take(2).any(is_version) => {
                url.to_owned()
            }
            Self::Compute | Self::BlockStorage => format!("{url}/{}", self.version()),
            Self::Network | Self::LoadBalancer | Self::KeyManager => {
                let root = url
                    .rsplit_once('/')
                    .filter(|(_, last)| is_version(last))
                    .map_or(url, |(root, _)| root);
                format!("{root}/{}", self.version())
            }
        }
    }
}

#[derive(Deserialize)]
struct Answer {
    catalog: Vec<Service>,
}

#[derive(Deserialize)]
struct Service {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
struct Endpoint {
    interface: String,
    #[serde(default)]
    region: Option<String>,
    #[serde(default)]
    region_id: Option<String>,
    url: String,
}

/// Returns the first endpoint of each service with the configured interface and region.
fn choose(services: &[Service], global: &Global) -> BTreeMap<Kind, String> {
    let fits = |endpoint: &&Endpoint| {
        let region = Some(global.region.as_str());
        endpoint.interface == global.interface.name()
            && (region == Some("")
                || endpoint.region.as_deref() == region
                || endpoint.region_id.as_deref() == region)
    };

    let endpoint = |kind: Kind| {
        let mut endpoints = services
            .iter()
            .filter(|service| kind.is_named(&service.kind))
            .flat_map(|service| &service.endpoints);
        Some((kind, kind.base(&endpoints.find(fits)?.url)))
    };
    Kind::ALL.into_iter().filter_map(endpoint).collect()
}

impl Cloud<'_> {
    /// Returns the endpoints, from the cache if they were read recently.
    pub(super) fn read_catalog(&self) -> Result<BTreeMap<Kind, String>> {
        let global = &self.config.global;
        let key = self.catalog_key();
        if let Some(cached) = self.host.cached(&key) {
            let urls = String::from_utf8(cached).unwrap_or_default();
            return Ok(Kind::ALL
                .into_iter()
                .zip(urls.split('\n'))
                .filter(|(_, url)| !url.is_empty())
                .map(|(kind, url)| (kind, url.to_owned()))
                .collect());
        }

        let request = Request::get(format!("{}/auth/catalog", global.auth_url))
            .header("Accept", "application/json")
            .timeout(self.config.request_timeout);
        let answer: Answer = explain("cannot read the catalog of Keystone", http::send(request))
            .map_err(is_there)?
            .json()?;

        let endpoints = choose(&answer.catalog, global);

        // One line for each service, empty if it is missing.
        let urls: Vec<_> = Kind::ALL
            .iter()
            .map(|kind| endpoints.get(kind).map_or("", String::as_str))
            .collect();
        self.host.cache(&key, urls.join("\n").as_bytes(), CACHED);
        Ok(endpoints)
    }

    /// Removes the catalog from the cache, so that the next call reads it again.
    pub(super) fn forget_catalog(&self) {
        self.host.uncache(&self.catalog_key());
    }

    fn catalog_key(&self) -> String {
        let global = &self.config.global;
        format!(
            "catalog {} {} {}",
            global.auth_url,
            global.region,
            global.interface.name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Interface;

    const CATALOG: &str = r#"{"catalog": [
      {"type": "compute", "name": "nova", "endpoints": [
        {"interface": "admin", "region": "one", "region_id": "one", "url": "http://nova-admin/v2.1"},
        {"interface": "public", "region": "two", "region_id": "two", "url": "http://nova-two/v2.1/"},
        {"interface": "public", "region": "one", "region_id": "one", "url": "http://nova-one/v2.1/p1"}]},
      {"type": "network", "endpoints": [{"interface": "public", "region_id": "one", "url": "http://neutron"}]},
      {"type": "load-balancer", "endpoints": [{"interface": "public", "region": "one", "url": "http://lb/v2.0"}]},
      {"type": "volumev3", "endpoints": [{"interface": "public", "region": "one", "url": "http://b/v3/p1"}]},
      {"type": "image"}]}"#;

    fn chosen(region: &str, interface: Interface) -> Vec<(Kind, String)> {
        let answer: Answer = serde_json::from_str(CATALOG).unwrap();
        let global = Global {
            region: region.to_owned(),
            interface,
            ..Global::default()
        };
        choose(&answer.catalog, &global).into_iter().collect()
    }

    #[test]
    fn region_and_interface_choose_an_endpoint() {
        let one = [
            (Kind::Compute, "http://nova-one/v2.1/p1"),
            (Kind::Network, "http://neutron/v2.0"),
            (Kind::LoadBalancer, "http://lb/v2.0"),
            (Kind::BlockStorage, "http://b/v3/p1"),
        ];
        assert_eq!(
            chosen("one", Interface::Public),
            one.map(|(kind, url)| (kind, url.to_owned()))
        );
        assert_eq!(
            chosen("two", Interface::Public),
            [(Kind::Compute, "http://nova-two/v2.1".to_owned())]
        );
        assert_eq!(
            chosen("one", Interface::Admin),
            [(Kind::Compute, "http://nova-admin/v2.1".to_owned())]
        );
    }

    #[test]
    fn without_a_region_the_first_endpoint_is_taken() {
        assert_eq!(chosen("", Interface::Public)[0].1, "http://nova-two/v2.1");
    }

    #[test]
    fn endpoint_urls_are_completed_with_the_api_version() {
        for (kind, url, base) in [
            (Kind::Compute, "http://c:8774", "http://c:8774/v2.1"),
            (
                Kind::Compute,
                "http://c/compute/v2.1",
                "http://c/compute/v2.1",
            ),
            (
                Kind::Compute,
                "http://c/v2/0123456789abcdef",
                "http://c/v2/0123456789abcdef",
            ),
            (Kind::Network, "http://n:9696/", "http://n:9696/v2.0"),
            (
                Kind::Network,
                "http://n/networking/v2.0",
                "http://n/networking/v2.0",
            ),
            (
                Kind::LoadBalancer,
                "http://l/load-balancer",
                "http://l/load-balancer/v2.0",
            ),
            (Kind::LoadBalancer, "http://l/v2", "http://l/v2.0"),
            (Kind::KeyManager, "http://k", "http://k/v1"),
            (
                Kind::BlockStorage,
                "http://b:8776/v3/p1",
                "http://b:8776/v3/p1",
            ),
            (
                Kind::BlockStorage,
                "http://b/volume/v3/",
                "http://b/volume/v3",
            ),
            (Kind::BlockStorage, "http://b/volume", "http://b/volume/v3"),
        ] {
            assert_eq!(kind.base(url), base, "{url}");
        }
    }
}
