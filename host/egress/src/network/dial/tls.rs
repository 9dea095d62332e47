//! TLS as configured by a rule.

mod pin;

use std::{fs, io, path::Path, sync::Arc, time::SystemTime};

use parking_lot::Mutex;
use rustls::{
    CertificateError, ClientConfig, OtherError, RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::{CryptoProvider, ring},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use skydock_credentials::config::ClientCertificate;
use tokio::{net::TcpStream, task::spawn_blocking};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    observe::metrics::EgressMetrics,
    request_error::{Cause, Code, RequestError},
    rules::{compiled::Pin, config::TlsConfig},
    target::{Host, Target},
};

/// The TLS settings of a rule and the content of its files.
#[derive(Clone, Debug)]
pub(super) struct Tls(Arc<TlsSettings>);

#[derive(Debug)]
struct TlsSettings {
    wanted: TlsConfig,
    certificate: Option<ClientCertificate>,
    pin: Option<Pin>,
    metrics: EgressMetrics,
    read: Mutex<Option<Read>>,
}

#[derive(Clone, Debug)]
struct Read {
    /// `None` for a file that cannot be read.
    stamps: Vec<Option<Stamp>>,
    config: Arc<ClientConfig>,
}

/// Metadata that differs between two states of a file. Kubernetes updates mounted files by
/// switching a link, which changes the inode.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    modified: SystemTime,
    size: u64,
    inode: u64,
}

/// Why TLS cannot be used; names the file.
type Problem = String;

impl Tls {
    pub(super) fn new(
        wanted: TlsConfig,
        certificate: Option<ClientCertificate>,
        pin: Option<Pin>,
        metrics: EgressMetrics,
    ) -> Self {
        Self(Arc::new(TlsSettings {
            wanted,
            certificate,
            pin,
            metrics,
            read: Mutex::default(),
        }))
    }

    /// Performs the TLS handshake and verifies that the server is the target.
    ///
    /// # Errors
    /// [`Code::TlsCertificateError`] if the server is not the target, or if a file cannot be read;
    /// [`Code::TlsProtocolError`] if the handshake fails for another reason.
    pub(super) async fn agree(
        &self,
        target: &Target,
        tcp: TcpStream,
    ) -> Result<TlsStream<TcpStream>, RequestError> {
        let failed = |code, why: &dyn std::fmt::Display| {
            RequestError::new(
                code,
                Cause::Tls,
                format!("TLS connection to {target} failed: {why}"),
            )
        };

        // Files may have to be read again, which blocks the thread.
        let settings = self.0.clone();
        let config = spawn_blocking(move || settings.config())
            .await
            .map_err(|error| failed(Code::InternalError, &error))?;
        let config = config.map_err(|problem| failed(Code::TlsCertificateError, &problem))?;

        let name = self
            .name(target)
            .map_err(|error| failed(Code::TlsCertificateError, &error))?;

        TlsConnector::from(config)
            .connect(name, tcp)
            .await
            .map_err(|error| {
                let cause = error
                    .get_ref()
                    .and_then(|inner| inner.downcast_ref::<rustls::Error>());
                let certificate = matches!(
                    cause,
                    Some(
                        rustls::Error::InvalidCertificate(_)
                            | rustls::Error::NoCertificatesPresented
                    )
                );

                failed(
                    if certificate {
                        Code::TlsCertificateError
                    } else {
                        Code::TlsProtocolError
                    },
                    &cause
                        .and_then(explained)
                        .unwrap_or_else(|| error.to_string()),
                )
            })
    }

    fn name(
        &self,
        target: &Target,
    ) -> Result<ServerName<'static>, rustls_pki_types::InvalidDnsNameError> {
        match (&self.0.wanted.server_name, &target.host) {
            (Some(name), _) => ServerName::try_from(name.clone()),
            (None, Host::Name(name)) => ServerName::try_from(name.clone()),
            (None, Host::Address(address)) => Ok(ServerName::from(*address)),
        }
    }
}

/// Returns what a certificate lacks, if rustls tells it in words of its own code.
fn explained(error: &rustls::Error) -> Option<String> {
    let rustls::Error::InvalidCertificate(error) = error else {
        return None;
    };

    match error {
        // Only a pin is verified by Skydock itself.
        CertificateError::ApplicationVerificationFailure => {
            Some("the certificate of the server is not the one in `tls.pin` of the rule".to_owned())
        }
        CertificateError::Other(OtherError(error)) => {
            let hint = match error.to_string().as_str() {
                "CaUsedAsEndEntity" => {
                    ": it is that of a certificate authority; to accept it nevertheless, set `tls.pin`"
                }
                _ => "",
            };
            Some(format!(
                "the certificate of the server is not accepted ({error}){hint}"
            ))
        }
        _ => None,
    }
}

impl TlsConfig {
    /// Reads the files, also those of the client certificate, and checks that they can be used.
    /// Blocks the thread.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn check_files(&self, certificate: Option<ClientCertificate>) -> Result<(), String> {
        if self.ca_file.is_none() && certificate.is_none() {
            return Ok(());
        }
        let tls = Tls::new(self.clone(), certificate, None, EgressMetrics::default());
        tls.0.build().map(drop)
    }
}

impl TlsSettings {
    /// Returns the TLS configuration, which is read again if a file has changed. If this fails, the
    /// previous one is used.
    fn config(&self) -> Result<Arc<ClientConfig>, Problem> {
        let client = self.certificate.iter();
        let client = client.flat_map(|it| [&it.cert_file, &it.key_file]);
        let files = self.wanted.ca_file.iter().chain(client);
        let stamps: Vec<_> = files.map(|file| stamp(file)).collect();

        // A clone, so that the lock is not held while files are read.
        let before = self.read.lock().clone();
        if let Some(read) = before.as_ref().filter(|read| read.stamps == stamps) {
            return Ok(read.config.clone());
        }

        match self.build() {
            Ok(config) => {
                let config = Arc::new(config);
                *self.read.lock() = Some(Read {
                    stamps,
                    config: config.clone(),
                });
                Ok(config)
            }
            Err(problem) => match before {
                Some(read) => {
                    tracing::warn!(target: "egress", "{problem}; using the previous version");
                    Ok(read.config)
                }
                None => Err(problem),
            },
        }
    }

    fn build(&self) -> Result<ClientConfig, Problem> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(&provider)?);

        match &self.certificate {
            Some(certificate) => {
                let cert = &certificate.cert_file;
                let key = &certificate.key_file;
                let chain = certificates(cert)?;
                let key = private_key(key)?;
                let until = chain.first().and_then(expiration);

                let fits = builder.with_client_auth_cert(chain, key);
                let config = fits.map_err(|error| {
                    format!("{} and its key do not match: {error}", cert.display())
                })?;

                if let Some(until) = until {
                    self.metrics.expires(cert, until);
                }

                Ok(config)
            }
            None => Ok(builder.with_no_client_auth()),
        }
    }

    fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, Problem> {
        let authorities: Option<Arc<dyn ServerCertVerifier>> =
            match (&self.wanted.ca_file, self.pin) {
                (Some(file), _) => {
                    let mut roots = RootCertStore::empty();
                    for certificate in certificates(file)? {
                        roots
                            .add(certificate)
                            .map_err(|error| format!("{}: {error}", file.display()))?;
                    }
                    let verifier = WebPkiServerVerifier::builder_with_provider(
                        Arc::new(roots),
                        provider.clone(),
                    )
                    .build();
                    Some(verifier.map_err(|error| format!("{}: {error}", file.display()))?)
                }
                // The pin alone decides, for example on a self-signed certificate.
                (None, Some(_)) => None,
                (None, None) => {
                    let verifier = rustls_platform_verifier::Verifier::new(provider.clone());
                    Some(Arc::new(verifier.map_err(|error| {
                        format!("cannot load the system's certificate authorities: {error}")
                    })?))
                }
            };

        Ok(match (self.pin, authorities) {
            (None, Some(authorities)) => authorities,
            // Without authorities, there is always a pin.
            (pin, authorities) => Arc::new(pin::Pinned::new(
                pin.unwrap_or_default(),
                authorities,
                provider.signature_verification_algorithms,
            )),
        })
    }
}

fn stamp(file: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = fs::metadata(file).ok()?;
    Some(Stamp {
        modified: metadata.modified().ok()?,
        size: metadata.len(),
        inode: metadata.ino(),
    })
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes(file)?).collect();
    match read {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(format!(
            "{} does not contain a PEM certificate",
            file.display()
        )),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

/// Returns the expiry of a certificate, in seconds since 1970.
fn expiration(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, Problem> {
    let bytes = zeroize::Zeroizing::new(bytes(file)?);
    PrivateKeyDer::from_pem_slice(&bytes)
        .map_err(|_| format!("{} does not contain a PEM private key", file.display()))
}

fn bytes(file: &Path) -> Result<Vec<u8>, Problem> {
    fs::read(file).map_err(|error: io::Error| format!("{} cannot be read: {error}", file.display()))
}
