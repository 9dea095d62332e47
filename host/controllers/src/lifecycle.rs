//! Deletes nodes whose machine is gone, and taints those whose machine is stopped.
//!
//! Upstream's cloud-node-lifecycle-controller, with the cloud asked in batches and more care before a node is deleted: only
//! nodes of the provider's own, only after two answers, and only the very object that was asked about.

pub mod plan;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{DeleteParams, Preconditions},
};
use serde_json::{Value, json};
use skydock_cloud::{CloudError, Presence};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::plan::{Act, Look};
use crate::{
    api::{Action, ApiError, Patch, Target, patch},
    constants::{TAINT_SHUTDOWN, reason},
    informer::Entry,
    node::remove_taints,
    shared::{Runner, Shared, complete},
};

/// Batches the cloud is asked about at the same time.
const BATCHES: usize = 4;
/// A shorter period is taken as this one.
const LEAST_PERIOD: Duration = Duration::from_millis(100);

type NodeEntry = Arc<Entry<Node>>;

/// The lifecycle controller.
pub(crate) struct LifecycleController {
    shared: Shared,
    client: Client,
    period: Duration,
    /// When the cloud first said, and has said each time since, that the machine of the node of this UID is gone.
    absent: Mutex<HashMap<String, Instant>>,
}

impl LifecycleController {
    pub(crate) fn new(shared: Shared, client: Client, period: Duration) -> Self {
        Self { shared, client, period: period.max(LEAST_PERIOD), absent: Mutex::default() }
    }

    async fn pass(&self) {
        let info = self.shared.provider.info();
        let mut asked = Vec::new();
        for entry in self.shared.nodes.list() {
            match plan::look(&entry.view, &info) {
                Look::Fine => {}
                Look::Untaint => self.report(&entry, self.untaint(&entry).await),
                Look::Ask => asked.push(entry),
            }
        }
        self.absences().retain(|uid, _| asked.iter().any(|entry| entry.uid() == uid));
        stream::iter(asked.chunks(info.max_batch.max(1)))
            .for_each_concurrent(BATCHES, |batch| async move {
                for (entry, answer) in batch.iter().zip(self.check(batch).await) {
                    self.settle(entry, answer).await;
                }
            })
            .await;
    }

    async fn check(&self, batch: &[NodeEntry]) -> Vec<Result<Presence, CloudError>> {
        let nodes: Vec<_> = batch.iter().map(|entry| Arc::clone(&entry.view)).collect();
        match self.shared.provider.check(&nodes).await {
            Ok(answers) => complete(answers, nodes.len()).collect(),
            Err(error) => nodes.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn settle(&self, asked: &NodeEntry, answer: Result<Presence, CloudError>) {
        // The cloud may have taken its time: the answer is about a machine that had no ready node then.
        let now = self.shared.nodes.get(&asked.key()).filter(|now| plan::same_question(&asked.view, &now.view));
        let Some(entry) = &now else {
            self.absences().remove(asked.uid());
            return;
        };
        let presence = match answer {
            Ok(presence) => presence,
            Err(error) => {
                // No answer is no absence, and breaks the row of those there were.
                self.absences().remove(entry.uid());
                return self.shared.cloud_error(entry.name(), &error);
            }
        };
        let absent_for = self.absences().get(entry.uid()).map(Instant::elapsed);
        let act = plan::decide(&entry.view, presence, absent_for, self.period);
        if presence != Presence::Absent {
            self.absences().remove(entry.uid());
        }
        match act {
            Act::Nothing => {}
            Act::Taint => self.report(entry, self.taint(entry).await),
            Act::Untaint => self.report(entry, self.untaint(entry).await),
            Act::Confirm => {
                tracing::info!(
                    node = entry.name(),
                    "the machine is gone, says the cloud: asking again before deletion"
                );
                self.absences().entry(entry.uid().to_owned()).or_insert_with(Instant::now);
            }
            Act::Delete => self.delete(entry).await,
        }
    }

    async fn delete(&self, entry: &NodeEntry) {
        if entry.object.metadata.deletion_timestamp.is_some() {
            return;
        }
        let name = entry.name();
        tracing::info!(node = name, "deleting: the machine is gone");
        let message = format!("Deleting node {name} because it does not exist in the cloud provider");
        self.shared.normal(entry, reason::DELETING_NODE, message);
        let preconditions = Preconditions { uid: Some(entry.uid().to_owned()), resource_version: None };
        let params = DeleteParams::default().preconditions(preconditions);
        let deleted = Api::<Node>::all(self.client.clone()).delete(name, &params).await;
        let action = Action { verb: "delete", resource: "nodes".to_owned() };
        match deleted.map_err(|error| ApiError::new(action, error)) {
            Ok(_) | Err(ApiError::Gone(_)) => {}
            Err(error) => {
                self.shared.api_error(name, &error);
                if !matches!(error, ApiError::Changed(_)) {
                    let message = format!("Failed deleting node {name}: {error}");
                    self.shared.warning(entry, reason::DELETING_NODE_FAILED, message);
                }
            }
        }
    }

    async fn taint(&self, entry: &NodeEntry) -> Result<(), ApiError> {
        let taint = json!({ "key": TAINT_SHUTDOWN, "effect": "NoSchedule" });
        let taints = entry.object.spec.as_ref().and_then(|spec| spec.taints.as_ref());
        let operations = if taints.is_some_and(|taints| !taints.is_empty()) {
            vec![json!({ "op": "add", "path": "/spec/taints/-", "value": taint })]
        } else {
            // To add the first taint is to add the list, over one that somebody else may just have added.
            let version = entry.resource_version();
            vec![
                json!({ "op": "test", "path": "/metadata/resourceVersion", "value": version }),
                json!({ "op": "add", "path": "/spec/taints", "value": [taint] }),
            ]
        };
        self.patch(entry, operations).await
    }

    async fn untaint(&self, entry: &NodeEntry) -> Result<(), ApiError> {
        self.patch(entry, remove_taints(entry, TAINT_SHUTDOWN)).await
    }

    async fn patch(&self, entry: &NodeEntry, operations: Vec<Value>) -> Result<(), ApiError> {
        let mut body = vec![json!({ "op": "test", "path": "/metadata/uid", "value": entry.uid() })];
        body.extend(operations);
        let target = Target { namespace: None, name: entry.name(), subresource: None };
        patch::<Node>(&self.client, &target, &Patch::Json(Value::from(body))).await.map(drop)
    }

    /// What failed is done again with the next pass.
    fn report(&self, entry: &NodeEntry, result: Result<(), ApiError>) {
        if let Err(error) = result {
            self.shared.api_error(entry.name(), &error);
        }
    }

    fn absences(&self) -> std::sync::MutexGuard<'_, HashMap<String, Instant>> {
        self.absent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Runner for LifecycleController {
    /// The next pass looks at everything anyway.
    fn recheck(&self) {}

    async fn run(&self, shutdown: CancellationToken) {
        while !shutdown.is_cancelled() {
            self.pass().await;
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep(self.period) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
