//! Credentials of the host: requests of a plugin are authenticated here, and no secret reaches the plugin.
//!
//! The operator's configuration says which plugin, by its digest, may use which credential. Secrets come from files only, and
//! are read again when a file changes. What an issuer hands out (tokens, sessions, temporary keys) is renewed ahead of its end
//! by one task for all requests. Whatever the guest put in the place of authentication is taken out before the real one goes in,
//! and requests whose answer would be a secret are refused.

mod aws;
mod clock;
mod cloud_conf;
pub mod config;
mod encode;
mod failure;
mod file;
mod fixed;
mod jwt;
mod masked;
mod metrics;
mod minting;
mod oauth2;
mod place;
mod renewed;
pub(crate) mod secret;
mod session;
mod template;
mod token;
mod upstream;

use std::{collections::BTreeMap, fmt, sync::Arc};

use self::{
    aws::{credential::AwsCredential, source::Aws},
    config::{Binding, CredentialConfig},
    fixed::Fixed,
    minting::Mint,
    oauth2::OAuth2,
    place::Place,
    renewed::Renewed,
    session::Session,
    token::TokenCredential,
    upstream::Upstream,
};
pub use self::{
    clock::{Clock, SystemClock},
    cloud_conf::{CloudConfError, split_cloud_conf},
    metrics::CredentialMetrics,
    secret::redact,
    session::keystone::{KeystoneLogin, KeystoneMethod, KeystoneScope, Named},
};
use crate::credential::{Credential, Issuer};

/// Why the configuration of credentials cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("credential `{name}`: {problem}")]
pub struct CredentialsError {
    name: String,
    problem: String,
}

/// Why a plugin may not use a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// There is none of this name.
    #[error("there is no credential `{name}`")]
    Unknown {
        /// The name.
        name: String,
    },
    /// It is for another plugin, or another file of this one.
    #[error("credential `{name}` is not for plugin `{plugin}` with digest {digest}: see `for` of the credential")]
    NotFor {
        /// The credential.
        name: String,
        /// The plugin.
        plugin: String,
        /// Digest of its file.
        digest: String,
    },
}

/// Gives, by the name of a credential, the way to its issuer.
pub type Issuers = dyn Fn(&str) -> Arc<dyn Issuer> + Send + Sync;

/// What all credentials are built with.
pub struct Tools {
    /// How each credential reaches its issuer.
    pub issuers: Box<Issuers>,
    /// Time of day.
    pub clock: Arc<dyn Clock>,
    /// Counters.
    pub metrics: CredentialMetrics,
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tools")
    }
}

/// All credentials of a configuration.
#[derive(Debug, Default)]
pub struct Credentials(BTreeMap<String, (Binding, Arc<dyn Credential>)>);

impl Credentials {
    /// Builds them. Nothing is asked of an issuer yet.
    ///
    /// # Errors
    /// [`CredentialsError`] for the first entry that cannot be used, or whose name another one has.
    pub fn new(configs: &[CredentialConfig], tools: &Tools) -> Result<Self, CredentialsError> {
        let mut all = BTreeMap::new();
        for config in configs {
            let name = config.name();
            let error = |problem: String| CredentialsError { name: name.to_owned(), problem };
            let credential = build(config, tools).map_err(error)?;
            if all.insert(name.to_owned(), (config.binding().clone(), credential)).is_some() {
                return Err(error("there are two of this name".to_owned()));
            }
        }
        Ok(Self(all))
    }

    /// The credential of this name for a plugin, whose file has this digest (`sha256:…`).
    ///
    /// # Errors
    /// [`BindError`] if there is none, or if it is not for this plugin.
    pub fn bind(&self, name: &str, plugin: &str, digest: &str) -> Result<Arc<dyn Credential>, BindError> {
        let (binding, credential) = self.0.get(name).ok_or_else(|| BindError::Unknown { name: name.to_owned() })?;
        if !binding.admits(plugin, digest) {
            let (name, plugin, digest) = (name.to_owned(), plugin.to_owned(), digest.to_owned());
            return Err(BindError::NotFor { name, plugin, digest });
        }
        Ok(Arc::clone(credential))
    }
}

fn build(config: &CredentialConfig, tools: &Tools) -> Result<Arc<dyn Credential>, String> {
    let name = config.name();
    let word = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if name.is_empty() || name.len() > 63 || !name.bytes().all(word) {
        return Err("a name has 1 to 63 letters, digits, `-`, `_` and `.`".to_owned());
    }
    let upstream = || Upstream::new(name, (tools.issuers)(name), Arc::clone(&tools.clock));
    let metrics = tools.metrics.clone();
    Ok(match config {
        CredentialConfig::Header(config) => Arc::new(Fixed::header(config)?),
        CredentialConfig::Basic(config) => Arc::new(Fixed::basic(config)?),
        CredentialConfig::OAuth2(config) => {
            let place = Place::header(&config.header, &config.prefix)?;
            let renewed = Renewed::new(OAuth2::new(config, upstream())?, metrics);
            Arc::new(TokenCredential::new(renewed, place, Mint::OAuth2, None))
        }
        CredentialConfig::AwsSigv4(config) => {
            let renewed = Renewed::new(Aws::new(config, upstream())?, metrics);
            Arc::new(AwsCredential::new(config, renewed)?)
        }
        CredentialConfig::Session(config) => {
            let (session, place, mint) = Session::new(config, upstream())?;
            let mask = session.mask()?;
            Arc::new(TokenCredential::new(Renewed::new(session, metrics), place, mint, mask))
        }
    })
}
