//! The cloud-config of the fixtures: one `key: value` per line; `#` starts a comment.
//!
//! | key | value |
//! | --- | --- |
//! | `instances`, `load-balancers`, `routes`, `zones` | the [`Behaviour`] of that interface, unless an object asks for another |
//! | `region` | region of every node, `r1` by default |

use skydock_sdk::Result;
use skydock_sdk::plugin::Settings;
use skydock_sdk::types::CloudError;

use crate::behaviour::Behaviour;

/// What the operator wrote.
#[derive(Debug, PartialEq, Eq)]
pub struct Config {
    /// `--cluster-name`.
    pub cluster_name: String,
    /// Region of every node.
    pub region: String,
    /// Behaviour of `instances`.
    pub instances: Behaviour,
    /// Behaviour of `load-balancers`.
    pub load_balancers: Behaviour,
    /// Behaviour of `routes`.
    pub routes: Behaviour,
    /// Behaviour of `zones`.
    pub zones: Behaviour,
}

impl Config {
    /// Reads the text.
    ///
    /// # Errors
    ///
    /// `invalid` with path and line for what it does not know.
    pub fn parse(settings: &Settings) -> Result<Self> {
        let mut config = Self {
            cluster_name: settings.cluster_name.clone(),
            region: "r1".into(),
            instances: Behaviour::Good,
            load_balancers: Behaviour::Good,
            routes: Behaviour::Good,
            zones: Behaviour::Good,
        };
        let path = settings.cloud_config_path.as_deref().unwrap_or("cloud-config");
        for (number, line) in settings.cloud_config.as_deref().unwrap_or_default().lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            config.set(line).map_err(|reason| CloudError::invalid(format!("{path}:{}: {reason}", number + 1)))?;
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
        *interface = Behaviour::named(value).map_err(|_| format!("there is no behaviour `{value}`"))?;
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
    fn an_interface_is_set_by_its_name() {
        let config = parse("# slow today\n\nroutes: slow\nregion: north\n").unwrap();
        assert_eq!((config.routes, config.zones), (Behaviour::Slow, Behaviour::Good));
        assert_eq!(config.region, "north");
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        let refusal = |text| parse(text).unwrap_err();
        assert_eq!(refusal("region: a\nnonsense"), CloudError::invalid("/etc/cloud:2: expected `key: value`"));
        assert_eq!(refusal("colour: red"), CloudError::invalid("/etc/cloud:1: unknown key `colour`"));
        assert_eq!(refusal("zones: lop"), CloudError::invalid("/etc/cloud:1: there is no behaviour `lop`"));
    }
}
