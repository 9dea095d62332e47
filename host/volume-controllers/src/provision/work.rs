//! The work of the controller, from an object to the writes.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Resource, api::PostParams};
use serde_json::{Value, json};
use skydock_cloud::{Capability, CsiDriver, Pairs, reason};
use skydock_controller_base::calls::retry::RetryWhen;
use skydock_csi::{Code, Failure, proto::VolumeContentSource};
use skydock_kube::{
    api::{self, Action, ApiError, Patch, Target, patch},
    informer::Entry,
    queue::Priority,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    InNamespace, ProvisionController,
    claims::ClaimEntry,
    plan::{self, Asked, Prepared},
    reclaim::{Reclaim, reclaim},
    source::{self, Source},
    topology::{self, Nodes, Unknown},
};
use crate::{
    custom::{self, field},
    finalizer,
    objects::{ClassKind, VolumeKind},
    request::{self, LIMITER, PATIENCE},
};

/// How often finalizers are looked for that were left.
const SWEEP: Duration = Duration::from_mins(10);

/// Time for the claim of a finalizer to arrive in the cache.
const GRACE: Duration = Duration::from_mins(1);

/// Why a volume is not created.
enum Problem {
    /// Something is wrong with the claim, or with what it refers to.
    Object(String),
    /// Another node has to be selected.
    Reschedule(String),
    Api(ApiError),
}

impl From<String> for Problem {
    fn from(message: String) -> Self {
        Self::Object(message)
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<Unknown> for Problem {
    fn from(unknown: Unknown) -> Self {
        match unknown {
            Unknown::Reschedule(message) => Self::Reschedule(message),
            Unknown::Wait(message) => Self::Object(message),
        }
    }
}

impl ProvisionController {
    /// Creates the volume of the claim with this UID, and its PersistentVolume. Returns when to try again.
    pub(super) async fn provision(&self, uid: &str, stop: &CancellationToken) -> RetryWhen {
        let Some((claim, begun)) = self.claims.get(uid) else {
            return RetryWhen::OnChange;
        };
        let is_there = self.objects.volumes.get(&plan::name(&claim.object));
        if is_there.is_some() {
            // By an earlier attempt, perhaps without an answer: the volume may be in use by now.
            self.claims.end(uid);
            return RetryWhen::OnChange;
        }

        let prepared = match begun {
            Some(prepared) => prepared,
            None => match self.prepare(&claim).await {
                Ok(Some(prepared)) => Arc::new(prepared),
                Ok(None) => return RetryWhen::OnChange,
                Err(_) if stop.is_cancelled() => return RetryWhen::OnChange,
                Err(problem) => return self.tell(&claim, problem).await,
            },
        };
        if !self.claims.begin(uid, &prepared) {
            return RetryWhen::OnChange;
        }

        let answer = self
            .driver
            .create_volume(prepared.request.clone(), PATIENCE);
        match Box::pin(answer).await {
            Ok(answer) => {
                let created = answer.volume.unwrap_or_default();
                self.save(&claim, &prepared.finish(created)).await
            }
            // The next leader asks for it by its name.
            Err(_) if stop.is_cancelled() => RetryWhen::OnChange,
            Err(failure) => self.follow_failure(&claim, &prepared, &failure).await,
        }
    }

    /// Returns what to ask the cloud for a claim; `None` if it needs nothing from this driver (yet).
    async fn prepare(&self, claim: &ClaimEntry) -> Result<Option<Prepared>, Problem> {
        let Some(driver) = self.driver() else {
            return Ok(None);
        };
        let object = &claim.object;
        if !plan::is_for(object, &driver.name) {
            return Ok(None);
        }
        let class = plan::class_of(object);
        let Some(class) = self.objects.classes.get(class) else {
            // When it is created, the claim is looked at again.
            tracing::debug!(
                claim = claim.key(),
                class,
                "the StorageClass does not exist"
            );
            return Ok(None);
        };
        let Some(spec) = &object.spec else {
            return Ok(None);
        };
        if !plan::is_due(object, &class.object, &driver.name) {
            return Ok(None);
        }

        let message = format!(
            "External provisioner is provisioning volume for claim {:?}",
            claim.key()
        );
        self.context.normal(claim, reason::PROVISIONING, message);
        self.prepare_for(claim, spec, &class, &driver).await
    }

    async fn prepare_for(
        &self,
        claim: &ClaimEntry,
        spec: &PersistentVolumeClaimSpec,
        class: &Entry<ClassKind>,
        driver: &CsiDriver,
    ) -> Result<Option<Prepared>, Problem> {
        let namespace = super::namespace(&claim.object);
        let content = match source::of(spec)? {
            None => None,
            Some(Source::Other) => {
                let message = "Assuming an external populator will provision the volume";
                self.context.normal(claim, reason::PROVISIONING, message);
                return Ok(None);
            }
            Some(Source::Claim(name)) => {
                Some(self.clone_claim(&namespace, &name, spec, driver).await?)
            }
            Some(Source::Snapshot(name)) => {
                Some(self.restore(&namespace, &name, spec, driver).await?)
            }
        };

        let topology = if driver.topology_keys.is_empty() {
            None
        } else {
            topology::requirement(
                claim.name(),
                class
                    .object
                    .allowed_topologies
                    .as_deref()
                    .unwrap_or_default(),
                plan::selected_node(&claim.object),
                &self.nodes(driver),
            )?
        };
        Ok(Some(plan::prepare(Asked {
            driver: &driver.name,
            claim: &claim.object,
            class: &class.object,
            source: content,
            topology,
            attributes: self.attributes(spec, driver).await?,
        })?))
    }

    /// Returns the volume of a claim that is cloned, which is not deleted until that is done.
    async fn clone_claim(
        &self,
        namespace: &str,
        name: &str,
        spec: &PersistentVolumeClaimSpec,
        driver: &CsiDriver,
    ) -> Result<VolumeContentSource, Problem> {
        let source = self.objects.claims.get(&format!("{namespace}/{name}"));
        let bound = source.as_ref().and_then(|it| it.object.spec.as_ref());
        let bound = bound.and_then(|it| it.volume_name.as_deref());
        let volume = bound.and_then(|name| self.objects.volumes.get(name));

        let content = source::cloned(
            &driver.name,
            spec,
            source.as_ref().map(|it| &it.object),
            volume.as_ref().map(|it| &it.object),
        )?;
        if let Some(source) = source
            && !finalizer::has(&source.object.metadata, source::CLONED)
        {
            let added = finalizer::added(&source.object.metadata, source::CLONED);
            let added = Patch::Strategic(added);
            self.write::<PersistentVolumeClaim>(Some(namespace), name, &added)
                .await?;
        }
        Ok(content)
    }

    /// Returns the snapshot that is restored, which is not deleted until that is done.
    async fn restore(
        &self,
        namespace: &str,
        name: &str,
        spec: &PersistentVolumeClaimSpec,
        driver: &CsiDriver,
    ) -> Result<VolumeContentSource, Problem> {
        let snapshot = custom::SNAPSHOTS
            .get(&self.client, Some(namespace), name)
            .await?;
        let content = source::content_of(&snapshot)?;
        let content = custom::CONTENTS.get(&self.client, None, content).await?;
        let restored = source::restored(&driver.name, spec, &snapshot, &content)?;

        if !source::has_finalizer(&snapshot, source::RESTORED) {
            let mut finalizers = field(&snapshot, "/metadata/finalizers").clone();
            match &mut finalizers {
                Value::Array(all) => all.push(source::RESTORED.into()),
                other => *other = json!([source::RESTORED]),
            }
            self.write_finalizers(namespace, name, &snapshot, &finalizers)
                .await?;
        }
        Ok(restored)
    }

    /// Writes the finalizers of a VolumeSnapshot, if it has not changed since.
    async fn write_finalizers(
        &self,
        namespace: &str,
        name: &str,
        snapshot: &Value,
        finalizers: &Value,
    ) -> Result<(), ApiError> {
        let metadata = field(snapshot, "/metadata");
        let body = json!({"metadata": {
            "uid": field(metadata, "/uid"),
            "resourceVersion": field(metadata, "/resourceVersion"),
            "finalizers": finalizers,
        }});
        custom::SNAPSHOTS
            .patch(&self.client, Some(namespace), name, &body)
            .await
    }

    /// Returns the parameters of the VolumeAttributesClass of a claim.
    async fn attributes(
        &self,
        spec: &PersistentVolumeClaimSpec,
        driver: &CsiDriver,
    ) -> Result<Pairs, Problem> {
        let name = spec.volume_attributes_class_name.as_deref();
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Ok(Pairs::new());
        };
        let class = custom::ATTRIBUTES_CLASSES
            .get(&self.client, None, name)
            .await?;
        custom::attributes(&class, &driver.name).ok_or_else(|| {
            let message = format!("VolumeAttributesClass {name} is for another driver");
            Problem::Object(message)
        })
    }

    /// Returns what is known of the nodes. Keys that are not those of the driver do not count: kubelets write
    /// them, and a request with one is rejected.
    fn nodes(&self, driver: &CsiDriver) -> Nodes {
        let keys = |name: &str, node: &k8s_openapi::api::storage::v1::CSINode| {
            let mut drivers = node.spec.drivers.iter();
            let found = drivers.find(|it| it.name == driver.name);
            let mut keys = found
                .and_then(|it| it.topology_keys.clone())
                .unwrap_or_default();
            keys.retain(|key| driver.topology_keys.contains(key));
            (name.to_owned(), keys)
        };
        let csi_nodes = self.objects.csi_nodes.list();
        let nodes = self.context.nodes.list();
        Nodes {
            keys: csi_nodes
                .iter()
                .map(|it| keys(it.name(), &it.object))
                .collect(),
            labels: nodes
                .iter()
                .map(|it| (it.name().to_owned(), it.view.labels.clone()))
                .collect(),
        }
    }

    /// Creates the PersistentVolume of a volume.
    async fn save(&self, claim: &ClaimEntry, volume: &PersistentVolume) -> RetryWhen {
        let name = volume.metadata.name.clone().unwrap_or_default();
        let api: Api<PersistentVolume> = Api::all(self.client.clone());
        let params = PostParams::default();
        let action = Action {
            verb: "create",
            resource: "persistentvolumes".to_owned(),
        };
        let created = match Box::pin(api.create(&params, volume)).await {
            Ok(_) => Ok(()),
            // By an earlier attempt.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => Err(ApiError::new(action, error)),
        };
        if let Err(error) = created {
            // The volume is asked for again, and is there.
            self.context.api_error(&claim.key(), &error);
            let message =
                format!("The volume {name} was created, but not its PersistentVolume: {error}");
            self.warn(claim, &message);
            return RetryWhen::BackOff;
        }

        self.claims.end(claim.uid());
        let message = format!("Successfully provisioned volume {name}");
        self.context
            .normal(claim, reason::PROVISIONING_SUCCEEDED, message);
        RetryWhen::OnChange
    }

    /// Decides what follows from a failure to create a volume (`checkError`). Returns when to try again.
    async fn follow_failure(
        &self,
        claim: &ClaimEntry,
        prepared: &Prepared,
        failure: &Failure,
    ) -> RetryWhen {
        request::failed(&self.context, &claim.key(), failure);
        let code = failure.code;
        if !code.is_final() {
            self.warn(claim, &failure.message);
            return RetryWhen::BackOff;
        }

        self.claims.end(claim.uid());
        let has_topology = prepared.request.accessibility_requirements.is_some();
        if code == Code::ResourceExhausted && has_topology {
            return self.reschedule(claim, &failure.message).await;
        }
        self.warn(claim, &failure.message);
        match code {
            // Only another class or claim helps, and both are followed.
            Code::InvalidArgument => RetryWhen::After(LIMITER.max),
            _ => RetryWhen::BackOff,
        }
    }

    fn warn(&self, claim: &ClaimEntry, message: &str) {
        self.context
            .warning(claim, reason::PROVISIONING_FAILED, message);
    }

    async fn tell(&self, claim: &ClaimEntry, problem: Problem) -> RetryWhen {
        match problem {
            Problem::Object(message) => {
                tracing::debug!(claim = claim.key(), "{message}");
                self.warn(claim, &message);
                RetryWhen::BackOff
            }
            Problem::Reschedule(message) => self.reschedule(claim, &message).await,
            Problem::Api(error) => {
                self.context.api_error(&claim.key(), &error);
                self.warn(claim, &error.to_string());
                // What does not exist yet may be created, and is not followed.
                match RetryWhen::after_write(&error) {
                    RetryWhen::OnChange => RetryWhen::BackOff,
                    other => other,
                }
            }
        }
    }

    /// Asks the scheduler for another node, if it has selected one (`rescheduleProvisioning`).
    async fn reschedule(&self, claim: &ClaimEntry, message: &str) -> RetryWhen {
        self.warn(claim, message);
        if plan::selected_node(&claim.object).is_none() {
            return RetryWhen::BackOff;
        }

        let metadata = &claim.object.metadata;
        let body = Patch::Merge(json!({"metadata": {
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "annotations": {plan::SELECTED_NODE: null},
        }}));
        let namespace = super::namespace(&claim.object);
        let written = self.write::<PersistentVolumeClaim>(Some(&namespace), claim.name(), &body);
        match written.await {
            Ok(()) => RetryWhen::OnChange,
            Err(error) => {
                self.context.api_error(&claim.key(), &error);
                RetryWhen::after_write(&error)
            }
        }
    }

    async fn write<K: Resource<DynamicType = ()>>(
        &self,
        namespace: Option<&str>,
        name: &str,
        body: &Patch,
    ) -> Result<(), ApiError> {
        let target = Target {
            namespace,
            name,
            subresource: None,
        };
        patch::<K>(&self.client, &target, body).await?;
        Ok(())
    }

    /// Does what a PersistentVolume needs. Returns when to try again.
    pub(super) async fn reclaim(&self, name: &str, stop: &CancellationToken) -> RetryWhen {
        let (Some(volume), Some(driver)) = (self.objects.volumes.get(name), self.driver()) else {
            return RetryWhen::OnChange;
        };
        let step = {
            let attachments = self.objects.attachments.list();
            let attachments = attachments.iter().map(|it| &it.object);
            reclaim(&volume.object, &driver.name, attachments)
        };

        let metadata = &volume.object.metadata;
        let written = match step {
            Reclaim::Nothing => return RetryWhen::OnChange,
            Reclaim::AddFinalizer => {
                let body = Patch::Strategic(finalizer::added(metadata, plan::FINALIZER));
                self.write::<PersistentVolume>(None, name, &body).await
            }
            Reclaim::RemoveFinalizer => self.release(&volume).await,
            Reclaim::Wait(message) => {
                self.context
                    .warning(&volume, reason::VOLUME_FAILED_DELETE, message);
                return RetryWhen::BackOff;
            }
            Reclaim::Delete(_) if self.is_deleted(&volume) => self.remove(&volume).await,
            Reclaim::Delete(request) => {
                let answer = self.driver.delete_volume(request, PATIENCE);
                match Box::pin(answer).await {
                    Ok(_) => {
                        self.deleted.lock().insert(volume.uid().to_owned());
                        self.remove(&volume).await
                    }
                    Err(_) if stop.is_cancelled() => return RetryWhen::OnChange,
                    Err(failure) => {
                        request::failed(&self.context, name, &failure);
                        self.context.warning(
                            &volume,
                            reason::VOLUME_FAILED_DELETE,
                            failure.message,
                        );
                        return RetryWhen::BackOff;
                    }
                }
            }
        };
        match written {
            Ok(()) => RetryWhen::OnChange,
            Err(error) => {
                self.context.api_error(name, &error);
                RetryWhen::after_write(&error)
            }
        }
    }

    fn is_deleted(&self, volume: &Entry<VolumeKind>) -> bool {
        self.deleted.lock().contains(volume.uid())
    }

    async fn release(&self, volume: &Entry<VolumeKind>) -> Result<(), ApiError> {
        let removed = finalizer::removed(&volume.object.metadata, plan::FINALIZER);
        let removed = Patch::Strategic(removed);
        self.write::<PersistentVolume>(None, volume.name(), &removed)
            .await
    }

    /// Deletes the PersistentVolume of a volume that is deleted, and only then lets it go: without the finalizer,
    /// its volume would not be deleted again (`deleteVolumeOperation`).
    async fn remove(&self, volume: &Entry<VolumeKind>) -> Result<(), ApiError> {
        api::delete::<PersistentVolume>(&self.client, volume.name(), volume.uid()).await?;
        if finalizer::has(&volume.object.metadata, plan::FINALIZER) {
            self.release(volume).await?;
        }
        Ok(())
    }

    /// Looks for VolumeSnapshots whose finalizer may have been left, again and again: nobody has seen it if a
    /// claim was deleted while no replica led (`sweepOrphanedFinalizers`).
    pub(super) async fn sweep(&self) {
        loop {
            if self.context.provider.info().can(Capability::Snapshots) {
                match custom::SNAPSHOTS.list(&self.client).await {
                    Ok(all) => self.check_held(&all),
                    // The cluster has none.
                    Err(ApiError::Gone(_)) => {}
                    Err(error) => self.context.api_error("VolumeSnapshots", &error),
                }
            }
            sleep(SWEEP).await;
        }
    }

    /// Adds the VolumeSnapshots with the finalizer, after a delay: by then, the claim is known for which it was
    /// added a moment ago.
    fn check_held(&self, all: &[ObjectMeta]) {
        for metadata in all {
            if finalizer::has(metadata, source::RESTORED)
                && let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name)
            {
                let source = (namespace.clone(), Source::Snapshot(name.clone()));
                self.sources.add_after(source, GRACE, Priority::Recheck);
            }
        }
    }

    /// Removes the finalizer of a source that no claim needs any more. Returns when to try again.
    pub(super) async fn release_source(&self, (namespace, source): &InNamespace) -> RetryWhen {
        let claims = self.objects.claims.list();
        let mut claims = claims.iter().map(|it| &it.object);
        let is_needed = claims.any(|it| {
            it.metadata.namespace.as_ref() == Some(namespace) && source::is_needed_by(it, source)
        });
        if is_needed {
            // The claim that needs it is followed.
            return RetryWhen::OnChange;
        }

        let (released, name) = match source {
            Source::Claim(name) => (self.release_claim(namespace, name).await, name),
            Source::Snapshot(name) => (self.release_snapshot(namespace, name).await, name),
            Source::Other => return RetryWhen::OnChange,
        };
        match released {
            Ok(()) => RetryWhen::OnChange,
            Err(error) => {
                self.context.api_error(name, &error);
                RetryWhen::after_write(&error)
            }
        }
    }

    async fn release_claim(&self, namespace: &str, name: &str) -> Result<(), ApiError> {
        let source = self.objects.claims.get(&format!("{namespace}/{name}"));
        let Some(source) = source else {
            return Ok(());
        };
        let metadata = &source.object.metadata;
        // As csi-provisioner, only when it is in the way.
        if metadata.deletion_timestamp.is_none() || !finalizer::has(metadata, source::CLONED) {
            return Ok(());
        }
        let removed = Patch::Strategic(finalizer::removed(metadata, source::CLONED));
        self.write::<PersistentVolumeClaim>(Some(namespace), name, &removed)
            .await
    }

    async fn release_snapshot(&self, namespace: &str, name: &str) -> Result<(), ApiError> {
        let snapshot = custom::SNAPSHOTS
            .get(&self.client, Some(namespace), name)
            .await?;
        if !source::has_finalizer(&snapshot, source::RESTORED) {
            return Ok(());
        }
        let all = field(&snapshot, "/metadata/finalizers").as_array();
        let others: Vec<_> = all
            .into_iter()
            .flatten()
            .filter(|it| **it != source::RESTORED)
            .collect();
        self.write_finalizers(namespace, name, &snapshot, &json!(others))
            .await
    }
}
