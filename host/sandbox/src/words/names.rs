//! Names in the contract: its version, its package, and its interfaces.

/// Newest version of the contract (`wit/`) that this host supports. Plugins may be built for any
/// version 0.1.x up to it.
pub const CONTRACT: &str = "0.1.1";

/// Name of the contract's package.
pub(crate) const PACKAGE: &str = "skydock:provider";

/// Returns the name of an interface of the package.
pub(crate) fn interface(name: &str) -> String {
    format!("{PACKAGE}/{name}@{CONTRACT}")
}

/// Interfaces of the package that the host provides.
pub(crate) const IMPORTS: &[&str] = &[
    "types",
    "cache",
    "calls",
    "cluster",
    "events",
    "node-sets",
    "objects",
    "storage",
];

/// Name of the interface with objects of the cluster, in any version.
pub(crate) const OBJECTS: &str = "skydock:provider/objects";

/// Name of the interface with the Nodes and Services of the cluster, in any version.
pub(crate) const CLUSTER: &str = "skydock:provider/cluster";

/// Name of the interface that publishes events, in any version.
pub(crate) const EVENTS: &str = "skydock:provider/events";

/// Name of the interface that sends requests, in any version.
pub(crate) const HTTP: &str = "wasi:http/outgoing-handler";
