//! The cloud-config of the fixtures: one `key: value` per line; `#` starts a comment.
//!
//! | key | value |
//! | --- | --- |
//! | `instances`, `load-balancers`, `routes`, `zones` | the [`Behavior`] of the interface, unless an object requests another one
//! |
//! | `region` | the region of all nodes, `r1` by default |

use skydock_sdk::Result;
use skydock_sdk::plugin::Settings;
use skydock_sdk::types::CloudError;

use crate::behavior::Behavior;

/// The parsed configuration.
#[derive(Debug, PartialEq, Eq)]
pub struct Config {
    /// `--cluster-name`.
    pub cluster_name: String,
    /// The region of all nodes.
    pub region: String,
    /// The behavior of `instances`.
    pub instances: Behavior,
    /// The behavior of `load-balancers`.
    pub load_balancers: Behavior,
    /// The behavior of `routes`.
    pub routes: Behavior,
    /// The behavior of `zones`.
    pub zones: Behavior,
}

impl Config {
    /// Parses the text.
    ///
    /// # Errors
    ///
    /// Returns `invalid` with path and line for an unknown key or value.
    pub fn parse(settings: &Settings) -> Result<Self> {
        let mut config = Self {
            cluster_name: settings.cluster_name.clone(),
            region: "r1".into(),
            instances: Behavior::Good,
            load_balancers: Behavior::Good,
            routes: Behavior::Good,
            zones: Behavior::Good,
        };
        let path = settings
            .cloud_config_path
            .as_deref()
            .unwrap_or("cloud-config");
        for (number, line) in settings
            .cloud_config
            .as_deref()
            .unwrap_or_default()
            .lines()
            .enumerate()
        {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            config.set(line).map_err(|reason| {
                CloudError::invalid(format!("{path}:{}: {reason}", number + 1))
            })?;
        }
        Ok(config)
    }

    fn set(&mut self, line: &str) -> std::result::Result<(), String> {
        let (key, value) = line.split_once(':').ok_or("expected `key: value`")?;
        let value = value.trim();
        let interface = match key {
            "region" => {
                self.region = value.into();
                return Ok(());
            }
            "instances" => &mut self.instances,
            "load-balancers" => &mut self.load_balancers,
            "routes" => &mut self.routes,
            "zones" => &mut self.zones,
            _ => return Err(format!("unknown key `{key}`")),
        };
        *interface =
            Behavior::named(value).map_err(|_| format!("there is no behavior `{value}`"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config> {
        Config::parse(&Settings {
            cloud_config: Some(text.into()),
            cloud_config_path: Some("/etc/cloud".into()),
            ..Settings::default()
        })
    }

    #[test]
    fn a_behavior_is_set_per_interface() {
        let config = parse("# slow today\n\nroutes: slow\nregion: north\n").unwrap();
        assert_eq!(
            (config.routes, config.zones),
            (Behavior::Slow, Behavior::Good)
        );
        assert_eq!(config.region, "north");
    }

    #[test]
    fn rejects_invalid_lines_with_their_number() {
        let rejection = |text| parse(text).unwrap_err();
        assert_eq!(
            rejection("region: a\nnonsense"),
            CloudError::invalid("/etc/cloud:2: expected `key: value`")
        );
        assert_eq!(
            rejection("color: red"),
            CloudError::invalid("/etc/cloud:1: unknown key `color`")
        );
        assert_eq!(
            rejection("zones: lop"),
            CloudError::invalid("/etc/cloud:1: there is no behavior `lop`")
        );
    }
}
