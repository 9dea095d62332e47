//! A plugin that never returns from `configure`.
use skydock_sdk::plugin::{PluginInfo, Settings};
use skydock_sdk::{Plugin, Result};

struct Loops;

impl Plugin for Loops {
    fn configure(_: Settings) -> Result<()> {
        loop {
            std::hint::black_box(());
        }
    }

    fn info() -> PluginInfo {
        PluginInfo {
            name: "hostile".into(),
            version: "1.0.0".into(),
            ..PluginInfo::default()
        }
    }
}

skydock_sdk::export!(Loops);
