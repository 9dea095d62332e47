//! Flags of the HTTPS server, with the names and defaults of `k8s.io/apiserver`, and of the one for
//! plain HTTP.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::{ArgAction, Args};
use skydock_egress::Official;
use skydock_serving::{
    AlwaysAllowPaths, PathError,
    secure::{AuthenticationOptions, AuthorizationOptions, RequestHeaderOptions, SecureServing},
    tls::{CertificateFiles, NamedCertificate, TlsParameters, TlsVersion},
};

use super::{BindAddress, every_address, parse_bind_address, parse_duration};

/// Streams of an HTTP/2 connection, if the flag is 0. Clients need one or two, and everybody can
/// connect.
const STREAMS: u32 = 8;

/// The flags of the HTTPS server, and of the one for plain HTTP.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Serving")]
pub struct ServingArgs {
    /// Port of HTTPS with authentication and authorization: /healthz, /livez, /readyz, /metrics,
    /// /metrics/slis, /configz, /flagz, /statusz and /debug/flags/v. `0` disables it.
    #[arg(long, value_name = "PORT", value_parser = parse_port, default_value = "10258")]
    pub secure_port: u16,
    /// Address of --secure-port. `0.0.0.0` and `::` are all addresses.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address, default_value = "0.0.0.0")]
    pub bind_address: IpAddr,
    /// Let other processes listen on the same port (SO_REUSEPORT).
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", action = ArgAction::Set)]
    pub permit_port_sharing: bool,
    /// Serve only HTTP/1.1.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", action = ArgAction::Set)]
    pub disable_http2_serving: bool,
    /// Maximum number of streams of an HTTP/2 connection; `0` is 8.
    #[arg(long, value_name = "N", value_parser = parse_streams, default_value = "0")]
    pub http2_max_streams_per_connection: u32,

    /// Certificate of the server with its chain, in PEM. It is read again when it changes. Without
    /// it, a self-signed one is created at startup.
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,
    /// Private key of --tls-cert-file, in PEM.
    #[arg(long, value_name = "FILE")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Directory in which the self-signed certificate is kept: cloud-controller-manager.crt and
    /// cloud-controller-manager.key. By default, it is only in memory.
    #[arg(long, value_name = "DIR")]
    pub cert_dir: Option<PathBuf>,
    /// Certificate and key for clients that ask for one of these names, or else for a name in the
    /// certificate. The first label of a name may be `*`. May be repeated.
    #[arg(long = "tls-sni-cert-key", value_name = "CERT,KEY[:NAMES]", value_parser = NamedCertificate::parse)]
    pub tls_sni_cert_keys: Vec<NamedCertificate>,
    /// Minimum version: VersionTLS12 or VersionTLS13. VersionTLS10 and VersionTLS11 mean
    /// VersionTLS12.
    #[arg(long, value_name = "VERSION", value_parser = parse_version, default_value = "VersionTLS12")]
    pub tls_min_version: MinVersion,
    /// Cipher suites to offer, by their names in Go. Weak ones are never offered [default: all that
    /// are not weak].
    #[arg(long, value_name = "SUITE", value_delimiter = ',')]
    pub tls_cipher_suites: Vec<String>,
    /// Key exchanges to offer, by their numbers in Go: 23 (P-256), 24 (P-384), 29 (X25519) [default:
    /// all of these].
    #[arg(long, value_name = "CURVE", value_delimiter = ',', value_parser = parse_curve)]
    pub tls_curve_preferences: Vec<u16>,

    /// Kubeconfig of the API server that authenticates bearer tokens, and has the ConfigMap
    /// kube-system/extension-apiserver-authentication. By default, the service account of the Pod is
    /// used; without one, tokens are ignored.
    #[arg(long, value_name = "FILE")]
    pub authentication_kubeconfig: Option<PathBuf>,
    /// Do not read the ConfigMap.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", action = ArgAction::Set)]
    pub authentication_skip_lookup: bool,
    /// Do not warn if the ConfigMap cannot be read.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", action = ArgAction::Set)]
    pub authentication_tolerate_lookup_failure: bool,
    /// How long the answer about a token is used.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    pub authentication_token_webhook_cache_ttl: Duration,
    /// Certificate authorities of users [default: those in the ConfigMap].
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// Certificate authorities of proxies that say in headers who the user is [default: those in
    /// the ConfigMap, with its names and headers instead of the following ones].
    #[arg(long, value_name = "FILE")]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// Common names of proxies. Without them, every certificate of
    /// --requestheader-client-ca-file is that of a proxy.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub requestheader_allowed_names: Vec<String>,
    /// Headers with the name of the user.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "x-remote-user"
    )]
    pub requestheader_username_headers: Vec<String>,
    /// Headers with the UID of the user. One must be X-Remote-Uid.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub requestheader_uid_headers: Vec<String>,
    /// Headers with the groups of the user.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "x-remote-group"
    )]
    pub requestheader_group_headers: Vec<String>,
    /// Beginnings of headers with anything else about the user.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "x-remote-extra-"
    )]
    pub requestheader_extra_headers_prefix: Vec<String>,

    /// Kubeconfig of the API server that authorizes requests. By default, the service account of
    /// the Pod is used; without one, only --authorization-always-allow-paths and the group
    /// system:masters are allowed.
    #[arg(long, value_name = "FILE")]
    pub authorization_kubeconfig: Option<PathBuf>,
    /// Paths that everybody may use. One that ends with `*` is a prefix.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "/healthz,/readyz,/livez"
    )]
    pub authorization_always_allow_paths: Vec<String>,
    /// How long an answer is used that allows a request.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    pub authorization_webhook_cache_authorized_ttl: Duration,
    /// How long an answer is used that does not.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    pub authorization_webhook_cache_unauthorized_ttl: Duration,

    /// Address of health and metrics over plain HTTP, without authentication; `:PORT` is that port
    /// on all addresses, and `0` disables it.
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = parse_bind_address)]
    pub metrics_bind_address: BindAddress,
    /// Also serve metrics of requests to the cloud, and of load balancers, with the names of an
    /// official cloud-controller-manager: `aws` or `openstack`.
    #[arg(long, value_name = "NAME", value_parser = parse_official)]
    pub metrics_compat: Option<Official>,
}

/// A minimum version that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinVersion {
    version: TlsVersion,
    /// Whether it was one that is never served.
    is_raised: bool,
}

/// Flags of the HTTPS server that are not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServingArgsError {
    /// Only one of certificate and key is set.
    #[error("--tls-cert-file and --tls-private-key-file must be set together")]
    Half,
    /// A cipher suite or a curve is not known.
    #[error("{0}")]
    Tls(String),
    /// A path is not valid.
    #[error("--authorization-always-allow-paths: {0}")]
    Path(#[from] PathError),
    /// Upstream demands the standard header.
    #[error("--requestheader-uid-headers: X-Remote-Uid is missing")]
    NoUidHeader,
}

impl ServingArgs {
    /// Returns the options of the HTTPS server, and what is asked for and not done; `None` if there
    /// is no server.
    ///
    /// # Errors
    /// If the flags are not valid.
    pub(crate) fn options(&self) -> Result<Option<(SecureServing, Vec<String>)>, ServingArgsError> {
        let (tls, ignored) = self.tls()?;
        let certificate = match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(certificate), Some(key)) => Some(CertificateFiles {
                certificate: certificate.clone(),
                key: key.clone(),
            }),
            (None, None) => None,
            _ => return Err(ServingArgsError::Half),
        };
        let paths = self.authorization_always_allow_paths.iter();
        let always_allow_paths = AlwaysAllowPaths::parse(paths.map(String::as_str))?;
        let request_header = self.request_header()?;
        if self.secure_port == 0 {
            return Ok(None);
        }

        let streams = match self.http2_max_streams_per_connection {
            0 => STREAMS,
            streams => streams,
        };
        let address = match self.bind_address.is_unspecified() {
            true => every_address(),
            false => self.bind_address,
        };
        let serving = SecureServing {
            address: SocketAddr::new(address, self.secure_port),
            permit_port_sharing: self.permit_port_sharing,
            http2_streams: (!self.disable_http2_serving).then_some(streams),
            tls,
            certificate,
            certificate_directory: self.cert_dir.clone(),
            named_certificates: self.tls_sni_cert_keys.clone(),
            authentication: AuthenticationOptions {
                kubeconfig: self.authentication_kubeconfig.clone(),
                skip_lookup: self.authentication_skip_lookup,
                tolerate_lookup_failure: self.authentication_tolerate_lookup_failure,
                token_cache_ttl: self.authentication_token_webhook_cache_ttl,
                client_ca_file: self.client_ca_file.clone(),
                request_header,
            },
            authorization: AuthorizationOptions {
                kubeconfig: self.authorization_kubeconfig.clone(),
                authorized_ttl: self.authorization_webhook_cache_authorized_ttl,
                unauthorized_ttl: self.authorization_webhook_cache_unauthorized_ttl,
                always_allow_paths,
            },
        };
        Ok(Some((serving, ignored)))
    }

    /// Returns what is offered, and sentences about what is not.
    fn tls(&self) -> Result<(TlsParameters, Vec<String>), ServingArgsError> {
        let MinVersion { version, is_raised } = self.tls_min_version;
        let curves = &self.tls_curve_preferences;
        let suites = self.tls_cipher_suites.iter();
        let suites: Vec<_> = suites.map(|name| name.trim().to_owned()).collect();
        let (tls, ignored) =
            TlsParameters::restricted(version, &suites, curves).map_err(ServingArgsError::Tls)?;

        let ignored = ignored
            .into_iter()
            .map(|flag| format!("{flag} has no effect: it is not offered"));
        let mut sentences: Vec<_> = ignored.collect();
        if is_raised {
            sentences
                .push("--tls-min-version: versions below VersionTLS12 are not offered".to_owned());
        }
        Ok((tls, sentences))
    }

    fn request_header(&self) -> Result<Option<RequestHeaderOptions>, ServingArgsError> {
        let uid_headers = names(&self.requestheader_uid_headers);
        let is_standard = |name: &String| name.eq_ignore_ascii_case("x-remote-uid");
        if !uid_headers.is_empty() && !uid_headers.iter().any(is_standard) {
            return Err(ServingArgsError::NoUidHeader);
        }

        let extra = &self.requestheader_extra_headers_prefix;
        let options = RequestHeaderOptions {
            client_ca_file: self
                .requestheader_client_ca_file
                .clone()
                .unwrap_or_default(),
            allowed_names: names(&self.requestheader_allowed_names),
            username_headers: names(&self.requestheader_username_headers),
            uid_headers,
            group_headers: names(&self.requestheader_group_headers),
            extra_headers_prefix: names(extra),
        };
        Ok(self
            .requestheader_client_ca_file
            .is_some()
            .then_some(options))
    }
}

/// Returns the names in a list, which may be empty.
fn names(list: &[String]) -> Vec<String> {
    let names = list.iter().map(|name| name.trim().to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

fn parse_port(text: &str) -> Result<u16, String> {
    text.parse()
        .map_err(|_| "expected a port, for example 10258, or 0".to_owned())
}

fn parse_official(text: &str) -> Result<Official, String> {
    match text {
        "aws" => Ok(Official::Aws),
        "openstack" => Ok(Official::OpenStack),
        _ => Err("expected aws or openstack".to_owned()),
    }
}

/// Parses an address; a blank one is all addresses, as upstream.
fn parse_address(text: &str) -> Result<IpAddr, String> {
    match text.trim() {
        "" => Ok(every_address()),
        text => text
            .parse()
            .map_err(|_| "expected an IP address, for example 0.0.0.0".to_owned()),
    }
}

fn parse_streams(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| "expected a number, for example 100, or 0".to_owned())
}

fn parse_curve(text: &str) -> Result<u16, String> {
    text.trim()
        .parse()
        .map_err(|_| "expected a number, for example 29".to_owned())
}

fn parse_version(text: &str) -> Result<MinVersion, String> {
    let (version, is_raised) = match text {
        "" | "VersionTLS12" => (TlsVersion::Tls12, false),
        "VersionTLS13" => (TlsVersion::Tls13, false),
        "VersionTLS10" | "VersionTLS11" => (TlsVersion::Tls12, true),
        _ => return Err("expected VersionTLS12 or VersionTLS13".to_owned()),
    };
    Ok(MinVersion { version, is_raised })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &[&str]) -> Result<Option<(SecureServing, Vec<String>)>, ServingArgsError> {
        let parsed = super::super::parse([&["skydock"], args].concat());
        parsed.expect("flags parse").ccm.serving.options()
    }

    fn serving(args: &[&str]) -> SecureServing {
        options(args).unwrap().expect("it is served").0
    }

    #[test]
    fn https_is_served_by_default_as_by_upstream() {
        let default = serving(&[]);
        assert_eq!(default.address.port(), 10258);
        assert!(default.address.ip().is_unspecified());
        assert!(default.certificate.is_none() && default.certificate_directory.is_none());
        assert_eq!(default.http2_streams, Some(8));
        let ten = Duration::from_secs(10);
        assert_eq!(default.authentication.token_cache_ttl, ten);
        assert_eq!(default.authorization.authorized_ttl, ten);
        assert_eq!(default.authorization.unauthorized_ttl, ten);
        let open = AlwaysAllowPaths::parse(["/healthz", "/readyz", "/livez"]).unwrap();
        assert_eq!(default.authorization.always_allow_paths, open);

        let args = super::super::parse(["skydock"]).unwrap().ccm.serving;
        assert_eq!(args.metrics_bind_address, BindAddress::Off);
        assert_eq!(args.metrics_compat, None);
        assert_eq!(args.requestheader_username_headers, ["x-remote-user"]);
        assert_eq!(args.requestheader_group_headers, ["x-remote-group"]);
        assert_eq!(args.requestheader_extra_headers_prefix, ["x-remote-extra-"]);
    }

    #[test]
    fn metrics_can_have_the_names_of_an_official_manager() {
        for (name, expected) in [
            ("aws", Ok(Official::Aws)),
            ("openstack", Ok(Official::OpenStack)),
            ("gce", Err("expected aws or openstack".to_owned())),
        ] {
            assert_eq!(parse_official(name), expected);
        }
    }

    #[test]
    fn flags_of_manifests_set_their_options() {
        let set = serving(&[
            "--secure-port=10267",
            "--bind-address=127.0.0.1",
            "--permit-port-sharing",
            "--disable-http2-serving=true",
            "--tls-cert-file=/a.crt",
            "--tls-private-key-file",
            "/a.key",
            "--tls-sni-cert-key=b.crt,b.key:b.example",
            "--authentication-kubeconfig=/k",
            "--authentication-skip-lookup=true",
            "--authorization-kubeconfig=/k",
            "--authorization-always-allow-paths=/healthz,/metrics",
            "--authentication-token-webhook-cache-ttl=1m",
            "--client-ca-file=/ca",
            "--requestheader-client-ca-file=/proxy",
            "--requestheader-allowed-names=a,b",
        ]);
        assert_eq!(set.address.to_string(), "127.0.0.1:10267");
        assert!(set.permit_port_sharing && set.http2_streams.is_none());
        assert_eq!(set.certificate.unwrap().key, PathBuf::from("/a.key"));
        assert_eq!(set.named_certificates[0].names, ["b.example"]);
        let authentication = set.authentication;
        assert!(authentication.skip_lookup);
        assert_eq!(authentication.kubeconfig, Some("/k".into()));
        assert_eq!(authentication.client_ca_file, Some("/ca".into()));
        assert_eq!(
            authentication.request_header.unwrap().allowed_names,
            ["a", "b"]
        );
        assert_eq!(authentication.token_cache_ttl, Duration::from_secs(60));
        let open = AlwaysAllowPaths::parse(["/healthz", "/metrics"]).unwrap();
        assert_eq!(set.authorization.always_allow_paths, open);

        assert!(options(&["--secure-port=0"]).unwrap().is_none());
        let every = serving(&["--bind-address="]);
        assert!(every.address.ip().is_unspecified());
        let empty = serving(&[
            "--authorization-always-allow-paths=",
            "--tls-cert-file=",
            "--tls-cipher-suites=",
            "--tls-curve-preferences=",
            "--tls-min-version=",
            "--requestheader-allowed-names=",
        ]);
        assert_eq!(
            empty.authorization.always_allow_paths,
            AlwaysAllowPaths::default()
        );
    }

    #[test]
    fn what_is_not_offered_is_told() {
        let weak = "TLS_RSA_WITH_AES_128_CBC_SHA";
        let list = format!("--tls-cipher-suites=TLS_AES_128_GCM_SHA256,{weak}");
        let told = options(&[&list, "--tls-min-version=VersionTLS10"]);
        let (_, told) = told.unwrap().unwrap();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].contains(weak) && told[1].contains("VersionTLS12"),
            "{told:?}"
        );
        assert!(
            options(&["--tls-min-version=VersionTLS13"])
                .unwrap()
                .unwrap()
                .1
                .is_empty()
        );
    }

    #[test]
    fn wrong_flags_of_the_server_are_rejected() {
        for (args, words) in [
            (&["--tls-cert-file=/a"][..], "must be set together"),
            (&["--tls-cipher-suites=x"], "\"x\" is not a cipher suite"),
            (&["--tls-curve-preferences=1"], "not the number of a curve"),
            (
                &["--authorization-always-allow-paths=/a*b"],
                "\"/a*b\" is not a valid path",
            ),
            (
                &["--requestheader-uid-headers=x-uid"],
                "X-Remote-Uid is missing",
            ),
            // Also if nothing is served.
            (
                &["--secure-port=0", "--tls-cipher-suites=x"],
                "is not a cipher suite",
            ),
        ] {
            let error = options(args).unwrap_err().to_string();
            assert!(error.contains(words), "{args:?}: {error}");
        }
        for wrong in [
            "--secure-port=65536",
            "--secure-port=-1",
            "--bind-address=localhost",
            "--tls-min-version=1.2",
            "--tls-sni-cert-key=a",
        ] {
            assert!(super::super::parse(["skydock", wrong]).is_err(), "{wrong}");
        }
    }
}
