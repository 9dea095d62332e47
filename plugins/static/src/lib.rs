//! The default provider: machines and addresses from an inventory file.
//!
//! For clusters without a cloud: the operator lists the machines and the addresses for Services of
//! type LoadBalancer in a file and passes it to the host with `--cloud-config`. See `README.md` for
//! details.
//!
//! The rules are pure functions of values: [`inventory`] reads the file, [`instances`] answers for
//! nodes, [`allocate`] decides about addresses. [`provider`] is the thin layer that connects them
//! to the host.

pub mod desired_load_balancer;
pub mod instances;
pub mod inventory;
pub mod load_balancers;
pub mod machine;
mod pools;
pub mod problem;
pub mod provider;
mod syntax;

pub use pools::allocate;
pub use pools::holders;
pub use pools::pool;
pub use pools::range;

/// The scheme of the provider IDs that this provider creates.
pub const SCHEME: &str = "static://";
