//! Wakes a standby when the Lease changes, so that a released Lease is acquired immediately.

use crate::{api::with_causes, informer::Read};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};

/// A stream of changes of a Lease after which an attempt may succeed.
pub(super) struct Changes(futures::stream::BoxStream<'static, ()>);

impl Changes {
    /// Returns when the Lease has no holder. It may never return, so periodic attempts are needed
    /// in addition.
    pub(super) async fn next(&mut self) {
        if self.0.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

pub(super) fn changes(leases: Api<Read<Lease>>, name: &str) -> Changes {
    let mut is_logged = false;
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));

    let freed = watcher(leases, config)
        .default_backoff()
        .touched_objects()
        .try_filter(|lease| {
            let holder = lease
                .0
                .spec
                .as_ref()
                .and_then(|spec| spec.holder_identity.as_deref())
                .unwrap_or_default();
            std::future::ready(holder.is_empty())
        })
        .filter_map(move |result| {
            // Without permission to watch, periodic attempts still work, so this is only logged
            // once.
            if let Err(error) = &result
                && !std::mem::replace(&mut is_logged, true)
            {
                let error = with_causes(error);
                tracing::warn!(
                    error,
                    "cannot watch the Lease; its release is noticed only at the next attempt"
                );
            }
            std::future::ready(result.ok().map(drop))
        });

    Changes(freed.boxed())
}
