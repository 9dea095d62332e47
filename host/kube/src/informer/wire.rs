//! Requests lists and watches, and reads the answers.

mod json;
mod protobuf;

use std::io;

use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, future::ready, stream::BoxStream};
use http::{HeaderMap, HeaderValue, Request, header};
use http_body_util::{BodyExt, Collected, LengthLimitError, Limited};
use kube::{
    Client, Error, Resource,
    api::{ListParams, WatchParams},
    client::Body,
    core::{self, Status},
};
use tokio_util::{
    codec::{FramedRead, LengthDelimitedCodec, LinesCodec, LinesCodecError},
    io::StreamReader,
};

use super::{Entry, Informer, Kind};

/// Objects per page of a list. While a page is decoded, it is in memory twice, and a node has some
/// 20 KiB: with the 500 of client-go, pages would take most of the memory at startup.
const PAGE: u32 = 100;

/// Maximum bytes of an event of a watch. An object has at most 1.5 MiB in the API server's storage,
/// and JSON is not several times as long.
const MAX_EVENT: usize = 16 << 20;

/// Bytes of the buffer for events of a watch, which grows for larger ones. Room for a typical
/// kubelet's node of 20 KiB, and the head of the next event: without it, each event would need
/// another buffer.
const ROOM_FOR_EVENT: usize = 32 << 10;

/// Maximum bytes of a page of a list, after decompression: more than half a MiB for each object.
const MAX_PAGE: usize = 64 << 20;

/// Maximum bytes of an answer with an error.
const MAX_ERROR: usize = 1 << 20;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Accepted content types of kinds that can be read from protobuf: servers that do not support it
/// answer in JSON.
const ACCEPT: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf,application/json");

/// A page of a list.
pub(super) struct Page<K: Kind> {
    pub(super) entries: Vec<Entry<K>>,
    /// Where the next page begins; `None` for the last one.
    pub(super) next: Option<String>,
    /// The version of the list.
    pub(super) version: Option<String>,
}

/// An event of a watch. One that says that the watch has failed is an [`Error::Api`].
#[derive(Debug)]
pub(super) enum Event<K: Kind> {
    /// The object was added or changed.
    Applied(Entry<K>),
    /// The object was deleted.
    Deleted(Entry<K>),
    /// Nothing has changed up to this version.
    Bookmark(String),
}

impl<K: Kind> Event<K> {
    /// Returns the version up to which the watch has come.
    pub(super) fn version(&self) -> &str {
        match self {
            Self::Applied(entry) | Self::Deleted(entry) => entry.resource_version(),
            Self::Bookmark(version) => version,
        }
    }
}

/// The body of an answer, and how it is encoded.
struct Answer {
    is_protobuf: bool,
    body: Body,
}

/// Requests a page. `cache` has the previous versions of the objects.
pub(super) async fn list<K: Kind>(
    client: &Client,
    next: Option<String>,
    cache: &Informer<K>,
) -> Result<Page<K>, Error> {
    let params = ListParams {
        limit: Some(PAGE),
        continue_token: next,
        field_selector: K::FIELDS.map(str::to_owned),
        ..ListParams::default()
    };

    let request = core::Request::new(K::Object::url_path(&(), None)).list(&params);
    let answer = send::<K>(client, request.map_err(Error::BuildRequest)?).await?;
    let body = collect(answer.body, MAX_PAGE).await?;

    if answer.is_protobuf {
        Ok(protobuf::page(body, &|key: &str| cache.get(key))?)
    } else {
        json::page(&body).map_err(Error::SerdeError)
    }
}

/// Starts a watch. The stream ends with the answer, and after an error of the connection. `cache`
/// has the previous versions of the objects.
pub(super) async fn watch<'a, K: Kind>(
    client: &Client,
    version: &str,
    cache: &'a Informer<K>,
) -> Result<BoxStream<'a, Result<Event<K>, Error>>, Error> {
    let params = WatchParams {
        field_selector: K::FIELDS.map(str::to_owned),
        ..WatchParams::default()
    };

    let request = core::Request::new(K::Object::url_path(&(), None)).watch(&params, version);
    let mut request = request.map_err(Error::BuildRequest)?;

    // An API server would compress each event on its own.
    request.headers_mut().insert(
        header::ACCEPT_ENCODING,
        HeaderValue::from_static("identity"),
    );

    let answer = send::<K>(client, request).await?;
    Ok(if answer.is_protobuf {
        in_protobuf(answer.body, cache).boxed()
    } else {
        in_json(answer.body).boxed()
    })
}

/// In protobuf, each event is preceded by its length in four bytes.
fn in_protobuf<K: Kind>(
    body: Body,
    cache: &Informer<K>,
) -> impl Stream<Item = Result<Event<K>, Error>> + Send {
    let bytes = StreamReader::new(body.into_data_stream().map_err(io::Error::other));
    let codec = LengthDelimitedCodec::builder()
        .max_frame_length(MAX_EVENT)
        .new_codec();
    FramedRead::with_capacity(bytes, codec, ROOM_FOR_EVENT).map(move |event| {
        let frame = event.map_err(Error::ReadEvents)?.freeze();
        protobuf::event(frame, &|key: &str| cache.get(key))
    })
}

/// In JSON, each event is a line.
fn in_json<K: Kind>(body: Body) -> impl Stream<Item = Result<Event<K>, Error>> + Send {
    let bytes = StreamReader::new(body.into_data_stream().map_err(io::Error::other));
    FramedRead::new(bytes, LinesCodec::new_with_max_length(MAX_EVENT)).filter_map(|line| {
        ready(match line {
            Ok(line) => json::event(&line).transpose(),
            Err(LinesCodecError::Io(error)) => Some(Err(Error::ReadEvents(error))),
            Err(LinesCodecError::MaxLineLengthExceeded) => {
                Some(Err(Error::LinesCodecMaxLineLengthExceeded))
            }
        })
    })
}

/// Sends a request. An error of the API server is an error.
async fn send<K: Kind>(client: &Client, mut request: Request<Vec<u8>>) -> Result<Answer, Error> {
    if K::PROTOBUF.is_some() {
        request.headers_mut().insert(header::ACCEPT, ACCEPT);
    }

    let answer = client.send(request.map(Body::from)).await?;
    let code = answer.status();
    let is_protobuf = is_protobuf(answer.headers());
    let body = answer.into_body();
    if !code.is_client_error() && !code.is_server_error() {
        return Ok(Answer { is_protobuf, body });
    }

    let body = collect(body, MAX_ERROR).await?;
    let status = if is_protobuf {
        protobuf::status(body.clone()).ok()
    } else {
        serde_json::from_slice(&body).ok()
    };

    // It may be the text of a proxy.
    let text =
        || Status::failure(String::from_utf8_lossy(&body).trim(), "").with_code(code.as_u16());
    Err(Error::Api(Box::new(status.unwrap_or_else(text))))
}

/// Reads a body of at most this many bytes.
async fn collect(body: Body, most: usize) -> Result<Bytes, Error> {
    let collected = Limited::new(body, most).collect().await;
    collected.map(Collected::to_bytes).map_err(|error| {
        if error.is::<LengthLimitError>() {
            let mib = most >> 20;
            return Error::Service(format!("the answer exceeds {mib} MiB").into());
        }
        error
            .downcast::<Error>()
            .map_or_else(Error::Service, |error| *error)
    })
}

fn is_protobuf(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(PROTOBUF.as_bytes()))
}

#[cfg(test)]
mod tests;
