//! Decides in which parts of the cloud a volume may be, as csi-provisioner does
//! (`GenerateAccessibilityRequirements`, without `--strict-topology`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::TopologySelectorTerm;
use skydock_cloud::Pairs;
use skydock_csi::proto::{Topology, TopologyRequirement};

/// Maximum number of combinations that a class may have, as many as a request may have parts. Their number is
/// the product of the numbers of values.
const MAX_COMBINATIONS: usize = 1000;

/// What is known of the nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    /// Keys of the topology of the driver, by the names of the nodes; none where it does not run.
    pub(super) keys: BTreeMap<String, Vec<String>>,
    /// Labels, by the names of the nodes.
    pub(super) labels: BTreeMap<String, Pairs>,
}

/// Why it is not known where a volume may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// The selected node is gone: the scheduler has to select another one.
    Reschedule(String),
    /// It may be known later.
    Wait(String),
}

/// Returns the parts for the claim with this name; `None` for any.
pub(super) fn requirement(
    claim: &str,
    allowed: &[TopologySelectorTerm],
    selected: Option<&str>,
    nodes: &Nodes,
) -> Result<Option<TopologyRequirement>, Unknown> {
    let selected = selected.map(|node| part_of(node, nodes)).transpose()?;

    let mut requisite = if allowed.is_empty() {
        all_parts(selected.as_ref(), nodes)?
    } else {
        flatten(allowed)?
    };
    requisite.sort_by(|one, other| {
        let by_size = one.len().cmp(&other.len());
        by_size.then_with(|| one.iter().cmp(other.iter()))
    });
    requisite.dedup();
    if requisite.is_empty() {
        // `allowedTopologies` is not empty, but its elements are.
        return Ok(None);
    }

    let first = match &selected {
        None => spread(claim) as usize % requisite.len(),
        Some((part, _)) => {
            let mut parts = requisite.iter();
            let found =
                parts.position(|it| it.iter().all(|(key, value)| part.get(key) == Some(value)));
            let message =
                "the StorageClass does not allow the part of the cloud of the selected node";
            found.ok_or_else(|| Unknown::Wait(format!("{message}: {part:?}")))?
        }
    };
    let mut preferred = requisite.clone();
    preferred.rotate_left(first);

    let topologies = |parts: Vec<Pairs>| {
        let parts = parts.into_iter().filter(|it| !it.is_empty());
        parts.map(|segments| Topology { segments }).collect()
    };
    Ok(Some(TopologyRequirement {
        requisite: topologies(requisite),
        preferred: topologies(preferred),
    }))
}

/// Returns the part that the selected node is in, and the keys of its driver.
fn part_of<'a>(node: &str, nodes: &'a Nodes) -> Result<(Pairs, &'a [String]), Unknown> {
    let Some(keys) = nodes.keys.get(node) else {
        let message = format!("CSINode {node} does not exist");
        return Err(Unknown::Reschedule(message));
    };
    if keys.is_empty() {
        let message = format!("no topology key found for node {node}");
        return Err(Unknown::Wait(message));
    }
    let labels = nodes.labels.get(node);
    let part = labels.and_then(|labels| part(labels, keys));
    let missing = || Unknown::Wait(format!("node {node} lacks a label of {keys:?}"));
    Ok((part.ok_or_else(missing)?, keys))
}

fn part(labels: &Pairs, keys: &[String]) -> Option<Pairs> {
    let pair = |key: &String| Some((key.clone(), labels.get(key)?.clone()));
    keys.iter().map(pair).collect()
}

/// Returns the parts with nodes (`aggregateTopologies`).
fn all_parts(selected: Option<&(Pairs, &[String])>, nodes: &Nodes) -> Result<Vec<Pairs>, Unknown> {
    let common = || common_keys(nodes);
    let Some(keys) = selected.map(|(_, keys)| *keys).or_else(common) else {
        let message = "no available topology found: the driver runs on no node";
        return Err(Unknown::Wait(message.to_owned()));
    };

    let parts = nodes
        .labels
        .values()
        .filter_map(|labels| part(labels, keys));
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() {
        let message = format!("topology keys {keys:?} were not found on any nodes");
        return Err(Unknown::Wait(message));
    }
    Ok(parts)
}

/// Returns the keys that most nodes have: a kubelet may write other ones, for its node.
fn common_keys(nodes: &Nodes) -> Option<&[String]> {
    let mut counts: BTreeMap<&[String], usize> = BTreeMap::new();
    for keys in nodes.keys.values().filter(|keys| !keys.is_empty()) {
        *counts.entry(keys.as_slice()).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(keys, _)| keys)
}

/// Returns the parts that a class allows: each combination of the values of a term (`flatten`).
fn flatten(allowed: &[TopologySelectorTerm]) -> Result<Vec<Pairs>, Unknown> {
    let count = |term: &TopologySelectorTerm| {
        let all = term.match_label_expressions.iter().flatten();
        let counts = all.map(|it| it.values.len().max(1));
        counts.fold(1, usize::saturating_mul)
    };
    let count = allowed.iter().map(count).fold(0, usize::saturating_add);
    if count > MAX_COMBINATIONS {
        return Err(Unknown::Wait(format!(
            "allowedTopologies of the StorageClass have {count} combinations; expected at most {MAX_COMBINATIONS}"
        )));
    }

    let combinations = |term: &TopologySelectorTerm| {
        let mut parts = Vec::new();
        for expression in term.match_label_expressions.iter().flatten() {
            let before = if parts.is_empty() {
                vec![Pairs::new()]
            } else {
                parts
            };
            let values = expression.values.iter();
            let parts_with = values.flat_map(|value| {
                before.iter().cloned().map(move |mut part| {
                    part.insert(expression.key.clone(), value.clone());
                    part
                })
            });
            parts = parts_with.collect();
        }
        parts
    };
    Ok(allowed.iter().flat_map(combinations).collect())
}

/// Returns a number that spreads the volumes of a StatefulSet over all parts
/// (`getPVCNameHashAndIndexOffset`).
fn spread(claim: &str) -> u32 {
    let numbered = claim.rsplit_once('-');
    let numbered = numbered.and_then(|(name, index)| Some((name, index.parse::<u32>().ok()?)));
    match numbered {
        // CLAIM-STATEFULSET-INDEX: all claims of a Pod are to be in the same part.
        Some((name, index)) => {
            let set = name.rsplit_once('-').map_or(name, |(_, set)| set);
            hash(set).wrapping_add(index)
        }
        None => hash(claim),
    }
}

/// FNV-1 with 32 bits.
fn hash(text: &str) -> u32 {
    let step = |hash: u32, byte: u8| hash.wrapping_mul(16_777_619) ^ u32::from(byte);
    text.bytes().fold(2_166_136_261, step)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use skydock_controller_base::testing::pairs;

    use super::*;

    const ZONE: &str = "topology.disks.example/zone";
    const RACK: &str = "topology.disks.example/rack";

    fn zone(zone: &str) -> Pairs {
        pairs(&[(ZONE, zone)])
    }

    /// Nodes with their zones; the driver runs on all.
    fn nodes(all: &[(&str, &str)]) -> Nodes {
        let keys = |name: &str| (name.to_owned(), vec![ZONE.to_owned()]);
        Nodes {
            keys: all.iter().map(|(name, _)| keys(name)).collect(),
            labels: all
                .iter()
                .map(|(name, it)| ((*name).to_owned(), zone(it)))
                .collect(),
        }
    }

    fn allowed(terms: Value) -> Vec<TopologySelectorTerm> {
        serde_json::from_value(terms).unwrap()
    }

    /// Returns the zones of the requisite and of the preferred parts.
    fn zones(requirement: TopologyRequirement) -> (String, String) {
        let joined = |all: Vec<Topology>| {
            let zones = all.iter().map(|it| it.segments[ZONE].as_str());
            zones.collect::<Vec<_>>().join(" ")
        };
        (joined(requirement.requisite), joined(requirement.preferred))
    }

    #[test]
    fn the_zone_of_the_selected_node_is_preferred() {
        let nodes = nodes(&[("n1", "b"), ("n2", "c"), ("n3", "a"), ("n4", "b")]);
        let only = allowed(json!([
            {"matchLabelExpressions": [{"key": ZONE, "values": ["c", "b"]}]},
        ]));
        for (allowed, selected, expected) in [
            (&[][..], "n1", ("a b c", "b c a")),
            (&[][..], "n2", ("a b c", "c a b")),
            (&only[..], "n2", ("b c", "c b")),
        ] {
            let found = requirement("data", allowed, Some(selected), &nodes);
            let found = zones(found.unwrap().unwrap());
            assert_eq!((found.0.as_str(), found.1.as_str()), expected, "{selected}");
        }

        let elsewhere = requirement("data", &only, Some("n3"), &nodes);
        assert!(matches!(elsewhere, Err(Unknown::Wait(_))), "{elsewhere:?}");
    }

    #[test]
    fn volumes_of_a_stateful_set_are_spread() {
        let nodes = nodes(&[("n1", "a"), ("n2", "b"), ("n3", "c")]);
        let first = |claim: &str| {
            let found = requirement(claim, &[], None, &nodes);
            let (requisite, preferred) = zones(found.unwrap().unwrap());
            assert_eq!(requisite, "a b c");
            preferred[..1].to_owned()
        };
        let of_set: Vec<_> = (0..3)
            .map(|index| first(&format!("data-web-{index}")))
            .collect();
        for zone in ["a", "b", "c"] {
            assert!(of_set.contains(&zone.to_owned()), "{of_set:?}");
        }
        // All claims of a Pod are in the same zone.
        assert_eq!(first("data-web-1"), first("logs-web-1"));
    }

    #[test]
    fn the_hash_is_that_of_go() {
        for (text, expected) in [
            ("", 0x811c_9dc5),
            ("a", 0x050c_5d7e),
            ("foobar", 0x31f0_b262),
        ] {
            assert_eq!(hash(text), expected, "{text}");
        }
        for (claim, expected) in [
            ("web", hash("web")),
            ("data-web-2", hash("web") + 2),
            ("web-2", hash("web") + 2),
            ("data-web-x", hash("data-web-x")),
        ] {
            assert_eq!(spread(claim), expected, "{claim}");
        }
    }

    #[test]
    fn a_class_allows_each_combination() {
        let terms = allowed(json!([
            {"matchLabelExpressions": [
                {"key": ZONE, "values": ["a", "b"]}, {"key": RACK, "values": ["1", "2"]},
            ]},
            {"matchLabelExpressions": [{"key": ZONE, "values": ["c"]}]},
            {},
        ]));
        let both = |zone, rack| pairs(&[(ZONE, zone), (RACK, rack)]);
        let mut found = flatten(&terms).unwrap();
        found.sort();
        let expected = [
            both("a", "1"),
            both("b", "1"),
            both("a", "2"),
            both("b", "2"),
        ];
        for part in &expected {
            assert!(found.contains(part), "{found:?}");
        }
        assert!(found.contains(&zone("c")) && found.len() == 5, "{found:?}");

        let empty = requirement("data", &allowed(json!([{}])), None, &Nodes::default());
        assert_eq!(empty, Ok(None));
    }

    #[test]
    fn the_combinations_of_a_class_are_limited() {
        let class = |expressions: usize, values: usize| {
            let values: Vec<_> = (0..values).map(|it| it.to_string()).collect();
            let expression = |it| json!({"key": format!("key-{it}"), "values": values});
            let all: Vec<_> = (0..expressions).map(expression).collect();
            allowed(json!([{"matchLabelExpressions": all}]))
        };
        for (expressions, values, works) in [
            (1, MAX_COMBINATIONS, true),
            (1, MAX_COMBINATIONS + 1, false),
            (3, 10, true),
            (30, 100, false),
        ] {
            let found = flatten(&class(expressions, values));
            assert_eq!(found.is_ok(), works, "{expressions} x {values}");
        }
        let two = [class(1, MAX_COMBINATIONS), class(1, 1)].concat();
        assert!(matches!(flatten(&two), Err(Unknown::Wait(_))));
    }

    #[test]
    fn one_node_does_not_decide_the_keys_of_all() {
        let mut nodes = nodes(&[("n1", "b"), ("n2", "a"), ("n3", "a")]);
        for keys in [&["kubernetes.io/hostname"][..], &[RACK, ZONE], &[]] {
            let keys = keys.iter().map(|&key| key.to_owned()).collect();
            nodes.keys.insert("n1".into(), keys);
            let found = requirement("data", &[], None, &nodes).unwrap().unwrap();
            assert_eq!(zones(found).0, "a b");
        }
    }

    #[test]
    fn without_a_node_nobody_knows_where() {
        let known = nodes(&[("n1", "a")]);
        let mut silent = known.clone();
        silent.keys.insert("n1".into(), Vec::new());
        let mut bare = known.clone();
        bare.labels.insert("n1".into(), pairs(&[]));
        for (nodes, selected, reschedules) in [
            (&known, Some("gone"), true),
            (&silent, Some("n1"), false),
            (&bare, Some("n1"), false),
            (&silent, None, false),
            (&bare, None, false),
        ] {
            let unknown = requirement("data", &[], selected, nodes).unwrap_err();
            let is_so = matches!(unknown, Unknown::Reschedule(_));
            assert_eq!(is_so, reschedules, "{unknown:?}");
        }
    }
}
