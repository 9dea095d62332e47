//! Manages load balancers of Services.
//!
//! This is upstream's service-lb-controller, with these differences:
//!
//! - Every case of error of the cloud is handled in all calls.
//! - Several changes of nodes are handled in one pass, and a Service is never processed twice at
//!   the same time.
//! - A load balancer is deleted even if its Service has disappeared without a cleanup.
//! - What the cloud has lost or changed by itself is fixed by a slow check
//!   ([`ServiceOptions::check_period`]). Checks, including those after a start, are paced, have a
//!   lower priority than changes, and write nothing if there is nothing to do.
//! - A restart continues where the last process stopped: which nodes each load balancer has, and
//!   when its next check is due, is kept in the cluster (`record.rs`).
//! - A Service can select its nodes with the annotation
//!   [`ANNOTATION_NODE_SELECTOR`](skydock_controller_base::objects::constants::ANNOTATION_NODE_SELECTOR).
//!
//! Rejections by the cloud are reported by events, not by a condition: the only condition that
//! Kubernetes defines for Services, `LoadBalancerPortsError`, is about ports, whose errors are in
//! `status.loadBalancer.ingress`.

#![forbid(unsafe_code)]

mod attempt;
mod follow;
mod known;
mod metrics;
mod nodes;
mod options;
pub mod plan;
mod record;
mod sync;
pub mod unserved;

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use kube::Client;
use skydock_cloud::Capability;
use skydock_controller_base::{
    controller::{
        annotations::WrittenAnnotations,
        clients::ClientName,
        context::{ControllerContext, counted::Counted},
        descriptor::{Descriptor, NeedsServices},
    },
    objects::{address_holders::AddressHolders, kinds::ServiceKind, read_objects::ReadObjects},
};
use skydock_kube::{
    informer::{Change, Entry, Informer},
    queue::{Limiter, Priority, Queue},
};

pub use self::metrics::ServiceMetrics;
pub use self::options::{ClassError, Classes, NodeRules, ServiceOptions, parse_class};
pub use self::record::keeper::{ANNOTATION, RecordStore, config_map};
use self::{
    follow::ServiceFollower,
    known::KnownServices,
    nodes::{NodeWork, Passes, follow::NodeFollower, selection::Selection},
    plan::schedule,
    record::keeper::Keeper,
};

/// What is known of the controller before it runs.
pub static CONTROLLER: Descriptor = Descriptor {
    name: "service-lb-controller",
    alias: "service",
    client: ClientName::Service,
    event_source: "service-controller",
    needs: Some(Capability::LoadBalancers),
    needs_services: NeedsServices::Yes,
};

/// Time for which changes of nodes are gathered before load balancers are updated: a scale-up
/// changes many nodes at once.
const NODE_CHANGE_DEBOUNCE: Duration = Duration::from_millis(100);

/// Time after which the address of a load balancer is checked again because another object got it:
/// whoever can give addresses to objects can do so all the time.
const ADDRESS_CONFLICT_DELAY: Duration = Duration::from_secs(10);

type ServiceEntry = Arc<Entry<ServiceKind>>;

/// The service controller. `follow.rs` queues Services that change, and `sync.rs` takes them from
/// the queue. `attempt.rs` lets one worker at a time do what a Service needs, which is in its
/// modules `ensure`, `cleanup` and `update_nodes`. `nodes/follow.rs` queues a pass when nodes
/// change, and `nodes.rs` finds the load balancers that need an update.
pub struct ServiceController {
    context: ControllerContext,
    metrics: ServiceMetrics,
    client: Client,
    services: Arc<Informer<ServiceKind>>,
    options: ServiceOptions,
    queue: Arc<Queue<String>>,
    node_queue: Arc<Queue<NodeWork>>,
    passes: Arc<Passes>,
    known: Arc<KnownServices>,
    selection: Arc<Selection>,
    address_holders: Arc<AddressHolders>,
    /// Set once the provider reads all fields of nodes for one of the Services, and never cleared: if
    /// it no longer does, passes find that there is nothing to update.
    reads_all_node_fields: Arc<AtomicBool>,
    written_annotations: Arc<WrittenAnnotations>,
    read_objects: Arc<ReadObjects>,
    /// What is left to the next process. `None` without leader election or checks: then each
    /// process begins without knowing anything.
    keeper: Option<Keeper>,
    restoring: Arc<AtomicBool>,
}

/// What the controller needs besides its caches and clients, and shares with others.
pub struct ServiceDependencies<'a> {
    /// Annotations that were written for the provider.
    pub written_annotations: Arc<WrittenAnnotations>,
    /// Objects that the provider reads.
    pub read_objects: &'a Arc<ReadObjects>,
    /// What has which addresses.
    pub address_holders: &'a Arc<AddressHolders>,
    /// Where a process leaves what it knows to the next one.
    pub records: Option<RecordStore>,
}

impl ServiceController {
    /// Creates the controller. It queues the Services of the cache, and follows the caches.
    pub fn new(
        context: ControllerContext,
        metrics: ServiceMetrics,
        client: Client,
        services: Arc<Informer<ServiceKind>>,
        mut options: ServiceOptions,
        dependencies: ServiceDependencies<'_>,
    ) -> Self {
        let ServiceDependencies {
            written_annotations,
            read_objects,
            address_holders,
            records,
        } = dependencies;
        options.concurrent_syncs = options.concurrent_syncs.max(1);

        let queue = Arc::new(Queue::new(
            Limiter::SERVICES,
            context.metrics.queue("service"),
        ));
        let node_queue = Arc::new(Queue::new(Limiter::SERVICES, context.metrics.queue("node")));
        let selection = Arc::new(Selection::new(Arc::clone(&context.nodes), options.nodes));
        // Without checks, only a restart finds what the cloud has lost.
        let period = options.check_period.filter(|period| !period.is_zero());
        let keeper = records
            .zip(period)
            .map(|(records, period)| Keeper::new(records, period));
        let restoring = Arc::new(AtomicBool::new(keeper.is_some()));

        let controller = Self {
            context,
            metrics,
            client,
            services,
            options,
            queue,
            node_queue,
            passes: Arc::default(),
            known: Arc::default(),
            selection,
            address_holders: Arc::clone(address_holders),
            reads_all_node_fields: Arc::default(),
            written_annotations,
            read_objects: Arc::clone(read_objects),
            keeper,
            restoring,
        };

        controller.count_services();
        controller.follow_services();

        let queue = Arc::clone(&controller.queue);
        read_objects.subscribe(move |reader| queue.add(reader, Priority::Change));

        // The answer is checked again, so that an event names both objects.
        let queue = Arc::clone(&controller.queue);
        address_holders
            .subscribe(move |key| queue.add_after(key, ADDRESS_CONFLICT_DELAY, Priority::Change));

        controller.follow_nodes();

        // Nodes may have changed while there was no leader.
        controller
            .node_queue
            .add_after(NodeWork::Pass, NODE_CHANGE_DEBOUNCE, Priority::Change);

        controller
    }

    /// Lets metrics count the Services.
    fn count_services(&self) {
        let services = Arc::clone(&self.services);
        let known = Arc::clone(&self.known);
        let classes = self.options.classes.clone();

        self.metrics.states.set(move || {
            let entries = services.list();
            let waiting = entries.iter().filter(|entry| {
                schedule::appeared(&entry.object, &classes).is_some()
                    && known.get(&entry.key()).is_none()
            });
            let waiting = u64::try_from(waiting.count()).unwrap_or(u64::MAX);
            Counted::States(known.count(waiting))
        });
    }

    fn follow_services(&self) {
        // All Services are added at once; the pace depends on their number and has to be set before
        // the first is taken.
        self.queue
            .pace(self.options.pace(self.services.list().len()));

        let follower = ServiceFollower {
            queue: Arc::clone(&self.queue),
            known: Arc::clone(&self.known),
            classes: self.options.classes.clone(),
            written_annotations: Arc::clone(&self.written_annotations),
            left_to_others: self.address_holders.left_to_others(),
            restoring: Arc::clone(&self.restoring),
        };

        self.services.subscribe(move |change| match change {
            Change::Added(new) => follower.added(new),
            Change::Updated(old, new) => follower.updated(old, new),
            Change::Deleted(old) => follower.deleted(old),
        });
    }

    fn follow_nodes(&self) {
        let follower = NodeFollower {
            queue: Arc::clone(&self.node_queue),
            known: Arc::clone(&self.known),
            selection: Arc::clone(&self.selection),
            passes: Arc::clone(&self.passes),
            rules: self.options.nodes,
            reads_all_node_fields: Arc::clone(&self.reads_all_node_fields),
        };

        self.context
            .nodes
            .subscribe(move |change| follower.changed(&change));
    }
}

#[cfg(test)]
mod tests;
