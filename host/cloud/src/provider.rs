//! The interface between controllers and clouds.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    CloudError, Instance, LoadBalancerStatus, NewRoute, Node, NodeSet, Presence, ProviderInfo, Route, Service, Zone,
};

/// One answer for each question, in the same order.
pub type Answers<T> = Vec<Result<T, CloudError>>;

/// A cloud provider.
///
/// Each function returns a result or an error in bounded time, and does not panic. All functions may be called concurrently,
/// and repeatedly with the same arguments. A list of answers has the same length as the list of questions. A function that
/// belongs to a capability that [`CloudProvider::info`] does not contain returns [`CloudError::Internal`].
///
/// The meaning of each function is that of the function with the same name in the plugin contract (`wit/`).
#[async_trait]
pub trait CloudProvider: Send + Sync {
    /// Returns the identity of the provider. After the plugin is replaced, everything in it except the name may be different.
    fn info(&self) -> Arc<ProviderInfo>;

    /// Calls `instances.check` with at most [`ProviderInfo::max_batch`] nodes.
    async fn check(&self, nodes: &[Arc<Node>]) -> Result<Answers<Presence>, CloudError>;

    /// Calls `instances.describe` with at most [`ProviderInfo::max_batch`] nodes.
    async fn describe(&self, nodes: &[Arc<Node>]) -> Result<Answers<Instance>, CloudError>;

    /// Calls `load-balancers.get`.
    async fn get_load_balancer(&self, service: &Service) -> Result<Option<LoadBalancerStatus>, CloudError>;

    /// Calls `load-balancers.ensure`.
    async fn ensure_load_balancer(&self, service: &Service, nodes: &NodeSet) -> Result<LoadBalancerStatus, CloudError>;

    /// Calls `load-balancers.update-nodes`.
    async fn update_load_balancer(&self, service: &Service, nodes: &NodeSet) -> Result<(), CloudError>;

    /// Calls `load-balancers.ensure-deleted`.
    async fn ensure_load_balancer_deleted(&self, service: &Service) -> Result<(), CloudError>;

    /// Returns the maximum number of routes that [`CloudProvider::list_routes`] can return; it fails if there are more. `None`
    /// means that there is no limit.
    fn max_routes(&self) -> Option<usize> {
        None
    }

    /// Calls `routes.list-routes` for all pages.
    async fn list_routes(&self) -> Result<Vec<Route>, CloudError>;

    /// Calls `routes.create-routes`.
    async fn create_routes(&self, routes: &[NewRoute]) -> Result<Answers<()>, CloudError>;

    /// Calls `routes.delete-routes`.
    async fn delete_routes(&self, routes: &[Route]) -> Result<Answers<()>, CloudError>;

    /// Calls `zones.locate` with at most [`ProviderInfo::max_batch`] nodes.
    async fn locate(&self, nodes: &[Arc<Node>]) -> Result<Answers<Zone>, CloudError>;

    /// Calls `maintenance.maintain`; returns the delay before the next call.
    async fn maintain(&self) -> Result<Duration, CloudError>;
}
