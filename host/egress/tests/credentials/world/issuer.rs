//! The issuer client of the tests: plain HTTP.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use skydock_credentials::{Issuer, IssuerError};

/// A client for plain HTTP.
pub(crate) struct Plain(Client<HttpConnector, Full<Bytes>>);

impl Plain {
    pub(crate) fn new() -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http())
    }
}

#[async_trait]
impl Issuer for Plain {
    async fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<Bytes>, IssuerError> {
        let sent = self.0.request(request.map(Full::new));
        let answer = tokio::time::timeout(Duration::from_secs(10), sent).await;
        let answer = answer.map_err(|_| IssuerError::new("no answer in time"))?;
        let (head, body) = answer
            .map_err(|error| IssuerError::new(error.to_string()))?
            .into_parts();
        let body = Limited::new(body, 1 << 20)
            .collect()
            .await
            .map_err(|error| IssuerError::new(error.to_string()))?;
        Ok(http::Response::from_parts(head, body.to_bytes()))
    }
}
