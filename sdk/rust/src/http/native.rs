//! Requests in a plugin's unit tests, which are built natively: plain HTTP to a server that stands
//! in for the cloud.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ureq::http::Response as Answer;
use ureq::typestate::{WithBody, WithoutBody};
use ureq::{Agent, Body, RequestBuilder};

use super::failure::Failure;
use super::prepared::Prepared;
use super::time;
use super::{Method, Request, Response};
use crate::Result as Answered;

mod intercept;

pub use intercept::{Interception, intercept};

/// Sends all requests, at most `at_once` concurrently, in threads that include the caller's.
pub(super) fn send_all(requests: Vec<Request>, at_once: usize) -> Vec<Answered<Response>> {
    let threads = at_once.min(requests.len());
    let interceptors = intercept::here();
    let next = AtomicUsize::new(0);

    // A thread takes the request that it sends.
    let requests: Vec<_> = requests
        .into_iter()
        .map(|request| Mutex::new(Some(request)))
        .collect();
    let answers: Vec<_> = requests.iter().map(|_| Mutex::new(None)).collect();

    let work = || {
        while let Some((request, answer)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            requests.get(index).zip(answers.get(index))
        } {
            let request = request
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            let sent = request.map(|request| send(request, &interceptors));
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = sent;
        }
    };

    std::thread::scope(|scope| {
        // The caller's thread sends requests too, so that a panic in its interceptor is a panic of
        // the caller.
        (1..threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });

    let not_sent = || Err(Failure::NotSent.told("a request"));
    let answers = answers
        .into_iter()
        .map(|answer| answer.into_inner().unwrap_or_else(PoisonError::into_inner));
    answers
        .map(|answer| answer.unwrap_or_else(not_sent))
        .collect()
}

fn send(mut request: Request, interceptors: &intercept::Interceptors) -> Answered<Response> {
    if let Some(answer) = interceptors.answer(&mut request) {
        // A unit test cannot send what a plugin could not send.
        return Prepared::new(&request).map(|_| answer);
    }

    let prepared = Prepared::new(&request)?;
    let limit = time::limit(request.limit, None);
    exchange(&request, &prepared, limit).map_err(|failure| {
        failure.told(&format!("{} {}", request.method, prepared.address.shown()))
    })
}

fn exchange(
    request: &Request,
    prepared: &Prepared<'_>,
    limit: Duration,
) -> Result<Response, Failure> {
    if limit.is_zero() {
        return Err(Failure::NotSent);
    }

    if prepared.address.secure {
        let why = "native tests have no TLS: answer the request in the test (`http::native::intercept`), or use http://";
        return Err(Failure::Unreachable(why.to_owned()));
    }

    let failed = |error| failure(error, limit, request.at_most);
    let (parts, mut body) = call(request, prepared, limit).map_err(failed)?.into_parts();
    let text =
        |value: &ureq::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();

    Ok(Response {
        status: parts.status.as_u16(),
        headers: parts
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect(),
        body: body
            .with_config()
            .limit(request.at_most as u64)
            .read_to_vec()
            .map_err(failed)?,
    })
}

fn call(
    request: &Request,
    prepared: &Prepared<'_>,
    limit: Duration,
) -> Result<Answer<Body>, ureq::Error> {
    // No proxy, no redirects and no additional headers: the host of a plugin does not add them
    // either.
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .user_agent("")
        .accept("")
        .accept_encoding("")
        .allow_non_standard_methods(true)
        .max_idle_connections(0)
        .timeout_global(Some(limit))
        .build()
        .into();

    let url = prepared.address.url();
    match request.method {
        Method::Post => with_body(agent.post(url), request, prepared),
        Method::Put => with_body(agent.put(url), request, prepared),
        Method::Patch => with_body(agent.patch(url), request, prepared),
        Method::Get => without_body(agent.get(url), request, prepared),
        Method::Head => without_body(agent.head(url), request, prepared),
        Method::Delete => without_body(agent.delete(url), request, prepared),
        Method::Options => without_body(agent.options(url), request, prepared),
    }
}

fn with_body(
    mut builder: RequestBuilder<WithBody>,
    request: &Request,
    prepared: &Prepared<'_>,
) -> Result<Answer<Body>, ureq::Error> {
    for (name, value) in &prepared.headers {
        builder = builder.header(*name, value.as_bytes());
    }
    builder.send(&request.body)
}

fn without_body(
    mut builder: RequestBuilder<WithoutBody>,
    request: &Request,
    prepared: &Prepared<'_>,
) -> Result<Answer<Body>, ureq::Error> {
    // For these methods, ureq has to be told to send a body.
    if !request.body.is_empty() {
        return with_body(builder.force_send_body(), request, prepared);
    }

    for (name, value) in &prepared.headers {
        builder = builder.header(*name, value.as_bytes());
    }
    builder.call()
}

fn failure(error: ureq::Error, limit: Duration, at_most: usize) -> Failure {
    match error {
        ureq::Error::Timeout(_) => Failure::Late(limit),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
            Failure::Wrong(format!("it is malformed: {error}"))
        }
        ureq::Error::BodyExceedsLimit(_) => Failure::TooLarge(at_most),
        other => Failure::Unreachable(other.to_string()),
    }
}
