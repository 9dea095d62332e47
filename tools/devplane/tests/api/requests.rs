use anyhow::Result;
use serde_json::json;

use crate::Stage;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// `kubectl create namespace shop`, as kubectl 1.32 sends it.
#[tokio::test]
async fn a_body_may_be_protobuf() -> Result<()> {
    let stage = Stage::new().await?;
    let body = b"k8s\0\n\x0f\n\x02v1\x12\tNamespace\x12\x1c\n\x14\n\x04shop\x12\0\x1a\0\"\0*\x002\08\0B\0\x12\0\x1a\x02\n\0\x1a\0\"\0";
    let media = "application/vnd.kubernetes.protobuf";
    let (code, namespace) = stage
        .send("POST", "/api/v1/namespaces", media, &body[..])
        .await?;
    assert_eq!(
        (code, &namespace["metadata"]["name"]),
        (201, &json!("shop")),
        "{namespace}"
    );
    let (code, rejected) = stage
        .send("POST", "/api/v1/namespaces", media, &body[1..])
        .await?;
    assert_eq!((code, &rejected["reason"]), (400, &json!("BadRequest")));
    let (code, rejected) = stage
        .send("POST", "/api/v1/namespaces", "text/plain", "{}")
        .await?;
    assert_eq!(
        (code, &rejected["reason"]),
        (415, &json!("UnsupportedMediaType"))
    );
    Ok(())
}

#[tokio::test]
async fn rejects_a_body_of_more_than_three_mebibytes() -> Result<()> {
    let stage = Stage::new().await?;
    let (code, rejected) = stage
        .send(
            "POST",
            MAPS,
            "application/json",
            vec![b' '; 3 * 1024 * 1024 + 1],
        )
        .await?;
    assert_eq!(
        (code, &rejected["reason"]),
        (413, &json!("RequestEntityTooLarge"))
    );
    Ok(())
}

#[tokio::test]
async fn unsupported_requests_are_answered_with_a_status() -> Result<()> {
    let stage = Stage::new().await?;
    for (method, path, expected) in [
        ("GET", "/api/v1/secrets", 404),
        ("GET", "/api/v1/namespaces/default/configmaps/a/status", 404),
        ("PATCH", MAPS, 405),
        ("POST", "/api/v1/namespaces/default/pods", 405),
        ("DELETE", "/api/v1/configmaps", 405),
    ] {
        let (code, status) = stage.send(method, path, "application/json", "{}").await?;
        assert_eq!(
            (code, &status["kind"], &status["code"]),
            (expected, &json!("Status"), &json!(expected)),
            "{path}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn rejects_a_request_to_another_host_name() -> Result<()> {
    let stage = Stage::new().await?;
    let host = |name: &'static str| {
        let request = http::Request::get("/api/v1/nodes").header("Host", name);
        async {
            anyhow::Ok(
                stage
                    .client
                    .send(request.body(kube::client::Body::empty())?)
                    .await?
                    .status()
                    .as_u16(),
            )
        }
    };
    assert_eq!(host("localhost:1").await?, 200);
    assert_eq!(host("rebound.example").await?, 403);
    Ok(())
}
