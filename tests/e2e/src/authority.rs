//! Certificates for servers and clients on 127.0.0.1.

use std::{
    net::Ipv4Addr,
    time::{Duration, SystemTime},
};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls_pki_types::CertificateDer;

/// A certificate authority.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate for 127.0.0.1 and its key.
pub(crate) struct Leaf {
    /// The certificate in PEM.
    pub(crate) certificate: String,
    /// The key in PEM.
    pub(crate) key: String,
    chain: Vec<CertificateDer<'static>>,
    private: Vec<u8>,
}

impl Authority {
    /// Creates an authority.
    ///
    /// # Errors
    /// Fails if no key can be generated.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self {
            issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)?,
        })
    }

    /// Returns its own certificate in PEM.
    #[must_use]
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Returns its own certificate in DER.
    #[must_use]
    pub(crate) fn der(&self) -> &CertificateDer<'static> {
        self.issuer.der()
    }

    /// Creates a certificate that is valid for this time.
    ///
    /// # Errors
    /// Fails if the certificate cannot be created.
    pub(crate) fn sign(&self, valid: Duration) -> Result<Leaf> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![Ipv4Addr::LOCALHOST.to_string()])?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        // Times in certificates are in whole seconds.
        let at = |after: Duration| rcgen::date_time_ymd(1970, 1, 1) + after;
        (params.not_before, params.not_after) = (
            at(now.saturating_sub(Duration::from_secs(60))),
            at(now + valid),
        );
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Leaf {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            chain: vec![certificate.der().clone()],
            private: key.serialize_der(),
        })
    }
}

impl Leaf {
    /// Returns the certificate in DER.
    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.chain.clone()
    }

    /// Returns the key in DER.
    pub(crate) fn private(&self) -> &[u8] {
        &self.private
    }
}
