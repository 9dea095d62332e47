//! What of a plugin's own headers and query reaches a server.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use skydock_credentials::{
    Credential, CredentialMetrics, Credentials, Dependencies, SystemClock, config::CredentialConfig,
};
use skydock_egress::{Cause, HostIssuer, TlsConfig};

use crate::support::{Plugin, Server, get, rule, settings};

/// A server that returns the names and values of the headers that it receives, sorted.
async fn mirror() -> Server {
    Server::http(|request| async move {
        let headers = request.headers().iter();
        let mut lines: Vec<_> = headers
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .filter(|line| !line.starts_with("host: "))
            .collect();
        lines.sort();
        Response::new(Full::from(Bytes::from(lines.join("\n"))))
    })
    .await
}

/// Returns a credential of the host with a real configuration.
fn credential(folder: &std::path::Path, yaml: &str) -> Arc<dyn Credential> {
    let file = folder.join("token");
    std::fs::write(&file, "r3al").unwrap();
    let yaml = format!(
        "[{{name: c, for: {{plugin: test, digest: any}}, {yaml}, valueFile: {}}}]",
        file.display()
    );
    let dependencies = Dependencies {
        issuers: Box::new(|_| Arc::new(HostIssuer::new(TlsConfig::default(), None))),
        clock: Arc::new(SystemClock),
        metrics: CredentialMetrics::default(),
    };
    let configs: Vec<CredentialConfig> = serde_saphyr::from_str(&yaml).unwrap();
    let credentials = Credentials::new(&configs, &dependencies).unwrap();
    credentials.bind("c", "test", "sha256:0").unwrap()
}

/// Headers with which plugins tried to be somebody else.
const FORGED: &[(&str, &str)] = &[
    ("authorization", "guest"),
    ("token", "guest"),
    ("x-jwt-assertion", "guest"),
    ("x-user-id", "admin"),
    ("x-roles", "admin"),
    ("x-identity-status", "Confirmed"),
    ("cf-access-client-secret", "guest"),
    ("dd-api-key", "guest"),
    ("cookie", "JSESSIONID=guest; auth=guest"),
    ("x-unknown-feature", "on"),
];

/// Headers with which they pretended to be a proxy.
const PROXIES: &[(&str, &str)] = &[
    ("x-forwarded-client-cert", "Subject=admin"),
    ("x-forwarded-for", "127.0.0.1"),
    ("x-remote-user", "admin"),
    ("x-ms-client-principal", "admin"),
    ("x-ssl-client-verify", "SUCCESS"),
    ("x-real-ip", "127.0.0.1"),
    ("client-cert", ":aa==:"),
    ("x-azure-clientip", "127.0.0.1"),
    ("tailscale-user-login", "admin"),
    ("via", "1.1 proxy"),
];

fn with(server: &Server, path: &str, headers: &[&[(&str, &str)]]) -> Request<&'static str> {
    let mut request = get(server, path);
    for (name, value) in headers.iter().copied().flatten() {
        let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
        request.headers_mut().append(name, value.parse().unwrap());
    }
    request
}

// Holds: SEC-18, SEC-41
#[tokio::test]
async fn beside_a_credential_only_listed_headers_are_sent() {
    let server = mirror().await;
    let folder = tempfile::tempdir().unwrap();
    let usual = [
        ("accept", "application/json"),
        ("content-type", "application/json"),
        ("x-request-id", "1"),
        ("openstack-api-version", "compute 2.47"),
        ("amz-sdk-request", "attempt=1"),
    ];
    let sent = "accept-encoding: identity\naccept: application/json\namz-sdk-request: attempt=1";
    let rest =
        "content-type: application/json\nopenstack-api-version: compute 2.47\nx-request-id: 1";
    for (yaml, rule_fields, expected) in [
        (
            "type: header",
            "",
            format!("{sent}\nauthorization: r3al\n{rest}"),
        ),
        (
            "type: header",
            ", headers: [X-Unknown-*, Token]",
            format!(
                "{sent}\nauthorization: r3al\n{}\ntoken: guest\nx-request-id: 1\nx-unknown-feature: on",
                rest.replace("\nx-request-id: 1", "")
            ),
        ),
        (
            "type: header, header: X-Auth-Token",
            "",
            format!(
                "{sent}\n{}\nx-auth-token: r3al\nx-request-id: 1",
                rest.replace("\nx-request-id: 1", "")
            ),
        ),
    ] {
        let credential = credential(folder.path(), yaml);
        let rule = rule(&format!("credential: c{rule_fields}"));
        let plugin = Plugin::new(&settings(&rule, server.port(), Some(credential)));
        let request = with(&server, "/", &[&usual, FORGED, PROXIES]);
        let (_, seen) = plugin.fetch(request).await.unwrap();
        assert_eq!(
            String::from_utf8_lossy(&seen),
            expected,
            "{yaml}{rule_fields}"
        );
    }
}

// Holds: SEC-18
#[tokio::test]
async fn without_a_credential_a_plugin_cannot_authenticate() {
    let server = mirror().await;
    let denied = Plugin::to(&server, "");
    for header in FORGED
        .iter()
        .filter(|(name, _)| *name != "x-unknown-feature")
    {
        let error = denied.fetch(with(&server, "/", &[&[*header]])).await;
        assert_eq!(error.unwrap_err().cause(), Cause::GuestAuth, "{header:?}");
    }
    for query in [
        "token=a",
        "a=1;sig=b",
        "Key=c",
        "jwt=d",
        "user[password]=e",
        "%74oken=a",
    ] {
        let error = denied.fetch(get(&server, &format!("/?{query}"))).await;
        assert_eq!(error.unwrap_err().cause(), Cause::GuestAuth, "{query}");
    }
    denied.fetch(get(&server, "/?pageToken=a")).await.unwrap();
    let listed = Plugin::to(&server, "headers: [dd-api-key], queryParameters: [key]");
    let request = with(&server, "/?key=1", &[&[("dd-api-key", "guest")]]);
    assert_eq!(listed.fetch(request).await.unwrap().1, "dd-api-key: guest");
    let request = with(&server, "/?key=1&token=2", &[]);
    listed.fetch(request).await.unwrap_err();
}

// Holds: SEC-42
#[tokio::test]
async fn headers_of_proxies_are_never_sent() {
    let server = mirror().await;
    for fields in ["", "guestAuth: allowed"] {
        let plugin = Plugin::to(&server, fields);
        let request = with(&server, "/", &[PROXIES, &[("x-other", "kept")]]);
        assert_eq!(plugin.fetch(request).await.unwrap().1, "x-other: kept");
    }
}

// Holds: SEC-18
#[tokio::test]
async fn a_query_that_authenticates_is_denied_beside_a_credential() {
    let server = mirror().await;
    let folder = tempfile::tempdir().unwrap();
    let credential = credential(folder.path(), "type: header");
    let of = |fields: &str| {
        let rule = rule(&format!("credential: c{fields}"));
        Plugin::new(&settings(&rule, server.port(), Some(credential.clone())))
    };
    for query in ["token=a", "a=1;sig=b", "password", "X-Amz-Credential=c"] {
        let error = of("").fetch(get(&server, &format!("/?{query}"))).await;
        let error = error.unwrap_err();
        assert_eq!(error.cause(), Cause::GuestAuth, "{query}");
        assert!(
            error.sentence().contains("`queryParameters` of the rule"),
            "{error}"
        );
    }
    let listed = of(", queryParameters: [token]");
    listed.fetch(get(&server, "/?token=a")).await.unwrap();
}
