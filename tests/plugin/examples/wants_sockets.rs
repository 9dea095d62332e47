//! A plugin that tries to use the network without the host: it imports `wasi:sockets`.
//!
//! It does not use `std::net`, because not every C library for WebAssembly supports sockets.
use skydock_sdk::plugin::{PluginInfo, Settings};
use skydock_sdk::{Plugin, Result};

/// The network interface of WASI.
mod network {
    #![allow(unsafe_code, missing_docs, unreachable_pub, reason = "generated")]
    wit_bindgen::generate!({ path: "wit-sockets", world: "network", generate_all });
}

use network::wasi::sockets::instance_network::instance_network;

struct Caller;

impl Plugin for Caller {
    fn configure(_: Settings) -> Result<()> {
        drop(instance_network());
        Ok(())
    }

    fn info() -> PluginInfo {
        PluginInfo {
            name: "hostile".into(),
            version: "1.0.0".into(),
            ..PluginInfo::default()
        }
    }
}

skydock_sdk::export!(Caller);
