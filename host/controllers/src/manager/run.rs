//! Starts the controllers, fills their caches, and stops them in order.

mod controllers;

use std::{collections::BTreeSet, sync::Arc};

use skydock_cloud::{CloudProvider, Cluster};
use skydock_controller_base::controller::clients::Clients;
use skydock_csi::Controller as CsiController;
use skydock_kube::{
    dry_run::DryRunLog,
    events::{EventWriter, Recorder},
};
use skydock_service_controller::RecordStore;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::controllers::RunningControllers;
use crate::{Controller, Metrics, Options, manager::dry_run};

/// Dependencies of the controllers.
pub struct Context {
    /// API clients.
    pub clients: Clients,
    /// The cloud provider.
    pub provider: Arc<dyn CloudProvider>,
    /// The controller part of the provider's CSI driver.
    pub volumes: Arc<CsiController>,
    /// Changes with each new generation of the provider's plugin; then all objects are checked
    /// again.
    pub generations: watch::Receiver<u64>,
    /// Options of the controllers.
    pub options: Options,
    /// Enabled controllers; see [`crate::parse_controllers`].
    pub enabled: BTreeSet<Controller>,
    /// Metrics of the controllers.
    pub metrics: Metrics,
    /// The recorder of events of this process.
    pub recorder: Recorder,
    /// Called with the provider's view of the cluster when all nodes are known, before any
    /// controller starts. The view contains no Services until all of them are known.
    pub on_cluster: Box<dyn FnOnce(Arc<dyn Cluster>) + Send>,
    /// Where a process leaves what it knows about load balancers to the next one. `None` without
    /// leader election, and in a dry run.
    pub records: Option<RecordStore>,
    /// True if the previous leader has not released its Lease: its last requests to the API server
    /// may still arrive.
    pub unreleased: bool,
    /// Cancelled to shut everything down.
    pub shutdown: CancellationToken,
    /// Cancelled by [`run()`] when all controllers have stopped: from then on, another process may
    /// run controllers, while the last events are written.
    pub worked: CancellationToken,
}

/// Why the controllers ended before they were shut down.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A task panicked or returned; this is a bug.
    #[error("{0} ended unexpectedly; this is a bug, please report it with the preceding log lines")]
    Ended(String),
}

/// Runs the enabled controllers for which the provider has the capability, until the shutdown token
/// is cancelled. If a later generation adds a capability, its controller is started then. At
/// shutdown, no new work is started, running calls get [`Options::shutdown_grace`] to end, and
/// queued events are written: `events` is the writer of the recorder in the context.
///
/// # Errors
///
/// Returns an error if a controller ends by itself.
pub async fn run(mut context: Context, events: EventWriter) -> Result<(), RunError> {
    context.clients = context.clients.with_deadlines();

    let dry_run_log = context.options.dry_run.then(Arc::<DryRunLog>::default);
    if let Some(dry_run_log) = &dry_run_log {
        (context.provider, context.clients) =
            dry_run::dry_run_clients(context.provider, &context.clients, dry_run_log);
        // Nothing waits for its end.
        let (_, leads) = watch::channel(true);
        let provider = Arc::clone(&context.provider);
        context.volumes = Arc::new(CsiController::new(provider, leads));
    }

    let worked = context.worked.clone();
    let writing = tokio::spawn(events.run(context.clients.informers.clone(), worked.clone()));
    let result = Box::pin(RunningControllers::new(context, dry_run_log).run()).await;

    // From here on, only the last events are still to be written.
    worked.cancel();
    if writing.await.is_err() {
        return Err(RunError::Ended("the writer of events".to_owned()));
    }

    result
}

#[cfg(test)]
mod tests;
