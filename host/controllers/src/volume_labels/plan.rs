//! Decides which labels and node affinity a PersistentVolume lacks, from its volume's topology.
//!
//! All functions are pure. The labels are for the scheduler's plugin VolumeZone, and for people; the
//! node affinity is that of csi-provisioner. A driver has its own keys of topology, of which those
//! that are named `zone` and `region` say the same as the labels of nodes, as in
//! `k8s.io/csi-translation-lib`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use skydock_cloud::{CsiDriver, Pairs};

use super::volume::HandMade;

/// What is between the zones in the label of a volume that can be reached from several, as in
/// `k8s.io/cloud-provider/volume`.
const DELIMITER: &str = "__";
/// Maximum bytes of the value of a label.
const MOST_BYTES: usize = 63;

/// What is added to a PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Addition {
    pub(super) labels: Pairs,
    /// `spec.nodeAffinity`.
    pub(super) affinity: Option<Value>,
}

impl Addition {
    /// Returns true if nothing is added.
    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.affinity.is_none()
    }
}

/// Returns true if the cloud has to be asked about a volume: it is one of the driver, and the answer
/// could add something.
pub(super) fn is_open(volume: &HandMade, driver: &CsiDriver) -> bool {
    let keys = &driver.topology_keys;
    let tells = |label: &&str| keys.iter().any(|key| name(key) == name(label));

    let lacks_affinity = !volume.has_affinity && !keys.is_empty();
    driver.name == volume.driver && (lacks_affinity || volume.lacks.iter().any(tells))
}

/// Returns what a volume with this topology lacks. What it has is not changed.
pub(super) fn addition(volume: &HandMade, topology: &[Pairs]) -> Addition {
    let label = |label: &&str| Some(((*label).to_owned(), value(topology, label)?));
    let lacks_affinity = !volume.has_affinity && !topology.is_empty();

    Addition {
        labels: volume.lacks.iter().filter_map(label).collect(),
        affinity: lacks_affinity.then(|| affinity(topology)),
    }
}

/// Returns the value of a label: all zones or regions from which the volume can be reached. `None` if
/// one is not known, or if they are too long.
fn value(topology: &[Pairs], label: &str) -> Option<String> {
    let all = topology.iter().map(|part| value_in(part, label));
    let all: BTreeSet<&str> = all.collect::<Option<_>>()?;
    let joined = all.into_iter().collect::<Vec<_>>().join(DELIMITER);
    (1..=MOST_BYTES).contains(&joined.len()).then_some(joined)
}

fn value_in<'a>(part: &'a Pairs, label: &str) -> Option<&'a str> {
    let of_driver = || {
        let mut pairs = part.iter();
        let (_, value) = pairs.find(|(key, _)| name(key) == name(label))?;
        Some(value)
    };
    let value = part.get(label).or_else(of_driver)?;
    Some(value.as_str()).filter(|value| !value.is_empty())
}

/// Returns the name in the key of a label, without its prefix.
fn name(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(_, name)| name)
}

/// Returns the node affinity for nodes in one of these parts of the cloud.
fn affinity(topology: &[Pairs]) -> Value {
    let requirement =
        |(key, value): (&String, &String)| json!({"key": key, "operator": "In", "values": [value]});
    let term = |part: &Pairs| {
        let requirements: Vec<_> = part.iter().map(requirement).collect();
        json!({"matchExpressions": requirements})
    };
    let terms: Vec<_> = topology.iter().map(term).collect();
    json!({"required": {"nodeSelectorTerms": terms}})
}

#[cfg(test)]
mod tests {
    use skydock_cloud::{AccessMode, VolumeId};
    use skydock_controller_base::{
        objects::constants::{LABEL_REGION, LABEL_ZONE},
        testing::pairs,
    };

    use super::*;

    const ZONE: &str = "topology.disks.example/zone";
    const REGION: &str = "topology.disks.example/region";
    const RACK: &str = "topology.disks.example/rack";

    fn volume(lacks: &[&'static str], has_affinity: bool) -> HandMade {
        HandMade {
            driver: "disks.example".into(),
            id: VolumeId("vol-1".into()),
            lacks: lacks.to_vec(),
            has_affinity,
        }
    }

    fn requirement(key: &str, value: &str) -> Value {
        json!({"key": key, "operator": "In", "values": [value]})
    }

    #[test]
    fn the_cloud_is_asked_only_if_its_answer_could_add_something() {
        let both = [LABEL_ZONE, LABEL_REGION];
        let table: [(&[&'static str], bool, &[&str], bool); 12] = [
            (&both, false, &[ZONE], true),
            (&[], false, &[ZONE], true),
            (&[], false, &[RACK], true),
            (&both, false, &[], false),
            (&both, true, &[ZONE], true),
            (&[LABEL_ZONE], true, &[LABEL_ZONE], true),
            (&[LABEL_ZONE], true, &["zone"], true),
            (&[LABEL_REGION], true, &[ZONE], false),
            (&[LABEL_REGION], true, &[ZONE, REGION], true),
            (&both, true, &[RACK], false),
            (&both, true, &["topology.disks.example/zones"], false),
            (&[], true, &[ZONE, REGION], false),
        ];
        for (lacks, has_affinity, keys, expected) in table {
            let driver = |name: &str| CsiDriver {
                name: name.into(),
                topology_keys: keys.iter().map(|&key| key.to_owned()).collect(),
                access_modes: vec![AccessMode::SingleNodeWriter],
                clones: false,
            };
            let volume = volume(lacks, has_affinity);
            let open = is_open(&volume, &driver("disks.example"));
            assert_eq!(open, expected, "{volume:?} with {keys:?}");
            assert!(!is_open(&volume, &driver("other.example")));
        }
    }

    #[test]
    fn labels_are_the_zones_and_regions_of_all_parts() {
        let both = [LABEL_ZONE, LABEL_REGION];
        let (long, longer) = ("z".repeat(63), "z".repeat(64));
        let table: [(&[&'static str], Vec<Pairs>, Pairs); 12] = [
            (&both, vec![], pairs(&[])),
            (&both, vec![pairs(&[(RACK, "r1")])], pairs(&[])),
            (
                &both,
                vec![pairs(&[(ZONE, "a"), (REGION, "eu")])],
                pairs(&[(LABEL_ZONE, "a"), (LABEL_REGION, "eu")]),
            ),
            (
                &[LABEL_REGION],
                vec![pairs(&[(ZONE, "a"), (REGION, "eu")])],
                pairs(&[(LABEL_REGION, "eu")]),
            ),
            (&[], vec![pairs(&[(ZONE, "a")])], pairs(&[])),
            (
                &both,
                vec![pairs(&[("zone", "a")])],
                pairs(&[(LABEL_ZONE, "a")]),
            ),
            // The label of nodes goes first.
            (
                &both,
                vec![pairs(&[("a.example/zone", "a"), (LABEL_ZONE, "b")])],
                pairs(&[(LABEL_ZONE, "b")]),
            ),
            // As in a regional disk of GCE.
            (
                &both,
                vec![
                    pairs(&[(ZONE, "b"), (REGION, "eu")]),
                    pairs(&[(ZONE, "a"), (REGION, "eu")]),
                ],
                pairs(&[(LABEL_ZONE, "a__b"), (LABEL_REGION, "eu")]),
            ),
            // It can be reached from a zone that is not known.
            (
                &both,
                vec![pairs(&[(ZONE, "a")]), pairs(&[(RACK, "r1")])],
                pairs(&[]),
            ),
            // As in Azure without zones.
            (&both, vec![pairs(&[(ZONE, "")])], pairs(&[])),
            (
                &both,
                vec![pairs(&[(ZONE, &long)])],
                pairs(&[(LABEL_ZONE, &long)]),
            ),
            (&both, vec![pairs(&[(ZONE, &longer)])], pairs(&[])),
        ];
        for (lacks, topology, expected) in table {
            let labels = addition(&volume(lacks, true), &topology).labels;
            assert_eq!(labels, expected, "{lacks:?} of {topology:?}");
        }
    }

    #[test]
    fn a_volume_without_affinity_gets_a_term_for_each_part() {
        let rack = pairs(&[(RACK, "r1"), (ZONE, "a")]);
        let in_rack =
            json!({"matchExpressions": [requirement(RACK, "r1"), requirement(ZONE, "a")]});
        let zone = pairs(&[(ZONE, "b")]);
        let in_zone = json!({"matchExpressions": [requirement(ZONE, "b")]});
        for (topology, terms) in [
            (vec![], vec![]),
            (vec![zone.clone()], vec![in_zone.clone()]),
            (vec![rack, zone], vec![in_rack, in_zone]),
        ] {
            let expected = json!({"required": {"nodeSelectorTerms": terms}});
            let added = addition(&volume(&[], false), &topology);
            assert_eq!(
                added.affinity,
                (!topology.is_empty()).then_some(expected),
                "{topology:?}"
            );
            assert_eq!(added.is_empty(), topology.is_empty());

            let kept = addition(&volume(&[], true), &topology);
            assert!(kept.is_empty(), "{topology:?}");
        }
        let labeled = addition(&volume(&[LABEL_ZONE], true), &[pairs(&[(ZONE, "a")])]);
        assert!(!labeled.is_empty() && labeled.affinity.is_none());
    }
}
