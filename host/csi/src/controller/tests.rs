use std::collections::{BTreeMap, VecDeque};

use async_trait::async_trait;
use futures::future::join_all;
use parking_lot::Mutex;
use skydock_cloud::{AccessMode, Answers, CsiDriver, Retry};
use tokio::time::sleep;

use super::*;
use crate::proto::{
    CapacityRange, CreateVolumeRequest, DeleteVolumeRequest, ListSnapshotsRequest,
    ListVolumesRequest, ProbeResponse, ValidateVolumeCapabilitiesRequest, VolumeCapability,
    volume_capability::{AccessMode as ProtoMode, AccessType, BlockVolume, access_mode::Mode},
};

/// Time that the requests have.
const LEFT: Duration = Duration::from_secs(10);

/// A cloud with what it is told to answer.
#[derive(Default)]
struct Disks {
    /// The calls, with the questions of each.
    calls: Mutex<Vec<String>>,
    /// Errors of the next questions about a volume, by its name or ID.
    errors: Mutex<BTreeMap<String, VecDeque<StorageError>>>,
    /// IDs of volumes that are not their names, by these.
    ids: Mutex<BTreeMap<String, String>>,
    /// How long a call takes.
    takes: Mutex<Duration>,
}

impl Disks {
    async fn call(&self, call: &str, questions: &[&str]) {
        let call = format!("{call} {}", questions.join(","));
        self.calls.lock().push(call);
        let takes = *self.takes.lock();
        sleep(takes).await;
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock())
    }

    fn fails(&self, name: &str, error: impl Into<StorageError>) {
        let mut errors = self.errors.lock();
        let of = errors.entry(name.to_owned()).or_default();
        of.push_back(error.into());
    }

    fn answer<T>(&self, name: &str, answer: T) -> Result<T, StorageError> {
        let mut errors = self.errors.lock();
        match errors.get_mut(name).and_then(VecDeque::pop_front) {
            Some(error) => Err(error),
            None => Ok(answer),
        }
    }
}

fn volume(id: &str) -> Volume {
    Volume {
        id: VolumeId(id.to_owned()),
        bytes: 10,
        topology: Vec::new(),
        context: Pairs::new(),
        nodes: Vec::new(),
    }
}

fn snapshot(id: &str) -> Snapshot {
    Snapshot {
        id: SnapshotId(id.to_owned()),
        volume: VolumeId(format!("of-{id}")),
        bytes: 10,
        created: Duration::ZERO,
        ready: true,
    }
}

#[async_trait]
impl CloudProvider for Disks {
    fn info(&self) -> Arc<ProviderInfo> {
        Arc::new(ProviderInfo {
            name: "disks".into(),
            version: "1.2.3".into(),
            capabilities: [
                Capability::Volumes,
                Capability::VolumeExpansion,
                Capability::Snapshots,
            ]
            .into(),
            provider_id_prefixes: Vec::new(),
            annotation_prefixes: Vec::new(),
            max_batch: 100,
            driver: Some(CsiDriver {
                name: "disks.csi.example.com".into(),
                topology_keys: Vec::new(),
                access_modes: vec![AccessMode::SingleNodeWriter],
                clones: false,
            }),
        })
    }

    async fn create_volumes(
        &self,
        volumes: &[NewVolume],
    ) -> Result<Answers<Volume, StorageError>, CloudError> {
        let names: Vec<_> = volumes.iter().map(|it| it.name.as_str()).collect();
        self.call("create", &names).await;
        let ids = self.ids.lock();
        let id = |name: &str| ids.get(name).map_or(name.to_owned(), Clone::clone);
        let answer = |name: &&str| self.answer(name, volume(&id(name)));
        Ok(names.iter().map(answer).collect())
    }

    async fn get_volumes(
        &self,
        ids: &[VolumeId],
    ) -> Result<Answers<Volume, StorageError>, CloudError> {
        let ids: Vec<_> = ids.iter().map(|it| it.0.as_str()).collect();
        self.call("get", &ids).await;
        Ok(ids.iter().map(|id| self.answer(id, volume(id))).collect())
    }

    async fn delete_volumes(
        &self,
        ids: &[VolumeId],
    ) -> Result<Answers<(), StorageError>, CloudError> {
        let ids: Vec<_> = ids.iter().map(|it| it.0.as_str()).collect();
        self.call("delete", &ids).await;
        Ok(ids.iter().map(|id| self.answer(id, ())).collect())
    }

    async fn expand_volumes(
        &self,
        expansions: &[Expansion],
    ) -> Result<Answers<u64, StorageError>, CloudError> {
        // Each has 10 bytes.
        let size = |it: &Expansion| Ok(it.size.bytes.max(10));
        Ok(expansions.iter().map(size).collect())
    }

    async fn list_volumes(&self) -> Result<Vec<Volume>, CloudError> {
        self.call("list", &[]).await;
        Ok(vec![volume("b"), volume("a"), volume("c")])
    }

    async fn get_snapshots(
        &self,
        ids: &[SnapshotId],
    ) -> Result<Answers<Snapshot, StorageError>, CloudError> {
        let ids: Vec<_> = ids.iter().map(|it| it.0.as_str()).collect();
        self.call("get snapshots", &ids).await;
        Ok(ids.iter().map(|id| self.answer(id, snapshot(id))).collect())
    }

    async fn list_snapshots(&self) -> Result<Vec<Snapshot>, CloudError> {
        self.call("list snapshots", &[]).await;
        Ok(vec![snapshot("b"), snapshot("a")])
    }
}

/// Returns the driver on a leader, and what leads it.
fn driver() -> (Arc<Disks>, Controller, watch::Sender<bool>) {
    let disks = Arc::<Disks>::default();
    let (leads, follows) = watch::channel(true);
    let controller = Controller::new(Arc::clone(&disks) as _, follows);
    (disks, controller, leads)
}

fn capability(mode: Mode) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(ProtoMode { mode: mode.into() }),
        access_type: Some(AccessType::Block(BlockVolume {})),
    }
}

fn create(name: &str) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: 10,
            limit_bytes: 0,
        }),
        volume_capabilities: vec![capability(Mode::SingleNodeWriter)],
        ..CreateVolumeRequest::default()
    }
}

fn in_progress(after: u64) -> StorageError {
    StorageError::Cloud(CloudError::InProgress(Retry {
        after: Duration::from_millis(after),
        message: "the disk is formatted".into(),
    }))
}

#[tokio::test(start_paused = true)]
async fn creates_at_the_same_time_are_one_call() {
    let (disks, driver, _leads) = driver();
    let names = ["a", "b", "c"];
    let created = join_all(names.map(|it| driver.create_volume(create(it), LEFT))).await;
    for (created, name) in created.into_iter().zip(names) {
        assert_eq!(created.unwrap().volume.unwrap().volume_id, name);
    }
    assert_eq!(disks.calls(), ["create a,b,c"]);
}

#[tokio::test(start_paused = true)]
async fn those_that_wait_for_the_cloud_ask_together() {
    let (disks, driver, _leads) = driver();
    for name in ["a", "b"] {
        disks.fails(name, in_progress(1000));
    }
    let late = async {
        sleep(Duration::from_millis(200)).await;
        driver.create_volume(create("b"), LEFT).await
    };
    let (a, b) = tokio::join!(driver.create_volume(create("a"), LEFT), late);
    assert!(a.is_ok() && b.is_ok());
    let calls = disks.calls();
    assert_eq!(calls[..2], ["create a", "create b"]);
    assert!(["create a,b", "create b,a"].contains(&&*calls[2]));
    assert_eq!(calls.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_request_ends_before_its_deadline() {
    let (disks, driver, _leads) = driver();
    for _ in 0..20 {
        disks.fails("a", in_progress(1000));
    }
    let begun = Instant::now();
    let failure = driver.create_volume(create("a"), LEFT).await.unwrap_err();
    assert_eq!(failure.code, Code::Aborted);
    assert!(
        failure.message.contains("the disk is formatted"),
        "{failure}"
    );
    assert!(begun.elapsed() <= LEFT);
    assert!((5..=10).contains(&disks.calls().len()));

    // The plugin itself does not answer.
    *disks.takes.lock() = Duration::from_secs(60);
    let begun = Instant::now();
    let failure = driver.create_volume(create("b"), LEFT).await.unwrap_err();
    assert_eq!((failure.code, begun.elapsed()), (Code::Aborted, LEFT));
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_created_by_one_request_at_a_time() {
    let (disks, driver, _leads) = driver();
    *disks.takes.lock() = Duration::from_secs(30);
    let (first, second) = tokio::join!(
        driver.create_volume(create("a"), LEFT),
        driver.create_volume(create("a"), LEFT)
    );
    assert_eq!(
        [first, second].map(|it| it.unwrap_err().code),
        [Code::Aborted; 2]
    );
    assert_eq!(disks.calls(), ["create a"]);

    // The first call goes on, although nobody waits for it.
    let third = driver.create_volume(create("a"), LEFT).await;
    assert_eq!(third.unwrap_err().code, Code::Aborted);
    assert_eq!(disks.calls(), [""; 0]);

    sleep(Duration::from_secs(30)).await;
    *disks.takes.lock() = Duration::ZERO;
    assert!(driver.create_volume(create("a"), LEFT).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_error_has_its_code_and_is_not_repeated() {
    let (disks, driver, _leads) = driver();
    for (error, code) in [
        (StorageError::Exhausted("x".into()), Code::ResourceExhausted),
        (StorageError::Exists("x".into()), Code::AlreadyExists),
        (CloudError::Denied("x".into()).into(), Code::Unavailable),
        (CloudError::Internal("x".into()).into(), Code::Unavailable),
    ] {
        disks.fails("a", error);
        let failure = driver.create_volume(create("a"), LEFT).await.unwrap_err();
        assert_eq!(failure.code, code);
        assert_eq!(disks.calls(), ["create a"]);
    }
}

// Holds: SEC-05
#[tokio::test(start_paused = true)]
async fn a_volume_is_created_for_one_name() {
    let (disks, driver, _leads) = driver();
    let same = ["a", "b"].map(|name| (name.to_owned(), "disk".to_owned()));
    disks.ids.lock().extend(same);
    assert!(driver.create_volume(create("a"), LEFT).await.is_ok());
    assert!(driver.create_volume(create("a"), LEFT).await.is_ok());
    let failure = driver.create_volume(create("b"), LEFT).await.unwrap_err();
    assert_eq!(failure.code, Code::Unavailable);

    let request = DeleteVolumeRequest {
        volume_id: "disk".to_owned(),
        ..DeleteVolumeRequest::default()
    };
    driver.delete_volume(request, LEFT).await.unwrap();
    assert!(driver.create_volume(create("b"), LEFT).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_volume_does_not_shrink_to_a_limit() {
    let (_disks, driver, _leads) = driver();
    for (required_bytes, limit_bytes, expected) in [
        (5, 0, Ok(10)),
        (5, 10, Ok(10)),
        (20, 20, Ok(20)),
        (5, 9, Err(Code::OutOfRange)),
    ] {
        let request = proto::ControllerExpandVolumeRequest {
            volume_id: "a".to_owned(),
            capacity_range: Some(CapacityRange {
                required_bytes,
                limit_bytes,
            }),
            ..proto::ControllerExpandVolumeRequest::default()
        };
        let expanded = driver.expand_volume(request, LEFT).await;
        let found = expanded.map(|it| it.capacity_bytes);
        assert_eq!(found.map_err(|it| it.code), expected, "{limit_bytes}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_serves() {
    let (disks, driver, leads) = driver();
    leads.send(false).unwrap();
    assert_eq!(driver.probe(), ProbeResponse { ready: Some(false) });
    let failure = driver.create_volume(create("a"), LEFT).await.unwrap_err();
    assert_eq!(failure.code, Code::Unavailable);
    let listed = driver.list_volumes(ListVolumesRequest::default()).await;
    assert_eq!(listed.unwrap_err().code, Code::Unavailable);
    assert_eq!(disks.calls(), [""; 0]);

    // What the sidecars ask before they wait for it.
    assert_eq!(driver.plugin_info().unwrap().name, "disks.csi.example.com");
    assert_eq!(driver.plugin_capabilities().capabilities.len(), 1);
    assert_eq!(driver.capabilities().capabilities.len(), 7);

    leads.send(true).unwrap();
    assert_eq!(driver.probe(), ProbeResponse { ready: Some(true) });
    assert!(driver.create_volume(create("a"), LEFT).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn no_operation_begins_after_the_end_of_leadership() {
    let (disks, driver, leads) = driver();
    // After it was checked that this replica serves.
    leads.send(false).unwrap();
    let id = VolumeId("a".to_owned());
    let object = Some(Object::Volume(id.clone()));
    let deleted = driver.settled(&driver.delete_volumes, id, object, LEFT);
    assert_eq!(deleted.await.unwrap_err().code, Code::Unavailable);
    assert_eq!(disks.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn nothing_more_is_asked_after_the_end_of_leadership() {
    let (disks, driver, leads) = driver();
    disks.fails("a", in_progress(5000));
    *disks.takes.lock() = Duration::from_secs(2);
    let begun = Instant::now();
    let ends = async {
        sleep(Duration::from_secs(1)).await;
        leads.send(false).unwrap();
        driver.idle().await;
        begun.elapsed().as_secs()
    };
    let (created, idle) = tokio::join!(driver.create_volume(create("a"), LEFT), ends);
    // The plugin has answered what it was asked before.
    assert_eq!((created.unwrap_err().code, idle), (Code::Aborted, 2));
    assert_eq!(disks.calls(), ["create a"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_plugin_does_not_export_is_unimplemented() {
    let (disks, driver, _leads) = driver();
    let request = proto::ControllerModifyVolumeRequest::default();
    let failure = driver.modify_volume(request, LEFT).await.unwrap_err();
    assert_eq!(failure.code, Code::Unimplemented);
    assert_eq!(disks.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_request_does_not_reach_the_plugin() {
    let (disks, driver, _leads) = driver();
    let failure = driver.create_volume(create(""), LEFT).await.unwrap_err();
    assert_eq!(failure.code, Code::InvalidArgument);
    let request = DeleteVolumeRequest::default();
    let failure = driver.delete_volume(request, LEFT).await.unwrap_err();
    assert_eq!(failure.code, Code::InvalidArgument);
    assert_eq!(disks.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn volumes_are_listed_in_pages() {
    let (_disks, driver, _leads) = driver();
    let list = async |token: &str| {
        let request = ListVolumesRequest {
            max_entries: 2,
            starting_token: token.to_owned(),
        };
        let listed = driver.list_volumes(request).await.unwrap();
        let entries = listed.entries.into_iter();
        let ids: Vec<_> = entries.map(|it| it.volume.unwrap().volume_id).collect();
        (ids, listed.next_token)
    };
    let (first, token) = list("").await;
    let (second, end) = list(&token).await;
    assert_eq!(
        (first.join(" "), second.join(" ")),
        ("a b".into(), "c".into())
    );
    assert_eq!(end, "");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_page_is_rejected_without_a_list() {
    let (disks, driver, _leads) = driver();
    for (token, max_entries) in [("b", 0), ("", -1)] {
        let volumes = ListVolumesRequest {
            max_entries,
            starting_token: token.to_owned(),
        };
        assert!(driver.list_volumes(volumes).await.is_err());
        let snapshots = ListSnapshotsRequest {
            max_entries,
            starting_token: token.to_owned(),
            ..ListSnapshotsRequest::default()
        };
        assert!(driver.list_snapshots(snapshots, LEFT).await.is_err());
    }
    assert_eq!(disks.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn one_snapshot_is_read_and_not_listed() {
    let (disks, driver, _leads) = driver();
    let list = async |id: &str, volume: &str| {
        let request = ListSnapshotsRequest {
            snapshot_id: id.to_owned(),
            source_volume_id: volume.to_owned(),
            ..ListSnapshotsRequest::default()
        };
        let listed = driver.list_snapshots(request, LEFT).await.unwrap();
        let entries = listed.entries.into_iter();
        let ids: Vec<_> = entries.map(|it| it.snapshot.unwrap().snapshot_id).collect();
        ids.join(" ")
    };
    let both = tokio::join!(list("a", ""), list("b", ""));
    assert_eq!(both, ("a".to_owned(), "b".to_owned()));
    assert_eq!(disks.calls(), ["get snapshots a,b"]);

    disks.fails("c", CloudError::NotFound("c".into()));
    assert_eq!(list("c", "").await, "", "no error");
    disks.calls();
    assert_eq!(list("a", "of-a").await, "a");
    assert_eq!(list("a", "of-b").await, "", "both count");
    disks.calls();
    assert_eq!(list("", "of-b").await, "b");
    assert_eq!(list("", "").await, "a b");
    assert_eq!(disks.calls(), ["list snapshots ", "list snapshots "]);
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_validated_for_a_use() {
    let (disks, driver, _leads) = driver();
    let validate = async |mode| {
        let request = ValidateVolumeCapabilitiesRequest {
            volume_id: "a".to_owned(),
            volume_capabilities: vec![capability(mode)],
            ..ValidateVolumeCapabilitiesRequest::default()
        };
        driver.validate_capabilities(request, LEFT).await
    };
    let fits = validate(Mode::SingleNodeWriter).await.unwrap();
    assert!(fits.confirmed.is_some() && fits.message.is_empty());
    let other = validate(Mode::MultiNodeMultiWriter).await.unwrap();
    assert!(other.confirmed.is_none() && !other.message.is_empty());

    disks.fails("a", CloudError::NotFound("a".into()));
    let gone = validate(Mode::MultiNodeMultiWriter).await.unwrap_err();
    assert_eq!(gone.code, Code::NotFound);
}
