//! A cloud that is asked and never told.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use skydock_cloud::{
    Answers, CloudError, CloudProvider, Instance, LoadBalancerStatus, NewRoute, Node, NodeSet, Presence, ProviderInfo,
    Route, Service, Zone,
};

use super::Said;

/// Passes questions on. What would change the cloud is said instead, and answered with
/// [`CloudError::ImplementedElsewhere`]: controllers then leave the object as it is and do not try again.
pub(crate) struct Cloud {
    provider: Arc<dyn CloudProvider>,
    said: Arc<Said>,
}

impl Cloud {
    pub(super) fn new(provider: Arc<dyn CloudProvider>, said: Arc<Said>) -> Self {
        Self { provider, said }
    }

    fn untold<T>(&self, what: &str) -> Result<T, CloudError> {
        self.said.once(what);
        Err(CloudError::ImplementedElsewhere)
    }
}

fn names(nodes: &[Arc<Node>]) -> String {
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    if names.is_empty() { "no nodes".to_owned() } else { format!("nodes {}", names.join(", ")) }
}

#[async_trait]
impl CloudProvider for Cloud {
    fn info(&self) -> Arc<ProviderInfo> {
        self.provider.info()
    }

    async fn check(&self, nodes: &[Arc<Node>]) -> Result<Answers<Presence>, CloudError> {
        self.provider.check(nodes).await
    }

    async fn describe(&self, nodes: &[Arc<Node>]) -> Result<Answers<Instance>, CloudError> {
        self.provider.describe(nodes).await
    }

    async fn get_load_balancer(&self, service: &Service) -> Result<Option<LoadBalancerStatus>, CloudError> {
        self.provider.get_load_balancer(service).await
    }

    async fn ensure_load_balancer(&self, service: &Service, nodes: &NodeSet) -> Result<LoadBalancerStatus, CloudError> {
        let Service { namespace, name, .. } = service;
        self.untold(&format!("ensure the load balancer of service {namespace}/{name} with {}", names(nodes)))
    }

    async fn update_load_balancer(&self, service: &Service, nodes: &NodeSet) -> Result<(), CloudError> {
        let Service { namespace, name, .. } = service;
        self.untold(&format!("give the load balancer of service {namespace}/{name} {}", names(nodes)))
    }

    async fn ensure_load_balancer_deleted(&self, service: &Service) -> Result<(), CloudError> {
        let Service { namespace, name, .. } = service;
        self.untold(&format!("delete the load balancer of service {namespace}/{name}"))
    }

    fn max_routes(&self) -> Option<usize> {
        self.provider.max_routes()
    }

    async fn list_routes(&self) -> Result<Vec<Route>, CloudError> {
        self.provider.list_routes().await
    }

    async fn create_routes(&self, routes: &[NewRoute]) -> Result<Answers<()>, CloudError> {
        let created = routes.iter().map(|route| {
            self.untold(&format!("create a route to {} over node {}", route.destination_cidr, route.target_node))
        });
        Ok(created.collect())
    }

    async fn delete_routes(&self, routes: &[Route]) -> Result<Answers<()>, CloudError> {
        let deleted = routes
            .iter()
            .map(|route| self.untold(&format!("delete route {} to {}", route.name, route.destination_cidr)));
        Ok(deleted.collect())
    }

    async fn locate(&self, nodes: &[Arc<Node>]) -> Result<Answers<Zone>, CloudError> {
        self.provider.locate(nodes).await
    }

    async fn maintain(&self) -> Result<Duration, CloudError> {
        self.untold("do the maintenance that the provider has to do now and then")
    }
}
