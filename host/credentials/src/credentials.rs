//! All credentials of a configuration, and which plugin may use which.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::{
    config::{Binding, ClientCertificate, ClientCertificateConfig, CredentialConfig},
    credential::{Credential, Issuer},
    kinds::{
        aws::{credential::AwsCredential, source::Aws},
        fixed::Fixed,
        oauth2::OAuth2,
        renewed::Renewed,
        session::Session,
        token::TokenCredential,
    },
    place::Place,
    sources::{clock::Clock, issuer_client::IssuerClient, metrics::CredentialMetrics},
};

/// Why the configuration of a credential cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("credential `{name}`: {problem}")]
pub struct CredentialsError {
    index: usize,
    name: String,
    problem: String,
}

impl CredentialsError {
    /// Returns the position of the credential in the list.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns what is wrong, without the name.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

/// All credentials that cannot be used; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialsErrors(Vec<CredentialsError>);

impl CredentialsErrors {
    /// Iterates over the errors.
    pub fn iter(&self) -> impl Iterator<Item = &CredentialsError> {
        self.0.iter()
    }
}

impl fmt::Display for CredentialsErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if number == 0 { "" } else { "; " })?;
        }

        Ok(())
    }
}

impl std::error::Error for CredentialsErrors {}

/// Why a plugin may not use a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// No credential has this name.
    #[error("unknown credential `{name}`")]
    Unknown {
        /// The name that a rule refers to.
        name: String,
    },
    /// The credential is for another plugin, or for another file of this plugin.
    #[error(
        "credential `{name}` is for plugin `{}` with digest {}, and not for plugin `{plugin}` with digest {digest}", .binding.plugin, .binding.digest
    )]
    NotFor {
        /// Name of the credential in the configuration.
        name: String,
        /// The plugin and the files that the operator allows.
        binding: Binding,
        /// Name of the plugin whose rule names the credential.
        plugin: String,
        /// The digest of its file, as `sha256:…`.
        digest: String,
    },
}

impl BindError {
    fn unknown(name: &str) -> Self {
        Self::Unknown {
            name: name.to_owned(),
        }
    }
}

/// A function that returns the client for the issuer of the credential with this name.
pub type Issuers = dyn Fn(&str) -> Arc<dyn Issuer> + Send + Sync;

/// Dependencies of all credentials.
pub struct Dependencies {
    /// The function that returns the clients for the issuers.
    pub issuers: Box<Issuers>,
    /// The time by which what issuers return expires.
    pub clock: Arc<dyn Clock>,
    /// Counts renewals; all credentials share it.
    pub metrics: CredentialMetrics,
}

impl fmt::Debug for Dependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dependencies")
    }
}

/// All credentials of a configuration.
#[derive(Debug, Default)]
pub struct Credentials {
    requests: BTreeMap<String, (Binding, Arc<dyn Credential>)>,
    certificates: BTreeMap<String, ClientCertificateConfig>,
}

impl Credentials {
    /// Creates the credentials. No request is sent to an issuer yet.
    ///
    /// # Errors
    /// [`CredentialsErrors`] with each entry that is not valid or whose name is not unique.
    pub fn new(
        configs: &[CredentialConfig],
        dependencies: &Dependencies,
    ) -> Result<Self, CredentialsErrors> {
        let mut all = Self::default();
        let mut errors = Vec::new();

        // All mistakes are collected, so that an operator sees them in one attempt.
        for (index, config) in configs.iter().enumerate() {
            if let Err(problem) = all.add(config, dependencies) {
                errors.push(CredentialsError {
                    index,
                    name: config.name().to_owned(),
                    problem,
                });
            }
        }

        if errors.is_empty() {
            Ok(all)
        } else {
            Err(CredentialsErrors(errors))
        }
    }

    fn add(
        &mut self,
        config: &CredentialConfig,
        dependencies: &Dependencies,
    ) -> Result<(), String> {
        let name = config.name();
        check_name(name)?;
        if self.requests.contains_key(name) || self.certificates.contains_key(name) {
            return Err("this name is used twice; names are unique".to_owned());
        }

        let name = name.to_owned();
        match config.client_certificate() {
            Some(certificate) => drop(self.certificates.insert(name, certificate.clone())),
            None => {
                let bound = (config.binding().clone(), build(config, dependencies)?);
                self.requests.insert(name, bound);
            }
        }

        Ok(())
    }

    /// Keeps using the previous credentials with these names, including tokens and sessions that
    /// their issuers have returned.
    pub fn take_over(&mut self, before: &Self, same: impl Fn(&str) -> bool) {
        // Another one would log in again, and requests that wait for this one would be denied.
        for (name, (_, credential)) in &mut self.requests {
            if let Some((_, known)) = before.requests.get(name).filter(|_| same(name)) {
                *credential = Arc::clone(known);
            }
        }
    }

    /// Returns all credentials, whatever plugin they are for, to validate rules.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, Arc<dyn Credential>> {
        let all = self.requests.iter();
        all.map(|(name, (_, credential))| (name.clone(), Arc::clone(credential)))
            .collect()
    }

    /// Returns the credential of this name, if the plugin, whose file has this digest (`sha256:…`),
    /// may use it.
    ///
    /// # Errors
    /// [`BindError`] if the credential is unknown, or not for this plugin.
    pub fn bind(
        &self,
        name: &str,
        plugin: &str,
        digest: &str,
    ) -> Result<Arc<dyn Credential>, BindError> {
        let found = self.requests.get(name);
        let (binding, credential) = found.ok_or_else(|| BindError::unknown(name))?;
        admit(binding, name, plugin, digest)?;

        Ok(Arc::clone(credential))
    }

    /// Returns the client certificate of this name, if the plugin, whose file has this digest
    /// (`sha256:…`), may use it.
    ///
    /// # Errors
    /// [`BindError`] if the certificate is unknown, or not for this plugin.
    pub fn bind_certificate(
        &self,
        name: &str,
        plugin: &str,
        digest: &str,
    ) -> Result<ClientCertificate, BindError> {
        let found = self.certificates.get(name);
        let certificate = found.ok_or_else(|| BindError::unknown(name))?;
        admit(&certificate.binding, name, plugin, digest)?;

        Ok(certificate.certificate())
    }
}

fn admit(binding: &Binding, name: &str, plugin: &str, digest: &str) -> Result<(), BindError> {
    if binding.admits(plugin, digest) {
        return Ok(());
    }

    Err(BindError::NotFor {
        name: name.to_owned(),
        binding: binding.clone(),
        plugin: plugin.to_owned(),
        digest: digest.to_owned(),
    })
}

fn check_name(name: &str) -> Result<(), &'static str> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if name.is_empty() || name.len() > 63 || !name.bytes().all(word) {
        return Err("not a valid name; expected 1 to 63 letters, digits, `-`, `_` or `.`");
    }

    Ok(())
}

fn build(
    config: &CredentialConfig,
    dependencies: &Dependencies,
) -> Result<Arc<dyn Credential>, String> {
    let name = config.name();
    let issuer_client = || {
        IssuerClient::new(
            name,
            (dependencies.issuers)(name),
            Arc::clone(&dependencies.clock),
        )
    };
    let metrics = dependencies.metrics.clone();

    Ok(match config {
        CredentialConfig::Header(config) => Arc::new(Fixed::header(config)?),
        CredentialConfig::Basic(config) => Arc::new(Fixed::basic(config)?),
        CredentialConfig::OAuth2(config) => {
            let place = Place::header(&config.header, &config.prefix)?;
            let renewed = Renewed::new(OAuth2::new(config, issuer_client())?, metrics);
            Arc::new(TokenCredential::new(renewed, place, None))
        }
        CredentialConfig::AwsSigv4(config) => {
            let renewed = Renewed::new(Aws::new(config, issuer_client())?, metrics);
            Arc::new(AwsCredential::new(config, renewed)?)
        }
        CredentialConfig::Session(config) => {
            let (session, place) = Session::new(config, issuer_client())?;
            let mask = session.mask()?;
            Arc::new(TokenCredential::new(
                Renewed::new(session, metrics),
                place,
                mask,
            ))
        }
        CredentialConfig::ClientCertificate(_) => {
            return Err("a client certificate cannot sign requests".to_owned());
        }
    })
}
