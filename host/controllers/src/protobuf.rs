//! Reads nodes in protobuf, as client-go does: encoding the 20 KiB of a typical kubelet's node as JSON costs the API server a
//! tenth of its time whenever nodes change. kube reads JSON, so the fields of a node that are needed are converted to JSON
//! here.

mod message;

use std::io;

use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, future::ready};
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use k8s_openapi::api::core::v1::Node;
use kube::{Client, Resource, client::Body};
use tokio_util::{
    codec::{FramedRead, LengthDelimitedCodec},
    io::StreamReader,
};
use tower::{BoxError, service_fn};

/// Accepted content types: servers that do not support protobuf answer in JSON.
const ACCEPT: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf,application/json");
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: HeaderValue = HeaderValue::from_static("application/json");

type AnyBody = UnsyncBoxBody<Bytes, BoxError>;

/// Returns a client that lists and watches nodes in protobuf. The nodes that it returns lack capacity, volumes, images, managed
/// fields and the conditions that Skydock does not read.
pub(crate) fn with_nodes_in_protobuf(client: &Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let nodes = Node::url_path(&(), None);
    let client = client.clone();
    let send = service_fn(move |mut request: Request<Body>| {
        let client = client.clone();
        let is_nodes = request.method() == Method::GET && request.uri().path() == nodes;
        if is_nodes {
            request.headers_mut().insert(header::ACCEPT, ACCEPT);
        }
        async move {
            let answer = client.send(request).await?;
            if is_nodes { in_json(answer).await } else { Ok(answer.map(any)) }
        }
    });
    Client::new(send, namespace)
}

fn any(body: Body) -> AnyBody {
    body.map_err(Into::into).boxed_unsync()
}

/// Converts an answer to one with a JSON body.
async fn in_json(answer: Response<Body>) -> Result<Response<AnyBody>, BoxError> {
    let (mut parts, body) = answer.into_parts();
    let Some(parameters) = protobuf(&parts.headers) else { return Ok(Response::from_parts(parts, any(body))) };
    let is_stream = parameters.split(';').any(|parameter| parameter.trim() == "stream=watch");
    let body = if is_stream {
        StreamBody::new(events(body).map_ok(http_body::Frame::data)).boxed_unsync()
    } else {
        let json = message::object(&body.collect().await?.to_bytes())?;
        Full::new(Bytes::from(json)).map_err(|never| match never {}).boxed_unsync()
    };
    parts.headers.insert(header::CONTENT_TYPE, JSON);
    parts.headers.remove(header::CONTENT_LENGTH);
    Ok(Response::from_parts(parts, body))
}

/// Returns the parameters of the content type; `None` if it is not protobuf.
fn protobuf(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::CONTENT_TYPE)?.to_str().ok()?.strip_prefix(PROTOBUF)
}

/// Returns the events of a watch as JSON, one per line. In protobuf, each event is preceded by its length in four bytes.
fn events(body: Body) -> impl Stream<Item = Result<Bytes, BoxError>> + Send {
    let bytes = StreamReader::new(body.into_data_stream().map_err(io::Error::other));
    FramedRead::new(bytes, LengthDelimitedCodec::new())
        .map_err(BoxError::from)
        .and_then(|event| ready(message::event(event.freeze()).map(Bytes::from).map_err(BoxError::from)))
        .boxed()
}

#[cfg(test)]
mod tests;
