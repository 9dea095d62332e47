//! Requests to clouds on loopback: HTTP/1.1 without TLS, with complete bodies.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::Error;

/// The timeout. No local cloud takes this long to answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// A client with a connection pool.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient(Client<HttpConnector, Full<Bytes>>);

impl HttpClient {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        // The services close idle connections after ten minutes.
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .build(connector);
        Self(client)
    }

    /// Sends a request and reads the complete answer, whatever its status.
    pub(crate) async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Error> {
        let what = format!("{} {}", request.method(), request.uri());
        let work = async {
            let answer = self
                .0
                .request(request.map(Full::new))
                .await
                .map_err(|error| chain(&error))?;
            let (head, body) = answer.into_parts();
            let body = body.collect().await.map_err(|error| chain(&error))?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        match tokio::time::timeout(PATIENCE, work).await {
            Ok(done) => done.map_err(Error::setup::<String>(format!("send {what}"))),
            Err(_) => Err(Error::TimedOut {
                what: format!("an answer to {what}"),
                waited: PATIENCE,
                seen: "nothing".to_owned(),
            }),
        }
    }
}

/// Returns an error with its sources.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
