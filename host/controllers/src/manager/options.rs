//! Options of all controllers.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use skydock_service_controller::ServiceOptions;

use crate::{
    ipam::IpamOptions, lifecycle::LifecycleOptions, node::NodeOptions, route::RouteOptions,
};

/// Options of the controllers.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Distinguishes this cluster from others in the same account (`--cluster-name`). The
    /// provider's configuration contains it too.
    pub cluster_name: String,
    /// Options of the node controller.
    pub node: NodeOptions,
    /// Options of the node lifecycle controller.
    pub lifecycle: LifecycleOptions,
    /// Options of the service controller.
    pub services: ServiceOptions,
    /// Options of the node IPAM controller.
    pub ipam: IpamOptions,
    /// Options of the route controller.
    pub routes: RouteOptions,
    /// Maximum time for running calls to end at shutdown.
    pub shutdown_grace: Duration,
    /// Only report what would be done (`--dry-run`).
    pub dry_run: bool,
    /// Object of events that are not about an object of the cluster: the Lease.
    pub process: ObjectReference,
}

impl Default for Options {
    /// Upstream processes one Service at a time, but clouds can handle more.
    fn default() -> Self {
        Self {
            cluster_name: "kubernetes".to_owned(),
            node: NodeOptions::default(),
            lifecycle: LifecycleOptions::default(),
            services: ServiceOptions::default(),
            ipam: IpamOptions::default(),
            routes: RouteOptions::default(),
            shutdown_grace: Duration::from_secs(10),
            dry_run: false,
            process: ObjectReference {
                api_version: Some("coordination.k8s.io/v1".to_owned()),
                kind: Some("Lease".to_owned()),
                namespace: Some("kube-system".to_owned()),
                name: Some("cloud-controller-manager".to_owned()),
                ..ObjectReference::default()
            },
        }
    }
}
