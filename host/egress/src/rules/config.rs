//! The `egress` list of a plugin in the configuration file: all fields of a rule.
//!
//! A field of a rule is one of [`EgressRule`]. `compiled/compile.rs` checks it and makes it part of
//! the `CompiledRule`, which `gateway/choose.rs`, `gateway/inspect.rs` and `gateway/send.rs` ask;
//! paths are compared in `path.rs`, headers in `headers.rs`, and a limit on requests to a host is
//! enforced in `limits/hosts.rs`. Operators read about it under "What a plugin may reach" in
//! `docs/operating.md`.

mod error;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error as _};
use skydock_credentials::AbsolutePath;

pub use error::{ConfigError, ConfigErrors, ConfigWarning};

/// Deserializes a list that must not be empty: an empty list looks like "none" but would mean
/// "all".
fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let list = Vec::deserialize(deserializer)?;
    if list.is_empty() {
        return Err(D::Error::custom(
            "the list is empty: remove it to allow all",
        ));
    }
    Ok(list)
}

/// A rule that allows requests. The first rule in the list that allows a request determines its
/// credential, its limits and how the connection is made. Requests that no rule allows are denied.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EgressRule {
    /// Name in logs and metrics, unique among the plugin's rules: lower-case letters, digits and
    /// `-`, at most 63 characters.
    pub name: String,
    /// Whether the rule is in force. In mode `report-only`, it allows and denies nothing: requests
    /// that the other rules allow, and that this rule, with the others in this mode, would not
    /// allow to its hosts, are logged and counted. Default: `enforce`.
    #[serde(default)]
    pub mode: Mode,
    /// Where requests may go: `scheme://host:port`. A host that starts with `*.` matches every name
    /// below it, but not the name itself.
    pub to: String,
    /// Allowed methods: GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS. Default: all of them. With
    /// this list, or with `actions`, forms and JSON that are sent by POST are read first, so they
    /// have at most 1 MiB: some servers take the method from a parameter such as `_method`, which
    /// is denied.
    #[serde(default, deserialize_with = "some")]
    pub methods: Vec<String>,
    /// Allowed paths: prefixes of whole segments, so that `/v3` and `/v3/` both match /v3 and
    /// everything below it. Paths that a server might interpret differently (dot segments, empty
    /// segments, encoded slashes) are denied, and those that it might read as one of these prefixes
    /// (other case, needless escapes, parameters). Default: all.
    #[serde(default, deserialize_with = "some")]
    pub paths: Vec<String>,
    /// Allowed actions of an API with a single path, with `*` for any text: `Action` in the query
    /// or the form, the last part of `X-Amz-Target`, and the operation of SOAP. A request must name
    /// at least one action, and all that it names must be allowed. Default: all.
    #[serde(default, deserialize_with = "some")]
    pub actions: Vec<String>,
    /// Actions that do not change anything, with `*` for any text: a dry run allows them although
    /// they are sent by POST.
    #[serde(default)]
    pub reads: Vec<String>,
    /// Networks that this rule allows although they are not public, for example `10.1.0.0/16`.
    /// Loopback and link-local addresses, this machine's own addresses and the cluster's networks
    /// are opened only by a network within them. Metadata services and the Kubernetes API cannot be
    /// opened.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Name of the credential that authenticates the requests.
    #[serde(default)]
    pub credential: Option<String>,
    /// Names of further headers that the plugin may send, with `*` for any text. With a credential,
    /// a plugin may only send common headers that describe the request, and these; others are
    /// removed. Headers that authenticate by name (`X-My-Token`) are only sent if they are listed.
    #[serde(default)]
    pub headers: Vec<String>,
    /// Names of query parameters that the plugin may send although they look like authentication,
    /// such as `key` or `token`.
    #[serde(default)]
    pub query_parameters: Vec<String>,
    /// Whether the credential may be sent to every name below a host that starts with `*.`: anybody
    /// who has one of these names could use it. Not needed for a credential that signs requests
    /// (`aws-sigv4`). Domains of which it is known that customers of a cloud have names below them
    /// are always denied. Default: `denied`.
    #[serde(default)]
    pub wildcard_credential: WildcardCredential,
    /// Whether the plugin may authenticate requests itself. Default: `denied`.
    #[serde(default)]
    pub guest_auth: GuestAuth,
    /// TLS settings, for a rule with https.
    #[serde(default)]
    pub tls: Option<TlsConfig>,
    /// HTTP proxy to use, as `http://host:port`. The proxy connects (CONNECT) to the address that
    /// was checked, not to the name. Default: none; the environment variable `HTTPS_PROXY` is not
    /// used.
    #[serde(default)]
    pub proxy: Option<String>,
    /// Limits for requests that this rule allows.
    #[serde(default)]
    pub limits: RuleLimits,
}

/// Whether a rule is in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// It allows requests.
    #[default]
    Enforce,
    /// What it would deny is reported.
    ReportOnly,
}

/// Whether a credential may be sent to every name below a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WildcardCredential {
    /// The rule is rejected.
    #[default]
    Denied,
    /// All names below the domain belong to the cloud.
    Allowed,
}

/// Whether a plugin may send its own authentication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GuestAuth {
    /// Requests with authentication by the plugin are denied. If the rule has a credential, it
    /// replaces what the plugin sends, and other authentication is removed.
    #[default]
    Denied,
    /// Authentication by the plugin is sent.
    Allowed,
}

/// TLS settings. Files are read again when they change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file with the certificate authorities to trust instead of the system's.
    #[serde(default)]
    pub ca_file: Option<AbsolutePath>,
    /// Name of the credential with `type: client-certificate` that is presented to servers.
    #[serde(default)]
    pub client_certificate: Option<String>,
    /// Not supported: the error shows what to write instead.
    #[serde(default)]
    #[schemars(skip)]
    pub cert_file: Option<AbsolutePath>,
    /// Not supported: the error shows what to write instead.
    #[serde(default)]
    #[schemars(skip)]
    pub key_file: Option<AbsolutePath>,
    /// Server name that is requested and that the certificate must be valid for, instead of the
    /// host.
    #[serde(default)]
    pub server_name: Option<String>,
    /// SHA-256 of the server's own certificate (`openssl x509 -fingerprint -sha256`), as `sha256:`
    /// and 64 hexadecimal digits, with or without colons. With `caFile`, both checks must pass.
    /// Without it, only the fingerprint is checked, and not the name or the expiry.
    #[serde(default)]
    pub pin: Option<String>,
}

/// Limits of a rule. Durations are written as `5s`, `1m30s` or `250ms`, sizes as `512KiB` or
/// `8MiB`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleLimits {
    /// Timeout for connecting, including name resolution and TLS. Default 5s, at most 1m.
    #[serde(default)]
    pub connect: Option<String>,
    /// Time from the end of the request to the first byte of the answer. Default 60s, at most 10m.
    #[serde(default)]
    pub first_byte: Option<String>,
    /// Time between two pieces of a body, in either direction. Default 15s, at most 10m.
    #[serde(default)]
    pub between_bytes: Option<String>,
    /// Time for the whole request, including waiting. Default: the time left for the call; at most
    /// 10m.
    #[serde(default)]
    pub total: Option<String>,
    /// Maximum size of the body of a request. Default 8MiB, at most 64MiB.
    #[serde(default)]
    pub request_body: Option<String>,
    /// Maximum size of the body of an answer. Default 16MiB, at most 256MiB.
    #[serde(default)]
    pub response_body: Option<String>,
    /// Maximum number of concurrent requests to one host. Default 36, at most 64. A quarter, at
    /// most 8, is reserved for each kind of calls that the plugin serves: about nodes and zones,
    /// about routes, and about load balancers.
    #[serde(default)]
    pub concurrency: Option<u16>,
    /// Average number of requests to one host per second. Default 20, at most 10000.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Number of requests to one host that may be sent at once before the rate applies. Default 40,
    /// at most 10000.
    #[serde(default)]
    pub burst: Option<u16>,
    /// Maximum pause between requests to one host that an answer 429 or 503 can ask for with
    /// `Retry-After`. Default 1m, at most 10m.
    #[serde(default)]
    pub pause: Option<String>,
}
