use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};

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
    /// What it asks for and no provider can be told.
    pub problem: Option<ConvertError>,
}

impl Kind for Service {
    type View = ServiceView;

    fn prune(&mut self) {}

    fn view(&self) -> Self::View {
        let (service, problem) = convert::service(self);
        ServiceView { service: Arc::new(service), problem }
    }
}
