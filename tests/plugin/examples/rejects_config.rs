//! A plugin that rejects every configuration.
use skydock_sdk::plugin::{PluginInfo, Settings};
use skydock_sdk::types::CloudError;
use skydock_sdk::{Plugin, Result};

struct Rejects;

impl Plugin for Rejects {
    fn configure(_: Settings) -> Result<()> {
        Err(CloudError::invalid(
            "inventory.yaml:3: machine n1 is listed twice",
        ))
    }

    fn info() -> PluginInfo {
        PluginInfo {
            name: "hostile".into(),
            version: "1.0.0".into(),
            ..PluginInfo::default()
        }
    }
}

skydock_sdk::export!(Rejects);
