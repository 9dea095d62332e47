//! A plugin's `egress` list, as operators write it.

mod compile;
mod error;
mod units;
mod warn;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

pub use error::{ConfigError, ConfigErrors};

pub(crate) use compile::compile;
pub(crate) use warn::warnings;

/// A permission to send requests. The first rule of the list that permits a request decides about it: its credential, its limits
/// and how the connection is made. What no rule permits is refused.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EgressRule {
    /// Name in logs and metrics, unique among the plugin's rules: lower-case letters, digits and `-`, at most 63.
    pub name: String,
    /// Where requests may go: `scheme://host:port`. A host that starts with `*.` means every name below it and not itself.
    pub to: String,
    /// Permitted methods of GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS. Default: all of them.
    #[serde(default)]
    pub methods: Vec<String>,
    /// Permitted paths: prefixes that end at a segment border, so that `/v3` and `/v3/` both mean /v3 and everything below it.
    /// Paths that a server might read as another one (dot segments, empty segments, encoded slashes) are refused. Default: all.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Permitted actions of an API of one path, with `*` for any text: `Action` in the query or the form, the end of `X-Amz-Target`,
    /// and the operation of SOAP. Every action a request names has to be permitted, and it has to name one. Default: all.
    #[serde(default)]
    pub actions: Vec<String>,
    /// Actions that change nothing, with `*` for any text: a dry run permits them though they are sent by POST.
    #[serde(default)]
    pub reads: Vec<String>,
    /// Networks that are open to this rule though they are not public, such as `10.1.0.0/16`. Loopback, the local wire, this
    /// machine's own addresses and the cluster's networks are opened only by a network within them, metadata services and the
    /// Kubernetes API by nothing.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Name of the credential that authenticates the requests.
    #[serde(default)]
    pub credential: Option<String>,
    /// Whether the plugin may authenticate by itself. Default: refused.
    #[serde(default)]
    pub guest_auth: GuestAuth,
    /// How TLS is spoken, for a rule of https.
    #[serde(default)]
    pub tls: Option<TlsConfig>,
    /// An HTTP proxy to go through, as `http://host:port`. It is asked to connect (CONNECT) to the address that was checked, not to
    /// the name. Default: none; the environment's `HTTPS_PROXY` is not used.
    #[serde(default)]
    pub proxy: Option<String>,
    /// Limits on requests under this rule.
    #[serde(default)]
    pub limits: RuleLimits,
}

/// Whether a plugin may send authentication of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GuestAuth {
    /// Requests that authenticate by themselves are refused; where a credential is bound, it takes the place of what the guest
    /// sends, and the rest is taken out.
    #[default]
    Refused,
    /// Whatever the guest sends goes out.
    Allowed,
}

/// How TLS is spoken. Files are read again when they change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file with the authorities to trust instead of the system's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// PEM file with the client's certificate chain.
    #[serde(default)]
    pub cert_file: Option<PathBuf>,
    /// PEM file with the client's private key.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// The name that is asked for and that the certificate has to be for, instead of the host's.
    #[serde(default)]
    pub server_name: Option<String>,
    /// SHA-256 of the server's own certificate (`openssl x509 -fingerprint -sha256`), as `sha256:` and 64 hexadecimal digits, colons
    /// permitted. With `caFile` both have to hold; without, the fingerprint alone decides, name and expiry included.
    #[serde(default)]
    pub pin: Option<String>,
}

/// Limits of a rule. Durations are written as `5s`, `1m30s` or `250ms`, sizes as `512KiB` or `8MiB`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleLimits {
    /// Until there is a connection: name, address, TLS. Default 5s, at most 1m.
    #[serde(default)]
    pub connect: Option<String>,
    /// From the end of the request to the first byte of the answer. Default 60s, at most 10m.
    #[serde(default)]
    pub first_byte: Option<String>,
    /// Between two pieces of a body, in either direction. Default 15s, at most 10m.
    #[serde(default)]
    pub between_bytes: Option<String>,
    /// For the whole request, waiting included. Default: what is left of the call; at most 10m.
    #[serde(default)]
    pub total: Option<String>,
    /// Largest body of a request. Default 8MiB, at most 64MiB.
    #[serde(default)]
    pub request_body: Option<String>,
    /// Largest body of an answer. Default 16MiB, at most 256MiB.
    #[serde(default)]
    pub response_body: Option<String>,
    /// Requests to one host at a time. Default 36, at most 64.
    #[serde(default)]
    pub concurrency: Option<u16>,
    /// Requests to one host per second, on average. Default 20, at most 10000.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Requests to one host at once before the rate counts. Default 40, at most 10000.
    #[serde(default)]
    pub burst: Option<u16>,
    /// The longest pause between requests to one host for which an answer 429 or 503 may ask by `Retry-After`. Default 1m, at most 10m.
    #[serde(default)]
    pub pause: Option<String>,
}
