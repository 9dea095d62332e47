//! The cloud on a port.
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::runtime;
use tokio::sync::{Semaphore, oneshot};

use crate::api::answer::{Answer, Outcome, Reply, Request};
use crate::api::parse::BODY;
use crate::cloud::Cloud;
use crate::options::Options;

/// Maximum number of connections at a time; others wait.
const CONNECTIONS: usize = 1024;

/// A running cloud, in a thread of its own. It stops when this is dropped.
#[derive(Debug)]
pub struct Simcloud {
    address: SocketAddr,
    token: String,
    cloud: Arc<RunningCloud>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct RunningCloud {
    cloud: Mutex<Cloud>,
    started: Instant,
}

impl Simcloud {
    /// Starts a cloud.
    ///
    /// # Errors
    /// If it cannot listen.
    pub fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen)?;

        // Tokio requires it.
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;

        let cloud = Arc::new(RunningCloud {
            cloud: Mutex::new(Cloud::new(&options)),
            started: Instant::now(),
        });

        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;

        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&cloud);

        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    // Also if the sender is gone.
                    _ = stopped => {}
                    () = accept(listener, served) => {}
                }
            });
        };

        let thread = thread::Builder::new()
            .name("simcloud".to_owned())
            .spawn(serve)?;

        Ok(Self {
            address,
            token: options.token,
            cloud,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns the URL of the API, without a slash at its end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the token of clients.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Performs a request in the process, with the token, without latency. Returns the status,
    /// which is 0 if the connection would be cut, and the body. A body of null is none.
    #[must_use]
    pub fn request(&self, method: &str, path_and_query: &str, body: &Value) -> (u16, Value) {
        let (path, query) = path_and_query
            .split_once('?')
            .unwrap_or((path_and_query, ""));

        let request = Request {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            authorization: Some(format!("Bearer {}", self.token)),
            body: if body.is_null() {
                Vec::new()
            } else {
                body.to_string().into_bytes()
            },
            ..Request::default()
        };

        match self.cloud.handle(&request).answer {
            Answer::Reply(reply) => (
                reply.status,
                serde_json::from_str(&reply.body).unwrap_or_default(),
            ),
            Answer::Cut => (0, Value::Null),
        }
    }
}

impl Drop for Simcloud {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has ended, or panicked and said so.
            let _ = thread.join();
        }
    }
}

impl RunningCloud {
    fn handle(&self, request: &Request) -> Outcome {
        self.cloud().handle(self.started.elapsed(), request)
    }

    fn cloud(&self) -> MutexGuard<'_, Cloud> {
        self.cloud.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(listener: TcpListener, cloud: Arc<RunningCloud>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };

    let free = Arc::new(Semaphore::new(CONNECTIONS));
    // The semaphore is never closed.
    while let Ok(permit) = Arc::clone(&free).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // For example too many open files: others may be closed.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };

        let cloud = Arc::clone(&cloud);
        let service = service_fn(move |request| answer(request, Arc::clone(&cloud)));
        // An error is a client that is gone, or a connection that is to be cut.
        tokio::spawn(async {
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
            drop(permit);
        });
    }
}

/// Answers a request. An error cuts the connection.
async fn answer(
    request: hyper::Request<Incoming>,
    cloud: Arc<RunningCloud>,
) -> io::Result<hyper::Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    // A value that is not text matches nothing; without a value, there would be no condition.
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let header = |name: HeaderName| head.headers.get(name).map(text);

    let body = match Limited::new(body, BODY).collect().await {
        Ok(body) => body.to_bytes().to_vec(),
        // Too large, as the cloud will find, or the client is gone.
        Err(_) => vec![0; BODY + 1],
    };

    let outcome = cloud.handle(&Request {
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        authorization: header(header::AUTHORIZATION),
        if_match: header(header::IF_MATCH),
        if_none_match: header(header::IF_NONE_MATCH),
        body,
    });

    tokio::time::sleep(outcome.after).await;
    match outcome.answer {
        Answer::Reply(reply) => response(reply).map_err(io::Error::other),
        Answer::Cut => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}

fn response(reply: Reply) -> Result<hyper::Response<Full<Bytes>>, hyper::http::Error> {
    let mut response = hyper::Response::builder().status(reply.status);
    if !reply.body.is_empty() {
        response = response.header(header::CONTENT_TYPE, "application/json");
    }

    if let Some(etag) = reply.etag {
        response = response.header(header::ETAG, etag);
    }

    if let Some(seconds) = reply.retry_after {
        response = response.header(header::RETRY_AFTER, seconds);
    }

    response.body(Full::new(reply.body.into()))
}
