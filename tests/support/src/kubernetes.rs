//! Names that Kubernetes gives.

/// The taint of a Node until a cloud-controller-manager has initialized it.
pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// The taint of a Node whose instance is stopped.
pub const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// The finalizer of a Service that has a load balancer.
pub const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
