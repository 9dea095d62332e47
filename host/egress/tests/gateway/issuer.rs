//! Skydock's own requests to issuers of credentials.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use skydock_credentials::Issuer as _;
use skydock_egress::{HostIssuer, TlsConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{Names, Server};

fn issuer() -> HostIssuer {
    // A plugin can never reach this address, but it can be an issuer.
    let names = Names::default().with("metadata.google.internal", &[&["127.0.0.1"]]);
    HostIssuer::with(Arc::new(names), TlsConfig::default(), None)
}

fn post(server: &Server, path: &str) -> Request<Bytes> {
    let uri = format!("http://metadata.google.internal:{}{path}", server.port());
    Request::post(uri)
        .header("metadata-flavor", "Google")
        .body(Bytes::from("ask"))
        .unwrap()
}

#[tokio::test]
async fn an_issuer_is_reached_without_address_rules() {
    let server = Server::http(|request| async move {
        let flavor = request.headers()["metadata-flavor"].clone();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        Response::builder()
            .status(302)
            .header("location", "/")
            .header("x", flavor)
            .body(Full::new(body))
            .unwrap()
    })
    .await;
    let answer = issuer().send(post(&server, "/token")).await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["x"]),
        (302, &"Google".parse().unwrap())
    );
    assert_eq!(answer.body(), "ask");
}

#[tokio::test]
async fn errors_of_an_issuer_omit_the_path() {
    let server = Server::script(&[], true).await;
    let error = issuer()
        .send(post(&server, "/secret"))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("metadata.google.internal") && !error.contains("secret"),
        "{error}"
    );
    let endless =
        Server::http(|_| async { Response::new(Full::from(vec![0; (4 << 20) + 1])) }).await;
    let error = issuer()
        .send(post(&endless, "/"))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("length limit exceeded"), "{error}");
}

#[tokio::test]
async fn endless_informational_answers_of_an_issuer_end() {
    let server = Server::raw(|mut stream| async move {
        let mut head = vec![0; 16 * 1024];
        let _ = stream.read(&mut head).await;
        let early = b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100);
        while stream.write_all(&early).await.is_ok() {}
    })
    .await;
    let error = issuer().send(post(&server, "/")).await.unwrap_err();
    assert!(error.to_string().contains("1xx"), "{error}");
}
