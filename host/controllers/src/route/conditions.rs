//! Writes the conditions of nodes, each as soon as it is known. A condition that cannot be written
//! does not delay others.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use parking_lot::Mutex;
use serde_json::json;
use skydock_controller_base::{calls::retry::RetryWhen, controller::context::ControllerContext};
use skydock_kube::{
    api::{Patch, Target, patch},
    queue::{Priority, Queue},
};
use tokio_util::sync::CancellationToken;

use super::{NodeEntry, network::Network, tries::LIMITER};

/// Maximum number of conditions that are written concurrently.
const WRITERS: usize = 16;

pub(super) struct Conditions {
    context: ControllerContext,
    client: Client,
    queue: Queue<String>,
    /// Conditions to write, by name of the node.
    wanted: Mutex<BTreeMap<String, Wanted>>,
}

#[derive(Clone)]
struct Wanted {
    entry: NodeEntry,
    network: Network,
    /// Another condition was wanted before this one and may be in progress: the cache may not
    /// contain it yet.
    after_another: bool,
}

impl Conditions {
    pub(super) fn new(context: ControllerContext, client: Client) -> Self {
        let queue = Queue::new(LIMITER, context.metrics.queue("RouteConditions"));
        Self {
            context,
            client,
            queue,
            wanted: Mutex::default(),
        }
    }

    /// Queues the condition of a node to be written, unless the node has it.
    pub(super) fn want(&self, entry: &NodeEntry, network: Network) {
        let name = entry.name();
        let mut wanted = self.wanted.lock();
        let before = wanted.get(name);

        if before
            .is_some_and(|before| before.network == network && before.entry.uid() == entry.uid())
        {
            return;
        }

        let after_another = before.is_some();
        if !after_another
            && network
                .condition(&entry.object.conditions, Timestamp::now())
                .is_none()
        {
            return;
        }

        wanted.insert(
            name.to_owned(),
            Wanted {
                entry: entry.clone(),
                network,
                after_another,
            },
        );

        drop(wanted);
        self.queue.add(name.to_owned(), Priority::Change);
    }

    /// Writes queued conditions until the token is cancelled.
    pub(super) async fn run(&self, shutdown: &CancellationToken) {
        let write =
            |name: String, _| async move { self.write(&name).await.schedule(&self.queue, &name) };
        self.queue.run_workers(WRITERS, shutdown, write).await;
    }

    /// Makes one more attempt to write the remaining conditions.
    pub(super) async fn finish(&self) {
        let names: Vec<String> = self.wanted.lock().keys().cloned().collect();
        stream::iter(names)
            .for_each_concurrent(WRITERS, |name| async move {
                self.write(&name).await;
            })
            .await;
    }

    /// Writes a condition; returns when to write it again.
    async fn write(&self, name: &str) -> RetryWhen {
        let wanted = self.wanted.lock().get(name).cloned();
        let Some(Wanted {
            entry,
            network,
            after_another,
        }) = wanted
        else {
            return RetryWhen::OnChange;
        };

        // The cache may not show the condition that was written just before.
        let has = if after_another {
            &[][..]
        } else {
            entry.object.conditions.as_slice()
        };

        let error = match network.condition(has, Timestamp::now()) {
            Some(condition) => {
                // A strategic merge patch is merged with conditions of other types.
                let body = json!({ "metadata": { "uid": entry.uid() }, "status": { "conditions": [condition] } });
                let target = Target {
                    namespace: None,
                    name,
                    subresource: Some("status"),
                };
                patch::<Node>(&self.client, &target, &Patch::Strategic(body))
                    .await
                    .err()
            }
            None => None,
        };

        if let Some(error) = &error {
            self.context.api_error(name, error);
        }
        let again = error.map_or(RetryWhen::OnChange, |error| RetryWhen::after_write(&error));

        // Another condition may have been wanted during the request.
        let mut wanted = self.wanted.lock();
        let same = |now: &Wanted| now.network == network && now.entry.uid() == entry.uid();
        if again == RetryWhen::OnChange && wanted.get(name).is_some_and(same) {
            wanted.remove(name);
        }

        again
    }
}
