//! Requests over real connections with TLS.

use std::{fs, net::Ipv4Addr, path::Path};

use axum::routing::get;
use http::Request;
use http_body_util::BodyExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    client::danger::ServerCertVerifier,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::*;
use crate::tls::{TlsVersion, provider, testing::Authority};

/// Time between checks of files.
const CHECK: Duration = Duration::from_millis(20);

const REVIEWED_TOKEN: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const REVIEWED_ACCESS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const CONFIG_MAP: &str =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

/// Requests of the server, with the user that each is about.
type Asked = Arc<std::sync::Mutex<Vec<String>>>;

/// An API server: the token `TOKEN-of-NAME` is that of NAME, and `reader` may get `/metrics`.
fn api_server(config_map: Option<Value>) -> (kube::Client, Asked) {
    let asked = Asked::default();
    let note = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (note, config_map) = (Arc::clone(&note), config_map.clone());
        async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let object: Value = serde_json::from_slice(&body).unwrap_or_default();
            let spec = &object["spec"];
            let mut answer = object.clone();
            match path.as_str() {
                REVIEWED_TOKEN => {
                    let token = spec["token"].as_str().unwrap();
                    let name = token.strip_prefix("TOKEN-of-");
                    note.lock().unwrap().push(format!("token {token}"));
                    answer["status"] = match name {
                        Some(name) => json!({"authenticated": true, "user": {"username": name}}),
                        None => json!({"authenticated": false}),
                    };
                }
                REVIEWED_ACCESS => {
                    let user = spec["user"].as_str().unwrap();
                    let asks = &spec["nonResourceAttributes"];
                    note.lock().unwrap().push(format!("access {user}"));
                    let allowed =
                        user == "reader" && asks["path"] == "/metrics" && asks["verb"] == "get";
                    answer["status"] = json!({ "allowed": allowed });
                }
                CONFIG_MAP => {
                    note.lock().unwrap().push("config map".to_owned());
                    answer = config_map.unwrap();
                }
                other => panic!("{other}"),
            }
            let body = kube::client::Body::from(answer.to_string().into_bytes());
            Ok::<_, std::convert::Infallible>(http::Response::new(body))
        }
    });
    (kube::Client::new(service, "default"), asked)
}

fn options() -> SecureServing {
    SecureServing {
        address: (Ipv4Addr::LOCALHOST, 0).into(),
        permit_port_sharing: false,
        http2_streams: Some(100),
        tls: TlsParameters::default(),
        certificate: None,
        certificate_directory: None,
        named_certificates: Vec::new(),
        authentication: AuthenticationOptions {
            token_cache_ttl: Duration::from_secs(10),
            ..AuthenticationOptions::default()
        },
        authorization: AuthorizationOptions {
            authorized_ttl: Duration::from_secs(10),
            unauthorized_ttl: Duration::from_secs(10),
            always_allow_paths: AlwaysAllowPaths::parse(["/healthz"]).unwrap(),
            ..AuthorizationOptions::default()
        },
    }
}

async fn started(
    options: SecureServing,
    client: Option<kube::Client>,
) -> (SocketAddr, CancellationToken) {
    let router = Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/metrics", get(async || "metrics"));
    let access = client.map_or(Access::Off, Access::Ready);
    let stop = CancellationToken::new();
    let access = [access.clone(), access];
    let address = start_with(options, access, CHECK, router, stop.clone());
    (address.await.unwrap(), stop)
}

/// Believes any server.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// A client.
#[derive(Default)]
struct Client {
    roots: Option<CertificateDer<'static>>,
    identity: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    tls12_only: bool,
    http2: bool,
    /// The own address, if it is not 127.0.0.1.
    address: Option<Ipv4Addr>,
}

impl Client {
    fn with(identity: (CertificateDer<'static>, PrivateKeyDer<'static>)) -> Self {
        Self {
            identity: Some(identity),
            ..Self::default()
        }
    }

    /// Connects, or returns the error of the handshake.
    async fn connect(&self, address: SocketAddr) -> Result<TlsStream<TcpStream>, String> {
        let builder = ClientConfig::builder_with_provider(Arc::new(provider()));
        let builder = match self.tls12_only {
            true => builder.with_protocol_versions(&[&rustls::version::TLS12]),
            false => builder.with_safe_default_protocol_versions(),
        };
        let builder = match &self.roots {
            Some(root) => {
                let mut roots = RootCertStore::empty();
                roots.add(root.clone()).unwrap();
                builder.unwrap().with_root_certificates(roots)
            }
            None => builder
                .unwrap()
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anyone)),
        };
        let mut config = match &self.identity {
            Some((certificate, key)) => builder
                .with_client_auth_cert(vec![certificate.clone()], key.clone_key())
                .unwrap(),
            None => builder.with_no_client_auth(),
        };
        if self.http2 {
            config.alpn_protocols = vec![b"h2".to_vec()];
        }

        let socket = TcpSocket::new_v4().unwrap();
        let own = self.address.unwrap_or(Ipv4Addr::LOCALHOST);
        socket.bind((own, 0).into()).unwrap();
        let stream = socket.connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        connecting.await.map_err(|error| error.to_string())
    }

    /// Sends a request and returns the complete answer, or the error of the connection.
    async fn get(&self, address: SocketAddr, path: &str, headers: &str) -> Result<String, String> {
        let mut stream = self.connect(address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}Connection: close\r\n\r\n");
        // The other end may have ended the session.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        // The other end may not close the session properly.
        let read = stream.read_to_end(&mut answer).await;
        if answer.is_empty() {
            return Err(format!("{:?}", read.err()));
        }
        Ok(String::from_utf8(answer).unwrap())
    }

    async fn status(&self, address: SocketAddr, path: &str, headers: &str) -> u16 {
        let answer = self.get(address, path, headers).await.unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

// Holds: P-40, P-41, P-42
#[tokio::test]
async fn tokens_are_authenticated_and_authorized() {
    let mut skipping = options();
    skipping.authentication.skip_lookup = true;
    let (client, asked) = api_server(None);
    let (address, _stop) = started(skipping, Some(client)).await;
    let somebody = Client::default();

    for (path, headers, expected) in [
        ("/metrics", bearer("TOKEN-of-reader"), 200),
        ("/metrics", bearer("TOKEN-of-jane"), 403),
        ("/metrics", bearer("nonsense"), 401),
        ("/metrics", String::new(), 403),
        ("/other", bearer("TOKEN-of-reader"), 403),
        ("/metrics/", bearer("TOKEN-of-reader"), 403),
        ("/healthz/ping", String::new(), 403),
        // Whoever says that they are somebody is not believed.
        ("/metrics", "X-Remote-User: reader\r\n".to_owned(), 403),
    ] {
        let status = somebody.status(address, path, &headers).await;
        assert_eq!(status, expected, "{path} {headers}");
    }
    let asks = asked.lock().unwrap().clone();
    let anonymous = asks.iter().filter(|it| *it == "access system:anonymous");
    assert_eq!(anonymous.count(), 2, "{asks:?}");

    asked.lock().unwrap().clear();
    for headers in [String::new(), bearer("nonsense"), bearer("new")] {
        assert_eq!(somebody.status(address, "/healthz", &headers).await, 200);
    }
    assert!(asked.lock().unwrap().is_empty(), "health asks nobody");

    let forbidden = somebody.get(address, "/metrics", "").await.unwrap();
    assert!(
        forbidden.contains(r#""message":"forbidden: User \"system:anonymous\" cannot get path \"/metrics\"","reason":"Forbidden","details":{},"code":403}"#),
        "{forbidden}"
    );
}

#[tokio::test]
async fn without_an_api_server_only_health_is_served() {
    let (address, _stop) = started(options(), None).await;
    let somebody = Client::default();
    for (path, headers, expected) in [
        ("/healthz", String::new(), 200),
        ("/metrics", String::new(), 403),
        ("/metrics", bearer("TOKEN-of-reader"), 403),
    ] {
        assert_eq!(somebody.status(address, path, &headers).await, expected);
    }
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_allows_nothing() {
    let (client, _) = api_server(None);
    let mut skipping = options();
    skipping.authentication.skip_lookup = true;
    let router = Router::new().route("/metrics", get(async || "metrics"));
    let stop = CancellationToken::new();
    // Tokens can be reviewed; access cannot.
    let fake = skydock_kube::testing::FakeApi::default();
    fake.fail("POST", REVIEWED_ACCESS, 403, "Forbidden");
    let access = [Access::Ready(client), Access::Ready(fake.client())];
    let address = start_with(skipping, access, CHECK, router, stop.clone());
    let address = address.await.unwrap();
    let answer = Client::default()
        .get(address, "/metrics", &bearer("TOKEN-of-reader"))
        .await
        .unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 500")
            && answer.contains("Internal Server Error: \"/metrics\""),
        "{answer}"
    );
    assert!(!answer.contains("subjectaccessreviews"), "{answer}");
    stop.cancel();
}

#[tokio::test]
async fn a_source_does_not_wait_for_questions_of_another() {
    let api = skydock_kube::testing::FakeApi::default();
    let mut skipping = options();
    skipping.authentication.skip_lookup = true;
    let (address, _stop) = started(skipping, Some(api.client())).await;

    for number in 0..10 {
        api.hang("POST", REVIEWED_TOKEN);
        tokio::spawn(async move {
            let token = bearer(&format!("random-{number}"));
            Client::default().get(address, "/metrics", &token).await
        });
    }
    while api.requests().len() < 2 {
        sleep(CHECK).await;
    }
    sleep(10 * CHECK).await;
    assert_eq!(api.requests().len(), 2, "one source asks two at a time");

    api.clear("POST", REVIEWED_TOKEN);
    let other = Client {
        address: Some(Ipv4Addr::new(127, 0, 0, 2)),
        ..Client::default()
    };
    let token = bearer("token");
    let answer = other.get(address, "/metrics", &token);
    let answer = timeout(Duration::from_secs(5), answer).await.unwrap();
    assert!(answer.unwrap().starts_with("HTTP/1.1 401"));
}

/// Returns the ConfigMap in which the API server tells its authorities.
fn config_map(clients: &Authority, proxies: &Authority) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "extension-apiserver-authentication"}, "data": {
        "client-ca-file": clients.pem(),
        "requestheader-client-ca-file": proxies.pem(),
        "requestheader-allowed-names": r#"["front-proxy-client"]"#,
        "requestheader-username-headers": r#"["X-Remote-User"]"#,
        "requestheader-group-headers": r#"["X-Remote-Group"]"#,
        "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
    }})
}

// Holds: P-40
#[tokio::test]
async fn certificates_and_proxies_of_the_cluster_are_known() {
    let (clients, proxies) = (Authority::new("clients"), Authority::new("proxies"));
    let (client, asked) = api_server(Some(config_map(&clients, &proxies)));
    let (address, _stop) = started(options(), Some(client)).await;
    while !asked.lock().unwrap().contains(&"config map".to_owned()) {
        tokio::task::yield_now().await;
    }

    let reader = Client::with(clients.client("reader"));
    // The ConfigMap is applied right after it was read.
    while reader.status(address, "/metrics", "").await != 200 {
        sleep(Duration::from_millis(10)).await;
    }
    let jane = Client::with(clients.client("jane"));
    assert_eq!(jane.status(address, "/metrics", "").await, 403);

    let as_reader = "X-Remote-User: reader\r\n";
    let proxy = Client::with(proxies.client("front-proxy-client"));
    assert_eq!(proxy.status(address, "/metrics", as_reader).await, 200);
    // It is not a user itself.
    assert_eq!(proxy.status(address, "/metrics", "").await, 401);
    let other = Client::with(proxies.client("reader"));
    assert_eq!(other.status(address, "/metrics", as_reader).await, 401);
    assert_eq!(jane.status(address, "/metrics", as_reader).await, 403);

    // A certificate of somebody else ends the handshake.
    let stranger = Client::with(Authority::new("strangers").client("reader"));
    assert!(stranger.get(address, "/metrics", "").await.is_err());
    assert_eq!(Client::default().status(address, "/healthz", "").await, 200);
}

#[tokio::test]
async fn http2_is_served_unless_it_is_disabled() {
    for (streams, expected) in [(Some(100), Some(&b"h2"[..])), (None, Some(b"http/1.1"))] {
        let (client, _) = api_server(None);
        let mut changed = options();
        changed.authentication.skip_lookup = true;
        changed.http2_streams = streams;
        let (address, _stop) = started(changed, Some(client)).await;

        let builder = ClientConfig::builder_with_provider(Arc::new(provider()));
        let mut config = builder
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let stream = connecting.await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), expected);
        if streams.is_none() {
            continue;
        }

        let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        let ended = tokio::spawn(connection);
        let mut status = async |token: Option<&str>| {
            let mut request = Request::get(format!("https://{address}/metrics"));
            if let Some(token) = token {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            let request = request.body(axum::body::Body::empty()).unwrap();
            sender
                .send_request(request)
                .await
                .unwrap()
                .status()
                .as_u16()
        };
        assert_eq!(status(Some("TOKEN-of-reader")).await, 200);
        assert_eq!(status(Some("TOKEN-of-jane")).await, 403);
        // Who does not say who they are gets one answer.
        assert_eq!(status(None).await, 403);
        assert!(timeout(Duration::from_secs(30), ended).await.is_ok());
    }
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// Returns a frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload];
    head.concat()
}

/// Returns a complete request as a frame.
fn request(stream: u32, path: &str, authorization: &str) -> Vec<u8> {
    let text = |value: &str| {
        let mut bytes = vec![u8::try_from(value.len()).unwrap()];
        bytes.extend(value.as_bytes());
        bytes
    };
    let block = [
        // `:method: GET` and `:scheme: https`.
        vec![0x82, 0x87],
        // Texts follow these names: `:path`, `:authority` and `authorization`.
        vec![0x04],
        text(path),
        vec![0x01],
        text("localhost"),
        vec![0x0f, 0x08],
        text(authorization),
    ];
    // END_STREAM and END_HEADERS.
    frame(HEADERS, 0x5, stream, &block.concat())
}

/// Reads a frame and returns its kind and its stream; `None` if the connection has ended.
async fn read_frame(connection: &mut TlsStream<TcpStream>) -> Option<(u8, u32)> {
    let mut head = [0; 9];
    connection.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    connection.read_exact(&mut payload).await.ok()?;
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Some((head[3], stream))
}

#[tokio::test]
async fn a_connection_ends_although_its_client_goes_on() {
    let api = skydock_kube::testing::FakeApi::default();
    let mut skipping = options();
    skipping.authentication.skip_lookup = true;
    let (address, _stop) = started(skipping, Some(api.client())).await;
    let client = Client {
        http2: true,
        ..Client::default()
    };

    for (path, is_reset) in [("/healthz", false), ("/metrics", true)] {
        api.hang("POST", REVIEWED_TOKEN);
        let mut connection = client.connect(address).await.unwrap();
        let begin = [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            frame(SETTINGS, 0, 0, &[]),
            request(1, path, "Bearer random"),
        ];
        connection.write_all(&begin.concat()).await.unwrap();
        if is_reset {
            while api.requests().is_empty() {
                sleep(CHECK).await;
            }
            let reset = frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes());
            connection.write_all(&reset).await.unwrap();
        }

        let mut answered = Vec::new();
        let until_its_end = async {
            while let Some((kind, stream)) = read_frame(&mut connection).await {
                match kind {
                    HEADERS => answered.push(stream),
                    GOAWAY => {
                        let another = request(3, "/healthz", "Bearer random");
                        connection.write_all(&another).await.unwrap();
                    }
                    _ => {}
                }
            }
        };
        let ended = timeout(Duration::from_secs(10), until_its_end).await;
        assert!(ended.is_ok(), "{path}");
        let expected: &[u32] = if is_reset { &[] } else { &[1] };
        assert_eq!(answered, expected, "{path}");
    }
}

#[tokio::test]
async fn the_minimum_version_is_enforced() {
    let (parameters, _) = TlsParameters::restricted(TlsVersion::Tls13, &[], &[]).unwrap();
    let mut modern = options();
    modern.tls = parameters;
    let (address, _stop) = started(modern, None).await;
    let old = Client {
        tls12_only: true,
        ..Client::default()
    };
    assert!(old.get(address, "/healthz", "").await.is_err());
    assert_eq!(Client::default().status(address, "/healthz", "").await, 200);

    let (address, _stop) = started(options(), None).await;
    assert_eq!(old.status(address, "/healthz", "").await, 200);
}

#[tokio::test]
async fn a_changed_certificate_is_used_and_a_broken_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let files = CertificateFiles {
        certificate: dir.path().join("tls.crt"),
        key: dir.path().join("tls.key"),
    };
    let write = |authority: &Authority| {
        let (certificate, key) = authority.server(&["localhost"]);
        fs::write(&files.certificate, certificate).unwrap();
        fs::write(&files.key, key).unwrap();
    };
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    write(&first);
    let mut from_files = options();
    from_files.certificate = Some(files.clone());
    let (address, _stop) = started(from_files, None).await;

    let believing = |authority: &Authority| Client {
        roots: Some(authority.der()),
        ..Client::default()
    };
    assert_eq!(believing(&first).status(address, "/healthz", "").await, 200);
    assert!(
        believing(&second)
            .get(address, "/healthz", "")
            .await
            .is_err()
    );

    write(&second);
    let changed = async {
        while believing(&second)
            .get(address, "/healthz", "")
            .await
            .is_err()
        {
            sleep(CHECK).await;
        }
    };
    timeout(1000 * CHECK, changed).await.unwrap();

    fs::write(&files.key, "not a key").unwrap();
    for _ in 0..5 {
        sleep(CHECK).await;
        assert_eq!(
            believing(&second).status(address, "/healthz", "").await,
            200
        );
    }
}

#[tokio::test]
async fn what_cannot_be_served_is_an_error() {
    let (address, _stop) = started(options(), None).await;
    let error = async |change: &dyn Fn(&mut SecureServing)| {
        let mut changed = options();
        change(&mut changed);
        let stop = CancellationToken::new();
        let access = [Access::Off, Access::Off];
        let started = start_with(changed, access, CHECK, Router::new(), stop);
        with_causes(&started.await.unwrap_err())
    };

    let used = error(&|it| it.address = address).await;
    assert!(used.contains("--bind-address and --secure-port"), "{used}");
    let missing = |path: &str| CertificateFiles {
        certificate: path.into(),
        key: path.into(),
    };
    let absent = error(&|it| it.certificate = Some(missing("/no/such/file"))).await;
    assert!(absent.contains("cannot read /no/such/file: "), "{absent}");
    let no_certificates = Path::new("/dev/null");
    let wrong =
        error(&|it| it.authentication.client_ca_file = Some(no_certificates.to_owned())).await;
    assert!(
        wrong.contains("/dev/null is not a list of certificates"),
        "{wrong}"
    );
}
