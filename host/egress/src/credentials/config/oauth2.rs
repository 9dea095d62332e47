//! `type: oauth2`.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Binding, IssuerUrl, authorization};

/// `type: oauth2`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OAuth2Config {
    /// The name that rules refer to.
    pub name: String,
    /// Which plugin may use it.
    #[serde(rename = "for")]
    pub binding: Binding,
    /// How the token is got.
    pub grant: Grant,
    /// Scopes to ask for.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Name of the header the token goes into.
    #[serde(default = "authorization")]
    pub header: String,
    /// What stands before the token in it.
    #[serde(default = "bearer")]
    pub prefix: String,
}

/// How a token is got.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Grant {
    /// By a secret of the client (RFC 6749, 4.4).
    ClientSecret {
        /// The token endpoint.
        token_url: IssuerUrl,
        /// The client's ID.
        client_id: String,
        /// File with its secret.
        client_secret_file: PathBuf,
        /// The secret goes into the header `Authorization`, and not into the body.
        #[serde(default)]
        basic: bool,
    },
    /// By an assertion signed with the client's private key (RFC 7523, 2.2), as Microsoft Entra ID has it with certificates.
    PrivateKey {
        /// The token endpoint, which is also the assertion's audience.
        token_url: IssuerUrl,
        /// The client's ID.
        client_id: String,
        /// PEM file with the RSA key.
        key_file: PathBuf,
        /// PEM file with the certificate, whose thumbprint goes into the assertion's header. May be the same file.
        #[serde(default)]
        certificate_file: Option<PathBuf>,
    },
    /// By the key of a Google service account.
    GoogleServiceAccount {
        /// JSON file as Google hands it out.
        key_file: PathBuf,
        /// The token endpoint, if not the one in the file.
        #[serde(default)]
        token_url: Option<IssuerUrl>,
    },
    /// By an assertion that somebody else signed and keeps fresh in a file: Azure workload identity.
    Federated {
        /// The token endpoint.
        token_url: IssuerUrl,
        /// The client's ID.
        client_id: String,
        /// File with the assertion.
        assertion_file: PathBuf,
    },
    /// By exchange of a token from a file (RFC 8693): Google workload identity federation.
    GoogleFederated {
        /// The provider: `//iam.googleapis.com/projects/…/providers/…`.
        audience: String,
        /// File with the token to exchange.
        subject_token_file: PathBuf,
        /// What kind of token it is.
        #[serde(default = "jwt")]
        subject_token_type: String,
        /// Address of the service account to act as.
        #[serde(default)]
        service_account: Option<String>,
        /// Google's security token service.
        #[serde(default)]
        sts_url: Option<IssuerUrl>,
        /// Google's service for credentials of service accounts.
        #[serde(default)]
        iam_url: Option<IssuerUrl>,
    },
    /// By the metadata service of Google Compute Engine.
    GceMetadata {
        /// Which of the machine's service accounts.
        #[serde(default = "default_account")]
        account: String,
        /// Where the service is.
        #[serde(default)]
        endpoint: Option<IssuerUrl>,
    },
    /// By the metadata service of Azure: managed identity.
    AzureMetadata {
        /// What the token is for, such as `https://management.azure.com/`.
        resource: String,
        /// Which of the machine's identities, if it has several.
        #[serde(default)]
        client_id: Option<String>,
        /// Where the service is.
        #[serde(default)]
        endpoint: Option<IssuerUrl>,
    },
    /// By any other form.
    Form {
        /// The token endpoint.
        token_url: IssuerUrl,
        /// Fields of the form. `{{FILE}}` stands for a file's content.
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
