//! Rules for what the interfaces about volumes and snapshots have in common: `storage` in the
//! contract.

use std::collections::BTreeSet;

use skydock_cloud::{Pairs, SizeRange, StorageError, text::is_plain};

use crate::{
    answers::{AnswerError, Checked, Element, MAX_LIST, count, value},
    words::{keys::is_label_name, text::Quoted},
};

/// Maximum bytes of the cloud's ID of a volume or a snapshot. The longest known IDs are those of
/// Azure.
const MAX_ID: usize = 1024;

/// Maximum bytes of a CSI node ID, as CSI has it.
const MAX_NODE: usize = 256;

/// Maximum bytes of a context with its keys, as CSI has it for all maps.
const MAX_CONTEXT: usize = 4 << 10;

/// Prefix of the keys of a context that the kubelet and the sidecars read or add.
const RESERVED: &str = "csi.storage.k8s.io/";

/// Checks the cloud's ID of a volume or a snapshot.
pub(super) fn id(what: &'static str, id: String) -> Checked<String> {
    let ok = (1..=MAX_ID).contains(&id.len()) && is_plain(&id);
    value(what, &id, "1 to 1024 bytes of plain text", ok.then_some(()))?;
    Ok(id)
}

/// Checks that an answer is about the volume or the snapshot that was asked for.
pub(super) fn asked(what: &'static str, id: &str, question: &str) -> Checked<()> {
    let ok = id == question;
    value(what, id, "the one that was asked for", ok.then_some(()))
}

/// Checks the CSI node IDs of the nodes that a volume is attached to.
pub(super) fn nodes(nodes: Vec<String>) -> Checked<Vec<String>> {
    count("nodes of a volume", nodes.len(), MAX_LIST)?;
    for node in &nodes {
        let ok = (1..=MAX_NODE).contains(&node.len()) && is_plain(node);
        let expected = "1 to 256 bytes of plain text";
        value("CSI node ID", node, expected, ok.then_some(()))?;
    }
    Ok(nodes)
}

/// Checks a number of bytes, which CSI has as a signed number.
pub(super) fn bytes(bytes: u64) -> Checked<u64> {
    let ok = i64::try_from(bytes).is_ok();
    value(
        "size",
        &bytes.to_string(),
        "at most 2^63 - 1",
        ok.then_some(bytes),
    )
}

/// Checks the size that a volume has received.
pub(super) fn size(size: u64, asked: SizeRange) -> Checked<u64> {
    let size = bytes(size)?;
    let ok = asked.contains(size);
    value(
        "size",
        &size.to_string(),
        "one that was requested",
        ok.then_some(size),
    )
}

/// Checks what the node part of a driver needs to know.
pub(super) fn context(all: Vec<(String, String)>) -> Checked<Pairs> {
    count("pairs of a context", all.len(), MAX_LIST)?;
    let bytes = all.iter().map(|(key, text)| key.len() + text.len());
    count("bytes of a context with its keys", bytes.sum(), MAX_CONTEXT)?;

    let mut context = Pairs::new();
    for (key, text) in all {
        let ok = !key.is_empty() && is_plain(&key) && !key.starts_with(RESERVED);
        let expected = "plain text that does not begin with `csi.storage.k8s.io/`";
        value("key of a context", &key, expected, ok.then_some(()))?;
        add(&mut context, "key of a context", key, text)?;
    }
    Ok(context)
}

/// Checks the parts of the cloud from which a volume can be reached. `keys` are those of the driver.
pub(super) fn topologies(all: Vec<Vec<(String, String)>>, keys: &[String]) -> Checked<Vec<Pairs>> {
    count("topologies", all.len(), MAX_LIST)?;
    all.into_iter().map(|it| topology(it, keys)).collect()
}

fn topology(segments: Vec<(String, String)>, keys: &[String]) -> Checked<Pairs> {
    if segments.is_empty() {
        return Err(AnswerError::Missing("a key of a topology"));
    }

    let mut topology = Pairs::new();
    for (key, text) in segments {
        let ok = keys.contains(&key);
        let expected = "one of `topology-keys` of the driver";
        value("key of a topology", &key, expected, ok.then_some(()))?;
        let ok = is_label_name(&text);
        value(
            "value of a topology",
            &text,
            "a label value",
            ok.then_some(()),
        )?;
        add(&mut topology, "key of a topology", key, text)?;
    }
    Ok(topology)
}

/// Adds a pair, whose key must occur only once.
fn add(pairs: &mut Pairs, what: &'static str, key: String, text: String) -> Checked<()> {
    let value = Quoted::new(&key);
    match pairs.insert(key, text) {
        None => Ok(()),
        Some(_) => Err(AnswerError::Twice { what, value }),
    }
}

/// Rejects what several elements have received: two users would write to the same volume.
pub(super) fn distinct<T>(
    what: &'static str,
    elements: Vec<Element<T, StorageError>>,
    id: impl Fn(&T) -> &str,
) -> Vec<Element<T, StorageError>> {
    let (mut once, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for created in elements.iter().flatten().flatten() {
        if !once.insert(id(created)) {
            twice.insert(id(created).to_owned());
        }
    }

    let element = |it: Element<T, StorageError>| match &it {
        Ok(Ok(created)) if twice.contains(id(created)) => Err(AnswerError::Twice {
            what,
            value: Quoted::new(id(created)),
        }),
        _ => it,
    };
    elements.into_iter().map(element).collect()
}

#[cfg(test)]
mod tests {
    use skydock_cloud::CloudError;

    use super::*;

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        let pair = |(key, text): &(&str, &str)| ((*key).to_owned(), (*text).to_owned());
        all.iter().map(pair).collect()
    }

    #[test]
    fn an_id_is_plain_text() {
        let table = [
            ("vol-1".to_owned(), true),
            ("/subscriptions/s/disks/d".to_owned(), true),
            ("x".repeat(1024), true),
            ("x".repeat(1025), false),
            (String::new(), false),
            ("a\nb".to_owned(), false),
        ];
        for (text, expected) in table {
            assert_eq!(id("volume ID", text.clone()).is_ok(), expected, "{text:?}");
        }
        assert!(asked("volume ID", "a", "a").is_ok() && asked("volume ID", "a", "b").is_err());
    }

    #[test]
    fn a_volume_is_on_few_nodes() {
        let node = |bytes: usize| "n".repeat(bytes);
        for (all, expected) in [
            (vec![], true),
            (vec![node(1); 64], true),
            (vec![node(1); 65], false),
            (vec![node(256)], true),
            (vec![node(257)], false),
            (vec![node(0)], false),
            (vec!["a\tb".to_owned()], false),
        ] {
            assert_eq!(nodes(all.clone()).is_ok(), expected, "{all:?}");
        }
    }

    #[test]
    fn a_size_is_one_that_was_requested() {
        let range = |bytes, limit| SizeRange { bytes, limit };
        let most = i64::MAX.unsigned_abs();
        for (found, asked, expected) in [
            (10, range(10, None), true),
            (9, range(10, None), false),
            (20, range(10, Some(20)), true),
            (21, range(10, Some(20)), false),
            (most, range(0, None), true),
            (most + 1, range(0, None), false),
        ] {
            assert_eq!(
                size(found, asked).is_ok(),
                expected,
                "{found} for {asked:?}"
            );
        }
    }

    #[test]
    fn a_context_is_small_and_not_of_kubernetes() {
        let many = |number: usize| {
            let pair = |it: usize| (format!("key-{it}"), String::new());
            (0..number).map(pair).collect::<Vec<_>>()
        };
        let long = |bytes: usize| vec![("k".to_owned(), "v".repeat(bytes - 1))];
        for (all, expected) in [
            (vec![], true),
            (pairs(&[("DevicePath", "/dev/vdb")]), true),
            (pairs(&[("text", "Ünï\ncode")]), true),
            (many(64), true),
            (many(65), false),
            (long(4096), true),
            (long(4097), false),
            (pairs(&[("", "v")]), false),
            (pairs(&[("a\nb", "v")]), false),
            (pairs(&[("a", "1"), ("a", "2")]), false),
            (pairs(&[("csi.storage.k8s.io/ephemeral", "true")]), false),
            (
                pairs(&[("storage.kubernetes.io/csiProvisionerIdentity", "p")]),
                true,
            ),
        ] {
            assert_eq!(context(all.clone()).is_ok(), expected, "{all:?}");
        }
    }

    #[test]
    fn a_topology_has_keys_of_the_driver() {
        let keys = [
            "metal.example/zone".to_owned(),
            "metal.example/rack".to_owned(),
        ];
        let zone = |value| pairs(&[("metal.example/zone", value)]);
        for (all, expected) in [
            (vec![], true),
            (vec![zone("a")], true),
            (vec![zone("a"), zone("b")], true),
            (vec![zone("a"); 65], false),
            (
                vec![pairs(&[
                    ("metal.example/rack", "1"),
                    ("metal.example/zone", "a"),
                ])],
                true,
            ),
            (vec![pairs(&[("topology.kubernetes.io/zone", "a")])], false),
            (vec![zone("")], false),
            (vec![zone("a b")], false),
            (
                vec![pairs(&[
                    ("metal.example/zone", "a"),
                    ("metal.example/zone", "b"),
                ])],
                false,
            ),
            (vec![vec![]], false),
        ] {
            assert_eq!(topologies(all.clone(), &keys).is_ok(), expected, "{all:?}");
        }
    }

    #[test]
    fn what_two_elements_have_received_is_rejected() {
        let found = |id: &str| Ok(Ok(id.to_owned()));
        let failed = || Ok(Err(StorageError::Cloud(CloudError::ImplementedElsewhere)));
        let missing = || Err(AnswerError::Missing("one"));
        let twice = || {
            Err(AnswerError::Twice {
                what: "volume",
                value: Quoted::new("a"),
            })
        };
        let all = vec![found("a"), found("b"), failed(), missing(), found("a")];
        assert_eq!(
            distinct("volume", all, |id| id),
            [twice(), found("b"), failed(), missing(), twice()]
        );
    }
}
