//! The operations of the contract: get, ensure, update nodes, ensure deleted.

pub(crate) mod create;
pub(crate) mod delete;
mod ensure;
mod previous_process;
mod status;
mod tls_container;
mod update;

pub use delete::ensure_deleted;
pub use ensure::ensure;
pub use status::get;
pub use update::update_nodes;
