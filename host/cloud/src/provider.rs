//! The door between controllers and clouds.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    CloudError, Instance, LoadBalancerStatus, NewRoute, Node, NodeSet, Presence, ProviderInfo, Route, Service, Zone,
};

/// One answer per question, in the order of the questions.
pub type Answers<T> = Vec<Result<T, CloudError>>;

/// A cloud.
///
/// Each function ends in bounded time with an answer or an error; none panics; all may be called at the same time, and
/// again with the same arguments. Lists of answers are as long as the lists of questions. A function of a capability that
/// [`CloudProvider::info`] does not name answers [`CloudError::Internal`].
///
/// The meaning of each function is that of the function of the same name in the contract (`wit/`).
#[async_trait]
pub trait CloudProvider: Send + Sync {
    /// Who the provider is now; a swap may change all but the name.
    fn info(&self) -> Arc<ProviderInfo>;

    /// `instances.check`; at most [`ProviderInfo::max_batch`] nodes.
    async fn check(&self, nodes: &[Arc<Node>]) -> Result<Answers<Presence>, CloudError>;

    /// `instances.describe`; at most [`ProviderInfo::max_batch`] nodes.
    async fn describe(&self, nodes: &[Arc<Node>]) -> Result<Answers<Instance>, CloudError>;

    /// `load-balancers.get`.
    async fn get_load_balancer(&self, service: &Service) -> Result<Option<LoadBalancerStatus>, CloudError>;

    /// `load-balancers.ensure`.
    async fn ensure_load_balancer(&self, service: &Service, nodes: &NodeSet) -> Result<LoadBalancerStatus, CloudError>;

    /// `load-balancers.update-nodes`.
    async fn update_load_balancer(&self, service: &Service, nodes: &NodeSet) -> Result<(), CloudError>;

    /// `load-balancers.ensure-deleted`.
    async fn ensure_load_balancer_deleted(&self, service: &Service) -> Result<(), CloudError>;

    /// Most routes that [`CloudProvider::list_routes`] gives; with more it fails. `None` is no limit.
    fn max_routes(&self) -> Option<usize> {
        None
    }

    /// `routes.list-routes`.
    async fn list_routes(&self) -> Result<Vec<Route>, CloudError>;

    /// `routes.create-routes`.
    async fn create_routes(&self, routes: &[NewRoute]) -> Result<Answers<()>, CloudError>;

    /// `routes.delete-routes`.
    async fn delete_routes(&self, routes: &[Route]) -> Result<Answers<()>, CloudError>;

    /// `zones.locate`; at most [`ProviderInfo::max_batch`] nodes.
    async fn locate(&self, nodes: &[Arc<Node>]) -> Result<Answers<Zone>, CloudError>;

    /// `maintenance.maintain`; answers when to come again.
    async fn maintain(&self) -> Result<Duration, CloudError>;
}
