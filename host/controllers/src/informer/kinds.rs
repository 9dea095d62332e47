use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};
use kube::core::Selector;

use super::Kind;
use crate::convert::{self, ConvertError};

impl Kind for Node {
    type View = Arc<skydock_cloud::Node>;

    fn prune(&mut self) {
        if let Some(status) = &mut self.status {
            status.images = None;
            status.volumes_attached = None;
            status.volumes_in_use = None;
            status.config = None;
        }
    }

    fn view(&self) -> Self::View {
        Arc::new(convert::node(self))
    }
}

/// A service as a provider sees it.
#[derive(Clone, Debug)]
pub struct ServiceView {
    /// The service.
    pub service: Arc<skydock_cloud::Service>,
    /// The nodes that it wants behind its load balancer.
    pub node_selector: Selector,
    /// What it asks for and no provider can be told.
    pub problem: Option<ConvertError>,
}

impl Kind for Service {
    type View = ServiceView;

    fn prune(&mut self) {}

    fn view(&self) -> Self::View {
        let (service, problem) = convert::service(self);
        let (node_selector, bad_selector) = match convert::node_selector(self) {
            Ok(selector) => (selector, None),
            Err(error) => (Selector::default(), Some(error)),
        };
        ServiceView { service: Arc::new(service), node_selector, problem: problem.or(bad_selector) }
    }
}
