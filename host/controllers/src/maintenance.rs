//! Runs the periodic work of a provider, independent of changes in the cluster.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use skydock_cloud::CloudError;
use tokio::{sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    retry,
    shared::{Runner, Shared},
};

/// Delay after an error that contains no delay.
const AFTER_ERROR: Duration = Duration::from_secs(60);

/// Delay after an error that only a change could fix.
const LEFT_ALONE: Duration = Duration::from_secs(60 * 60);

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
    match error {
        CloudError::Throttled(retry) | CloudError::InProgress(retry) => retry.after,
        CloudError::Conflict(_) => retry::SOON,
        CloudError::ImplementedElsewhere | CloudError::Invalid(_) => LEFT_ALONE,
        CloudError::NotFound(_) | CloudError::Denied(_) | CloudError::Unavailable(_) | CloudError::Internal(_) => {
            AFTER_ERROR
        }
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
