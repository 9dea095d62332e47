use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::Request;
use skydock_credentials::{CredentialErrorKind, RequestKind};

use crate::world::{World, cloud};

/// All grants, each with the header that the cloud must receive.
pub(crate) const GRANTS: &[(&str, &str)] = &[
    (
        "type: oauth2, scopes: [a], grant: {clientSecret: {tokenUrl: URL/oauth/token, clientId: client, clientSecretFile: DIR/client-secret}}",
        "Bearer access-issued-",
    ),
    (
        "type: oauth2, grant: {clientSecret: {tokenUrl: URL/oauth/token, clientId: client, clientSecretFile: DIR/client-secret, basic: true}}",
        "Bearer access-issued-",
    ),
    (
        "type: oauth2, grant: {privateKey: {tokenUrl: URL/oauth/token, clientId: client, keyFile: DIR/tls.key, certificateFile: DIR/tls.crt}}",
        "Bearer access-issued-",
    ),
    (
        "type: oauth2, grant: {federated: {tokenUrl: URL/oauth/token, clientId: client, assertionFile: DIR/assertion}}",
        "Bearer access-issued-",
    ),
    (
        "type: oauth2, scopes: [compute], grant: {googleServiceAccount: {keyFile: DIR/google.json}}",
        "Bearer access-issued-",
    ),
    (
        "type: oauth2, scopes: [compute], grant: {googleFederated: {audience: //iam/pool, subjectTokenFile: DIR/assertion, serviceAccount: ccm@project, stsUrl: URL/sts/v1/token, iamUrl: URL}}",
        "Bearer acting-issued-",
    ),
    (
        "type: oauth2, grant: {gceMetadata: {endpoint: URL}}",
        "Bearer gce-issued-",
    ),
    (
        "type: oauth2, grant: {azureMetadata: {endpoint: URL, resource: 'https://management.azure.com/'}}",
        "Bearer msi-issued-",
    ),
    (
        "type: oauth2, grant: {form: {tokenUrl: URL/oauth/token, fields: {grant_type: apikey, apikey: '{{DIR/apikey}}'}}}",
        "Bearer access-issued-",
    ),
];

#[tokio::test]
async fn every_grant_type_gets_and_sends_a_token() {
    for &(yaml, expected) in GRANTS {
        let world = World::new().await;
        let credential = world.credential(yaml);
        let sent = world.header(&*credential, "authorization").await.unwrap();
        assert!(sent.starts_with(expected), "{yaml}: {sent}");
    }
}

#[tokio::test]
async fn a_token_can_be_sent_in_another_header() {
    let world = World::new().await;
    let (yaml, _) = GRANTS[0];
    let yaml = format!("{yaml}, header: x-ms-authorization-auxiliary");
    let credential = world.credential(&yaml);
    let sent = world
        .header(&*credential, "x-ms-authorization-auxiliary")
        .await
        .unwrap();
    assert!(sent.starts_with("Bearer access-issued-"), "{sent}");
    assert_eq!(
        world.cloud.last().header("authorization"),
        "",
        "the guest's is gone"
    );
}

#[tokio::test]
async fn one_token_serves_all_requests() {
    let world = World::new().await;
    let credential = world.credential(GRANTS[3].0);
    for _ in 0..5 {
        world.header(&*credential, "authorization").await.unwrap();
    }
    assert_eq!(world.cloud.seen("/oauth/token").len(), 1);
}

#[tokio::test]
async fn a_revoked_token_is_renewed_once_and_the_request_retried() {
    let world = World::new().await;
    let credential = world.credential(GRANTS[0].0);
    let first = world.header(&*credential, "authorization").await.unwrap();
    world.cloud.revoke();
    let second = world.header(&*credential, "authorization").await.unwrap();
    assert_ne!(first, second);
    assert_eq!(world.cloud.seen("/oauth/token").len(), 2);
}

#[tokio::test]
async fn a_secret_changed_in_its_file_is_used_immediately() {
    let world = World::new().await;
    world.write("client-secret", "wrong-secret");
    let credential = world.credential(GRANTS[0].0);
    let error = world
        .header(&*credential, "authorization")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), CredentialErrorKind::Denied);
    assert_eq!(
        error.to_string(),
        "credential `c`: its issuer 127.0.0.1 answered 400 (invalid_client): check its login and its URL"
    );
    world.write("client-secret", cloud::CLIENT_SECRET);
    assert!(world.header(&*credential, "authorization").await.is_ok());
}

#[tokio::test]
async fn a_token_serves_while_the_file_of_its_secret_is_gone() {
    let world = World::new().await;
    let credential = world.credential(GRANTS[0].0);
    let first = world.header(&*credential, "authorization").await.unwrap();
    std::fs::remove_file(world.path("client-secret")).unwrap();
    for _ in 0..2 {
        let sent = world.header(&*credential, "authorization").await.unwrap();
        assert_eq!(sent, first);
    }
    world.write("client-secret", cloud::CLIENT_SECRET);
    let sent = world.header(&*credential, "authorization").await.unwrap();
    assert_eq!(sent, first);
    assert_eq!(world.cloud.seen("/oauth/token").len(), 1);
}

#[tokio::test]
async fn an_issuer_that_is_down_is_unavailable() {
    let world = World::new().await;
    world.cloud.fail(503);
    let credential = world.credential(GRANTS[0].0);
    let error = world
        .header(&*credential, "authorization")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), CredentialErrorKind::Unavailable);
    let nobody = GRANTS[0].0.replace("URL", "http://127.0.0.1:1");
    let error = world
        .header(&*world.credential(&nobody), "authorization")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), CredentialErrorKind::Unavailable);
}

#[tokio::test]
async fn requests_for_credentials_are_not_sent() {
    let world = World::new().await;
    let credential = world.credential(GRANTS[0].0);
    let request = Request::post(format!(
        "{}/cloud/v1/projects/-/serviceAccounts/a:signJwt",
        world.cloud.url
    ));
    let error = world.send(&*credential, request, "{}").await.unwrap_err();
    assert_eq!(error.kind(), CredentialErrorKind::SecretRequest);
    assert!(world.cloud.seen("/").is_empty(), "not even a token was got");
}

#[tokio::test]
async fn static_headers_follow_their_files() {
    let world = World::new().await;
    let credential = world.credential("type: header, prefix: 'Bearer ', valueFile: DIR/token");
    assert_eq!(
        world.header(&*credential, "authorization").await.unwrap(),
        "Bearer static-t0ken"
    );
    world.write("token", "next-t0ken");
    assert_eq!(
        world.header(&*credential, "authorization").await.unwrap(),
        "Bearer next-t0ken"
    );
    assert!(
        credential.rejected(1, RequestKind(0)).await,
        "a newer one is there"
    );
    assert!(!credential.rejected(2, RequestKind(0)).await);
    let credential = world.credential("type: basic, userFile: DIR/user, passwordFile: DIR/token");
    let basic = "Basic Y2NtOm5leHQtdDBrZW4=";
    assert_eq!(
        world.header(&*credential, "authorization").await.unwrap(),
        basic
    );
    std::fs::remove_file(world.path("token")).unwrap();
    let error = world
        .header(&*credential, "authorization")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), CredentialErrorKind::Unavailable);
}

#[tokio::test]
async fn passwords_and_client_secrets_may_be_in_environment_variables() {
    let world = World::new().await;
    let value = std::env::var("PATH").unwrap();
    let client = "type: oauth2, grant: {clientSecret: {tokenUrl: URL/oauth/token, clientId: client, clientSecretEnv: PATH}}";
    let credential = world.credential(client);
    // The cloud knows another one.
    let error = world
        .header(&*credential, "authorization")
        .await
        .unwrap_err();
    assert!(!error.to_string().contains(&value), "{error}");
    let asked = world.cloud.seen("/oauth/token");
    assert_eq!(asked[0].field("client_secret"), value);

    let credential = world.credential("type: basic, userFile: DIR/user, passwordEnv: PATH");
    let sent = world.header(&*credential, "authorization").await.unwrap();
    let pair = BASE64_STANDARD.encode(format!("ccm:{value}"));
    assert_eq!(sent, format!("Basic {pair}"));

    for unset in [
        client.replace("PATH", "SKYDOCK_NOWHERE"),
        "type: basic, userFile: DIR/user, passwordEnv: SKYDOCK_NOWHERE".to_owned(),
    ] {
        let credential = world.credential(&unset);
        let error = world
            .header(&*credential, "authorization")
            .await
            .unwrap_err();
        let error = error.to_string();
        assert!(error.contains("SKYDOCK_NOWHERE is not set"), "{error}");
    }
}

#[tokio::test]
async fn a_static_header_may_be_in_an_environment_variable() {
    let world = World::new().await;
    let credential = world.credential("type: header, prefix: 'Bearer ', valueEnv: PATH");
    let value = std::env::var("PATH").unwrap();
    assert_eq!(
        world.header(&*credential, "authorization").await.unwrap(),
        format!("Bearer {value}")
    );
    let masked = credential.secrets();
    assert!(
        masked
            .iter()
            .any(|secret| secret.expose() == value.as_bytes())
    );
    assert!(!format!("{credential:?} {masked:?}").contains(&*value));
    assert!(
        !credential.rejected(1, RequestKind(0)).await,
        "another value needs a restart"
    );

    let credential = world.credential("type: header, valueEnv: SKYDOCK_NOWHERE");
    let error = world
        .header(&*credential, "authorization")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), CredentialErrorKind::Unavailable);
    assert!(
        error.to_string().contains("SKYDOCK_NOWHERE is not set"),
        "{error}"
    );
}
