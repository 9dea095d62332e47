//! Users and scopes of Keystone logins.

use crate::{
    config::{IssuerUrl, KeystoneConfig},
    masking::secret::Secret,
};

/// A complete login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeystoneLogin {
    /// URL of Keystone, with or without `/v3`.
    pub auth_url: IssuerUrl,
    /// The user or other identity that logs in.
    pub method: KeystoneMethod,
    /// The scope of the token.
    pub scope: KeystoneScope,
}

/// A reference by ID, or by name within a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// By its ID.
    Id(String),
    /// By its name within a domain, which is itself given by ID or name.
    Name {
        /// The name.
        name: String,
        /// ID of the domain, if the domain is given by ID.
        domain_id: Option<String>,
        /// Name of the domain, if the domain is given by name.
        domain_name: Option<String>,
    },
}

/// The identity that logs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeystoneMethod {
    /// A user by password.
    Password {
        /// The user.
        user: Named,
        /// The password.
        password: Secret,
    },
    /// An application credential. One that is given by name belongs to a user.
    ApplicationCredential {
        /// Its ID, or its name.
        credential: String,
        /// The user, if the credential is given by name.
        user: Option<Named>,
        /// Its secret.
        secret: Secret,
    },
    /// A token, which is exchanged for a token of the scope.
    Token(Secret),
}

/// The scope of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeystoneScope {
    /// The default of Keystone. Application credentials have their own scope.
    None,
    /// A project.
    Project(Named),
    /// A domain, by ID.
    DomainId(String),
    /// A domain, by name.
    DomainName(String),
    /// The scope of a trust.
    Trust(String),
}

impl KeystoneLogin {
    /// Returns the secret of the login.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        match &self.method {
            KeystoneMethod::Password { password, .. } => password,
            KeystoneMethod::ApplicationCredential { secret, .. } => secret,
            KeystoneMethod::Token(token) => token,
        }
    }
}

/// What proves an identity.
pub(crate) enum Key {
    /// The secret of an application credential.
    ApplicationCredential(Secret),
    Password(Secret),
    Token(Secret),
}

/// The fields of a login, from a `cloud.conf`, a `clouds.yaml` or the configuration.
#[derive(Default)]
pub(crate) struct Words {
    pub(crate) user_id: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) user_domain_id: Option<String>,
    pub(crate) user_domain_name: Option<String>,
    pub(crate) application_credential_id: Option<String>,
    pub(crate) application_credential_name: Option<String>,
    pub(crate) trust_id: Option<String>,
    pub(crate) project_id: Option<String>,
    pub(crate) project_name: Option<String>,
    pub(crate) project_domain_id: Option<String>,
    pub(crate) project_domain_name: Option<String>,
    pub(crate) domain_id: Option<String>,
    pub(crate) domain_name: Option<String>,
}

impl Words {
    /// Returns the login with this key.
    ///
    /// # Errors
    /// Which of the fields is missing.
    pub(crate) fn login(&self, auth_url: IssuerUrl, key: Key) -> Result<KeystoneLogin, String> {
        let (method, scope) = match key {
            Key::ApplicationCredential(secret) => {
                (self.application_credential(secret)?, KeystoneScope::None)
            }
            Key::Password(password) => {
                let user = self.user()?;
                (KeystoneMethod::Password { user, password }, self.scope()?)
            }
            Key::Token(token) => (KeystoneMethod::Token(token), self.scope()?),
        };

        Ok(KeystoneLogin {
            auth_url,
            method,
            scope,
        })
    }

    fn user(&self) -> Result<Named, String> {
        let by_name = || {
            // The user's domain, or else the general one.
            let (id, name) = match (&self.user_domain_id, &self.user_domain_name) {
                (None, None) => (&self.domain_id, &self.domain_name),
                given => given,
            };
            named(self.username.as_ref()?, id.clone(), name.clone())
        };

        match &self.user_id {
            Some(id) => Ok(Named::Id(id.clone())),
            None => by_name().ok_or_else(|| {
                "the user must be given by ID, or by name with its domain".to_owned()
            }),
        }
    }

    fn scope(&self) -> Result<KeystoneScope, String> {
        // Keystone accepts only one scope.
        if let Some(trust) = &self.trust_id {
            return Ok(KeystoneScope::Trust(trust.clone()));
        }

        if let Some(id) = &self.project_id {
            return Ok(KeystoneScope::Project(Named::Id(id.clone())));
        }

        if let Some(name) = &self.project_name {
            // The project's domain, or else the general one, or else the user's.
            let id = self.project_domain_id.clone();
            let name_of_domain = self.project_domain_name.clone();
            let (id, name_of_domain) = match (id, name_of_domain) {
                (None, None) => (
                    self.domain_id
                        .clone()
                        .or_else(|| self.user_domain_id.clone()),
                    self.domain_name
                        .clone()
                        .or_else(|| self.user_domain_name.clone()),
                ),
                given => given,
            };

            let project = named(name, id, name_of_domain);
            return project
                .map(KeystoneScope::Project)
                .ok_or_else(|| "a project by name needs its domain".to_owned());
        }

        Ok(match (&self.domain_id, &self.domain_name) {
            (Some(id), _) => KeystoneScope::DomainId(id.clone()),
            (None, Some(name)) => KeystoneScope::DomainName(name.clone()),
            (None, None) => KeystoneScope::None,
        })
    }

    fn application_credential(&self, secret: Secret) -> Result<KeystoneMethod, String> {
        match (
            &self.application_credential_id,
            &self.application_credential_name,
        ) {
            (Some(id), _) => Ok(KeystoneMethod::ApplicationCredential {
                credential: id.clone(),
                user: None,
                secret,
            }),
            (None, Some(name)) => {
                let user = Some(self.user()?);
                Ok(KeystoneMethod::ApplicationCredential {
                    credential: name.clone(),
                    user,
                    secret,
                })
            }
            (None, None) => Err(
                "an application credential must be given by ID, or by name with its user"
                    .to_owned(),
            ),
        }
    }
}

/// Returns a reference by name, or `None` if the domain is not given.
fn named(name: &str, domain_id: Option<String>, domain_name: Option<String>) -> Option<Named> {
    let known = domain_id.is_some() || domain_name.is_some();
    // Keystone accepts only one of them.
    let domain_name = domain_name.filter(|_| domain_id.is_none());
    known.then(|| Named::Name {
        name: name.to_owned(),
        domain_id,
        domain_name,
    })
}

/// Returns the login in the configuration.
pub(crate) fn from_config(
    config: &KeystoneConfig,
    secret: &Secret,
) -> Result<KeystoneLogin, String> {
    let it = config.clone();
    let auth_url = it.auth_url.ok_or("`authUrl` is missing")?;
    let words = Words {
        user_id: it.user_id,
        username: it.username,
        user_domain_id: it.user_domain_id,
        user_domain_name: it.user_domain_name,
        application_credential_id: it.application_credential_id,
        application_credential_name: it.application_credential_name,
        trust_id: it.trust_id,
        project_id: it.project_id,
        project_name: it.project_name,
        project_domain_id: it.project_domain_id,
        project_domain_name: it.project_domain_name,
        domain_id: it.domain_id,
        domain_name: it.domain_name,
    };

    let secret = secret.clone();
    let key = if it.application_credential_secret_file.is_some() {
        Key::ApplicationCredential(secret)
    } else if it.token_file.is_some() {
        Key::Token(secret)
    } else {
        Key::Password(secret)
    };

    words.login(auth_url, key)
}
