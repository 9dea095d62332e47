//! `type: session`.

use std::{collections::BTreeMap, path::PathBuf};

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Binding, IssuerUrl};

/// `type: session`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionConfig {
    /// The name that rules refer to.
    pub name: String,
    /// Which plugin may use it.
    #[serde(rename = "for")]
    pub binding: Binding,
    /// For SDKs that insist on logging in: the host answers their login with its own session, in which a handle stands for
    /// the token.
    #[serde(default)]
    pub masked: bool,
    /// How to log in.
    pub login: Login,
}

/// How to log in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Login {
    /// OpenStack Identity v3.
    Keystone(Box<KeystoneConfig>),
    /// vSphere's Web Services API.
    VsphereSoap(VsphereSoapConfig),
    /// Any other.
    Template(Box<Template>),
}

/// OpenStack Identity v3. Either `cloudConf` alone, or the other fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KeystoneConfig {
    /// A file as the OpenStack cloud controller manager has it; its section `[Global]` tells all.
    pub cloud_conf: Option<PathBuf>,
    /// Where Keystone is, with or without `/v3`.
    pub auth_url: Option<IssuerUrl>,
    /// ID of the user.
    pub user_id: Option<String>,
    /// Name of the user.
    pub username: Option<String>,
    /// ID of the user's domain.
    pub user_domain_id: Option<String>,
    /// Name of the user's domain.
    pub user_domain_name: Option<String>,
    /// File with the password.
    pub password_file: Option<PathBuf>,
    /// ID of an application credential.
    pub application_credential_id: Option<String>,
    /// Name of an application credential; needs the user, too.
    pub application_credential_name: Option<String>,
    /// File with its secret.
    pub application_credential_secret_file: Option<PathBuf>,
    /// File with a token, which is exchanged for one of the scope.
    pub token_file: Option<PathBuf>,
    /// ID of a trust, which is the scope.
    pub trust_id: Option<String>,
    /// ID of the project, which is the scope.
    pub project_id: Option<String>,
    /// Name of the project, which is the scope.
    pub project_name: Option<String>,
    /// ID of the project's domain.
    pub project_domain_id: Option<String>,
    /// Name of the project's domain.
    pub project_domain_name: Option<String>,
    /// ID of a domain, which is the scope.
    pub domain_id: Option<String>,
    /// Name of a domain, which is the scope.
    pub domain_name: Option<String>,
}

/// vSphere's Web Services API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VsphereSoapConfig {
    /// Where it is, such as `https://vcenter.example.com/sdk`.
    pub url: IssuerUrl,
    /// File with the user's name.
    pub user_file: PathBuf,
    /// File with the password.
    pub password_file: PathBuf,
    /// ID of the session manager: `ha-sessionmgr` on a single ESXi.
    #[serde(default = "session_manager")]
    pub session_manager: String,
}

/// A login by a request of one's own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Template {
    /// Method of the request.
    #[serde(default = "post")]
    pub method: String,
    /// Its URL.
    pub url: IssuerUrl,
    /// Its headers. `{{FILE}}` stands for a file's content.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Its body. `{{FILE}}` stands for a file's content, written as `escape` says.
    #[serde(default)]
    pub body: String,
    /// How a file's content is written into the body.
    pub escape: Escape,
    /// Where the token is in the answer.
    pub capture: Capture,
    /// Where it goes in requests.
    pub attach: Attach,
    /// How long a session is used.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub lifetime: Option<SignedDuration>,
    /// JSON pointer (RFC 6901) to the answer's own word on that: seconds, or a time as of RFC 3339.
    #[serde(default)]
    pub expires: Option<String>,
}

/// How a file's content is written into a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Escape {
    /// Into a string of JSON.
    Json,
    /// Into text or an attribute of XML.
    Xml,
    /// Into a value of a form.
    Form,
    /// As it is.
    None,
}

/// Where a token is in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Capture {
    /// In the header of this name.
    Header(String),
    /// In JSON at this pointer (RFC 6901).
    Json(String),
    /// In the cookie of this name.
    Cookie(String),
}

/// Where a token goes in requests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Attach {
    /// Into a header.
    Header {
        /// Its name.
        name: String,
        /// What stands before the token.
        #[serde(default)]
        prefix: String,
    },
    /// Into the cookie of this name.
    Cookie(String),
}

fn session_manager() -> String {
    "SessionManager".to_owned()
}

fn post() -> String {
    "POST".to_owned()
}
