//! Implementation of `CloudProvider` for a plugin.

mod calls;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use skydock_cloud::{
    Answers, Attachment, Capacity, CapacityRequest, CloudError, CloudProvider, Expansion, Function,
    Instance, LoadBalancerStatus, Modification, NewAttachment, NewRoute, NewSnapshot, NewVolume,
    Node, NodeFields, NodeSet, Pairs, Presence, ProviderInfo, Route, Service, Snapshot, SnapshotId,
    StorageError, Volume, VolumeId, Zone,
};

use self::calls::BalancerCall;
use crate::{imports::Subject, plugin::Plugin};

impl Plugin {
    /// Returns the subject of a call about routes to these nodes.
    fn named<'a>(&self, names: impl Iterator<Item = &'a str>) -> Subject {
        let Some(cluster) = self.shared.cluster.get() else {
            return Subject::default();
        };
        let nodes: Vec<_> = names.filter_map(|name| cluster.node(name)).collect();
        Subject::nodes(&nodes)
    }
}

#[async_trait]
impl CloudProvider for Plugin {
    fn info(&self) -> Arc<ProviderInfo> {
        self.current().provider()
    }

    async fn check(&self, nodes: &[Arc<Node>]) -> Result<Answers<Presence>, CloudError> {
        self.call_for_each(Function::Check, Subject::nodes(nodes), |guest| {
            guest.check(nodes)
        })
        .await
    }

    async fn describe(&self, nodes: &[Arc<Node>]) -> Result<Answers<Instance>, CloudError> {
        self.call_for_each(Function::Describe, Subject::nodes(nodes), |guest| {
            guest.describe(nodes)
        })
        .await
    }

    async fn get_load_balancer(
        &self,
        service: &Service,
    ) -> Result<Option<LoadBalancerStatus>, CloudError> {
        self.call(Function::Get, Subject::service(service), |guest| {
            guest.get_load_balancer(service)
        })
        .await
    }

    async fn ensure_load_balancer(
        &self,
        service: &Service,
        nodes: &NodeSet,
    ) -> Result<LoadBalancerStatus, CloudError> {
        let about = BalancerCall {
            subject: Subject::service(service).ensured(),
            uid: &service.uid,
            nodes,
        };

        self.call_with_nodes(Function::Ensure, about, |guest| {
            guest.ensure_load_balancer(service)
        })
        .await
    }

    async fn update_load_balancer(
        &self,
        service: &Service,
        nodes: &NodeSet,
    ) -> Result<(), CloudError> {
        let about = BalancerCall {
            subject: Subject::service(service),
            uid: &service.uid,
            nodes,
        };
        self.call_with_nodes(Function::UpdateNodes, about, |guest| {
            guest.update_load_balancer(service)
        })
        .await
    }

    async fn ensure_load_balancer_deleted(&self, service: &Service) -> Result<(), CloudError> {
        // No generation has the number 0: the entry is only removed.
        self.shared.last_nodes.take(&service.uid, 0);
        self.shared.node_readers.remove(&service.uid);

        let subject = Subject::service(service);
        self.call(Function::EnsureDeleted, subject, |guest| {
            guest.ensure_load_balancer_deleted(service)
        })
        .await
    }

    fn revision(&self) -> String {
        self.current().revision.clone()
    }

    fn node_fields_read(&self, service_uid: &str) -> NodeFields {
        self.shared.node_readers.of(service_uid)
    }

    fn max_routes(&self) -> Option<usize> {
        Some(self.current().limits().routes)
    }

    async fn list_routes(&self) -> Result<Vec<Route>, CloudError> {
        self.all_pages(
            Function::ListRoutes,
            |limits| limits.routes,
            |guest, page, before| guest.list_routes(page, before),
        )
        .await
    }

    async fn create_routes(&self, routes: &[NewRoute]) -> Result<Answers<()>, CloudError> {
        let subject = self.named(routes.iter().map(|route| route.target_node.as_str()));
        self.call_for_each(Function::CreateRoutes, subject, |guest| {
            guest.create_routes(routes)
        })
        .await
    }

    async fn delete_routes(&self, routes: &[Route]) -> Result<Answers<()>, CloudError> {
        let subject = self.named(
            routes
                .iter()
                .filter_map(|route| route.target_node.as_deref()),
        );
        self.call_for_each(Function::DeleteRoutes, subject, |guest| {
            guest.delete_routes(routes)
        })
        .await
    }

    async fn locate(&self, nodes: &[Arc<Node>]) -> Result<Answers<Zone>, CloudError> {
        self.call_for_each(Function::Locate, Subject::nodes(nodes), |guest| {
            guest.locate(nodes)
        })
        .await
    }

    async fn maintain(&self) -> Result<Duration, CloudError> {
        self.call(Function::Maintain, Subject::everything(), |guest| {
            guest.maintain()
        })
        .await
    }

    async fn create_volumes(
        &self,
        volumes: &[NewVolume],
    ) -> Result<Answers<Volume, StorageError>, CloudError> {
        self.call_for_each(Function::CreateVolumes, Subject::default(), |guest| {
            guest.create_volumes(volumes)
        })
        .await
    }

    async fn get_volumes(
        &self,
        ids: &[VolumeId],
    ) -> Result<Answers<Volume, StorageError>, CloudError> {
        self.call_for_each(Function::GetVolumes, Subject::default(), |guest| {
            guest.get_volumes(ids)
        })
        .await
    }

    async fn list_volumes(&self) -> Result<Vec<Volume>, CloudError> {
        self.all_pages(
            Function::ListVolumes,
            |limits| limits.volumes,
            |guest, page, before| guest.list_volumes(page, before),
        )
        .await
    }

    async fn attach_volumes(
        &self,
        attachments: &[NewAttachment],
    ) -> Result<Answers<Pairs, StorageError>, CloudError> {
        self.call_for_each(Function::AttachVolumes, Subject::default(), |guest| {
            guest.attach_volumes(attachments)
        })
        .await
    }

    async fn detach_volumes(
        &self,
        attachments: &[Attachment],
    ) -> Result<Answers<(), StorageError>, CloudError> {
        self.call_for_each(Function::DetachVolumes, Subject::default(), |guest| {
            guest.detach_volumes(attachments)
        })
        .await
    }

    async fn expand_volumes(
        &self,
        expansions: &[Expansion],
    ) -> Result<Answers<u64, StorageError>, CloudError> {
        self.call_for_each(Function::ExpandVolumes, Subject::default(), |guest| {
            guest.expand_volumes(expansions)
        })
        .await
    }

    async fn modify_volumes(
        &self,
        modifications: &[Modification],
    ) -> Result<Answers<(), StorageError>, CloudError> {
        self.call_for_each(Function::ModifyVolumes, Subject::default(), |guest| {
            guest.modify_volumes(modifications)
        })
        .await
    }

    async fn create_snapshots(
        &self,
        snapshots: &[NewSnapshot],
    ) -> Result<Answers<Snapshot, StorageError>, CloudError> {
        self.call_for_each(Function::CreateSnapshots, Subject::default(), |guest| {
            guest.create_snapshots(snapshots)
        })
        .await
    }

    async fn get_snapshots(
        &self,
        ids: &[SnapshotId],
    ) -> Result<Answers<Snapshot, StorageError>, CloudError> {
        self.call_for_each(Function::GetSnapshots, Subject::default(), |guest| {
            guest.get_snapshots(ids)
        })
        .await
    }

    async fn list_snapshots(&self) -> Result<Vec<Snapshot>, CloudError> {
        self.all_pages(
            Function::ListSnapshots,
            |limits| limits.volumes,
            |guest, page, before| guest.list_snapshots(page, before),
        )
        .await
    }

    async fn delete_snapshots(
        &self,
        ids: &[SnapshotId],
    ) -> Result<Answers<(), StorageError>, CloudError> {
        self.call_for_each(Function::DeleteSnapshots, Subject::default(), |guest| {
            guest.delete_snapshots(ids)
        })
        .await
    }

    async fn delete_volumes(
        &self,
        ids: &[VolumeId],
    ) -> Result<Answers<(), StorageError>, CloudError> {
        self.call_for_each(Function::DeleteVolumes, Subject::default(), |guest| {
            guest.delete_volumes(ids)
        })
        .await
    }

    async fn get_capacities(
        &self,
        requests: &[CapacityRequest],
    ) -> Result<Answers<Capacity, StorageError>, CloudError> {
        self.call_for_each(Function::GetCapacities, Subject::default(), |guest| {
            guest.get_capacities(requests)
        })
        .await
    }
}
