//! The features of the cloud's Octavia and Neutron.

use serde::Deserialize;
use skydock_sdk::{Result, http::Method};

use super::{CACHED, Cloud, Kind};

/// The features of Octavia and its provider, by version of the API as in upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Tags, which sharing a load balancer between several Services requires (2.5).
    pub tags: bool,
    /// Timeouts of listeners (2.1).
    pub timeouts: bool,
    /// Flavors (2.6).
    pub flavors: bool,
    /// `allowed_cidrs` of listeners (2.12).
    pub allowed_cidrs: bool,
    /// Availability zones (2.14).
    pub availability_zones: bool,
    /// HTTP monitors for TCP pools: all providers except OVN.
    pub http_monitors: bool,
    /// HTTP monitors for UDP pools (2.16).
    pub http_monitors_on_udp: bool,
}

impl Features {
    /// Returns the features of a version, for example 2.27, with a provider.
    #[must_use]
    pub fn of(version: (u32, u32), provider: &str) -> Self {
        let since = |minor: u32| version >= (2, minor);
        let full = provider != "ovn";

        Self {
            tags: since(5),
            timeouts: full && since(1),
            flavors: full && since(6),
            allowed_cidrs: full && since(12),
            availability_zones: full && since(14),
            http_monitors: full,
            http_monitors_on_udp: full && since(16),
        }
    }
}

#[derive(Deserialize)]
struct Versions {
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    id: String,
}

#[derive(Deserialize)]
struct Extensions {
    extensions: Vec<Extension>,
}

#[derive(Deserialize)]
struct Extension {
    alias: String,
}

/// Parses a version, for example `v2.27`.
fn parse(id: &str) -> Option<(u32, u32)> {
    let version = id.strip_prefix('v').unwrap_or(id);
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

impl Cloud<'_> {
    /// Returns the features of Octavia.
    ///
    /// # Errors
    /// Fails if the request fails. Upstream continues in this case as if there were no features,
    /// and removes timeouts and tags.
    pub fn features(&self) -> Result<Features> {
        let provider = &self.config.load_balancer.lb_provider;

        // The list of versions is at the root, above the version of the base URL.
        let base = self.url(Kind::LoadBalancer, "")?;
        let root = base
            .rsplit_once('/')
            .map_or(base.as_str(), |(root, _)| root);
        let key = format!("octavia {root}");

        let cached = self
            .host
            .cached(&key)
            .and_then(|cached| parse(&String::from_utf8(cached).ok()?));

        let version = if let Some(version) = cached {
            version
        } else {
            let what = "cannot read the version of Octavia";
            let request = self
                .request(Method::Get, Kind::LoadBalancer, "/", what)?
                .at(format!("{root}/"));
            let answer: Versions = request.send()?.json()?;

            let version = answer
                .versions
                .iter()
                .filter_map(|version| parse(&version.id))
                .max()
                .unwrap_or_default();

            self.host.cache(
                &key,
                format!("v{}.{}", version.0, version.1).as_bytes(),
                CACHED,
            );
            version
        };

        Ok(Features::of(version, provider))
    }

    /// Returns which of these extensions Neutron has.
    ///
    /// # Errors
    /// Fails if the request fails.
    pub fn extensions<const N: usize>(&self, aliases: [&str; N]) -> Result<[bool; N]> {
        let key = format!("extensions {}", self.url(Kind::Network, "")?);

        let cached = self
            .host
            .cached(&key)
            .and_then(|cached| String::from_utf8(cached).ok());

        let there = if let Some(cached) = cached {
            cached
        } else {
            let answer: Extensions = self.get(
                Kind::Network,
                "/extensions",
                "cannot list the extensions of Neutron",
            )?;

            let there = answer
                .extensions
                .into_iter()
                .map(|extension| extension.alias)
                .collect::<Vec<_>>()
                .join("\n");

            self.host.cache(&key, there.as_bytes(), CACHED);
            there
        };

        Ok(aliases.map(|alias| there.split('\n').any(|name| name == alias)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse("v2.27"), Some((2, 27)));
        assert_eq!(parse("v2"), Some((2, 0)));
        assert_eq!(parse("2.27"), Some((2, 27)));
        for other in ["x", "vv2.27", "vv2", "v", "v2.", ""] {
            assert_eq!(parse(other), None, "{other}");
        }
        assert!(
            Features::of((2, 9), "amphora").flavors
                && !Features::of((2, 9), "amphora").allowed_cidrs
        );
        assert_eq!(
            Features::of((2, 27), "amphora"),
            Features::of((3, 0), "octavia")
        );
    }

    #[test]
    fn ovn_supports_only_tags() {
        assert_eq!(
            Features::of((2, 27), "ovn"),
            Features {
                tags: true,
                ..Features::default()
            }
        );
    }
}
