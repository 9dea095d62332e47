//! Clients of the API server.

use kube::Client;
use skydock_kube::api::with_deadline;

use crate::protobuf::with_nodes_in_protobuf;

/// API clients, one for each client name of the controllers ([`Controller::client_name`]); they may be the same client.
#[derive(Clone)]
pub struct Clients {
    /// Client for watching nodes and Services, and for events.
    pub informers: Client,
    /// Client of the node, node lifecycle and node IPAM controllers.
    pub node: Client,
    /// Client of the service controller.
    pub service: Client,
    /// Client of the route controller.
    pub route: Client,
}

impl Clients {
    /// Returns the clients with timeouts for all requests. The client of the informers reads nodes in protobuf.
    pub(crate) fn with_deadlines(self) -> Self {
        let Self { informers, node, service, route } = &self;
        Self {
            informers: with_nodes_in_protobuf(&with_deadline(informers)),
            node: with_deadline(node),
            service: with_deadline(service),
            route: with_deadline(route),
        }
    }
}
