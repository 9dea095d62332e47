//! Creates and deletes volumes for claims, in place of csi-provisioner (volume-provision).
//!
//! kube-controller-manager annotates a claim with who has to create its volume, and binds it to the
//! PersistentVolume that is created with it. `plan.rs` has the rules for both, `source.rs` those for
//! snapshots and clones, `topology.rs` those for nodes, and `reclaim.rs` those for PersistentVolumes that
//! are not needed any more. A volume has the UID of its claim in its name: after an answer that was lost,
//! it is asked for by that again.
//!
//! Not done, unlike in csi-provisioner: volumes of in-tree plugins, sources in other namespaces, and
//! CSIStorageCapacities.

mod claims;
mod plan;
mod reclaim;
mod source;
mod topology;
mod work;

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Client;
use parking_lot::Mutex;
use skydock_cloud::{Capability, CsiDriver};
use skydock_controller_base::controller::{
    clients::ClientName,
    context::{ControllerContext, Runner},
    descriptor::{Descriptor, NeedsServices},
};
use skydock_csi::Controller;
use skydock_kube::{
    informer::Change,
    queue::{Priority, Queue},
};
use tokio_util::sync::CancellationToken;

use self::{claims::Claims, source::Source};
use crate::{
    Parts, finalizer,
    objects::VolumeObjects,
    request::{LIMITER, WORKERS},
};

/// Maximum number of sources whose finalizer is removed at the same time.
const SOURCE_WORKERS: usize = 8;

/// What is known of the controller before it runs.
pub static CONTROLLER: Descriptor = Descriptor {
    name: "volume-provision-controller",
    alias: "volume-provision",
    client: ClientName::Node,
    event_source: "volume-provision-controller",
    needs: Some(Capability::Volumes),
    needs_services: NeedsServices::No,
};

/// A source in its namespace, of which a finalizer may be to be removed.
type InNamespace = (String, Source);

/// The controller. Its queues have UIDs of claims, names of PersistentVolumes, and sources.
pub struct ProvisionController {
    context: ControllerContext,
    client: Client,
    driver: Arc<Controller>,
    objects: Arc<VolumeObjects>,
    claims: Arc<Claims>,
    queue: Arc<Queue<String>>,
    volumes: Arc<Queue<String>>,
    sources: Arc<Queue<InNamespace>>,
    /// UIDs of PersistentVolumes whose volume is deleted: the writes that follow are no reason to ask again.
    deleted: Arc<Mutex<HashSet<String>>>,
}

impl ProvisionController {
    /// Creates the controller.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts {
            context,
            client,
            driver,
            objects,
        } = parts;
        let metrics = |name| context.metrics.queue(name);
        let controller = Self {
            claims: Arc::default(),
            queue: Arc::new(Queue::new(LIMITER, metrics("PersistentVolumeClaims"))),
            volumes: Arc::new(Queue::new(LIMITER, metrics("PersistentVolumesToDelete"))),
            sources: Arc::new(Queue::new(LIMITER, metrics("VolumeSources"))),
            deleted: Arc::default(),
            context,
            client,
            driver,
            objects,
        };
        controller.follow_claims();
        controller.follow_others();
        controller
    }

    fn follow_claims(&self) {
        let (claims, queue) = (Arc::clone(&self.claims), Arc::clone(&self.queue));
        let sources = Arc::clone(&self.sources);
        self.objects.claims.subscribe(move |change| match change {
            Change::Updated(old, new) if !plan::is_news(&old.object, &new.object) => {
                claims.refresh(new);
            }
            Change::Added(new) | Change::Updated(_, new) => {
                // One with another UID may have its name.
                if let Change::Updated(old, _) = change
                    && old.uid() != new.uid()
                {
                    claims.over(old);
                    add_source(&sources, &old.object);
                }
                if claims.see(new) {
                    queue.add(new.uid().to_owned(), Priority::Change);
                }
                let is_deleted = new.object.metadata.deletion_timestamp.is_some();
                if is_deleted && finalizer::has(&new.object.metadata, source::CLONED) {
                    let source = Source::Claim(new.name().to_owned());
                    sources.add((namespace(&new.object), source), Priority::Change);
                }
                if plan::is_bound(&new.object) {
                    add_source(&sources, &new.object);
                }
            }
            Change::Deleted(old) => {
                claims.over(old);
                add_source(&sources, &old.object);
            }
        });
    }

    fn follow_others(&self) {
        let (claims, queue) = (Arc::clone(&self.claims), Arc::clone(&self.queue));
        self.objects.classes.subscribe(move |change| {
            if let Change::Added(new) | Change::Updated(_, new) = change {
                queue.add_all(claims.of_class(new.name()), Priority::Change);
            }
        });

        let (volumes, deleted) = (Arc::clone(&self.volumes), Arc::clone(&self.deleted));
        let queue = Arc::clone(&self.queue);
        self.objects.volumes.subscribe(move |change| match change {
            Change::Added(new) | Change::Updated(_, new) => {
                volumes.add(new.key(), Priority::Change);
            }
            Change::Deleted(old) => {
                deleted.lock().remove(old.uid());
                // A claim that is not bound to it yet needs another one.
                let spec = old.object.spec.as_ref();
                if let Some(uid) = spec.and_then(|it| it.claim_ref.as_ref()?.uid.clone()) {
                    queue.add(uid, Priority::Change);
                }
            }
        });
    }

    /// Returns the driver of the plugin in service.
    fn driver(&self) -> Option<CsiDriver> {
        self.context.provider.info().driver.clone()
    }

    async fn work(&self, shutdown: &CancellationToken) {
        let synced = async {
            self.objects.claims.synced().await;
            self.objects.classes.synced().await;
            self.objects.volumes.synced().await;
            self.objects.attachments.synced().await;
            self.objects.csi_nodes.synced().await;
        };
        if shutdown.run_until_cancelled(synced).await.is_none() {
            return;
        }

        let provision = |uid: String, _| async move {
            let again = Box::pin(self.provision(&uid, shutdown)).await;
            again.schedule(&self.queue, &uid);
        };
        let reclaim = |name: String, _| async move {
            let again = Box::pin(self.reclaim(&name, shutdown)).await;
            again.schedule(&self.volumes, &name);
        };
        let release = |source: InNamespace, _| async move {
            let again = Box::pin(self.release_source(&source)).await;
            again.schedule(&self.sources, &source);
        };
        let working = async {
            tokio::join!(
                self.queue.run_workers(WORKERS, shutdown, provision),
                self.volumes.run_workers(WORKERS, shutdown, reclaim),
                self.sources.run_workers(SOURCE_WORKERS, shutdown, release),
            )
        };
        tokio::select! {
            _ = working => {}
            () = self.sweep() => {}
        }
    }
}

/// Returns the namespace of a claim.
fn namespace(claim: &PersistentVolumeClaim) -> String {
    claim.metadata.namespace.clone().unwrap_or_default()
}

/// Adds the source of a claim, which the claim may not need any more.
fn add_source(queue: &Queue<InNamespace>, claim: &PersistentVolumeClaim) {
    if let Some(Ok(Some(source))) = claim.spec.as_ref().map(source::of)
        && source != Source::Other
    {
        queue.add((namespace(claim), source), Priority::Change);
    }
}

#[async_trait]
impl Runner for ProvisionController {
    fn recheck(&self) {
        for claim in self.objects.claims.list() {
            if self.claims.get(claim.uid()).is_some() {
                self.queue.add(claim.uid().to_owned(), Priority::Recheck);
            }
        }
        let volumes = self.objects.volumes.list();
        let names = volumes.iter().map(|it| it.key());
        self.volumes.add_all(names, Priority::Recheck);
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let client = || self.client.clone();
        tokio::select! {
            () = self.objects.claims.fill(client()) => {}
            () = self.objects.classes.fill(client()) => {}
            () = self.objects.volumes.fill(client()) => {}
            () = self.objects.attachments.fill(client()) => {}
            () = self.objects.csi_nodes.fill(client()) => {}
            () = self.work(&shutdown) => {}
        }
    }
}

#[cfg(test)]
mod tests;
