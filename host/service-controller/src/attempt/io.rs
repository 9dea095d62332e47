//! The I/O of an attempt: what it does to the cloud, the API server and the memory of the
//! controller, and what it reports.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use skydock_cloud::{CloudError, LoadBalancerStatus, NodeSet};
use skydock_kube::{api::ApiError, events::EventType, queue::Priority};
use tokio::time::Instant;

use super::{
    Failure,
    apply::Write,
    event::{Event, EventText},
};
use crate::{
    NODE_CHANGE_DEBOUNCE, ServiceController, ServiceEntry,
    known::{
        KnownService,
        own_load_balancer::OwnLoadBalancer,
        synced::{Ensured, Synced},
    },
    metrics::reconciliation::Operation,
    nodes::{NodeWork, selection::SelectedNodes},
    record::keeper::unix_time,
};

/// Everything that an attempt does except for its state. Tests script it.
///
/// While a call that may change the load balancer is in flight, and after it has failed, the record
/// for the next process does not contain the Service.
#[async_trait]
pub(crate) trait Io: Send {
    /// Returns the current version of the Service, unless it was deleted or recreated.
    fn present(&self) -> Option<ServiceEntry>;

    /// Selects the nodes for the load balancer.
    async fn select_nodes(&mut self) -> SelectedNodes;

    /// Has the cloud create or change the load balancer, and records what the provider has looked
    /// at of the nodes.
    async fn ensure(&mut self, nodes: &NodeSet) -> Result<LoadBalancerStatus, CloudError>;

    /// The same, but only for the nodes of the load balancer. Metrics count and time the call.
    async fn update_nodes(&mut self, nodes: &NodeSet) -> Result<(), CloudError>;

    /// Asks the cloud whether there is a load balancer.
    async fn get_load_balancer(&mut self) -> Result<Option<LoadBalancerStatus>, CloudError>;

    /// Has the cloud delete the load balancer.
    async fn delete(&mut self) -> Result<(), CloudError>;

    /// Patches the Service.
    async fn write(&mut self, write: Write) -> Result<(), ApiError>;

    /// Removes the Service from memory.
    fn drop_known(&mut self);

    /// Remembers the Service under a different key, so that its successor can use its key.
    fn set_aside(&mut self);

    /// Records and logs that the provider leaves the Service to another implementation. Returns
    /// false if this is recorded already.
    fn leave_to_others(&mut self, own_load_balancer: OwnLoadBalancer) -> bool;

    /// Records that the Service is not left to another implementation.
    fn take_from_others(&mut self);

    /// Logs and counts a failure.
    fn log_and_count(&mut self, failure: &Failure);

    /// Records how long the cloud has answered that an operation is in progress. Returns this time
    /// if it is to be reported.
    fn long_in_progress(&mut self, error: &CloudError) -> Option<Duration>;

    /// Publishes an event.
    fn publish(&mut self, event: Event);
}

/// What the controller does for one attempt.
pub(crate) struct ControllerIo<'a> {
    pub(crate) controller: &'a ServiceController,
    pub(crate) known: &'a KnownService,
    pub(crate) entry: &'a ServiceEntry,
    /// The key under which the Service is remembered.
    pub(crate) key: String,
}

impl ControllerIo<'_> {
    /// Records which fields of the nodes the provider has read in a call. The nodes may have changed
    /// meanwhile.
    fn record_node_fields(&self) {
        let controller = self.controller;
        let service = &self.entry.view.service;
        let node_fields = controller.context.provider.node_fields_read(&service.uid);
        // So far, changes that only such a provider sees have caused no pass.
        if self.known.set_node_fields(node_fields)
            && !controller
                .reads_all_node_fields
                .swap(true, Ordering::SeqCst)
        {
            controller.selection.changed(true);
            controller
                .node_queue
                .add_after(NodeWork::Pass, NODE_CHANGE_DEBOUNCE, Priority::Change);
        }
    }

    /// Counts an operation, unless the cloud has not finished it. `call` is when the last call of it
    /// began.
    fn count<T>(&self, operation: Operation, call: Instant, answer: &Result<T, CloudError>) {
        let error = answer.as_ref().err();
        if let Some(took) = self.known.answered(operation, call, error) {
            let metrics = &self.controller.metrics.reconciliations;
            metrics.ended(operation, took, error.is_some());
        }
    }

    /// Must be called before a call that may change the load balancer, and may have changed it also
    /// if its answer is an error or never arrives. Returns what was certain before.
    async fn before_change(&self) -> Option<Synced> {
        // In this order: a record that is being written either does not contain it, or is completed
        // before the next process is told not to believe it.
        let before = self.known.take_synced();
        if let Some(keeper) = &self.controller.keeper {
            keeper.invalidate(self.entry.uid()).await;
        }
        before
    }

    /// Must be called after a call that was successful. `revision` is the provider before the call;
    /// if it has not ensured the load balancer, or was replaced meanwhile, the next check finds out
    /// about the new one.
    fn after_success(&self, ensured: Ensured, revision: u128) {
        if let Some(keeper) = &self.controller.keeper
            && ensured.revision == revision
            && revision == self.controller.revision()
        {
            self.known.set_synced(ensured);
            keeper.synced(self.entry.uid());
        }
    }
}

#[async_trait]
impl Io for ControllerIo<'_> {
    fn present(&self) -> Option<ServiceEntry> {
        let present = self.controller.services.get(&self.key);
        present.filter(|present| present.uid() == self.entry.uid())
    }

    async fn select_nodes(&mut self) -> SelectedNodes {
        self.controller.selection.of(self.entry).await
    }

    async fn ensure(&mut self, nodes: &NodeSet) -> Result<LoadBalancerStatus, CloudError> {
        let provider = &self.controller.context.provider;
        let service = &self.entry.view.service;
        let revision = self.controller.revision();
        self.before_change().await;
        let start = Instant::now();
        let ensured = provider.ensure_load_balancer(service, nodes).await;
        self.count(Operation::Ensure, start, &ensured);
        self.record_node_fields();
        if let Ok(status) = &ensured {
            let ensured = Ensured {
                version: Arc::clone(self.entry),
                revision,
                checked: unix_time(),
                status: status.clone(),
            };
            self.after_success(ensured, revision);
        }
        ensured
    }

    async fn update_nodes(&mut self, nodes: &NodeSet) -> Result<(), CloudError> {
        let (provider, metrics) = (&self.controller.context.provider, &self.controller.metrics);
        let service = &self.entry.view.service;
        let revision = self.controller.revision();
        let before = self.before_change().await;

        metrics.loadbalancer_sync.inc();
        let start = Instant::now();
        let updated = provider.update_load_balancer(service, nodes).await;
        let latency = &metrics.update_loadbalancer_host_latency;
        latency.observe(start.elapsed().as_secs_f64());
        self.count(Operation::UpdateNodes, start, &updated);

        self.record_node_fields();
        if updated.is_ok()
            && let Some(before) = before
        {
            self.after_success(before.ensured, revision);
        }
        updated
    }

    async fn get_load_balancer(&mut self) -> Result<Option<LoadBalancerStatus>, CloudError> {
        let provider = &self.controller.context.provider;
        provider.get_load_balancer(&self.entry.view.service).await
    }

    async fn delete(&mut self) -> Result<(), CloudError> {
        let provider = &self.controller.context.provider;
        let service = &self.entry.view.service;
        self.before_change().await;
        let start = Instant::now();
        let deleted = provider.ensure_load_balancer_deleted(service).await;
        self.count(Operation::Delete, start, &deleted);
        deleted
    }

    async fn write(&mut self, write: Write) -> Result<(), ApiError> {
        self.controller.write(self.entry, &write).await
    }

    fn drop_known(&mut self) {
        self.controller.known.remove(&self.key);
        // Nothing else removes what the queue remembers about its updates.
        let update = NodeWork::Update(self.key.clone());
        self.controller.node_queue.forget(&update);
    }

    fn set_aside(&mut self) {
        let aside = self.controller.known.set_aside(&self.key, self.entry.uid());
        let key = std::mem::replace(&mut self.key, aside);
        self.controller.node_queue.forget(&NodeWork::Update(key));
    }

    fn leave_to_others(&mut self, own_load_balancer: OwnLoadBalancer) -> bool {
        let present = self.present();
        let service = present.as_deref().unwrap_or(self.entry);
        let is_new = self.controller.address_holders.leave(service);
        if is_new {
            tracing::info!(
                service = self.key,
                load_balancer_may_stay = own_load_balancer != OwnLoadBalancer::None,
                "the provider leaves the Service to another implementation"
            );
        }
        is_new
    }

    fn take_from_others(&mut self) {
        let left_to_others = self.controller.address_holders.left_to_others();
        left_to_others.remove(&self.key);
    }

    fn log_and_count(&mut self, failure: &Failure) {
        let context = &self.controller.context;
        match failure {
            Failure::Nodes(error) => {
                self.controller.metrics.nodesync_error.inc();
                context.cloud_error(&self.key, error);
            }
            Failure::Cloud(_, error) | Failure::Gone(error) | Failure::GetLoadBalancer(error) => {
                context.cloud_error(&self.key, error);
            }
            Failure::Api(_, error) => context.api_error(&self.key, error),
            Failure::Invalid(error) => {
                context.metrics.error(context.controller, "invalid");
                tracing::warn!(service = self.key, "{error}");
            }
        }
    }

    fn long_in_progress(&mut self, error: &CloudError) -> Option<Duration> {
        let context = &self.controller.context;
        let long = context.metrics.long_in_progress(context.controller);
        self.known.track_progress(error, &long)
    }

    fn publish(&mut self, event: Event) {
        let context = &self.controller.context;
        let EventText {
            kind,
            reason,
            message,
        } = event.text();
        match kind {
            EventType::Normal => context.normal(self.entry, reason, message),
            EventType::Warning => context.warning(self.entry, reason, message),
        }
    }
}
