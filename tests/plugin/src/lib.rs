//! Plugins that misbehave, for tests of the runtime.
//!
//! The fixtures are the examples of this crate, each of which is a component. Most of them are a
//! small, well-behaved cloud ([`Hostile`]) that misbehaves on request: for one object with the
//! annotation [`ANNOTATION`](behavior::ANNOTATION), or for all calls of one interface with the
//! cloud-config ([`config`]). See [`Behavior`](behavior::Behavior) for a list.

use std::marker::PhantomData;

use skydock_sdk::plugin::{PluginInfo, Settings};
use skydock_sdk::{Configured, Plugin, Result};

use crate::config::Config;

pub mod behavior;
pub mod config;
mod instances;
mod load_balancers;
mod misdeed;
mod routes;
mod zones;

/// The identity of a fixture.
pub trait Identity {
    /// `plugin-info.name`.
    const NAME: &str;
    /// `plugin-info.version`.
    const VERSION: &str;
}

/// The cloud with the name and version of a fixture.
#[derive(Debug)]
pub struct Hostile<I>(PhantomData<I>);

static CONFIG: Configured<Config> = Configured::new();

impl<I: Identity> Plugin for Hostile<I> {
    fn configure(settings: Settings) -> Result<()> {
        CONFIG.set(Config::parse(&settings)?);
        Ok(())
    }

    fn info() -> PluginInfo {
        PluginInfo {
            name: I::NAME.into(),
            version: I::VERSION.into(),
            provider_id_prefixes: vec![PREFIX.into()],
            ..PluginInfo::default()
        }
    }
}

/// The prefix of the cloud's provider IDs.
const PREFIX: &str = "hostile://";

/// Returns an address in `10.0.0.0/8`, or in another range with this first byte, that depends only
/// on the name (FNV-1a).
fn address(range: u8, name: &str) -> String {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let [_, a, b, c] = hash.to_be_bytes();
    format!("{range}.{a}.{b}.{c}")
}
