//! The fields of a credential of `type: oauth2`. `kinds/oauth2.rs` gets the tokens.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Binding, IssuerUrl, authorization};
use crate::sources::{absolute_path::AbsolutePath, variable::Variable};

/// `type: oauth2`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OAuth2Config {
    /// The name that egress rules refer to.
    pub name: String,
    /// Which plugin may use it.
    #[serde(rename = "for")]
    pub binding: Binding,
    /// How the token is obtained.
    pub grant: Grant,
    /// Scopes to request.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Name of the header for the token.
    #[serde(default = "authorization")]
    pub header: String,
    /// Text before the token in the header.
    #[serde(default = "bearer")]
    pub prefix: String,
}

/// How a token is obtained.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Grant {
    /// With a client secret (RFC 6749, section 4.4).
    ClientSecret {
        /// The token endpoint.
        token_url: IssuerUrl,
        /// The client's ID.
        client_id: String,
        /// File with its secret. Either this or `clientSecretEnv` is set.
        #[serde(default)]
        client_secret_file: Option<AbsolutePath>,
        /// Environment variable of Skydock with its secret, as `valueEnv` of a `header`.
        #[serde(default)]
        client_secret_env: Option<Variable>,
        /// Whether the secret is sent in the `Authorization` header instead of the body.
        #[serde(default)]
        basic: bool,
    },
    /// With an assertion signed with the client's private key (RFC 7523, section 2.2), for example
    /// certificates in Microsoft Entra ID.
    PrivateKey {
        /// The token endpoint, which is also the assertion's audience.
        token_url: IssuerUrl,
        /// The client's ID.
        client_id: String,
        /// PEM file with the RSA key.
        key_file: AbsolutePath,
        /// PEM file with the certificate, whose thumbprint is added to the header of the assertion.
        /// May be the same file.
        #[serde(default)]
        certificate_file: Option<AbsolutePath>,
    },
    /// With the key of a Google service account.
    GoogleServiceAccount {
        /// JSON file as provided by Google.
        key_file: AbsolutePath,
        /// The token endpoint, if it differs from the one in the file.
        #[serde(default)]
        token_url: Option<IssuerUrl>,
    },
    /// With an assertion that is signed by another party and kept up to date in a file: Azure
    /// workload identity.
    Federated {
        /// The token endpoint.
        token_url: IssuerUrl,
        /// The client's ID.
        client_id: String,
        /// File with the assertion.
        assertion_file: AbsolutePath,
    },
    /// By exchanging a token from a file (RFC 8693): Google workload identity federation.
    GoogleFederated {
        /// The provider: `//iam.googleapis.com/projects/…/providers/…`.
        audience: String,
        /// File with the token to exchange.
        subject_token_file: AbsolutePath,
        /// The type of that token.
        #[serde(default = "jwt")]
        subject_token_type: String,
        /// Email address of the service account to impersonate.
        #[serde(default)]
        service_account: Option<String>,
        /// URL of Google's Security Token Service.
        #[serde(default)]
        sts_url: Option<IssuerUrl>,
        /// URL of Google's Service Account Credentials API.
        #[serde(default)]
        iam_url: Option<IssuerUrl>,
    },
    /// From the metadata service of Google Compute Engine.
    GceMetadata {
        /// Service account of the instance.
        #[serde(default = "default_account")]
        account: String,
        /// URL of the metadata service.
        #[serde(default)]
        endpoint: Option<IssuerUrl>,
    },
    /// From the metadata service of Azure: managed identity.
    AzureMetadata {
        /// The resource that the token is for, for example `https://management.azure.com/`.
        resource: String,
        /// Client ID of the identity, if the instance has several.
        #[serde(default)]
        client_id: Option<String>,
        /// URL of the metadata service.
        #[serde(default)]
        endpoint: Option<IssuerUrl>,
    },
    /// With any other form.
    Form {
        /// The token endpoint.
        token_url: IssuerUrl,
        /// Fields of the form. `{{FILE}}` is replaced by the content of a file.
        fields: BTreeMap<String, String>,
    },
}

fn bearer() -> String {
    "Bearer ".to_owned()
}

fn jwt() -> String {
    "urn:ietf:params:oauth:token-type:jwt".to_owned()
}

fn default_account() -> String {
    "default".to_owned()
}
