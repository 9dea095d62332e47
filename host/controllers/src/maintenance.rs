//! Runs the periodic work of a provider, independent of changes in the cluster.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use skydock_cloud::Capability;
use skydock_controller_base::{
    calls::retry::RetryWhen,
    controller::{
        context::{ControllerContext, Runner},
        descriptor::{Descriptor, NeedsServices},
    },
};
use skydock_kube::queue::Limiter;
use tokio::{sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::ClientName;

/// Delay after an error that contains no delay. That after a conflict grows up to it.
const LIMITER: Limiter = Limiter {
    base: Duration::from_secs(60),
    max: Duration::from_secs(60),
    bucket: None,
};

/// Delay after an error that only a change could fix.
const LEFT_ALONE: Duration = Duration::from_secs(60 * 60);

/// The maintenance controller. It only calls the cloud, so it does not use its API client.
pub(crate) static CONTROLLER: Descriptor = Descriptor {
    name: "cloud-maintenance-controller",
    alias: "maintenance",
    client: ClientName::Node,
    event_source: "cloud-maintenance-controller",
    needs: Some(Capability::Maintenance),
    needs_services: NeedsServices::IfAllowed,
};

/// Calls the provider at the times it asks for: one call at a time, and at once after the plugin
/// was replaced.
pub(crate) struct MaintenanceController {
    context: ControllerContext,
    swapped: Notify,
}

impl MaintenanceController {
    pub(crate) fn new(context: ControllerContext) -> Self {
        Self {
            context,
            swapped: Notify::new(),
        }
    }

    /// Makes one call, after this number of consecutive conflicts. Returns the delay before the
    /// next.
    async fn pass(&self, conflicts: &mut u32) -> Duration {
        let (pause, conflict) = match self.context.provider.maintain().await {
            Ok(pause) => (pause, false),
            Err(error) => {
                self.context.cloud_error("maintenance", &error);
                let again = RetryWhen::after(&error);
                (
                    again.delay(&LIMITER, *conflicts).unwrap_or(LEFT_ALONE),
                    again == RetryWhen::Soon,
                )
            }
        };

        *conflicts = if conflict {
            conflicts.saturating_add(1)
        } else {
            0
        };

        pause
    }
}

#[async_trait]
impl Runner for MaintenanceController {
    fn recheck(&self) {
        self.swapped.notify_one();
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let mut conflicts = 0;
        loop {
            let pass = async {
                let pause = self.pass(&mut conflicts).await;
                tokio::select! {
                    () = sleep(pause) => {}
                    () = self.swapped.notified() => conflicts = 0,
                }
            };

            // A running call is dropped at shutdown: the next leader repeats it.
            if shutdown.run_until_cancelled(pass).await.is_none() {
                return;
            }
        }
    }
}
