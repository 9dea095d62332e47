//! Names in the contract.

/// Version of the contract (`wit/`) that this host supports. All versions 0.1.x are compatible.
pub const CONTRACT: &str = "0.1.0";

/// Name of the contract's package.
pub(crate) const PACKAGE: &str = "skydock:provider";

/// Interfaces of the package that the host provides.
pub(crate) const IMPORTS: &[&str] = &[
    "types",
    "cache",
    "calls",
    "cluster",
    "events",
    "node-sets",
    "objects",
];

/// Name of the interface with objects of the cluster, in any version.
pub(crate) const OBJECTS: &str = "skydock:provider/objects";

/// Name of the interface with the Nodes and Services of the cluster, in any version.
pub(crate) const CLUSTER: &str = "skydock:provider/cluster";

/// Name of the interface that publishes events, in any version.
pub(crate) const EVENTS: &str = "skydock:provider/events";

/// Name of the interface that sends requests, in any version.
pub(crate) const HTTP: &str = "wasi:http/outgoing-handler";
