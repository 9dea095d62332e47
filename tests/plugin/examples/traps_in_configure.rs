//! A plugin that traps in `configure`, after output like that of a panic in Go, which quotes its
//! configuration.
use skydock_sdk::plugin::{PluginInfo, Settings};
use skydock_sdk::{Plugin, Result};

struct Traps;

impl Plugin for Traps {
    #[allow(clippy::print_stderr, reason = "a panic is written there")]
    fn configure(settings: Settings) -> Result<()> {
        eprintln!("starting");
        eprint!(
            "panic: no region in {}\n\n",
            settings.cloud_config.unwrap_or_default()
        );
        for number in 1..100 {
            eprint!("goroutine {number} [running]:\nmain.main()\n\t/src/main.go:{number}\n\n");
        }
        std::process::abort()
    }

    fn info() -> PluginInfo {
        PluginInfo {
            name: "hostile".into(),
            version: "1.0.0".into(),
            ..PluginInfo::default()
        }
    }
}

skydock_sdk::export!(Traps);
