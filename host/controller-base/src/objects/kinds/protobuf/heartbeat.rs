//! Recognizes versions of a node that differ from the previous one in nothing but what changes with
//! each report of its kubelet. They are most of all versions: a kubelet reports its status every 5
//! minutes, with all of its 20 KiB. They are not decoded, and share with the previous version all
//! that has not changed.
//!
//! Two versions are the same if a hash of their bytes is the same. It omits the few fields that
//! change with each report, and those that nobody reads. A field that is not known here is hashed,
//! so that its change is one of the node.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use k8s_openapi::api::core::v1 as core;
use prost::{Message as _, decode_length_delimiter};
use skydock_kube::informer::{Before, Entry};

use super::{NodeCondition, is_read};
use crate::objects::{
    convert::is_ready,
    kinds::{KeptNode, NodeKind},
};

/// Numbers of fields of a node.
const METADATA: usize = 1;
const STATUS: usize = 3;

/// Its key is random: a kubelet writes most of its node, and must not be able to write another one
/// with the same hash.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A version of a node, as far as it has to be read to compare it.
pub(super) struct Heartbeat {
    /// Hash of all that is not in the other fields.
    pub(super) digest: u64,
    name: String,
    resource_version: String,
    conditions: Vec<core::NodeCondition>,
}

impl Heartbeat {
    /// Reads a node. Returns `None` if it cannot be decoded.
    pub(super) fn read(raw: &Bytes) -> Option<Self> {
        let mut hasher = HASHER.build_hasher();
        // Each field with the number of the message that it is in; zero is the node.
        let mut hash = |of: usize, field: &Field<'_>| {
            hasher.write_usize(of);
            hasher.write(field.all);
        };

        let (mut name, mut resource_version): (&[u8], &[u8]) = (&[], &[]);
        let mut conditions = Vec::new();

        let mut node: &[u8] = raw;
        while !node.is_empty() {
            let part = Field::take(&mut node)?;
            if !matches!(part.number, METADATA | STATUS) {
                hash(0, &part);
                continue;
            }

            let mut fields = part.content?;
            while !fields.is_empty() {
                let field = Field::take(&mut fields)?;
                match (part.number, field.number) {
                    (METADATA, 6) => resource_version = field.content?,
                    (STATUS, 4) => {
                        conditions.push(NodeCondition::decode(raw.slice_ref(field.content?)).ok()?);
                    }
                    // Nobody reads managed fields, which have the time of the report, and images.
                    (METADATA, 17) | (STATUS, 8) => {}
                    (of, number) => {
                        if (of, number) == (METADATA, 1) {
                            name = field.content?;
                        }
                        hash(of, &field);
                    }
                }
            }
        }

        let mut conditions: Vec<_> = conditions
            .into_iter()
            .filter(is_read)
            .map(Into::into)
            .collect();
        // As in `NodeKind::split`.
        conditions.shrink_to_fit();

        Some(Self {
            digest: hasher.finish(),
            name: str::from_utf8(name).ok()?.to_owned(),
            resource_version: str::from_utf8(resource_version).ok()?.to_owned(),
            conditions,
        })
    }

    /// Returns this version of the node, if nothing else has changed since the previous one.
    pub(super) fn after(self, before: &Before<'_, NodeKind>) -> Option<Entry<NodeKind>> {
        let before = before(&self.name)?;
        let KeptNode {
            deletion_timestamp,
            taints,
            digest,
            rest,
            ..
        } = &before.object;

        let is_same =
            *digest == Some(self.digest) && before.view.ready == is_ready(&self.conditions);
        is_same.then(|| Entry {
            object: KeptNode {
                resource_version: self.resource_version,
                deletion_timestamp: deletion_timestamp.clone(),
                taints: taints.clone(),
                conditions: self.conditions,
                digest: Some(self.digest),
                rest: Arc::clone(rest),
            },
            view: Arc::clone(&before.view),
        })
    }
}

/// A field of a message.
struct Field<'a> {
    number: usize,
    /// All of its bytes.
    all: &'a [u8],
    /// The text, the bytes or the message that it contains; `None` for numbers.
    content: Option<&'a [u8]>,
}

impl<'a> Field<'a> {
    /// Takes the first field of a message. Returns `None` if it cannot be decoded.
    fn take(message: &mut &'a [u8]) -> Option<Self> {
        let begin = *message;
        let key = number(message)?;
        let content = match key & 7 {
            0 => {
                number(message)?;
                None
            }
            2 => {
                let length = number(message)?;
                Some(bytes(message, length)?)
            }
            // Kubernetes' messages have no others.
            _ => return None,
        };

        Some(Self {
            number: key >> 3,
            all: begin.get(..begin.len() - message.len())?,
            content,
        })
    }
}

fn number(message: &mut &[u8]) -> Option<usize> {
    decode_length_delimiter(message).ok()
}

fn bytes<'a>(message: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (bytes, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use skydock_kube::testing::protobuf::{field, number};

    use super::{super::entry, *};

    /// Encodes a node, with these fields in addition to those of its metadata, and this status.
    fn node(metadata: &[Vec<u8>], status: &[Vec<u8>]) -> Bytes {
        let own = [
            field(1, b"n1"),
            field(5, b"u1"),
            field(11, &[field(1, b"a"), field(2, b"1")].concat()),
        ];
        [
            field(1, &[own.concat(), metadata.concat()].concat()),
            field(2, &field(3, b"cloud://1")),
            field(3, &status.concat()),
        ]
        .concat()
        .into()
    }

    fn version(version: &[u8]) -> Vec<u8> {
        field(6, version)
    }

    fn condition(kind: &[u8], status: &[u8], at: usize) -> Vec<u8> {
        let time = field(3, &number(1, at));
        field(4, &[field(1, kind), field(2, status), time].concat())
    }

    fn address(address: &[u8]) -> Vec<u8> {
        field(5, &[field(1, b"InternalIP"), field(2, address)].concat())
    }

    /// Returns whether a version of a node shares its view with the one before. In any case, it is
    /// what it would be without the one before.
    fn shares(before: &Bytes, raw: &Bytes) -> bool {
        let known = Arc::new(entry(before.clone(), &|_: &str| None).unwrap());
        let read = entry(raw.clone(), &|key: &str| {
            (key == "n1").then(|| Arc::clone(&known))
        });
        let (read, decoded) = (read.unwrap(), entry(raw.clone(), &|_: &str| None).unwrap());
        assert_eq!(read.object, decoded.object);
        assert_eq!(read.view, decoded.view);
        Arc::ptr_eq(&read.view, &known.view)
    }

    #[test]
    fn a_report_of_an_unchanged_node_shares_its_view() {
        let managed = field(17, b"managed");
        let report = |at| condition(b"Ready", b"True", at);
        let before = node(
            &[version(b"1"), managed],
            &[report(1), address(b"10.0.0.1"), field(8, b"image")],
        );

        let pressure = condition(b"MemoryPressure", b"True", 2);
        let status = [pressure, report(2), address(b"10.0.0.1")];
        assert!(shares(&before, &node(&[version(b"2")], &status)));
        let network = condition(b"NetworkUnavailable", b"False", 2);
        let status = [report(2), network, address(b"10.0.0.1")];
        assert!(shares(&before, &node(&[version(b"2")], &status)));
    }

    #[test]
    fn a_change_of_anything_else_is_one_of_the_node() {
        let report = |status: &[u8]| condition(b"Ready", status, 1);
        let before = node(&[version(b"1")], &[report(b"True"), address(b"10.0.0.1")]);

        for (metadata, status) in [
            (vec![], vec![report(b"False"), address(b"10.0.0.1")]),
            (vec![], vec![address(b"10.0.0.1")]),
            (vec![], vec![report(b"True"), address(b"10.0.0.2")]),
            (vec![], vec![report(b"True")]),
            (
                vec![field(5, b"u2")],
                vec![report(b"True"), address(b"10.0.0.1")],
            ),
            (
                vec![field(9, &number(1, 1))],
                vec![report(b"True"), address(b"10.0.0.1")],
            ),
            (
                vec![],
                vec![
                    report(b"True"),
                    address(b"10.0.0.1"),
                    field(7, &field(5, b"os")),
                ],
            ),
            // The same field of another message.
            (vec![address(b"10.0.0.1")], vec![report(b"True")]),
        ] {
            let raw = node(&[vec![version(b"2")], metadata].concat(), &status);
            assert!(!shares(&before, &raw), "{raw:?}");
        }
    }

    #[test]
    fn what_cannot_be_decoded_is_no_report() {
        for raw in [b"\x08".as_slice(), b"\x0a\x05\x0a", b"\x0b", b"\x08\x01"] {
            assert!(
                Heartbeat::read(&Bytes::from_static(raw)).is_none(),
                "{raw:?}"
            );
        }
    }
}
