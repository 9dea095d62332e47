//! Runs the periodic work of a provider, independent of changes in the cluster.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use skydock_cloud::{Capability, CloudError};
use tokio::{sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    ClientName,
    descriptor::Descriptor,
    retry::{self, Again},
    shared::{Runner, Shared},
};

/// Delay after an error that contains no delay.
const AFTER_ERROR: Duration = Duration::from_secs(60);

/// Delay after an error that only a change could fix.
const LEFT_ALONE: Duration = Duration::from_secs(60 * 60);

/// The maintenance controller. It only calls the cloud, so it does not use its API client.
pub(crate) static CONTROLLER: Descriptor = Descriptor {
    name: "cloud-maintenance-controller",
    alias: "maintenance",
    client: ClientName::Node,
    event_source: "cloud-maintenance-controller",
    needs: Some(Capability::Maintenance),
    needs_services: false,
};

/// Calls the provider at the times it asks for: one call at a time, and at once after the plugin was replaced.
pub(crate) struct MaintenanceController {
    shared: Shared,
    swapped: Notify,
}

impl MaintenanceController {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared, swapped: Notify::new() }
    }

    async fn turn(&self) -> Duration {
        match self.shared.provider.maintain().await {
            Ok(pause) => pause,
            Err(error) => {
                self.shared.cloud_error("maintenance", &error);
                pause(&error)
            }
        }
    }
}

/// Returns the delay after this error.
fn pause(error: &CloudError) -> Duration {
    match Again::after(error) {
        Again::After(delay) => delay,
        Again::Soon => retry::SOON,
        Again::OnChange => LEFT_ALONE,
        Again::BackOff => AFTER_ERROR,
    }
}

#[async_trait]
impl Runner for MaintenanceController {
    fn recheck(&self) {
        self.swapped.notify_one();
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        loop {
            let turn = async {
                let pause = self.turn().await;
                tokio::select! {
                    () = sleep(pause) => {}
                    () = self.swapped.notified() => {}
                }
            };
            // A running call is dropped at shutdown: the next leader repeats it.
            if shutdown.run_until_cancelled(turn).await.is_none() {
                return;
            }
        }
    }
}
