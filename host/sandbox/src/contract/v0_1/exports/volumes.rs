//! The interface `volumes`, and those that need it.

mod attachments;
mod attributes;
mod capacity;
mod expansion;
mod snapshots;
mod storage;

use skydock_cloud::{self as cloud, StorageError, VolumeId};

use super::{
    Guest,
    generated::volumes,
    pages::{Limit, Page, page},
};
use crate::{
    answers::{AnswerError, Checked, Element, count, value},
    call_error::CallError,
    contract::{
        Running,
        v0_1::{
            bindings::skydock::provider::storage as wit,
            from_guest::{each, single_answer},
            to_guest,
        },
    },
    words::keys::{MAX_LABEL, is_qualified, is_subdomain},
};

/// Maximum number of keys of a topology. Clouds have regions, zones and racks.
const MAX_KEYS: usize = 8;

impl<'a, 's> Guest<'a, 's> {
    /// Calls `volumes.create-volumes`.
    pub(crate) fn create_volumes(
        self,
        volumes: &'s [cloud::NewVolume],
    ) -> Running<'a, Vec<Element<cloud::Volume, StorageError>>> {
        let Self {
            functions, store, ..
        } = self;
        let records: Vec<_> = volumes.iter().map(to_guest::new_volume).collect();

        Box::pin(async move {
            let answer =
                call!(functions, store, CreateVolumes: volumes.call_create_volumes(&records));

            let keys = store.data().owned.topology_keys();
            let created = |question: &cloud::NewVolume, it| {
                let created = volume(it, keys)?;
                storage::size(created.bytes, question.size)?;
                Ok(created)
            };
            Ok(each(volumes, answer, created)
                .map(|all| storage::distinct("volume", all, |it| it.id.0.as_str())))
        })
    }

    /// Calls `volumes.get-volumes`.
    pub(crate) fn get_volumes(
        self,
        ids: &'s [VolumeId],
    ) -> Running<'a, Vec<Element<cloud::Volume, StorageError>>> {
        let Self {
            functions, store, ..
        } = self;
        let records = to_guest::volume_ids(ids);

        Box::pin(async move {
            let answer = call!(functions, store, GetVolumes: volumes.call_get_volumes(&records));

            let keys = store.data().owned.topology_keys();
            Ok(each(ids, answer, |VolumeId(id), it| {
                storage::asked("volume ID", &it.id, id)?;
                volume(it, keys)
            }))
        })
    }

    /// Calls `volumes.list-volumes` for one page, after `before` volumes on earlier pages.
    pub(crate) fn list_volumes(
        self,
        token: Option<&'s str>,
        before: usize,
    ) -> Running<'a, Page<cloud::Volume>> {
        let Self {
            functions, store, ..
        } = self;

        Box::pin(async move {
            let answer = call!(functions, store, ListVolumes: volumes.call_list_volumes(token));

            let keys = store.data().owned.topology_keys();
            let limit = Limit {
                what: "volumes",
                key: "volumes",
                most: store.data().shared.limits.volumes,
            };
            Ok(single_answer(answer).and_then(|it| {
                let all = Page {
                    items: it.volumes,
                    next: it.next,
                };
                page(all, before, limit, |it| listed(it, keys)).map_err(CallError::BadAnswer)
            }))
        })
    }

    /// Calls `volumes.delete-volumes`.
    pub(crate) fn delete_volumes(
        self,
        ids: &'s [VolumeId],
    ) -> Running<'a, Vec<Element<(), StorageError>>> {
        let Self {
            functions, store, ..
        } = self;
        let records = to_guest::volume_ids(ids);

        Box::pin(async move {
            let answer =
                call!(functions, store, DeleteVolumes: volumes.call_delete_volumes(&records));

            Ok(each(ids, answer, |_, ()| Ok(())))
        })
    }
}

/// Checks the description of a driver.
pub(super) fn driver(driver: volumes::DriverInfo) -> Checked<cloud::CsiDriver> {
    let named = driver.name.len() <= MAX_LABEL && is_subdomain(&driver.name);
    value(
        "driver",
        &driver.name,
        "a DNS name in lower case of at most 63 bytes",
        named.then_some(()),
    )?;

    count("topology keys", driver.topology_keys.len(), MAX_KEYS)?;
    for key in &driver.topology_keys {
        let ok = is_qualified(key);
        value("topology key", key, "a qualified name", ok.then_some(()))?;
    }

    let mut access_modes: Vec<_> = driver.access_modes.into_iter().map(access_mode).collect();
    access_modes.sort_unstable();
    access_modes.dedup();
    if access_modes.is_empty() {
        return Err(AnswerError::Missing("an access mode of the driver"));
    }

    Ok(cloud::CsiDriver {
        name: driver.name,
        topology_keys: driver.topology_keys,
        access_modes,
        clones: driver.clones,
    })
}

fn access_mode(mode: wit::AccessMode) -> cloud::AccessMode {
    match mode {
        wit::AccessMode::SingleNodeWriter => cloud::AccessMode::SingleNodeWriter,
        wit::AccessMode::SingleNodeReaderOnly => cloud::AccessMode::SingleNodeReaderOnly,
        wit::AccessMode::MultiNodeReaderOnly => cloud::AccessMode::MultiNodeReaderOnly,
        wit::AccessMode::MultiNodeSingleWriter => cloud::AccessMode::MultiNodeSingleWriter,
        wit::AccessMode::MultiNodeMultiWriter => cloud::AccessMode::MultiNodeMultiWriter,
    }
}

/// Checks a volume. `keys` are those of the driver's topology.
fn volume(volume: volumes::Volume, keys: &[String]) -> Checked<cloud::Volume> {
    Ok(cloud::Volume {
        id: VolumeId(storage::id("volume ID", volume.id)?),
        bytes: storage::bytes(volume.size_bytes)?,
        topology: storage::topologies(volume.topology, keys)?,
        context: storage::context(volume.context)?,
        nodes: storage::nodes(volume.nodes)?,
    })
}

/// Checks a volume of a list. Who lists volumes asks where they are attached: one with an invalid
/// topology, for example in a zone whose name is no label, has none, instead of failing the list.
fn listed(mut it: volumes::Volume, keys: &[String]) -> Checked<cloud::Volume> {
    if storage::topologies(it.topology.clone(), keys).is_err() {
        it.topology.clear();
    }
    volume(it, keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described() -> volumes::DriverInfo {
        volumes::DriverInfo {
            name: "metal.csi.example.com".into(),
            topology_keys: vec!["topology.metal.example/zone".into()],
            access_modes: vec![
                wit::AccessMode::MultiNodeMultiWriter,
                wit::AccessMode::SingleNodeWriter,
                wit::AccessMode::SingleNodeWriter,
            ],
            clones: true,
        }
    }

    #[test]
    fn a_driver_is_described_completely() {
        let expected = cloud::CsiDriver {
            name: "metal.csi.example.com".into(),
            topology_keys: vec!["topology.metal.example/zone".into()],
            access_modes: vec![
                cloud::AccessMode::SingleNodeWriter,
                cloud::AccessMode::MultiNodeMultiWriter,
            ],
            clones: true,
        };
        assert_eq!(driver(described()), Ok(expected));

        let without_topology = volumes::DriverInfo {
            topology_keys: Vec::new(),
            ..described()
        };
        assert!(driver(without_topology).is_ok());
    }

    #[test]
    fn a_driver_that_kubernetes_would_reject_is_rejected() {
        let name = |name: &str| volumes::DriverInfo {
            name: name.into(),
            ..described()
        };
        let keys = |keys: Vec<&str>| volumes::DriverInfo {
            topology_keys: keys.into_iter().map(Into::into).collect(),
            ..described()
        };
        let longest = format!("{}.example", "x".repeat(55));
        assert!(driver(name(&longest)).is_ok() && driver(keys(vec!["zone"; 8])).is_ok());

        for bad in [
            name(""),
            name("Metal.csi.example.com"),
            name("metal_csi"),
            name(&format!("x{longest}")),
            keys(vec!["zone"; 9]),
            keys(vec!["a b"]),
            keys(vec![""]),
            volumes::DriverInfo {
                access_modes: Vec::new(),
                ..described()
            },
        ] {
            assert!(driver(bad.clone()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_volume_is_converted_completely() {
        let keys = ["topology.metal.example/zone".to_owned()];
        let pairs = |key: &str, text: &str| vec![(key.to_owned(), text.to_owned())];
        let found = volumes::Volume {
            id: "vol-1".into(),
            size_bytes: 1 << 30,
            topology: vec![pairs("topology.metal.example/zone", "a")],
            context: pairs("serial", "s-1"),
            nodes: vec!["i-1".into(), "i-2".into()],
        };
        let map = |key: &str, text: &str| cloud::Pairs::from([(key.to_owned(), text.to_owned())]);
        let expected = cloud::Volume {
            id: VolumeId("vol-1".into()),
            bytes: 1 << 30,
            topology: vec![map("topology.metal.example/zone", "a")],
            context: map("serial", "s-1"),
            nodes: vec!["i-1".into(), "i-2".into()],
        };
        assert_eq!(volume(found.clone(), &keys), Ok(expected));
        assert!(volume(found, &[]).is_err(), "the driver has no topology");
    }

    #[test]
    fn a_list_has_a_volume_without_its_invalid_topology() {
        let keys = ["topology.metal.example/zone".to_owned()];
        let found = |id: &str, zone: &str| {
            let segment = ("topology.metal.example/zone".to_owned(), zone.to_owned());
            volumes::Volume {
                id: id.into(),
                size_bytes: 1,
                topology: vec![vec![segment]],
                context: Vec::new(),
                nodes: vec!["i-1".into()],
            }
        };
        for (id, zone, expected) in [
            ("vol-1", "a", Some(1)),
            ("vol-1", "Zone A (old)", Some(0)),
            ("", "a", None),
        ] {
            let listed = listed(found(id, zone), &keys).ok();
            assert_eq!(listed.map(|it| it.topology.len()), expected, "{zone}");
        }
        assert!(volume(found("vol-1", "Zone A (old)"), &keys).is_err());
    }

    #[test]
    fn each_access_mode_keeps_its_meaning() {
        use wit::AccessMode as Mode;
        for (mode, expected) in [
            (Mode::SingleNodeWriter, cloud::AccessMode::SingleNodeWriter),
            (
                Mode::SingleNodeReaderOnly,
                cloud::AccessMode::SingleNodeReaderOnly,
            ),
            (
                Mode::MultiNodeReaderOnly,
                cloud::AccessMode::MultiNodeReaderOnly,
            ),
            (
                Mode::MultiNodeSingleWriter,
                cloud::AccessMode::MultiNodeSingleWriter,
            ),
            (
                Mode::MultiNodeMultiWriter,
                cloud::AccessMode::MultiNodeMultiWriter,
            ),
        ] {
            assert_eq!(access_mode(mode), expected);
            assert_eq!(to_guest::access_mode(expected), mode);
        }
    }
}
