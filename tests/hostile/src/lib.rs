//! Plugins that misbehave, for the tests of the runtime.
//!
//! The fixtures are the examples of this crate, each a component. Most of them are one small, well-behaved cloud
//! ([`Hostile`]) that turns on its host when a test asks for it: for one object by the annotation
//! [`ANNOTATION`](behaviour::ANNOTATION), or for all calls of one interface by the cloud-config ([`config`]).
//! [`Behaviour`](behaviour::Behaviour) lists what there is.

use std::marker::PhantomData;

use skydock_sdk::plugin::{PluginInfo, Settings};
use skydock_sdk::{Configured, Plugin, Result};

use crate::config::Config;

pub mod behaviour;
pub mod config;
mod instances;
mod load_balancers;
mod misdeed;
mod routes;
mod zones;

/// What a fixture says it is.
pub trait Identity {
    /// `plugin-info.name`.
    const NAME: &str;
    /// `plugin-info.version`.
    const VERSION: &str;
}

/// The cloud, under the name and version of a fixture.
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

/// Prefix of the cloud's provider IDs.
const PREFIX: &str = "hostile://";

/// An address in `10.0.0.0/8` or another range of one byte that is always the same for the same name (FNV-1a).
fn address(range: u8, name: &str) -> String {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [_, a, b, c] = hash.to_be_bytes();
    format!("{range}.{a}.{b}.{c}")
}
