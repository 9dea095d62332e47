//! TLS with rustls: what is offered, certificates of the server, and whose client certificates are
//! valid.

mod certificates;
mod parameters;

use std::{fmt, path::PathBuf, sync::Arc};

use rustls::{
    RootCertStore, ServerConfig,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use rustls_pki_types::{CertificateDer, UnixTime, pem::PemObject as _};

pub use self::{
    certificates::{CertificateFiles, NamedCertificate},
    parameters::{TlsParameters, TlsVersion},
};
pub(crate) use self::{
    certificates::{Certificates, Files, Source},
    parameters::provider,
};

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("--cert-dir: cannot write {}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A file has no certificates, or some that are not valid.
    #[error("{} is not a list of certificates in PEM", .0.display())]
    Certificates(PathBuf),
    /// A file has no private key.
    #[error("{} is not a private key in PEM", .0.display())]
    Key(PathBuf),
    /// Certificate and key do not belong together, or are of an unknown kind.
    #[error("the certificate {} and the key {} cannot be used together", certificate.display(), key.display())]
    Pair {
        /// The file with the certificate.
        certificate: PathBuf,
        /// The file with the key.
        key: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
    /// Only one of two files exists.
    #[error("{} exists, but its other half {} does not; remove it, or add the other one", .0.display(), .1.display())]
    Half(PathBuf, PathBuf),
    /// The self-signed certificate cannot be created.
    #[error("cannot create a self-signed certificate")]
    Create(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The authorities of clients cannot be used.
    #[error("cannot verify client certificates")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// The parameters cannot be used together.
    #[error("cannot serve TLS")]
    Parameters(#[from] rustls::Error),
    /// The system has no random numbers.
    #[error("the system has no random numbers")]
    Random,
}

/// Certificate authorities of clients.
#[derive(Clone)]
pub(crate) struct Authorities {
    roots: Arc<RootCertStore>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorities")
            .field("number", &self.roots.len())
            .finish_non_exhaustive()
    }
}

/// Certificates are not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidAuthorities;

impl Authorities {
    /// Reads certificates in PEM, of which there must be one.
    pub(crate) fn from_pem(pem: &[u8]) -> Result<Self, InvalidAuthorities> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|_| InvalidAuthorities)?;
            roots.add(certificate).map_err(|_| InvalidAuthorities)?;
        }

        let roots = Arc::new(roots);
        // It fails without certificates.
        let verifier = verifier(Arc::clone(&roots)).map_err(|_| InvalidAuthorities)?;
        Ok(Self { roots, verifier })
    }

    /// Returns whether these authorities issued the first certificate, for a client, and whether it
    /// is valid now. The others are intermediate.
    pub(crate) fn issued(&self, certificates: &[CertificateDer<'_>]) -> bool {
        let Some((leaf, intermediates)) = certificates.split_first() else {
            return false;
        };
        let now = UnixTime::now();
        self.verifier
            .verify_client_cert(leaf, intermediates, now)
            .is_ok()
    }
}

fn verifier(
    roots: Arc<RootCertStore>,
) -> Result<Arc<dyn ClientCertVerifier>, rustls::server::VerifierBuilderError> {
    WebPkiClientVerifier::builder_with_provider(roots, Arc::new(provider()))
        .allow_unauthenticated()
        .build()
}

/// Returns the configuration of a server. Clients may show a certificate of these authorities; one of
/// others ends the handshake.
pub(crate) fn server_config(
    parameters: &TlsParameters,
    certificates: Certificates,
    authorities: &[&Authorities],
    http2: bool,
) -> Result<ServerConfig, TlsError> {
    let builder = ServerConfig::builder_with_provider(Arc::new(parameters.provider()))
        .with_protocol_versions(parameters.versions())?;

    let mut roots = RootCertStore::empty();
    for authorities in authorities {
        roots.roots.extend(authorities.roots.roots.iter().cloned());
    }
    let builder = if roots.is_empty() {
        builder.with_no_client_auth()
    } else {
        builder.with_client_cert_verifier(verifier(Arc::new(roots))?)
    };

    let mut config = builder.with_cert_resolver(Arc::new(certificates));
    config.alpn_protocols = match http2 {
        true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        false => vec![b"http/1.1".to_vec()],
    };
    Ok(config)
}

#[cfg(test)]
pub(crate) mod testing {
    //! Authorities and certificates for tests.

    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose,
        IsCa, KeyPair, KeyUsagePurpose,
    };
    use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

    /// An authority with its key.
    pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

    fn named(name: &str, hosts: &[&str]) -> CertificateParams {
        let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    }

    impl Authority {
        pub(crate) fn new(name: &str) -> Self {
            let mut params = named(name, &[]);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
            let key = KeyPair::generate().unwrap();
            Self(CertifiedIssuer::self_signed(params, key).unwrap())
        }

        pub(crate) fn pem(&self) -> String {
            self.0.pem()
        }

        pub(crate) fn der(&self) -> CertificateDer<'static> {
            self.0.der().clone()
        }

        /// Issues a certificate for a client.
        pub(crate) fn client(
            &self,
            name: &str,
        ) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
            let usage = ExtendedKeyUsagePurpose::ClientAuth;
            let (certificate, key) = self.issue(named(name, &[]), usage);
            let key = PrivatePkcs8KeyDer::from(key.serialize_der());
            (certificate.der().clone(), key.into())
        }

        /// Issues a certificate for a server, and returns both in PEM.
        pub(crate) fn server(&self, hosts: &[&str]) -> (String, String) {
            let usage = ExtendedKeyUsagePurpose::ServerAuth;
            let (certificate, key) = self.issue(named("server", hosts), usage);
            (certificate.pem(), key.serialize_pem())
        }

        fn issue(
            &self,
            mut params: CertificateParams,
            usage: ExtendedKeyUsagePurpose,
        ) -> (rcgen::Certificate, KeyPair) {
            params.extended_key_usages = vec![usage];
            let key = KeyPair::generate().unwrap();
            (params.signed_by(&key, &self.0).unwrap(), key)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{testing::Authority, *};

    #[test]
    fn only_valid_client_certificates_of_the_authorities_count() {
        let (ours, other) = (Authority::new("ours"), Authority::new("other"));
        let both = format!("{}{}", ours.pem(), Authority::new("third").pem());
        let authorities = Authorities::from_pem(both.as_bytes()).unwrap();

        assert!(authorities.issued(&[ours.client("jane").0]));
        assert!(!authorities.issued(&[other.client("jane").0]));
        assert!(!authorities.issued(&[]));
        let (server, _) = ours.server(&["localhost"]);
        let server = CertificateDer::from_pem_slice(server.as_bytes()).unwrap();
        assert!(!authorities.issued(&[server]), "it is for a server");
    }

    #[test]
    fn authorities_must_be_certificates() {
        for pem in [
            "",
            "text",
            "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n",
        ] {
            assert!(Authorities::from_pem(pem.as_bytes()).is_err(), "{pem}");
        }
    }
}
