//! Sends one sequence to one plane.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{memory::Memory, request::Request};

/// An answer of a plane.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) media: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Content,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// JSON, or the text of an answer that is not JSON.
    Whole(Value),
    /// The lines of a watch so far, and whether it has ended.
    Events(Arc<Mutex<Events>>),
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) lines: Vec<Value>,
    pub(crate) over: bool,
}

impl Answer {
    /// Returns the JSON of the answer, or the events of a watch.
    pub(crate) fn value(&self) -> Value {
        match &self.body {
            Content::Whole(value) => value.clone(),
            Content::Events(events) => {
                let events = events.lock().unwrap_or_else(PoisonError::into_inner);
                json!({"events": events.lines, "over": events.over})
            }
        }
    }
}

/// All answers of a plane to a sequence, and the literal requests.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) answers: Vec<Answer>,
    pub(crate) sent: String,
    /// The tasks that read the watches. They end with the run.
    watches: JoinSet<()>,
    services: Vec<String>,
}

/// Sends the requests one after the other, in their own namespace.
pub(crate) async fn run(
    client: &Client,
    namespace: &str,
    number: u64,
    requests: &[Request],
) -> Result<Run> {
    let mut memory = Memory::new(namespace.to_owned(), number);
    let mut run = Run {
        answers: Vec::new(),
        sent: String::new(),
        watches: JoinSet::new(),
        services: Vec::new(),
    };
    let body = json!({"metadata": {"name": namespace, "labels": {"seq": namespace}}}).to_string();
    let made = send(
        client,
        "POST",
        "/api/v1/namespaces",
        "",
        "application/json",
        body,
    )
    .await?;
    memory.learn(
        &Request::get("/api/v1/namespaces".into()),
        &whole(made).await?,
    );
    for request in requests {
        let (uri, body, own) = memory.fill(request);
        if reads_from_cache(request) {
            // An API server may answer these requests from an outdated cache. This list request
            // waits until the cache is up to date.
            let list =
                uri.split('?').next().unwrap_or_default().to_owned() + "?labelSelector=no%3Done";
            whole(send(client, "GET", &list, "", "", String::new()).await?).await?;
        }
        run.sent += &format!("{uri} {own}\n");
        let answer = send(
            client,
            request.method,
            &uri,
            request.accept,
            request.media,
            body,
        )
        .await;
        let answer = answer.with_context(|| format!("no answer to {request}"))?;
        let answer = run.take_in(answer, request.is_watch()).await?;
        if let Content::Whole(value) = &answer.body {
            memory.learn(request, value);
        }
        run.answers.push(answer);
    }
    run.services = memory.seen("services");
    Ok(run)
}

fn reads_from_cache(request: &Request) -> bool {
    let names_version = request
        .query
        .iter()
        .any(|(name, _)| *name == "resourceVersion");
    request.method == "GET" && (request.is_watch() || names_version)
}

/// Releases values that other sequences request too.
pub(crate) async fn tidy(client: &Client, namespace: &str, run: Run) -> Result<()> {
    for name in run.services {
        let uri = format!("/api/v1/namespaces/{namespace}/services/{name}");
        let body = json!({"metadata": {"finalizers": null}}).to_string();
        whole(
            send(
                client,
                "PATCH",
                &uri,
                "",
                "application/merge-patch+json",
                body,
            )
            .await?,
        )
        .await?;
        whole(send(client, "DELETE", &uri, "", "", String::new()).await?).await?;
    }
    Ok(())
}

impl Run {
    async fn take_in(&mut self, response: Response, is_watch: bool) -> Result<Answer> {
        let header = |name: &str| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
        };
        let warnings = response.headers().get_all("Warning").iter();
        let warnings = warnings
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect();
        let (status, media) = (
            response.status().as_u16(),
            header("Content-Type").to_owned(),
        );
        let body = if is_watch && status == 200 {
            let events = Arc::new(Mutex::new(Events::default()));
            self.watches
                .spawn(follow(response.into_body(), Arc::clone(&events)));
            Content::Events(events)
        } else {
            Content::Whole(whole(response).await?)
        };
        Ok(Answer {
            status,
            media,
            warnings,
            body,
        })
    }
}

type Response = http::Response<Body>;

/// Returns JSON, or the text of an answer that is not JSON.
async fn whole(response: Response) -> Result<Value> {
    let bytes = response.into_body().collect().await?.to_bytes();
    Ok(serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into()))
}

async fn send(
    client: &Client,
    method: &str,
    uri: &str,
    accept: &str,
    media: &str,
    body: String,
) -> Result<Response> {
    let mut tries = 0;
    loop {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in [("Accept", accept), ("Content-Type", media)] {
            if !value.is_empty() {
                request = request.header(name, value);
            }
        }
        if body.len() > LARGE {
            request = request.header("Connection", "close");
        }
        tries += 1;
        match client
            .send(request.body(Body::from(body.clone().into_bytes()))?)
            .await
        {
            // A server that rejects a body before it is complete may close the connection, so the
            // request is retried on another one.
            Err(_) if body.len() > LARGE && tries < 20 => {}
            answer => return Ok(answer?),
        }
    }
}

/// The size in bytes above which servers reject a body.
const LARGE: usize = 3 * 1024 * 1024;

/// Collects the lines of a watch.
async fn follow(body: Body, events: Arc<Mutex<Events>>) {
    let mut stream = body.into_data_stream();
    let mut rest = Vec::new();
    while let Some(Ok(bytes)) = stream.next().await {
        rest.extend_from_slice(&bytes);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let event = serde_json::from_slice(&line)
                .unwrap_or_else(|_| String::from_utf8_lossy(&line).into());
            events
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .lines
                .push(event);
        }
    }
    events.lock().unwrap_or_else(PoisonError::into_inner).over = true;
}
