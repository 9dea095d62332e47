//! Approves requests for the serving certificates of kubelets if the cloud confirms their names and
//! addresses. `plan.rs` has the rules, and says whom they trust.
//!
//! Requests are never denied: one that is not approved waits, and Kubernetes deletes it after a
//! day. Upstream has no such controller, so it runs only if `--controllers` names it.

pub(crate) mod metrics;
mod pending;
mod pkcs10;
mod plan;
mod request;
mod round;

use std::{
    collections::{HashMap, HashSet},
    mem::{Discriminant, discriminant},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Client;
use parking_lot::Mutex;
use serde_json::json;
use skydock_cloud::{Capability, CloudError, Instance, Node, reason};
use skydock_controller_base::{
    calls::retry::{self, RetryWhen},
    controller::{
        context::{ControllerContext, Runner},
        descriptor::{Descriptor, NeedsServices},
    },
    objects::kinds::NodeKind,
};
use skydock_kube::{
    api::{ApiError, Patch, Target, patch},
    informer::{Change, Entry, Informer},
    queue::{Limiter, Priority, Queue},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::{
    metrics::CertificateMetrics,
    pending::Pending,
    plan::{Claim, Flaw, Wait},
    request::RequestKind,
    round::{Question, Round},
};
use crate::{
    ClientName,
    batches::{BatchLimit, Lanes, ask_all, asked::Asked},
    pause::Pause,
};

/// Maximum number of batches that are processed concurrently.
const WORKERS: usize = 2;
/// Maximum number of nodes in one batch.
const BATCH: usize = 250;

/// Maximum age of an answer by which a request is approved: an address may move to another instance.
const MOST_AGE: Duration = Duration::from_secs(30);

/// Delays of nodes whose requests wait. A kubelet creates another request after 15 minutes.
const LIMITER: Limiter = Limiter {
    base: Duration::from_secs(2),
    max: Duration::from_secs(5 * 60),
    bucket: None,
};

type NodeEntry = Arc<Entry<NodeKind>>;
type RequestEntry = Arc<Entry<RequestKind>>;

/// What is known of the controller before it runs. Its names are those of the controller in the
/// cloud-controller-manager of Talos.
pub(crate) static CONTROLLER: Descriptor = Descriptor {
    name: "certificatesigningrequest-approving-controller",
    alias: "node-csr-approval",
    client: ClientName::Node,
    event_source: "certificatesigningrequest-approving-controller",
    needs: Some(Capability::Instances),
    // Addresses of nodes are compared with theirs.
    needs_services: NeedsServices::IfAllowed,
};

/// The controller. Its queue has names of nodes, so that a node with many requests is asked about
/// once.
pub(crate) struct CertificateController {
    context: ControllerContext,
    metrics: CertificateMetrics,
    client: Client,
    requests: Informer<RequestKind>,
    pending: Arc<Pending>,
    asked: Arc<Asked>,
    queue: Arc<Queue<String>>,
    lanes: Lanes,
    pause: Pause,
    /// Nodes that are not asked about in batches of any size.
    batch_limits: Mutex<HashMap<String, BatchLimit>>,
    /// What was said about requests, by UID.
    reported: Mutex<HashSet<(String, Reported)>>,
}

/// What was reported about a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Reported {
    Never(Discriminant<Flaw>),
    Waits(Discriminant<Wait>),
    Approved,
}

impl CertificateController {
    pub(crate) fn new(
        context: ControllerContext,
        metrics: CertificateMetrics,
        client: Client,
    ) -> Self {
        let queue = Arc::new(Queue::new(
            LIMITER,
            context.metrics.queue("CertificateSigningRequests"),
        ));

        let asked = Arc::<Asked>::default();
        let changed = {
            let queue = Arc::clone(&queue);
            let asked = Arc::clone(&asked);
            move |node: String| {
                let wait = asked.wait(&node);
                queue.add_after(node, wait, Priority::Change);
            }
        };

        let requests = Informer::default();
        let pending = Pending::follow(&requests, metrics.pending.clone(), changed.clone());

        context.nodes.subscribe({
            let pending = Arc::clone(&pending);
            move |change| match change {
                Change::Updated(old, new) if old.view == new.view => {}
                Change::Added(node) | Change::Updated(_, node) => {
                    if !pending.of(node.name()).is_empty() {
                        changed(node.key());
                    }
                }
                Change::Deleted(_) => {}
            }
        });

        Self {
            context,
            metrics,
            client,
            requests,
            pending,
            asked,
            queue,
            lanes: Lanes::new(WORKERS),
            pause: Pause::default(),
            batch_limits: Mutex::default(),
            reported: Mutex::default(),
        }
    }

    /// Asks the cloud about nodes with requests that could be approved, and decides these.
    async fn sync(&self, nodes: Vec<String>, stop: &CancellationToken) {
        self.forget_decided();

        let mut questions = Vec::new();
        for name in nodes {
            match self.precheck(&name) {
                Some(question) => {
                    let limit = self.batch_limits.lock().get(&name).copied();
                    questions.push((question, limit.unwrap_or_default()));
                }
                None => {
                    self.batch_limits.lock().remove(&name);
                    self.queue.forget(&name);
                    self.queue.done(&name);
                }
            }
        }

        let max = self.context.provider.info().max_batch;
        let round = Round::new(self, stop);
        ask_all(&round, questions, max, &self.lanes).await;
    }

    /// Returns the question that the cloud has to be asked about a node. What waits for a change of
    /// the node is checked again then.
    fn precheck(&self, name: &str) -> Option<Question> {
        let node = self.context.nodes.get(name);
        let mut requests = Vec::new();
        for (request, _) in self.claims(name) {
            match self.ready(node.as_ref(), &request) {
                Ok(()) => requests.push(request.uid().to_owned()),
                Err(wait) => self.tell_wait(node.as_ref(), &request, &wait),
            }
        }

        let node = node.filter(|_| !requests.is_empty())?;
        Some(Question {
            node,
            requests: requests.into(),
        })
    }

    /// Checks what the cloud is not needed for.
    fn ready(&self, node: Option<&NodeEntry>, request: &RequestEntry) -> Result<(), Wait> {
        let node = node.ok_or(Wait::NoNode)?;
        plan::ready(&node.view, &self.context.provider.info())?;
        let created = request.view.as_ref().map_or(0, |it| it.created);
        plan::not_older(created, &node.view)
    }

    /// Returns the well-formed requests of a node, and tells what is wrong with the others.
    fn claims(&self, name: &str) -> Vec<(RequestEntry, Claim)> {
        let mut claims = Vec::new();
        for entry in self
            .pending
            .of(name)
            .iter()
            .filter_map(|key| self.requests.get(key))
        {
            let Some(request) = &entry.view else { continue };
            match request.claim.clone() {
                Ok(claim) => claims.push((entry, claim)),
                Err(flaw) => self.tell_flaw(name, &entry, &flaw),
            }
        }
        claims
    }

    /// Decides the requests of a node for which the cloud was asked, and has answered at this time.
    /// Returns when to ask again.
    async fn decide(
        &self,
        asked: &Question,
        instance: &Instance,
        answered: Instant,
        stop: &CancellationToken,
    ) -> Option<RetryWhen> {
        let mut again = None;
        for (request, claim) in self.claims(asked.node.name()) {
            // One that was created later is in the queue.
            if !asked.is_about(request.uid()) {
                continue;
            }
            if stop.is_cancelled() || answered.elapsed() > MOST_AGE {
                return Some(RetryWhen::BackOff);
            }

            // The node may have changed since the question.
            let node = self.context.nodes.get(&asked.node.key());
            match self.confirm(node.as_ref(), &asked.node, &request, &claim, instance) {
                Ok(()) => {
                    if let Err(error) = self.approve(&asked.node, &request).await {
                        self.context.api_error(request.name(), &error);
                        again = again.or(Some(RetryWhen::after_write(&error)));
                    }
                }
                Err(wait) => {
                    self.tell_wait(node.as_ref(), &request, &wait);
                    again = Some(RetryWhen::BackOff);
                }
            }
        }
        again
    }

    fn confirm(
        &self,
        node: Option<&NodeEntry>,
        asked: &NodeEntry,
        request: &RequestEntry,
        claim: &Claim,
        instance: &Instance,
    ) -> Result<(), Wait> {
        let node = node.filter(|node| node.uid() == asked.uid());
        self.ready(node, request)?;
        let node = node.ok_or(Wait::NoNode)?;
        plan::confirm(claim, &node.view, self.is_shared(&node.view), instance)
    }

    /// Returns true if another node has the same provider ID.
    fn is_shared(&self, node: &Node) -> bool {
        let all = self.context.nodes.list();
        let mut others = all.iter().filter(|other| other.name() != node.name);
        others.any(|other| other.view.provider_id == node.provider_id)
    }

    /// Approves this version of a request, and no other.
    async fn approve(&self, node: &NodeEntry, request: &RequestEntry) -> Result<(), ApiError> {
        let body = json!({
            "metadata": {"uid": request.uid(), "resourceVersion": request.resource_version()},
            "status": {"conditions": [{
                "type": "Approved",
                "status": "True",
                "reason": "AutoApproved",
                "message": "Auto approving kubelet serving certificate: the cloud confirms its names and addresses.",
            }]},
        });
        let target = Target {
            namespace: None,
            name: request.name(),
            subresource: Some("approval"),
        };
        patch::<CertificateSigningRequest>(&self.client, &target, &Patch::Merge(body)).await?;

        self.metrics.approved.inc();
        if self.is_new(request, Reported::Approved) {
            let message = format!(
                "CertificateSigningRequest {} is approved: the cloud confirms its names and addresses",
                request.name()
            );
            self.context
                .normal(node, reason::SERVING_CERTIFICATE_APPROVED, message);
        }
        Ok(())
    }

    fn tell_flaw(&self, node: &str, request: &RequestEntry, flaw: &Flaw) {
        if self.is_new(request, Reported::Never(discriminant(flaw))) {
            let node = self.context.nodes.get(node);
            self.warn(node.as_ref(), request, flaw);
        }
    }

    fn tell_wait(&self, node: Option<&NodeEntry>, request: &RequestEntry, wait: &Wait) {
        if !wait.is_usual() && self.is_new(request, Reported::Waits(discriminant(wait))) {
            self.warn(node, request, wait);
        }
    }

    /// Tells the owner of the node why a request is not approved; without a node, only the log.
    fn warn(&self, node: Option<&NodeEntry>, request: &RequestEntry, why: &dyn std::error::Error) {
        let name = request.name();
        tracing::warn!(request = name, "serving certificate not approved: {why}");
        if let Some(node) = node {
            let message = format!("CertificateSigningRequest {name} is not approved: {why}");
            self.context
                .warning(node, reason::SERVING_CERTIFICATE_NOT_APPROVED, message);
        }
    }

    /// Returns true the first time that this is reported about a request.
    fn is_new(&self, request: &RequestEntry, what: Reported) -> bool {
        let reported = (request.uid().to_owned(), what);
        self.reported.lock().insert(reported)
    }

    /// Forgets what was reported about requests that do not wait.
    fn forget_decided(&self) {
        let waiting = self.requests.list();
        let waiting: HashSet<&str> = waiting
            .iter()
            .filter(|entry| entry.view.is_some())
            .map(|entry| entry.uid())
            .collect();
        self.reported
            .lock()
            .retain(|(uid, _)| waiting.contains(uid.as_str()));
    }

    /// Tells that the cloud has not answered about a node. Returns when to ask again.
    fn follow_error(&self, node: &NodeEntry, error: CloudError) -> RetryWhen {
        self.context.cloud_error(node.name(), &error);
        let again = match &error {
            // The question is the same after a change of the node.
            CloudError::Invalid(_) => RetryWhen::BackOff,
            error => RetryWhen::after(error),
        };
        if retry::warns(&error) {
            let wait = Wait::after(error);
            for (request, _) in self.claims(node.name()) {
                self.tell_wait(Some(node), &request, &wait);
            }
        }
        again
    }
}

#[async_trait]
impl Runner for CertificateController {
    fn recheck(&self) {
        self.queue.add_all(self.pending.nodes(), Priority::Change);
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let max = || self.context.provider.info().max_batch.min(BATCH);
        let sync = |nodes| self.sync(nodes, &shutdown);

        tokio::select! {
            () = self.requests.run(self.client.clone()) => {}
            () = self.queue.run_batch_workers(WORKERS, &shutdown, max, sync) => {}
        }
    }
}

#[cfg(test)]
mod tests;
