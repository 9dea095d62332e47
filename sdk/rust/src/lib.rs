//! Write a [Skydock](https://github.com/skydock/skydock) cloud provider in Rust.
//!
//! A provider is a type without fields that implements [`Plugin`] and the capabilities of its
//! cloud, for example [`Instances`] and [`LoadBalancers`]. [`export!`] lists them; **the host only
//! uses what is exported**, so you do not need to write stubs.
//!
//! ```
//! use skydock_sdk::instances::{Instance, Presence};
//! use skydock_sdk::plugin::{PluginInfo, Settings};
//! use skydock_sdk::types::{CloudError, Node};
//! use skydock_sdk::{Configured, Instances, Lookup, Plugin, Result, log};
//!
//! /// A cloud in which the operator's configuration is the name of the only region.
//! struct Metal;
//!
//! static REGION: Configured<String> = Configured::new();
//!
//! impl Plugin for Metal {
//!     fn configure(settings: Settings) -> Result<()> {
//!         let path = settings.cloud_config_path.unwrap_or_default();
//!         let region = settings.cloud_config.unwrap_or_default().trim().to_owned();
//!         if region.is_empty() {
//!             return Err(CloudError::invalid(format!("{path}: name the region")));
//!         }
//!         log::info("config", format_args!("region {region}"));
//!         REGION.set(region);
//!         Ok(())
//!     }
//!
//!     fn info() -> PluginInfo {
//!         PluginInfo {
//!             name: "metal".into(),
//!             version: env!("CARGO_PKG_VERSION").into(),
//!             provider_id_prefixes: vec!["metal://".into()],
//!             ..PluginInfo::default()
//!         }
//!     }
//! }
//!
//! impl Instances for Metal {
//!     fn check(nodes: Vec<Node>) -> Result<Vec<Result<Presence>>> {
//!         Ok(nodes.iter().map(|_| Ok(Presence::Running)).collect())
//!     }
//!
//!     fn describe(nodes: Vec<Node>) -> Result<Vec<Result<Instance>>> {
//!         let region = REGION.get()?;
//!         Ok(nodes.iter().map(|node| describe(node, &region)).collect())
//!     }
//! }
//!
//! /// The rule, apart from its edge: a value in, a value out.
//! fn describe(node: &Node, region: &str) -> Result<Instance> {
//!     let rack = node.labels.lookup("metal.example/rack").ok_or_else(|| CloudError::not_found("no rack"))?;
//!     Ok(Instance {
//!         provider_id: Some(format!("metal://{rack}/{}", node.name)),
//!         region: Some(region.to_owned()),
//!         ..Instance::default()
//!     })
//! }
//!
//! skydock_sdk::export!(Metal: instances);
//!
//! // The same code runs natively, for example in a unit test.
//! Metal::configure(Settings { cloud_config: Some("north".into()), ..Settings::default() })?;
//! let node = Node {
//!     name: "n1".into(),
//!     labels: vec![("metal.example/rack".into(), "r7".into())],
//!     ..Node::default()
//! };
//! let answer = Metal::describe(vec![node.clone(), Node::default()])?;
//! assert_eq!(answer[0].as_ref().unwrap().provider_id.as_deref(), Some("metal://r7/n1"));
//! assert_eq!(answer[1], Err(CloudError::not_found("no rack")));
//! # Ok::<(), CloudError>(())
//! ```
//!
//! Set the crate type to `cdylib` (and `rlib`, for tests), and build it with `cargo build --release
//! --target wasm32-wasip2`. `skydock plugin new NAME` creates such a crate.
//!
//! # The host
//!
//! [`cache`], [`calls`], [`cluster`], [`events`], [`objects`] and
//! [`NodeSet`](load_balancers::NodeSet) call the host and only work in a plugin; natively they
//! panic with a message. Use them at the edge of your code, and pass their results to your rules as
//! values or closures. [`log`] and [`http`], which sends requests to the cloud, work everywhere.
//!
//! Any call may be repeated, also after its answer was lost, and must then lead to the same result.
//! The case of a [`CloudError`](types::CloudError), not its text, decides what the host does next.
//! A panic ends the call and the instance: the host repeats calls about several nodes in smaller
//! batches, and the other instances are not affected.
//!
//! An instance of a plugin handles one call at a time, and is configured when it is created.
//! Instances are replaced at any time: state that must last belongs in the cloud, in the cluster's
//! objects or in [`cache`]. A `static` belongs to one instance and is not visible to others.
//!
//! # Limits
//!
//! A call has 2 s of CPU time, not counting waits, and 30 s of wall-clock time, or 120 s if it may
//! change the cloud; an instance has 128 MiB of memory. `wit/v0.1.1/plugin.wit` lists all limits;
//! operators can change them. In `configure` and `info`, cluster, cache and network are not
//! available.

mod bindings;
pub mod calls;
mod capabilities;
mod configured;
mod error;
pub mod http;
mod imports;
mod lookup;
mod metadata;
mod node_sets;

pub use capabilities::*;
pub use configured::Configured;
pub use error::Result;
pub use imports::{cache, cluster, events, log, objects};
pub use lookup::Lookup;

/// Nodes, Services, and the errors of a cloud.
pub mod types {
    pub use crate::bindings::imports::skydock::provider::types::{
        AddressKind, CloudError, Ingress, IpFamily, IpFamilyPolicy, IpMode, LoadBalancerStatus,
        Node, NodeAddress, Pair, PortStatus, Retry, Service, ServicePort, Taint, TaintEffect,
        TrafficPolicy, Transport,
    };
}

/// What the interfaces about volumes and snapshots share: the rules for their functions, types, and
/// errors. The contract:
///
/// ```wit
#[doc = include_str!("../wit/v0.1.1/storage.wit")]
/// ```
pub mod storage {
    pub use crate::bindings::imports::skydock::provider::storage::{
        AccessMode, Owner, StorageError, Topology, VolumeCapability,
    };
}

/// The example in the README, which is compiled with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Panics in a native build with a message, where the generated code would only abort.
#[allow(
    clippy::panic,
    reason = "a test that calls the host is to be told so, and nothing else is built natively"
)]
#[track_caller]
fn inside_a_plugin() {
    #[cfg(not(target_arch = "wasm32"))]
    panic!(
        "the host's interfaces exist only inside a plugin; hand the rule under test a value or a closure instead"
    );
}
