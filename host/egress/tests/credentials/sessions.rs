use http::Request;
use skydock_credentials::CredentialErrorKind;

use crate::world::World;

pub(crate) const KEYSTONE: &str = "type: session, login: {keystone: {authUrl: URL/identity, username: ccm, userDomainName: Default, projectName: k8s, projectDomainName: Default, passwordFile: DIR/password}}";
pub(crate) const CLOUD_CONF: &str = "type: session, login: {keystone: {cloudConf: DIR/cloud.conf}}";
pub(crate) const VSPHERE: &str = "type: session, login: {vsphereSoap: {url: URL/sdk, userFile: DIR/user, passwordFile: DIR/password}}";
pub(crate) const FORM: &str = "type: session, login: {template: {url: URL/api/session/create, headers: {Content-Type: application/x-www-form-urlencoded}, body: 'j_username={{DIR/user}}&j_password={{DIR/password}}', escape: form, capture: {cookie: JSESSIONID}, attach: {cookie: JSESSIONID}, lifetime: 20m}}";
pub(crate) const JSON: &str = "type: session, login: {template: {url: URL/api/login, headers: {X-Client: '{{DIR/user}}'}, body: '{\"password\": \"{{DIR/password}}\"}', escape: json, capture: {json: /data/token}, attach: {header: {name: X-Session, prefix: 'S '}}, expires: /data/ttl}}";

#[tokio::test]
async fn every_login_method_gets_and_sends_a_session() {
    for (yaml, header, expected) in [
        (KEYSTONE, "x-auth-token", "keystone-issued-0001"),
        (CLOUD_CONF, "x-auth-token", "keystone-issued-0001"),
        (
            VSPHERE,
            "cookie",
            "vmware_soap_session=\"vmware-issued-0001\"",
        ),
        (FORM, "cookie", "JSESSIONID=nsx-issued-0001"),
        (JSON, "x-session", "S json-issued-0001"),
    ] {
        let world = World::new().await;
        let credential = world.credential(yaml);
        assert_eq!(world.header(&*credential, header).await.unwrap(), expected);
        assert_eq!(world.header(&*credential, header).await.unwrap(), expected);
        assert_eq!(world.cloud.issued(), 1);
    }
}

#[tokio::test]
async fn an_expired_session_is_renewed_once() {
    let world = World::new().await;
    let credential = world.credential(KEYSTONE);
    world.header(&*credential, "x-auth-token").await.unwrap();
    world.cloud.revoke();
    let all = futures_join(&world, &*credential, 8).await;
    assert!(
        all.iter().all(|token| token == "keystone-issued-0002"),
        "{all:?}"
    );
    assert_eq!(world.cloud.issued(), 2);
}

/// Sends several requests concurrently, and returns what the cloud received in each retry.
async fn futures_join(
    world: &World,
    credential: &dyn skydock_credentials::Credential,
    count: usize,
) -> Vec<String> {
    let one = || async {
        let request = Request::get(format!("{}/cloud/things", world.cloud.url));
        let answer = world.send(credential, request, "").await.unwrap();
        assert_eq!(answer.status, 200);
    };
    let (a, b, c, d) = (one(), one(), one(), one());
    tokio::join!(a, b, c, d);
    let seen = world.cloud.seen("/cloud/");
    let good = seen
        .iter()
        .rev()
        .map(|seen| seen.header("x-auth-token"))
        .filter(|token| token.ends_with('2'));
    good.take(count).collect()
}

#[tokio::test]
async fn an_answer_does_not_show_the_token_to_the_guest() {
    let world = World::new().await;
    let credential = world.credential(KEYSTONE);
    let request = Request::get(format!("{}/cloud/things", world.cloud.url));
    let answer = world.send(&*credential, request, "").await.unwrap();
    assert!(!format!("{answer:?}").contains("-issued-"), "{answer:?}");
}

#[tokio::test]
async fn a_wrong_password_is_denied_and_tried_once() {
    for (yaml, said) in [
        (
            KEYSTONE,
            "its issuer 127.0.0.1 answered 401 (Unauthorized): check its login and its URL",
        ),
        (VSPHERE, "vSphere rejected the user name or password"),
        (
            FORM,
            "its issuer 127.0.0.1 answered 403 (bad login): check its login and its URL",
        ),
    ] {
        let world = World::new().await;
        world.write("password", "wrong-password");
        let credential = world.credential(yaml);
        for _ in 0..3 {
            let error = world.header(&*credential, "x").await.unwrap_err();
            assert_eq!(
                (error.kind(), error.sentence()),
                (CredentialErrorKind::Denied, said)
            );
        }
        assert_eq!(world.cloud.seen("/").len(), 1);
    }
}

#[tokio::test]
async fn a_masked_login_is_answered_with_a_handle() {
    let world = World::new().await;
    let credential = world.credential(&format!("{CLOUD_CONF}, masked: true"));
    let login = || Request::post(format!("{}/identity/v3/auth/tokens", world.cloud.url));
    let placeholder = r#"{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"x","password":"x"}}}}}"#;
    let answer = world
        .send(&*credential, login(), placeholder)
        .await
        .unwrap();
    assert_eq!(answer.status, 201);
    let handle = answer.headers["x-subject-token"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(handle.starts_with("skydock-"), "{handle}");
    assert!(
        answer.body.contains("\"catalog\"") && !answer.body.contains("-issued-"),
        "{}",
        answer.body
    );
    // A login by another instance of the plugin does not cause another login to the cloud.
    world
        .send(&*credential, login(), placeholder)
        .await
        .unwrap();
    assert_eq!(world.cloud.issued(), 1);
    let request =
        Request::get(format!("{}/cloud/servers", world.cloud.url)).header("x-auth-token", &handle);
    assert_eq!(
        world.send(&*credential, request, "").await.unwrap().status,
        200
    );
    assert_eq!(
        world.cloud.last().header("x-auth-token"),
        "keystone-issued-0001"
    );
    let request =
        Request::get(format!("{}/cloud/x", world.cloud.url)).header("x-subject-token", &handle);
    world.send(&*credential, request, "").await.unwrap();
    assert_eq!(
        world.cloud.last().header("x-subject-token"),
        "keystone-issued-0001"
    );
    let logout = Request::delete(format!("{}/identity/v3/auth/tokens", world.cloud.url));
    assert_eq!(
        world.send(&*credential, logout, "").await.unwrap().status,
        204
    );
    assert_eq!(
        world.cloud.seen("/identity").len(),
        1,
        "the host's token lives on"
    );
    // The handle is still valid after the token is revoked.
    world.cloud.revoke();
    let request =
        Request::get(format!("{}/cloud/servers", world.cloud.url)).header("x-auth-token", &handle);
    assert_eq!(
        world.send(&*credential, request, "").await.unwrap().status,
        200
    );
}

#[tokio::test]
async fn a_masked_soap_login_is_answered_with_a_cookie() {
    let world = World::new().await;
    let credential = world.credential(&format!("{VSPHERE}, masked: true"));
    let sdk = || Request::post(format!("{}/sdk", world.cloud.url));
    let envelope = |inner: &str| format!("<Envelope><Body>{inner}</Body></Envelope>");
    let answer = world
        .send(
            &*credential,
            sdk(),
            &envelope("<Login><userName>x</userName></Login>"),
        )
        .await
        .unwrap();
    assert_eq!(answer.status, 200);
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    assert!(
        cookie.starts_with("vmware_soap_session=skydock-"),
        "{cookie}"
    );
    assert!(
        answer.body.contains("<LoginResponse>") && !answer.body.contains("-issued-"),
        "{}",
        answer.body
    );
    let answer = world
        .send(&*credential, sdk(), &envelope("<Logout/>"))
        .await
        .unwrap();
    assert!(answer.body.contains("LogoutResponse"));
    let error = world
        .send(&*credential, sdk(), &envelope("<AcquireCloneTicket/>"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), CredentialErrorKind::SecretRequest);
    assert_eq!(world.cloud.seen("/sdk").len(), 1);
}

#[tokio::test]
async fn a_login_by_the_guest_is_denied_unless_masked() {
    let world = World::new().await;
    let credential = world.credential(KEYSTONE);
    for path in [
        "/identity/v3/auth/tokens",
        "/identity//v3/auth%2Ftokens/",
        "/cloud/v3/users/1/application_credentials",
    ] {
        let request = Request::post(format!("{}{path}", world.cloud.url));
        let error = world.send(&*credential, request, "{}").await.unwrap_err();
        assert_eq!(error.kind(), CredentialErrorKind::SecretRequest, "{path}");
    }
    assert!(world.cloud.seen("/").is_empty());
    let credential = world.credential(FORM);
    let request = Request::post(format!("{}/api/session/create", world.cloud.url));
    let error = world
        .send(&*credential, request, "j_username=a&j_password=b")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), CredentialErrorKind::SecretRequest);
}

#[tokio::test]
async fn rejects_an_invalid_login_configuration() {
    let world = World::new().await;
    for (yaml, said) in [
        (
            "type: session, login: {keystone: {authUrl: URL}}",
            "exactly one of",
        ),
        (
            "type: session, login: {keystone: {authUrl: URL, passwordFile: /p, tokenFile: /t}}",
            "exactly one of",
        ),
        (
            "type: session, login: {keystone: {authUrl: URL, passwordFile: /p, username: u}}",
            "by name with its domain",
        ),
        (
            "type: session, login: {keystone: {passwordFile: /p, userId: u}}",
            "`authUrl` is missing",
        ),
        (
            "type: session, login: {keystone: {cloudConf: /c, userId: u}}",
            "mutually exclusive",
        ),
        (
            "type: session, masked: true, login: {keystone: {cloudConf: /nowhere}}",
            "cannot be read",
        ),
        (
            "type: session, login: {template: {url: URL, body: '{{a}}', escape: json, capture: {json: /a}, attach: {cookie: a}}}",
            "absolute path",
        ),
        (
            "type: session, login: {template: {url: URL, escape: json, capture: {json: /a}, attach: {header: {name: Host}}}}",
            "cannot carry",
        ),
    ] {
        let error = world.try_credential(yaml).unwrap_err();
        assert!(error.to_string().contains(said), "{yaml}: {error}");
    }
}

/// A cloud whose login returns two tokens, and whose other answers contain new tokens in headers.
async fn sliding() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = |uri: http::Uri, headers: http::HeaderMap| async move {
        let session = headers.get("x-session").is_some();
        let fresh = [
            ("x-session", "fresh-secret-1"),
            ("authorization", "Bearer fresh-secret-2"),
        ];
        match uri.path() {
            "/login" => (
                [("x", ""), ("y", "")],
                r#"{"token": "secret-token", "refresh_token": "secret-refresh"}"#,
            ),
            "/%6cogin" if session => (
                [("x", ""), ("y", "")],
                r#"{"token": "secret-of-another-login"}"#,
            ),
            _ => (fresh, "{}"),
        }
    };
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(answer)).await });
    url
}

fn login(url: &str, more: &str) -> String {
    format!(
        "type: session{more}, login: {{template: {{url: {url}/login, body: '{{{{DIR/password}}}}', escape: json, capture: {{json: /token}}, attach: {{header: {{name: X-Session}}}}}}}}"
    )
}

#[tokio::test]
async fn a_masked_login_reveals_no_other_secret() {
    let (world, url) = (World::new().await, sliding().await);
    let credential = world.credential(&login(&url, ", masked: true"));
    let answer = world
        .send(&*credential, Request::post(format!("{url}/login")), "x")
        .await
        .unwrap();
    assert!(!format!("{answer:?}").contains("secret"), "{answer:?}");
}

#[tokio::test]
async fn a_session_renewed_by_an_answer_is_hidden_from_the_guest() {
    let (world, url) = (World::new().await, sliding().await);
    let credential = world.credential(&login(&url, ""));
    let answer = world
        .send(&*credential, Request::get(format!("{url}/things")), "")
        .await
        .unwrap();
    assert!(!format!("{answer:?}").contains("secret"), "{answer:?}");
}

#[tokio::test]
async fn a_login_is_denied_however_its_path_is_encoded() {
    let (world, url) = (World::new().await, sliding().await);
    let credential = world.credential(&login(&url, ""));
    let answer = world
        .send(&*credential, Request::post(format!("{url}/%6cogin")), "{}")
        .await;
    assert_eq!(
        answer.unwrap_err().kind(),
        CredentialErrorKind::SecretRequest
    );
}
