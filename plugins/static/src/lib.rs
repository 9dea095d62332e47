//! The default provider: machines and addresses from an inventory file.
//!
//! For clusters without a cloud: the operator writes down which machines there are and which addresses Services of type
//! LoadBalancer may have, and gives the file to the host with `--cloud-config`. `README.md` has the whole of it.
//!
//! The rules are values in, values out: [`inventory`] reads the file, [`instances`] answers for nodes, [`allocate`]
//! decides about addresses. [`provider`] is the thin edge to the host.

pub mod allocate;
pub mod holders;
pub mod instances;
pub mod inventory;
pub mod load_balancers;
pub mod machine;
pub mod pool;
pub mod problem;
pub mod provider;
pub mod range;
pub mod request;
mod syntax;

/// Scheme of the provider IDs that this provider makes.
pub const SCHEME: &str = "static://";
