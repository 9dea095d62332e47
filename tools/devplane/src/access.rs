//! Who can use the API of a plane, and the kubeconfig for it.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};

/// How clients reach the API of a plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Plain HTTP without authentication, for tests: whoever can reach the port has all
    /// permissions.
    #[default]
    Insecure,
    /// HTTPS and a bearer token that requests must have. Certificate and token are created at
    /// start; the kubeconfig has what a client needs.
    Secure,
}

impl Access {
    /// Returns the scheme of URLs.
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Self::Insecure => "http",
            Self::Secure => "https",
        }
    }

    /// Returns the usual port of the scheme.
    pub(crate) fn port(self) -> u16 {
        match self {
            Self::Insecure => 80,
            Self::Secure => 443,
        }
    }
}

/// What clients of a secure plane need. Only the kubeconfig shows it.
pub(crate) struct Credentials {
    /// Token that cannot be guessed.
    token: String,
    /// Certificate of the authority that has signed the server's, in PEM.
    authority: String,
}

impl Credentials {
    /// Creates a token.
    pub(crate) fn new(authority: String) -> Self {
        Self {
            // Two UUIDs have 244 random bits.
            token: format!(
                "{}{}",
                uuid::Uuid::new_v4().simple(),
                uuid::Uuid::new_v4().simple()
            ),
            authority,
        }
    }

    /// Returns the `Authorization` header that requests must have.
    pub(crate) fn authorization(&self) -> String {
        format!("Bearer {}", self.token)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

/// Returns a kubeconfig, in YAML, whose only context is the plane with this URL.
pub(crate) fn kubeconfig(url: &str, credentials: Option<&Credentials>) -> String {
    let (trust, user) = match credentials {
        Some(Credentials { token, authority }) => (
            format!(
                "\n    certificate-authority-data: {}",
                BASE64_STANDARD.encode(authority)
            ),
            format!("{{ token: {token} }}"),
        ),
        None => (String::new(), "{}".to_owned()),
    };

    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: devplane\n  cluster:\n    server: {url}{trust}\nusers:\n- name: devplane\n  \
         user: {user}\ncontexts:\n- name: devplane\n  context:\n    cluster: devplane\n    user: devplane\ncurrent-context: \
         devplane\n"
    )
}
