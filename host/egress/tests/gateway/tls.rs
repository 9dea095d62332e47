//! TLS: trust, server names, and files that change.

use std::{fs, path::PathBuf, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use skydock_credentials::config::ClientCertificateConfig;
use skydock_egress::{Code, RequestError};
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

use crate::support::{Plugin, Server, settings};

/// A certificate authority with its files.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

struct Leaf {
    certificate: CertificateDer<'static>,
    pem: String,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    fn leaf(&self, name: &str) -> Leaf {
        self.leaf_until(name, 4000)
    }

    /// Creates a certificate that is valid until the beginning of this year.
    fn leaf_until(&self, name: &str, year: i32) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Leaf {
            certificate: certificate.der().clone(),
            pem: certificate.pem(),
            key,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a server that returns the server name it was asked for, and that requires a
    /// certificate of `clients` if given.
    async fn serve(&self, name: &str, clients: Option<&Self>) -> (Server, Leaf) {
        let leaf = self.leaf(name);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(clients.issuer.der().clone()).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .unwrap();
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(leaf.key.serialize_der()));
        let config = Arc::new(
            builder
                .with_single_cert(vec![leaf.certificate.clone()], key)
                .unwrap(),
        );
        let server = Server::raw(move |stream| {
            let acceptor = TlsAcceptor::from(config.clone());
            async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let asked = stream.get_ref().1.server_name().unwrap_or("-").to_owned();
                let answer = hyper::service::service_fn(move |_| {
                    let body = http_body_util::Full::<bytes::Bytes>::from(asked.clone());
                    async move {
                        // One request per connection, so that each request opens a new one.
                        let mut response = http::Response::new(body);
                        response
                            .headers_mut()
                            .insert("connection", "close".parse().unwrap());
                        Ok::<_, std::convert::Infallible>(response)
                    }
                });
                let io = hyper_util::rt::TokioIo::new(stream);
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(io, answer)
                    .await;
            }
        })
        .await;
        (server, leaf)
    }
}

fn rule(tls: &str) -> String {
    format!(
        "[{{name: api, to: 'https://api.example.com:PORT', addresses: [127.0.0.1/32], tls: {{{tls}}}, limits: {{connect: 3s}}}}]"
    )
}

fn plugin(server: &Server, tls: &str) -> Plugin {
    Plugin::new(&settings(&rule(tls), server.port(), None))
}

async fn fetch(plugin: &Plugin, server: &Server) -> Result<String, RequestError> {
    let uri = format!("https://api.example.com:{}/", server.port());
    let (_, body) = plugin
        .fetch(http::Request::get(uri).body("").unwrap())
        .await?;
    Ok(String::from_utf8(body.to_vec()).unwrap())
}

fn ca(authority: &Authority) -> String {
    format!("caFile: {}", authority.file("ca.pem").display())
}

#[tokio::test]
async fn a_private_ca_is_trusted_only_if_configured() {
    let authority = Authority::new();
    let (server, _) = authority.serve("api.example.com", None).await;
    assert_eq!(
        fetch(&plugin(&server, &ca(&authority)), &server)
            .await
            .unwrap(),
        "api.example.com"
    );
    for tls in [String::new(), ca(&Authority::new())] {
        let error = fetch(&plugin(&server, &tls), &server).await.unwrap_err();
        assert_eq!(error.code(), Code::TlsCertificateError, "{error}");
    }
}

#[tokio::test]
async fn a_certificate_must_match_the_server_name() {
    let authority = Authority::new();
    let (server, _) = authority.serve("other.example", None).await;
    let error = fetch(&plugin(&server, &ca(&authority)), &server)
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::TlsCertificateError, "{error}");
    let named = format!("{}, serverName: other.example", ca(&authority));
    assert_eq!(
        fetch(&plugin(&server, &named), &server).await.unwrap(),
        "other.example"
    );
}

#[tokio::test]
async fn a_pin_accepts_only_one_certificate() {
    let authority = Authority::new();
    let (server, leaf) = authority.serve("other.example", None).await;
    let print = |leaf: &Leaf| {
        hex::encode(ring::digest::digest(
            &ring::digest::SHA256,
            &leaf.certificate,
        ))
    };
    let right = format!("pin: 'sha256:{}'", print(&leaf).to_uppercase());
    assert_eq!(
        fetch(&plugin(&server, &right), &server).await.unwrap(),
        "api.example.com"
    );
    let wrong = format!("pin: 'sha256:{}'", print(&authority.leaf("other.example")));
    let error = fetch(&plugin(&server, &wrong), &server).await.unwrap_err();
    assert_eq!(error.code(), Code::TlsCertificateError);
    assert!(error.to_string().contains("`tls.pin`"), "{error}");
    let both = format!("{right}, {}", ca(&authority));
    let error = fetch(&plugin(&server, &both), &server).await.unwrap_err();
    assert_eq!(
        error.code(),
        Code::TlsCertificateError,
        "with an authority the name counts too"
    );
    let both = format!("{both}, serverName: other.example");
    assert_eq!(
        fetch(&plugin(&server, &both), &server).await.unwrap(),
        "other.example"
    );
}

// Holds: SEC-35
#[tokio::test]
async fn a_changed_client_certificate_is_reloaded() {
    let (authority, first, second) = (Authority::new(), Authority::new(), Authority::new());
    let (server, _) = authority.serve("api.example.com", Some(&second)).await;
    let write = |issuer: &Authority, until: i32| {
        let leaf = issuer.leaf_until("client", until);
        fs::write(authority.file("cert.pem"), leaf.pem).unwrap();
        fs::write(authority.file("key.pem"), leaf.key.serialize_pem()).unwrap();
    };
    let (cert, key) = (authority.file("cert.pem"), authority.file("key.pem"));
    let certificate = format!(
        "{{name: client, for: {{plugin: p, digest: any}}, certFile: {}, keyFile: {}}}",
        cert.display(),
        key.display()
    );
    let tls = format!("{}, clientCertificate: client", ca(&authority));
    let mut settings = settings(&rule(&tls), server.port(), None);
    let certificate: ClientCertificateConfig = serde_saphyr::from_str(&certificate).unwrap();
    settings
        .certificates
        .insert("client".to_owned(), certificate.certificate());
    let plugin = Plugin::new(&settings);
    let error = fetch(&plugin, &server).await.unwrap_err();
    assert_eq!(error.code(), Code::TlsCertificateError);
    assert!(
        error.sentence().contains("cert.pem cannot be read"),
        "{error}"
    );
    let expires = || {
        let line = format!(
            "client_certificate_expiration_timestamp_seconds{{file=\"{}\"}}",
            cert.display()
        );
        plugin.metric(&line)
    };
    write(&first, 2030);
    fetch(&plugin, &server).await.unwrap_err();
    assert_eq!(expires(), 1_893_456_000);
    write(&second, 2031);
    assert_eq!(fetch(&plugin, &server).await.unwrap(), "api.example.com");
    assert_eq!(expires(), 1_924_992_000);
    for path in ["/v3/OS-OAUTH2/token", "/oauth2/token", "/api/session"] {
        let uri = format!("https://api.example.com:{}{path}", server.port());
        let error = plugin
            .fetch(http::Request::post(uri).body("").unwrap())
            .await;
        let error = error.unwrap_err();
        assert_eq!(error.code(), Code::HttpRequestDenied, "{path}: {error}");
        assert!(error.sentence().contains("`client`"), "{error}");
    }
    // An incomplete change does not affect the current certificate.
    fs::write(&key, "nothing").unwrap();
    assert_eq!(fetch(&plugin, &server).await.unwrap(), "api.example.com");
}

#[tokio::test]
async fn a_server_without_tls_has_its_own_code() {
    let server = Server::script(&[(0, "HTTP/1.1 400 Bad Request\r\n\r\n")], true).await;
    let error = fetch(&plugin(&server, ""), &server).await.unwrap_err();
    assert_eq!(error.code(), Code::TlsProtocolError, "{error}");
}

#[tokio::test]
async fn an_issuer_is_verified_by_its_own_name() {
    use skydock_credentials::Issuer as _;
    use skydock_egress::{HostIssuer, TlsConfig};
    let authority = Authority::new();
    let (server, _) = authority.serve("login.example.com", None).await;
    let names = crate::support::Names::default().with("login.example.com", &[&["127.0.0.1"]]);
    // The TLS settings of the rule that uses the credential.
    let tls = TlsConfig {
        ca_file: Some(authority.file("ca.pem").try_into().unwrap()),
        server_name: Some("api.example.com".to_owned()),
        ..TlsConfig::default()
    };
    let issuer = HostIssuer::with(Arc::new(names), tls, None);
    let uri = format!("https://login.example.com:{}/token", server.port());
    let answer = issuer
        .send(http::Request::post(uri).body(bytes::Bytes::new()).unwrap())
        .await;
    assert_eq!(answer.unwrap().body(), "login.example.com");
}
