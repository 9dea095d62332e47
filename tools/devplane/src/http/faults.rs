//! Injects faults between the client and the router.

use std::{io, time::Duration};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::StreamExt as _;
use http::{HeaderValue, Method, StatusCode, header};
use tokio::time::sleep;

use super::{JSON, header_text, path, query::Query, raw};
use crate::{
    faults::{Call, Fate, Fault, FaultSwitch, Verb},
    formats::render::Rendering,
    refusal::{Reason, Refusal},
};

/// Applies the faults to a request.
pub(super) async fn inject(
    State(faults): State<FaultSwitch>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(call) = call(&request) else {
        return next.run(request).await;
    };

    let fate = faults.fate(&call);
    if fate.no_bookmarks {
        forgo_bookmarks(&mut request);
    }
    pause(fate.delay).await;

    match fate.fault {
        None => {
            let response = next.run(request).await;
            if call.verb == Verb::Watch && response.status() == StatusCode::OK {
                return response.map(|body| Body::from_stream(events(body, faults, call)));
            }
            response
        }
        Some(Fault::Silence) => std::future::pending().await,
        Some(Fault::AnswerLost) => {
            drop(next.run(request).await);
            cut()
        }
        Some(fault) => refusal(&fault).map_or_else(cut, answer),
    }
}

/// Returns the properties of a request, or none if it is not about objects.
fn call(request: &Request) -> Option<Call> {
    let Some(path::Place::Api(api)) = path::parse(request.uri().path()) else {
        return None;
    };

    let verb = match *request.method() {
        Method::GET if Query::parse(request.uri()).is_ok_and(|query| query.watch) => Verb::Watch,
        Method::GET if api.name.is_empty() => Verb::List,
        Method::GET => Verb::Get,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => return None,
    };

    Some(Call {
        verb,
        resource: api.plural,
        user_agent: header_text(request, header::USER_AGENT),
    })
}

/// Applies the faults to each event of a watch.
fn events(
    body: Body,
    faults: FaultSwitch,
    call: Call,
) -> impl futures::Stream<Item = io::Result<Bytes>> + Send {
    futures::stream::unfold(
        Some((body.into_data_stream(), faults, call)),
        async |watch| {
            let (mut body, faults, call) = watch?;
            let line: Result<Bytes, axum::Error> = BodyDataStream::next(&mut body).await?;
            let Fate { delay, fault, .. } = faults.fate(&call);
            pause(delay).await;

            match fault {
                None => Some((line.map_err(io::Error::other), Some((body, faults, call)))),
                Some(Fault::Silence) => std::future::pending().await,
                Some(fault) => {
                    let last = refusal(&fault)
                        .map_or_else(|| Err(reset()), |refusal| Ok(Rendering::error(&refusal)));
                    Some((last, None))
                }
            }
        },
    )
}

/// Even a sleep of zero would advance a paused clock.
async fn pause(delay: Duration) {
    if !delay.is_zero() {
        sleep(delay).await;
    }
}

/// Returns the response of a fault that has one.
fn refusal(fault: &Fault) -> Option<Refusal> {
    match fault {
        Fault::Conflict => Some(Refusal::new(
            Reason::Conflict,
            "the object has been modified; please apply your changes again",
        )),
        Fault::TooManyRequests { retry_after } => Some(Refusal::throttled(*retry_after)),
        Fault::InternalError => Some(Refusal::new(
            Reason::InternalError,
            "an error on the server: etcd has no leader",
        )),
        Fault::Forbidden => Some(Refusal::new(
            Reason::Forbidden,
            "the account has no permission",
        )),
        Fault::ServiceUnavailable => Some(Refusal::new(
            Reason::ServiceUnavailable,
            "the server is currently unable to handle the request",
        )),
        Fault::Expired => Some(Refusal::new(Reason::Expired, "too old resource version")),
        Fault::Slow(_) | Fault::Silence | Fault::Cut | Fault::AnswerLost | Fault::NoBookmarks => {
            None
        }
    }
}

fn answer(refusal: Refusal) -> Response {
    let wait = refusal.retry_after();
    let mut response = refusal.into_response();
    if let Some(seconds) = wait {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Returns a response that breaks off before the first byte of its body, which closes the
/// connection.
fn cut() -> Response {
    raw(
        StatusCode::OK,
        JSON,
        Body::from_stream(futures::stream::once(async { Err::<Bytes, _>(reset()) })),
    )
}

fn reset() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the connection was cut")
}

fn forgo_bookmarks(request: &mut Request) {
    let text = request.uri().to_string();

    // A streaming list ends with a bookmark, for which the client waits.
    if !text.contains("sendInitialEvents")
        && let Ok(uri) = text
            .replace("allowWatchBookmarks=true", "allowWatchBookmarks=false")
            .parse()
    {
        *request.uri_mut() = uri;
    }
}
