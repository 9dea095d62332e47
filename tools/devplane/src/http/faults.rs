//! Injects faults between the client and the router.

use std::{io, time::Duration};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::StreamExt as _;
use http::{HeaderValue, Method, StatusCode, Uri, header};
use tokio::time::sleep;

use super::{JSON, header_text, path, query::Query, raw};
use crate::{
    faults::{Effect, Fault, FaultSwitch, RequestInfo, Verb},
    formats::render::Rendering,
    status::{Reason, StatusError},
};

/// Applies the faults to a request.
pub(super) async fn inject(
    State(faults): State<FaultSwitch>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(info) = request_info(&request) else {
        return next.run(request).await;
    };

    let effect = faults.effect(&info);
    if effect.no_bookmarks {
        *request.uri_mut() = without_bookmarks(request.uri());
    }
    pause(effect.delay).await;

    match effect.fault {
        None => {
            let response = next.run(request).await;
            if info.verb == Verb::Watch && response.status() == StatusCode::OK {
                return response.map(|body| Body::from_stream(events(body, faults, info)));
            }
            response
        }
        Some(Fault::Silence) => std::future::pending().await,
        Some(Fault::AnswerLost) => {
            drop(next.run(request).await);
            cut()
        }
        Some(fault) => status_error(&fault).map_or_else(cut, answer),
    }
}

/// Returns the properties of a request, or none if it is not about objects.
fn request_info(request: &Request) -> Option<RequestInfo> {
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

    Some(RequestInfo {
        verb,
        resource: api.plural,
        user_agent: header_text(request, header::USER_AGENT),
    })
}

/// Applies the faults to each event of a watch.
fn events(
    body: Body,
    faults: FaultSwitch,
    info: RequestInfo,
) -> impl futures::Stream<Item = io::Result<Bytes>> + Send {
    futures::stream::unfold(
        Some((body.into_data_stream(), faults, info)),
        async |watch| {
            let (mut body, faults, info) = watch?;
            let line: Result<Bytes, axum::Error> = BodyDataStream::next(&mut body).await?;
            let Effect { delay, fault, .. } = faults.effect(&info);
            pause(delay).await;

            match fault {
                None => Some((line.map_err(io::Error::other), Some((body, faults, info)))),
                Some(Fault::Silence) => std::future::pending().await,
                Some(fault) => {
                    let last = status_error(&fault)
                        .map_or_else(|| Err(reset()), |error| Ok(Rendering::error(&error)));
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
fn status_error(fault: &Fault) -> Option<StatusError> {
    match fault {
        Fault::Conflict => Some(StatusError::new(
            Reason::Conflict,
            "the object has been modified; please apply your changes again",
        )),
        Fault::TooManyRequests { retry_after } => Some(StatusError::throttled(*retry_after)),
        Fault::InternalError => Some(StatusError::new(
            Reason::InternalError,
            "an error on the server: etcd has no leader",
        )),
        Fault::Forbidden => Some(StatusError::new(
            Reason::Forbidden,
            "the account has no permission",
        )),
        Fault::ServiceUnavailable => Some(StatusError::new(
            Reason::ServiceUnavailable,
            "the server is currently unable to handle the request",
        )),
        Fault::Expired => Some(StatusError::new(
            Reason::Expired,
            "too old resource version",
        )),
        Fault::Slow(_) | Fault::Silence | Fault::Cut | Fault::AnswerLost | Fault::NoBookmarks => {
            None
        }
    }
}

fn answer(error: StatusError) -> Response {
    let wait = error.retry_after();
    let mut response = error.into_response();
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

/// Removes the wish for bookmarks from the address of a watch.
fn without_bookmarks(uri: &Uri) -> Uri {
    // A streaming list ends with a bookmark, for which the client waits.
    let is_streaming_list = Query::parse(uri).is_ok_and(|query| query.initial_events == Some(true));
    let Some(query) = uri.query().filter(|_| !is_streaming_list) else {
        return uri.clone();
    };

    let kept: Vec<_> = query
        .split('&')
        .filter(|pair| pair.split('=').next() != Some("allowWatchBookmarks"))
        .collect();
    let path = format!("{}?{}", uri.path(), kept.join("&"));
    path.parse().unwrap_or_else(|_| uri.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_streaming_list_keeps_its_wish_for_bookmarks() {
        for (query, expected) in [
            ("watch=1&allowWatchBookmarks=true", "watch=1"),
            ("allowWatchBookmarks=1&watch=1", "watch=1"),
            ("watch=1&allowWatchBookmarks=T&limit=5", "watch=1&limit=5"),
            ("watch=1&allowWatchBookmarks", "watch=1"),
            (
                "allowWatchBookmarks=true&sendInitialEvents=true",
                "allowWatchBookmarks=true&sendInitialEvents=true",
            ),
            (
                "allowWatchBookmarks=true&sendInitialEvents=false",
                "sendInitialEvents=false",
            ),
        ] {
            let uri = format!("/api/v1/nodes?{query}").parse().unwrap();
            assert_eq!(without_bookmarks(&uri).query(), Some(expected), "{query}");
        }
    }
}
