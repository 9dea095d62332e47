//! Dry run: changes are logged and not made. Questions to the cloud are passed on, changes of the
//! cloud are not; the API server validates writes without storing them (see
//! [`skydock_kube::dry_run`]).

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use skydock_cloud::{
    Answers, CloudError, CloudProvider, Instance, LoadBalancerStatus, NewRoute, Node, NodeSet,
    Presence, ProviderInfo, Route, Service, Zone,
};
use skydock_kube::dry_run::{self, Said};

use crate::controller::clients::Clients;

/// Returns a provider and API clients that change nothing. What they would change is reported in
/// `said`.
pub(crate) fn harmless(
    provider: Arc<dyn CloudProvider>,
    clients: &Clients,
    said: &Arc<Said>,
) -> (Arc<dyn CloudProvider>, Clients) {
    let clients = Clients {
        informers: dry_run::client(&clients.informers, said),
        node: dry_run::client(&clients.node, said),
        service: dry_run::client(&clients.service, said),
        route: dry_run::client(&clients.route, said),
    };

    (
        Arc::new(Cloud {
            provider,
            said: Arc::clone(said),
        }),
        clients,
    )
}

/// Forwards queries. Calls that would change the cloud are reported instead. Those about load
/// balancers succeed, so that what would follow is reported, too; those about routes fail with
/// [`CloudError::ImplementedElsewhere`], after which nothing is changed or retried.
struct Cloud {
    provider: Arc<dyn CloudProvider>,
    said: Arc<Said>,
}

impl Cloud {
    fn untold<T>(&self, what: &str) -> Result<T, CloudError> {
        self.said.once(what);
        Err(CloudError::ImplementedElsewhere)
    }
}

fn names(nodes: &[Arc<Node>]) -> String {
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    if names.is_empty() {
        "no nodes".to_owned()
    } else {
        format!("nodes {}", names.join(", "))
    }
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

    async fn get_load_balancer(
        &self,
        service: &Service,
    ) -> Result<Option<LoadBalancerStatus>, CloudError> {
        self.provider.get_load_balancer(service).await
    }

    async fn ensure_load_balancer(
        &self,
        service: &Service,
        nodes: &NodeSet,
    ) -> Result<LoadBalancerStatus, CloudError> {
        let Service {
            namespace, name, ..
        } = service;
        self.said.once(&format!(
            "ensure the load balancer of Service {namespace}/{name} with {}",
            names(nodes)
        ));

        // The Service has this status already, so that none is written.
        Ok(service.status.clone())
    }

    async fn update_load_balancer(
        &self,
        service: &Service,
        nodes: &NodeSet,
    ) -> Result<(), CloudError> {
        let Service {
            namespace, name, ..
        } = service;
        self.said.once(&format!(
            "update the load balancer of Service {namespace}/{name} to {}",
            names(nodes)
        ));
        Ok(())
    }

    async fn ensure_load_balancer_deleted(&self, service: &Service) -> Result<(), CloudError> {
        let Service {
            namespace, name, ..
        } = service;
        self.said.once(&format!(
            "delete the load balancer of Service {namespace}/{name}"
        ));
        Ok(())
    }

    fn max_routes(&self) -> Option<usize> {
        self.provider.max_routes()
    }

    async fn list_routes(&self) -> Result<Vec<Route>, CloudError> {
        self.provider.list_routes().await
    }

    async fn create_routes(&self, routes: &[NewRoute]) -> Result<Answers<()>, CloudError> {
        let created = routes.iter().map(|route| {
            self.untold(&format!(
                "create a route to {} via node {}",
                route.destination_cidr, route.target_node
            ))
        });
        Ok(created.collect())
    }

    async fn delete_routes(&self, routes: &[Route]) -> Result<Answers<()>, CloudError> {
        let deleted = routes.iter().map(|route| {
            self.untold(&format!(
                "delete route {} to {}",
                route.name, route.destination_cidr
            ))
        });
        Ok(deleted.collect())
    }

    async fn locate(&self, nodes: &[Arc<Node>]) -> Result<Answers<Zone>, CloudError> {
        self.provider.locate(nodes).await
    }

    async fn maintain(&self) -> Result<Duration, CloudError> {
        self.untold("run the provider's periodic maintenance")
    }
}

#[cfg(test)]
mod tests;
