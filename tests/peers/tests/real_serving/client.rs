//! Requests over TLS with certificates, and what is compared of their answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::{
    CipherSuite, ClientConfig, DigitallySignedStruct, SignatureScheme, SupportedProtocolVersion,
};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The longest time for an answer, also of a server that asks an API server in vain.
const PATIENCE: Duration = Duration::from_secs(30);

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
#[derive(Clone)]
pub(crate) struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

fn named(name: &str, hosts: &[&str]) -> Result<CertificateParams> {
    let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

impl Authority {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let mut params = named(name, &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self(issuer))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for a client with this common name.
    pub(crate) fn client(&self, name: &str) -> Result<Identity> {
        let mut params = named(name, &[])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?;
        Ok(Identity {
            certificate: certificate.der().clone(),
            key: key.serialize_der(),
        })
    }

    /// Issues a certificate for a server, and returns it with its key, both in PEM.
    pub(crate) fn server(&self) -> Result<(String, String)> {
        let mut params = named("server", &["localhost"])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}

/// What a client offers, and who it is.
#[derive(Clone, Default)]
pub(crate) struct Client {
    pub(crate) identity: Option<Identity>,
    /// The only version, if there is one.
    pub(crate) version: Option<&'static SupportedProtocolVersion>,
    /// The only cipher suite, if there is one.
    pub(crate) suite: Option<CipherSuite>,
}

/// What is compared of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The server does not listen, or ends the connection.
    Nothing,
    Http {
        status: u16,
        /// The type of the content, without parameters.
        kind: String,
        cache_control: String,
        body: String,
    },
}

impl Client {
    /// Sends a request without a body, with these headers, each of which ends with a new line.
    pub(crate) async fn send(
        &self,
        to: SocketAddr,
        method: &str,
        path: &str,
        headers: &str,
    ) -> Result<Answer> {
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: {to}\r\n{headers}Connection: close\r\n\r\n");
        let config = Arc::new(self.config()?);
        let exchanged = timeout(PATIENCE, exchange(to, config, &request)).await;
        let answer = exchanged.with_context(|| format!("{method} {path}: no answer"))?;
        match answer {
            Some(answer) => parsed(&answer).with_context(|| format!("{method} {path}: {answer}")),
            None => Ok(Answer::Nothing),
        }
    }

    fn config(&self) -> Result<ClientConfig> {
        let mut provider = ring::default_provider();
        if let Some(suite) = self.suite {
            provider.cipher_suites.retain(|it| it.suite() == suite);
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(provider));
        let builder = match self.version {
            Some(version) => builder.with_protocol_versions(&[version])?,
            None => builder.with_safe_default_protocol_versions()?,
        };
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(ring::default_provider())));
        Ok(match &self.identity {
            Some(Identity { certificate, key }) => {
                let key = PrivatePkcs8KeyDer::from(key.clone()).into();
                builder.with_client_auth_cert(vec![certificate.clone()], key)?
            }
            None => builder.with_no_client_auth(),
        })
    }
}

/// Returns the whole answer, if there is one.
async fn exchange(to: SocketAddr, config: Arc<ClientConfig>, request: &str) -> Option<String> {
    let stream = TcpStream::connect(to).await.ok()?;
    let name = ServerName::try_from("localhost").ok()?;
    let connecting = TlsConnector::from(config).connect(name, stream);
    let mut stream = connecting.await.ok()?;

    // The other end may have ended the session.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    // The other end may not close the session properly.
    let _ = stream.read_to_end(&mut answer).await;
    (!answer.is_empty()).then(|| String::from_utf8_lossy(&answer).into_owned())
}

fn parsed(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<_> = lines.filter_map(|line| line.split_once(':')).collect();
    let header = |name: &str| {
        let found = headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value.trim()).to_owned()
    };

    let kind = header("content-type");
    Some(Answer::Http {
        status,
        kind: kind.split(';').next().unwrap_or_default().to_owned(),
        cache_control: header("cache-control"),
        body: body.trim_end().to_owned(),
    })
}

/// Believes any server.
#[derive(Debug)]
struct Anyone(CryptoProvider);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
