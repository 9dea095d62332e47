//! What is known of the controller before it runs.

use std::sync::Arc;

use skydock_cloud::Capability;

use super::ServiceController;
use crate::{ClientName, descriptor::Descriptor};

/// The service controller.
pub static CONTROLLER: Descriptor = Descriptor {
    name: "service-lb-controller",
    alias: "service",
    client: ClientName::Service,
    event_source: "service-controller",
    needs: Some(Capability::LoadBalancers),
    needs_services: true,
    disabled_by: |_| None,
    build: |setup| {
        let (services, options) = (Arc::clone(setup.services), setup.options.services.clone());
        let others = (setup.notes.written(), setup.reads);
        Ok(Arc::new(ServiceController::new(setup.shared, setup.client, services, options, others)))
    },
};
