//! Clients of the API server, by the user agents and service accounts of controllers.

use kube::Client;
use skydock_kube::api::with_deadline;

/// The name of an API client: the suffix of the user agent, and the service account under
/// `--use-service-account-credentials`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientName {
    /// `node-controller`.
    Node,
    /// `service-controller`.
    Service,
    /// `route-controller`.
    Route,
}

impl ClientName {
    /// Returns the name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node-controller",
            Self::Service => "service-controller",
            Self::Route => "route-controller",
        }
    }
}

/// API clients, one for each name; they may be the same client.
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
    /// Returns the client with this name.
    pub fn named(&self, name: ClientName) -> &Client {
        match name {
            ClientName::Node => &self.node,
            ClientName::Service => &self.service,
            ClientName::Route => &self.route,
        }
    }

    /// Returns the clients with timeouts for all requests.
    pub fn with_deadlines(self) -> Self {
        let Self {
            informers,
            node,
            service,
            route,
        } = &self;

        Self {
            informers: with_deadline(informers),
            node: with_deadline(node),
            service: with_deadline(service),
            route: with_deadline(route),
        }
    }
}
