//! Implementation of `CloudProvider` for a plugin.

mod calls;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use skydock_cloud::{
    Answers, CloudError, CloudProvider, Function, Instance, LoadBalancerStatus, Looked, NewRoute,
    Node, NodeSet, Presence, ProviderInfo, Route, Service, Zone,
};

use self::calls::BalancerCall;
use crate::{imports::Subject, plugin::Plugin};

impl Plugin {
    /// Returns the subject of a call about routes to these nodes.
    fn named<'a>(&self, names: impl Iterator<Item = &'a str>) -> Subject {
        let Some(cluster) = self.shared.cluster.get() else {
            return Subject::default();
        };
        let nodes: Vec<_> = names.filter_map(|name| cluster.node(name)).collect();
        Subject::nodes(&nodes)
    }
}

#[async_trait]
impl CloudProvider for Plugin {
    fn info(&self) -> Arc<ProviderInfo> {
        self.current().provider()
    }

    async fn check(&self, nodes: &[Arc<Node>]) -> Result<Answers<Presence>, CloudError> {
        self.call_for_each(Function::Check, Subject::nodes(nodes), |guest| {
            guest.check(nodes)
        })
        .await
    }

    async fn describe(&self, nodes: &[Arc<Node>]) -> Result<Answers<Instance>, CloudError> {
        self.call_for_each(Function::Describe, Subject::nodes(nodes), |guest| {
            guest.describe(nodes)
        })
        .await
    }

    async fn get_load_balancer(
        &self,
        service: &Service,
    ) -> Result<Option<LoadBalancerStatus>, CloudError> {
        self.call(Function::Get, Subject::service(service), |guest| {
            guest.get_load_balancer(service)
        })
        .await
    }

    async fn ensure_load_balancer(
        &self,
        service: &Service,
        nodes: &NodeSet,
    ) -> Result<LoadBalancerStatus, CloudError> {
        let about = BalancerCall {
            subject: Subject::service(service).ensured(),
            uid: &service.uid,
            nodes,
        };

        self.call_with_nodes(Function::Ensure, about, |guest| {
            guest.ensure_load_balancer(service)
        })
        .await
    }

    async fn update_load_balancer(
        &self,
        service: &Service,
        nodes: &NodeSet,
    ) -> Result<(), CloudError> {
        let about = BalancerCall {
            subject: Subject::service(service),
            uid: &service.uid,
            nodes,
        };
        self.call_with_nodes(Function::UpdateNodes, about, |guest| {
            guest.update_load_balancer(service)
        })
        .await
    }

    async fn ensure_load_balancer_deleted(&self, service: &Service) -> Result<(), CloudError> {
        // No generation has the number 0: the entry is only removed.
        self.shared.last_nodes.take(&service.uid, 0);
        self.shared.looked_at.remove(&service.uid);

        let subject = Subject::service(service);
        self.call(Function::EnsureDeleted, subject, |guest| {
            guest.ensure_load_balancer_deleted(service)
        })
        .await
    }

    fn build(&self) -> String {
        self.current().build.clone()
    }

    fn looked_at(&self, service_uid: &str) -> Looked {
        self.shared.looked_at.of(service_uid)
    }

    fn max_routes(&self) -> Option<usize> {
        Some(self.current().limits().routes)
    }

    async fn list_routes(&self) -> Result<Vec<Route>, CloudError> {
        let generation = self.current();
        let limit = generation.limits().routes;
        let mut routes = Vec::new();
        let mut page = None::<String>;

        // A page may be empty, but an endless series of empty pages is an error.
        for _ in 0..=limit {
            let asked = page.take();
            let before = routes.len();

            let call = self.call_on(
                &generation,
                Function::ListRoutes,
                Subject::default(),
                |guest| guest.list_routes(asked.as_deref(), before),
            );
            let (more, next) = call.await?;

            routes.extend(more);
            match next {
                None => return Ok(routes),
                // Another generation may not understand the token of the next page.
                Some(_) if self.current().info.number != generation.info.number => {
                    return Err(CloudError::Conflict(
                        "the plugin was replaced during list-routes".to_owned(),
                    ));
                }
                next => page = next,
            }
        }

        Err(CloudError::Internal(format!(
            "plugin {}, routes.list-routes: the list of routes does not end",
            self.name()
        )))
    }

    async fn create_routes(&self, routes: &[NewRoute]) -> Result<Answers<()>, CloudError> {
        let subject = self.named(routes.iter().map(|route| route.target_node.as_str()));
        self.call_for_each(Function::CreateRoutes, subject, |guest| {
            guest.create_routes(routes)
        })
        .await
    }

    async fn delete_routes(&self, routes: &[Route]) -> Result<Answers<()>, CloudError> {
        let subject = self.named(
            routes
                .iter()
                .filter_map(|route| route.target_node.as_deref()),
        );
        self.call_for_each(Function::DeleteRoutes, subject, |guest| {
            guest.delete_routes(routes)
        })
        .await
    }

    async fn locate(&self, nodes: &[Arc<Node>]) -> Result<Answers<Zone>, CloudError> {
        self.call_for_each(Function::Locate, Subject::nodes(nodes), |guest| {
            guest.locate(nodes)
        })
        .await
    }

    async fn maintain(&self) -> Result<Duration, CloudError> {
        self.call(Function::Maintain, Subject::everything(), |guest| {
            guest.maintain()
        })
        .await
    }
}
