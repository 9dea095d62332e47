//! Wakes a standby when the lease changes, so that a released one is taken at once.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};
use skydock_controllers::{informer::Read, with_causes};

/// Tells of changes of one lease that are worth a try.
pub(super) struct Changes(futures::stream::BoxStream<'static, ()>);

impl Changes {
    /// Returns when the lease has no holder any more. May never return: a try from time to time is needed anyway.
    pub(super) async fn next(&mut self) {
        if self.0.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

pub(super) fn changes(leases: Api<Read<Lease>>, name: &str) -> Changes {
    let mut told = false;
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let freed = watcher(leases, config)
        .default_backoff()
        .touched_objects()
        .try_filter(|lease| {
            let holder = lease.0.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
            std::future::ready(holder.is_empty())
        })
        .filter_map(move |result| {
            // Without the right to watch, the tries from time to time still work: told once, it is no failure.
            if let Err(error) = &result
                && !std::mem::replace(&mut told, true)
            {
                let error = with_causes(error);
                tracing::warn!(error, "cannot watch the lease: a release is noticed at the next try only");
            }
            std::future::ready(result.ok().map(drop))
        });
    Changes(freed.boxed())
}
