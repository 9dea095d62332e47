//! The interface between controllers and clouds.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    CloudError, Instance, LoadBalancerStatus, Looked, NewRoute, Node, NodeSet, Presence,
    ProviderInfo, Route, Service, Zone,
};

/// One answer for each question, in the same order.
pub type Answers<T> = Vec<Result<T, CloudError>>;

/// A cloud provider.
///
/// Each function returns a result or an error in bounded time, and does not panic. All functions
/// may be called concurrently, and repeatedly with the same arguments. A list of answers has the
/// same length as the list of questions.
///
/// A provider implements the functions of its capabilities ([`CloudProvider::info`]); the others
/// return [`CloudError::ImplementedElsewhere`], which makes controllers change and retry nothing.
///
/// The meaning of each function is that of the function with the same name in the plugin contract
/// (`wit/`).
#[async_trait]
pub trait CloudProvider: Send + Sync {
    /// Returns the identity of the provider. After the plugin is replaced, everything in it except
    /// the name may be different.
    fn info(&self) -> Arc<ProviderInfo>;

    /// Calls `instances.check` with at most [`ProviderInfo::max_batch`] nodes.
    async fn check(&self, _nodes: &[Arc<Node>]) -> Result<Answers<Presence>, CloudError> {
        Err(CloudError::ImplementedElsewhere)
    }

    /// Calls `instances.describe` with at most [`ProviderInfo::max_batch`] nodes.
    async fn describe(&self, _nodes: &[Arc<Node>]) -> Result<Answers<Instance>, CloudError> {
        Err(CloudError::ImplementedElsewhere)
    }

    /// Calls `load-balancers.get`.
    async fn get_load_balancer(
        &self,
        _service: &Service,
    ) -> Result<Option<LoadBalancerStatus>, CloudError> {
        Err(CloudError::ImplementedElsewhere)
    }

    /// Calls `load-balancers.ensure`.
    async fn ensure_load_balancer(
        &self,
        _service: &Service,
        _nodes: &NodeSet,
    ) -> Result<LoadBalancerStatus, CloudError> {
        Err(CloudError::ImplementedElsewhere)
    }

    /// Calls `load-balancers.update-nodes`.
    async fn update_load_balancer(
        &self,
        _service: &Service,
        _nodes: &NodeSet,
    ) -> Result<(), CloudError> {
        Err(CloudError::ImplementedElsewhere)
    }

    /// Calls `load-balancers.ensure-deleted`.
    async fn ensure_load_balancer_deleted(&self, _service: &Service) -> Result<(), CloudError> {
        Err(CloudError::ImplementedElsewhere)
    }

    /// Returns what the provider has looked at of the nodes for the load balancer of the Service
    /// with this UID. It is given these nodes again when that changes.
    fn looked_at(&self, _service_uid: &str) -> Looked {
        Looked::default()
    }

    /// Returns the maximum number of routes that [`CloudProvider::list_routes`] can return; it
    /// fails if there are more. `None` means that there is no limit.
    fn max_routes(&self) -> Option<usize> {
        None
    }

    /// Calls `routes.list-routes` for all pages.
    async fn list_routes(&self) -> Result<Vec<Route>, CloudError> {
        Err(CloudError::ImplementedElsewhere)
    }

    /// Calls `routes.create-routes`.
    async fn create_routes(&self, _routes: &[NewRoute]) -> Result<Answers<()>, CloudError> {
        Err(CloudError::ImplementedElsewhere)
    }

    /// Calls `routes.delete-routes`.
    async fn delete_routes(&self, _routes: &[Route]) -> Result<Answers<()>, CloudError> {
        Err(CloudError::ImplementedElsewhere)
    }

    /// Calls `zones.locate` with at most [`ProviderInfo::max_batch`] nodes.
    async fn locate(&self, _nodes: &[Arc<Node>]) -> Result<Answers<Zone>, CloudError> {
        Err(CloudError::ImplementedElsewhere)
    }

    /// Calls `maintenance.maintain`; returns the delay before the next call.
    async fn maintain(&self) -> Result<Duration, CloudError> {
        Err(CloudError::ImplementedElsewhere)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fmt,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    /// A provider without capabilities.
    struct Nothing;

    impl CloudProvider for Nothing {
        fn info(&self) -> Arc<ProviderInfo> {
            unreachable!("not asked")
        }
    }

    /// Returns the error of a call that never waits.
    fn error<T: fmt::Debug>(call: impl Future<Output = Result<T, CloudError>>) -> CloudError {
        match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer.unwrap_err(),
            Poll::Pending => unreachable!("it waits"),
        }
    }

    #[test]
    fn functions_of_lacking_capabilities_change_nothing() {
        let (service, nodes) = (Service::default(), NodeSet::default());
        for (name, error) in [
            ("check", error(Nothing.check(&[]))),
            ("describe", error(Nothing.describe(&[]))),
            ("get", error(Nothing.get_load_balancer(&service))),
            (
                "ensure",
                error(Nothing.ensure_load_balancer(&service, &nodes)),
            ),
            (
                "update-nodes",
                error(Nothing.update_load_balancer(&service, &nodes)),
            ),
            (
                "ensure-deleted",
                error(Nothing.ensure_load_balancer_deleted(&service)),
            ),
            ("list-routes", error(Nothing.list_routes())),
            ("create-routes", error(Nothing.create_routes(&[]))),
            ("delete-routes", error(Nothing.delete_routes(&[]))),
            ("locate", error(Nothing.locate(&[]))),
            ("maintain", error(Nothing.maintain())),
        ] {
            assert_eq!(error, CloudError::ImplementedElsewhere, "{name}");
        }
        assert_eq!(Nothing.max_routes(), None, "no limit");
    }
}
