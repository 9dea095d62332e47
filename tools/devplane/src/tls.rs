//! The server's certificate. It is created for each plane, and its private key is only in memory.

use std::{net::IpAddr, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

mod listener;

pub(crate) use listener::TlsListener;

/// Hosts that the certificate is valid for, besides the address of the plane.
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Why a plane cannot serve HTTPS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate cannot be created.
    #[error("cannot create a certificate")]
    Create(#[from] rcgen::Error),
    /// The certificate cannot be used.
    #[error("cannot use the certificate")]
    Use(#[from] rustls::Error),
}

/// The certificate of a plane, ready to be served.
pub(crate) struct Certificate {
    /// Certificate of the authority that has signed it, in PEM. The authority's key does not exist
    /// any longer.
    pub(crate) authority: String,
    /// Configuration of the server, with the private key.
    pub(crate) config: Arc<ServerConfig>,
}

impl Certificate {
    /// Creates an authority and a certificate for a plane at this address. They do not expire,
    /// because they end with the plane.
    pub(crate) fn create(address: IpAddr) -> Result<Self, TlsError> {
        let mut params = named("skydock-devplane-ca", Vec::new())?;
        // It signs the certificate of a server, and no further authorities.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

        let hosts = HOSTS
            .into_iter()
            .map(str::to_owned)
            .chain([address.to_string()])
            .collect();
        let mut params = named("skydock-devplane", hosts)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;

        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &authority)?.der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));

        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];

        Ok(Self {
            authority: authority.pem(),
            config: Arc::new(config),
        })
    }
}

/// Returns the parameters of a certificate with this common name.
fn named(name: &str, hosts: Vec<String>) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}
