//! A plugin that traps in `configure`.
use skydock_sdk::plugin::{PluginInfo, Settings};
use skydock_sdk::{Plugin, Result};

struct Traps;

impl Plugin for Traps {
    fn configure(_: Settings) -> Result<()> {
        std::process::abort()
    }

    fn info() -> PluginInfo {
        PluginInfo { name: "hostile".into(), version: "1.0.0".into(), ..PluginInfo::default() }
    }
}

skydock_sdk::export!(Traps);
