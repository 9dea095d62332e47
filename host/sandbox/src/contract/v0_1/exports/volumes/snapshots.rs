//! The interface `snapshots`.

use std::time::Duration;

use skydock_cloud::{self as cloud, SnapshotId, StorageError, VolumeId};

use super::{Guest, storage};
use crate::{
    answers::{Checked, Element, value},
    call_error::CallError,
    contract::{
        Running,
        v0_1::{
            exports::{
                generated::snapshots,
                pages::{Limit, Page, page},
            },
            from_guest::{each, single_answer},
            to_guest,
        },
    },
};

/// The end of the year 9999, the last time that the API server can write, in seconds.
const LAST: u64 = 253_402_300_799;

impl<'a, 's> Guest<'a, 's> {
    /// Calls `snapshots.create-snapshots`.
    pub(crate) fn create_snapshots(
        self,
        snapshots: &'s [cloud::NewSnapshot],
    ) -> Running<'a, Vec<Element<cloud::Snapshot, StorageError>>> {
        let Self {
            functions, store, ..
        } = self;
        let records: Vec<_> = snapshots.iter().map(to_guest::new_snapshot).collect();

        Box::pin(async move {
            let answer =
                call!(functions, store, CreateSnapshots: snapshots.call_create_snapshots(&records));

            let created = |question: &cloud::NewSnapshot, it| {
                let created = snapshot(it)?;
                storage::asked(
                    "volume of a snapshot",
                    &created.volume.0,
                    &question.volume.0,
                )?;
                Ok(created)
            };
            Ok(each(snapshots, answer, created)
                .map(|all| storage::distinct("snapshot", all, |it| it.id.0.as_str())))
        })
    }

    /// Calls `snapshots.get-snapshots`.
    pub(crate) fn get_snapshots(
        self,
        ids: &'s [SnapshotId],
    ) -> Running<'a, Vec<Element<cloud::Snapshot, StorageError>>> {
        let Self {
            functions, store, ..
        } = self;
        let records = to_guest::snapshot_ids(ids);

        Box::pin(async move {
            let answer =
                call!(functions, store, GetSnapshots: snapshots.call_get_snapshots(&records));

            Ok(each(ids, answer, |SnapshotId(id), it| {
                storage::asked("snapshot ID", &it.id, id)?;
                snapshot(it)
            }))
        })
    }

    /// Calls `snapshots.list-snapshots` for one page, after `before` snapshots on earlier pages.
    pub(crate) fn list_snapshots(
        self,
        token: Option<&'s str>,
        before: usize,
    ) -> Running<'a, Page<cloud::Snapshot>> {
        let Self {
            functions, store, ..
        } = self;

        Box::pin(async move {
            let answer =
                call!(functions, store, ListSnapshots: snapshots.call_list_snapshots(token));

            let limit = Limit {
                what: "snapshots",
                key: "volumes",
                most: store.data().shared.limits.volumes,
            };
            Ok(single_answer(answer).and_then(|it| {
                let all = Page {
                    items: it.snapshots,
                    next: it.next,
                };
                page(all, before, limit, snapshot).map_err(CallError::BadAnswer)
            }))
        })
    }

    /// Calls `snapshots.delete-snapshots`.
    pub(crate) fn delete_snapshots(
        self,
        ids: &'s [SnapshotId],
    ) -> Running<'a, Vec<Element<(), StorageError>>> {
        let Self {
            functions, store, ..
        } = self;
        let records = to_guest::snapshot_ids(ids);

        Box::pin(async move {
            let answer =
                call!(functions, store, DeleteSnapshots: snapshots.call_delete_snapshots(&records));

            Ok(each(ids, answer, |_, ()| Ok(())))
        })
    }
}

fn snapshot(snapshot: snapshots::Snapshot) -> Checked<cloud::Snapshot> {
    let created = snapshot.creation_timestamp;
    value(
        "creation timestamp",
        &created.to_string(),
        "seconds since 1970",
        (created <= LAST).then_some(()),
    )?;

    Ok(cloud::Snapshot {
        id: SnapshotId(storage::id("snapshot ID", snapshot.id)?),
        volume: VolumeId(storage::id("volume of a snapshot", snapshot.volume)?),
        bytes: storage::bytes(snapshot.size_bytes)?,
        created: Duration::from_secs(created),
        ready: snapshot.ready,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> snapshots::Snapshot {
        snapshots::Snapshot {
            id: "snap-1".into(),
            volume: "vol-1".into(),
            size_bytes: 1 << 30,
            creation_timestamp: 1_700_000_000,
            ready: true,
        }
    }

    #[test]
    fn a_snapshot_is_converted_completely() {
        let expected = cloud::Snapshot {
            id: SnapshotId("snap-1".into()),
            volume: VolumeId("vol-1".into()),
            bytes: 1 << 30,
            created: Duration::from_secs(1_700_000_000),
            ready: true,
        };
        assert_eq!(snapshot(found()), Ok(expected));
    }

    #[test]
    fn an_invalid_snapshot_is_rejected() {
        for bad in [
            snapshots::Snapshot {
                id: String::new(),
                ..found()
            },
            snapshots::Snapshot {
                volume: String::new(),
                ..found()
            },
            snapshots::Snapshot {
                size_bytes: u64::MAX,
                ..found()
            },
            // Milliseconds.
            snapshots::Snapshot {
                creation_timestamp: 1_700_000_000_000,
                ..found()
            },
        ] {
            assert!(snapshot(bad.clone()).is_err(), "{bad:?}");
        }
    }
}
