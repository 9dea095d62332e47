//! What is known of the controller before it runs.

use skydock_cloud::Capability;
use skydock_controller_base::controller::{
    clients::ClientName,
    descriptor::{Descriptor, NeedsServices},
};

/// The service controller.
pub static CONTROLLER: Descriptor = Descriptor {
    name: "service-lb-controller",
    alias: "service",
    client: ClientName::Service,
    event_source: "service-controller",
    needs: Some(Capability::LoadBalancers),
    needs_services: NeedsServices::Yes,
};
