//! The fields of a credential of `type: session`: logins of Keystone, vSphere, and templates.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Binding, IssuerUrl};
use crate::sources::absolute_path::AbsolutePath;

/// `type: session`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionConfig {
    /// The name that egress rules refer to.
    pub name: String,
    /// Which plugin may use it.
    #[serde(rename = "for")]
    pub binding: Binding,
    /// For SDKs that must log in: Skydock answers the plugin's login with the answer to its own
    /// login, in which a handle replaces the token.
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
    /// Any other login request.
    Template(Box<Template>),
}

/// OpenStack Identity v3. Set `cloudConf` alone, `cloudsFile` alone or with `cloud`, or the other
/// fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KeystoneConfig {
    /// A `cloud.conf` of the OpenStack cloud-controller-manager. Its section `[Global]` contains
    /// the complete login.
    pub cloud_conf: Option<AbsolutePath>,
    /// A `clouds.yaml` of OpenStack clients, which contains the complete login.
    pub clouds_file: Option<AbsolutePath>,
    /// Name of the cloud in `cloudsFile`. May be omitted if the file has only one.
    pub cloud: Option<String>,
    /// URL of Keystone, with or without `/v3`.
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
    pub password_file: Option<AbsolutePath>,
    /// ID of an application credential.
    pub application_credential_id: Option<String>,
    /// Name of an application credential. Requires the user.
    pub application_credential_name: Option<String>,
    /// File with the secret of the application credential.
    pub application_credential_secret_file: Option<AbsolutePath>,
    /// File with a token, which is exchanged for a token of the scope.
    pub token_file: Option<AbsolutePath>,
    /// ID of a trust, as the scope.
    pub trust_id: Option<String>,
    /// ID of the project, as the scope.
    pub project_id: Option<String>,
    /// Name of the project, as the scope.
    pub project_name: Option<String>,
    /// ID of the project's domain.
    pub project_domain_id: Option<String>,
    /// Name of the project's domain.
    pub project_domain_name: Option<String>,
    /// ID of a domain, as the scope.
    pub domain_id: Option<String>,
    /// Name of a domain, as the scope.
    pub domain_name: Option<String>,
}

/// vSphere's Web Services API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VsphereSoapConfig {
    /// URL of the API, for example `https://vcenter.example.com/sdk`.
    pub url: IssuerUrl,
    /// File with the user name.
    pub user_file: AbsolutePath,
    /// File with the password.
    pub password_file: AbsolutePath,
    /// ID of the session manager. Set it to `ha-sessionmgr` for a standalone ESXi host.
    #[serde(default = "session_manager")]
    pub session_manager: String,
}

/// A login with a custom request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Template {
    /// Method of the request.
    #[serde(default = "post")]
    pub method: String,
    /// URL of the request.
    pub url: IssuerUrl,
    /// Headers of the request. `{{FILE}}` is replaced by the content of a file.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Body of the request. `{{FILE}}` is replaced by the content of a file, escaped as `escape`
    /// says.
    #[serde(default)]
    pub body: String,
    /// How the content of files is escaped in the body.
    pub escape: Escape,
    /// Where the answer contains the token.
    pub capture: Capture,
    /// Where requests carry the token.
    pub attach: Attach,
    /// How long a session is used.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub lifetime: Option<SignedDuration>,
    /// JSON pointer (RFC 6901) to the expiry in the answer: a number of seconds, or an RFC 3339
    /// time. With `masked`, plugins see it.
    #[serde(default)]
    pub expires: Option<String>,
}

/// How the content of a file is escaped in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Escape {
    /// As part of a JSON string.
    Json,
    /// As XML text or as part of an XML attribute.
    Xml,
    /// As a form value.
    Form,
    /// Not escaped.
    None,
}

/// Where an answer contains the token.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Capture {
    /// In the header of this name.
    Header(String),
    /// In the JSON body at this pointer (RFC 6901).
    Json(String),
    /// In the cookie of this name.
    Cookie(String),
}

/// Where requests carry the token.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Attach {
    /// In a header.
    Header {
        /// Name of the header.
        name: String,
        /// Text before the token.
        #[serde(default)]
        prefix: String,
    },
    /// In the cookie of this name.
    Cookie(String),
}

fn session_manager() -> String {
    "SessionManager".to_owned()
}

fn post() -> String {
    "POST".to_owned()
}
