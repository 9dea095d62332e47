//! Provider IDs: `openstack:///ID`, or `openstack://REGION/ID` for clusters that span regions.

use crate::config::Config;

/// The scheme of the provider IDs.
const SCHEME: &str = "openstack://";

/// The target of a provider ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference<'a> {
    /// The server with this ID.
    Server(&'a str),
    /// A server of another region, or a resource of another provider.
    NotOurs,
}

/// Parses a provider ID.
#[must_use]
pub fn read<'a>(config: &Config, provider_id: &'a str) -> Reference<'a> {
    let parts = provider_id
        .strip_prefix(SCHEME)
        .and_then(|rest| rest.split_once('/'));

    // Each region has its own cloud controller manager.
    match parts {
        Some((region, id))
            if !id.is_empty()
                && !id.contains('/')
                && (region.is_empty() || region == config.global.region) =>
        {
            Reference::Server(id)
        }
        _ => Reference::NotOurs,
    }
}

/// Returns the provider ID of a server.
#[must_use]
pub fn of(config: &Config, id: &str) -> String {
    let region = if config.regional_ids {
        config.global.region.as_str()
    } else {
        ""
    };
    format!("{SCHEME}{region}/{id}")
}

/// Returns the prefixes of this provider's provider IDs: without a region, and with the configured
/// region.
#[must_use]
pub fn prefixes(config: &Config) -> Vec<String> {
    let region = &config.global.region;
    let own = (!region.is_empty()).then(|| format!("{SCHEME}{region}/"));
    [format!("{SCHEME}/")].into_iter().chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Global;

    fn config(regional_ids: bool) -> Config {
        let global = Global {
            region: "one".to_owned(),
            ..Global::default()
        };
        Config {
            global,
            regional_ids,
            ..Config::default()
        }
    }

    #[test]
    fn provider_ids_of_other_regions_are_not_ours() {
        let config = config(false);
        assert_eq!(read(&config, "openstack:///7"), Reference::Server("7"));
        assert_eq!(read(&config, "openstack://one/7"), Reference::Server("7"));
        for other in [
            "openstack://two/7",
            "openstack://7",
            "openstack:///",
            "openstack:///7/8",
            "aws:///7",
            "7",
        ] {
            assert_eq!(read(&config, other), Reference::NotOurs, "{other}");
        }
    }

    #[test]
    fn provider_ids_have_the_region_if_configured() {
        assert_eq!(of(&config(false), "7"), "openstack:///7");
        assert_eq!(of(&config(true), "7"), "openstack://one/7");
        assert_eq!(
            prefixes(&config(false)),
            ["openstack:///", "openstack://one/"]
        );
    }
}
