//! Answers in protobuf: the messages around objects. The objects themselves are decoded by their
//! [`Kind`], which can ask for the previous version of each. The field numbers are those of
//! `generated.proto` in k8s.io/apimachinery/pkg/apis/meta/v1 and k8s.io/apimachinery/pkg/runtime.

use bytes::Bytes;
use kube::{Error, Resource, core};
use prost::{DecodeError, Message};

use super::{Event, Page};
use crate::informer::{Before, Entry, Kind};

/// Prefix of every object; an [`Unknown`] follows it.
const MAGIC: &[u8] = b"k8s\0";

/// Why an answer cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(super) enum Malformed {
    #[error("the API server did not return a protobuf object")]
    NoObject,
    #[error("the API server returned an unexpected {0:?}")]
    Kind(String),
    #[error("the API server returned invalid protobuf: {0}")]
    Message(#[from] DecodeError),
}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        Self::Service(malformed.into())
    }
}

/// Decodes a page of a list.
pub(super) fn page<K: Kind>(body: Bytes, before: &Before<'_, K>) -> Result<Page<K>, Malformed> {
    let List { metadata, items } =
        List::decode(object(body, &format!("{}List", K::Object::kind(&())))?)?;
    let ListMeta {
        resource_version,
        r#continue,
    } = metadata.unwrap_or_default();

    let filled = |text: String| Some(text).filter(|text| !text.is_empty());
    Ok(Page {
        entries: items
            .into_iter()
            .map(|item| entry(item, before))
            .collect::<Result<_, _>>()?,
        next: filled(r#continue),
        version: filled(resource_version),
    })
}

/// Decodes an event of a watch.
pub(super) fn event<K: Kind>(frame: Bytes, before: &Before<'_, K>) -> Result<Event<K>, Error> {
    let WatchEvent {
        r#type,
        object: sent,
    } = WatchEvent::decode(frame).map_err(Malformed::from)?;

    let sent = sent.ok_or(Malformed::NoObject)?.raw;
    if r#type == "ERROR" {
        return Err(Error::Api(Box::new(status(sent)?)));
    }
    let entry = entry(object(sent, &K::Object::kind(&()))?, before)?;

    Ok(match r#type.as_str() {
        "ADDED" | "MODIFIED" => Event::Applied(entry),
        "DELETED" => Event::Deleted(entry),
        "BOOKMARK" => Event::Bookmark(entry.resource_version().to_owned()),
        _ => return Err(Malformed::Kind(r#type).into()),
    })
}

pub(super) fn status(body: Bytes) -> Result<core::Status, Malformed> {
    let Status {
        message,
        reason,
        code,
    } = Status::decode(object(body, "Status")?)?;
    Ok(core::Status::failure(&message, &reason).with_code(u16::try_from(code).unwrap_or_default()))
}

fn entry<K: Kind>(raw: Bytes, before: &Before<'_, K>) -> Result<Entry<K>, Malformed> {
    let decode = K::PROTOBUF.ok_or(Malformed::NoObject)?;
    Ok(decode(raw, before)?)
}

/// Returns the bytes of an object of this kind.
fn object(mut body: Bytes, kind: &str) -> Result<Bytes, Malformed> {
    if !body.starts_with(MAGIC) {
        return Err(Malformed::NoObject);
    }
    let Unknown { type_meta, raw } = Unknown::decode(body.split_off(MAGIC.len()))?;
    match type_meta.unwrap_or_default() {
        meta if meta.kind == kind => Ok(raw),
        TypeMeta { kind } => Err(Malformed::Kind(kind)),
    }
}

macro_rules! messages {
    ($($name:ident { $(#[$kind:meta] $field:ident: $type:ty,)* })*) => {$(
        #[derive(Clone, PartialEq, Message)]
        struct $name { $(#[$kind] $field: $type,)* }
    )*};
}

messages! {
    Unknown {
        #[prost(message, optional, tag = "1")] type_meta: Option<TypeMeta>,
        #[prost(bytes = "bytes", tag = "2")] raw: Bytes,
    }
    TypeMeta {
        #[prost(string, tag = "2")] kind: String,
    }
    WatchEvent {
        #[prost(string, tag = "1")] r#type: String,
        #[prost(message, optional, tag = "2")] object: Option<RawExtension>,
    }
    RawExtension {
        #[prost(bytes = "bytes", tag = "1")] raw: Bytes,
    }
    Status {
        #[prost(string, tag = "3")] message: String,
        #[prost(string, tag = "4")] reason: String,
        #[prost(int32, tag = "6")] code: i32,
    }
    List {
        #[prost(message, optional, tag = "1")] metadata: Option<ListMeta>,
        #[prost(bytes = "bytes", repeated, tag = "2")] items: Vec<Bytes>,
    }
    ListMeta {
        #[prost(string, tag = "2")] resource_version: String,
        #[prost(string, tag = "3")] r#continue: String,
    }
}
