//! Nodes as protobuf for watchers, including the fields that kubelets report and nothing here
//! changes.

use std::sync::LazyLock;

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use crate::message::Node;
use crate::shelf::Happened;

/// The content type of objects.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The content type of watches.
pub(crate) const WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";
/// The prefix of every object.
const MAGIC: &[u8] = b"k8s\0";
/// The maximum number of images that a kubelet reports (`--node-status-max-images`).
const IMAGES: usize = 50;

/// The fields of `status` that are the same for all nodes: resources, properties of the machine,
/// images. About 10 KiB.
static REPORTED: LazyLock<Bytes> = LazyLock::new(reported);

/// Returns a page of nodes.
pub(crate) fn list(nodes: &[std::sync::Arc<Node>], revision: u64, next: &str) -> Bytes {
    let mut list = BytesMut::with_capacity(nodes.len() * (REPORTED.len() + 2048));
    let mut meta = BytesMut::new();
    string(&mut meta, 2, &revision.to_string());
    string(&mut meta, 3, next);
    bytes(&mut list, 1, &meta);
    for node in nodes {
        put_node(&mut list, 2, node);
    }
    let mut object = BytesMut::with_capacity(list.len() + 64);
    object.put_slice(MAGIC);
    unknown(
        &mut object,
        "NodeList",
        |into| into.put_slice(&list),
        list.len(),
    );
    object.freeze()
}

/// Encodes an event of a watch: its length in four bytes, and the event.
pub(crate) fn event(into: &mut BytesMut, happened: Happened, node: &Node) {
    let start = into.len();
    into.put_u32(0);
    string(into, 1, happened.name());
    let mut raw = BytesMut::with_capacity(REPORTED.len() + 2048);
    raw.put_slice(MAGIC);
    let length = node_len(node);
    unknown(&mut raw, "Node", |raw| put_fields(raw, node), length);
    // A RawExtension with the object in its first field.
    let inner = 1 + encoded_len_varint(as_u64(raw.len())) + raw.len();
    encode_key(2, WireType::LengthDelimited, into);
    encode_varint(as_u64(inner), into);
    bytes(into, 1, &raw);
    let length = u32::try_from(into.len() - start - 4).unwrap_or(u32::MAX);
    if let Some(place) = into.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

/// Encodes a `runtime.Unknown`: the type of an object, and the object.
fn unknown(into: &mut BytesMut, kind: &str, object: impl FnOnce(&mut BytesMut), length: usize) {
    let mut meta = BytesMut::new();
    string(&mut meta, 1, "v1");
    string(&mut meta, 2, kind);
    bytes(into, 1, &meta);
    encode_key(2, WireType::LengthDelimited, into);
    encode_varint(as_u64(length), into);
    object(into);
}

fn put_node(into: &mut BytesMut, tag: u32, node: &Node) {
    encode_key(tag, WireType::LengthDelimited, into);
    encode_varint(as_u64(node_len(node)), into);
    put_fields(into, node);
}

fn put_fields(into: &mut BytesMut, node: &Node) {
    prost::encoding::message::encode(1, &node.metadata, into);
    prost::encoding::message::encode(2, &node.spec, into);
    encode_key(3, WireType::LengthDelimited, into);
    encode_varint(as_u64(status_len(node)), into);
    node.status.encode_raw(into);
    into.put_slice(&REPORTED);
}

fn node_len(node: &Node) -> usize {
    let status = status_len(node);
    prost::encoding::message::encoded_len(1, &node.metadata)
        + prost::encoding::message::encoded_len(2, &node.spec)
        + key_len(3)
        + encoded_len_varint(as_u64(status))
        + status
}

fn status_len(node: &Node) -> usize {
    node.status.encoded_len() + REPORTED.len()
}

fn string(into: &mut BytesMut, tag: u32, text: &str) {
    bytes(into, tag, text.as_bytes());
}

fn bytes(into: &mut BytesMut, tag: u32, bytes: &[u8]) {
    encode_key(tag, WireType::LengthDelimited, into);
    encode_varint(as_u64(bytes.len()), into);
    into.put_slice(bytes);
}

fn as_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn reported() -> Bytes {
    let mut all = BytesMut::new();
    let resources = [
        ("cpu", "16"),
        ("memory", "65808784Ki"),
        ("pods", "110"),
        ("ephemeral-storage", "203056560Ki"),
    ];
    for tag in [1, 2] {
        for (name, quantity) in resources {
            let (mut entry, mut value) = (BytesMut::new(), BytesMut::new());
            string(&mut value, 1, quantity);
            string(&mut entry, 1, name);
            bytes(&mut entry, 2, &value);
            bytes(&mut all, tag, &entry);
        }
    }
    let mut info = BytesMut::new();
    let fields = [
        "ec2f2e8f5b1d4b0c9a0e3d7c6b5a4938",
        "ec2f2e8f-5b1d-4b0c-9a0e-3d7c6b5a4938",
        "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d",
        "6.12.48-1-cloud-amd64",
        "Debian GNU/Linux 13 (trixie)",
        "containerd://2.1.4",
        "v1.36.3",
        "",
        "linux",
        "amd64",
    ];
    for (tag, field) in (1..).zip(fields) {
        string(&mut info, tag, field);
    }
    bytes(&mut all, 7, &info);
    for number in 0..IMAGES {
        let repository = format!(
            "registry.example.com/platform/team-{}/service-{number}",
            number % 7
        );
        let mut image = BytesMut::new();
        string(&mut image, 1, &format!("{repository}@sha256:{number:064x}"));
        string(&mut image, 1, &format!("{repository}:v1.{number}.0"));
        encode_key(2, WireType::Varint, &mut image);
        encode_varint(as_u64(40_000_000 + number * 1_234_567), &mut image);
        bytes(&mut all, 8, &image);
    }
    all.freeze()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fleet;

    /// Decodes a node without the fields that no message here has.
    fn read(mut raw: &[u8]) -> Node {
        Node::decode(&mut raw).unwrap()
    }

    #[test]
    fn an_encoded_node_has_all_fields_and_a_realistic_size() {
        let node = fleet::registered(7);
        let mut fields = BytesMut::new();
        put_fields(&mut fields, &node);
        assert_eq!(fields.len(), node_len(&node));
        assert!(
            (8_000..16_000).contains(&fields.len()),
            "{} bytes",
            fields.len()
        );
        assert_eq!(read(&fields), node);
    }

    #[test]
    fn events_are_prefixed_with_their_length() {
        let mut events = BytesMut::new();
        for number in [1, 2] {
            event(&mut events, Happened::Modified, &fleet::registered(number));
        }
        let mut rest = &events[..];
        for name in ["node-1", "node-2"] {
            let (length, after) = rest.split_first_chunk::<4>().unwrap();
            let (event, after) = after.split_at(u32::from_be_bytes(*length) as usize);
            let found = event
                .windows(name.len())
                .any(|part| part == name.as_bytes());
            assert!(
                found && event.windows(4).any(|part| part == MAGIC),
                "{name}"
            );
            rest = after;
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn a_list_has_the_magic_prefix_and_each_node() {
        let nodes: Vec<_> = (0..3)
            .map(|number| Arc::new(fleet::registered(number)))
            .collect();
        let list = list(&nodes, 12, "node-2");
        assert!(list.starts_with(MAGIC));
        for name in ["node-0", "node-1", "node-2", "NodeList"] {
            assert!(
                list.windows(name.len()).any(|part| part == name.as_bytes()),
                "{name}"
            );
        }
    }
}
