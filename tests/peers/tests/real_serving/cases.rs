//! The cases: flags, requests, and where Skydock answers differently on purpose.
//!
//! In flags, `{NAME}` is the file of this name that `site.rs` writes.

use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, SupportedProtocolVersion};

/// Why an answer of Skydock differs on purpose.
pub(crate) type Reason = &'static str;

const OPEN_TO_EVERYBODY: Reason = "open paths are answered without a look at credentials, so that probes do not depend on the API server";
const STRANGERS: Reason =
    "a certificate of no known authority ends the handshake: nothing of it is read";
const NOTHING_TO_CHANGE: Reason = "405: these pages are only read";
const AS_WRITTEN: Reason = "a path counts as it is written: nobody needs another spelling of it";
const MORE_PAGES: Reason = "the page exists, as in other programs of Kubernetes";
const NO_PROFILES: Reason = "there is no profiler of Go, and memory is shown to nobody";
const CAUSE_IN_THE_LOG: Reason = "the cause is in the log: it is not told to anybody who asks";
const LOOKS_AGAIN: Reason =
    "health is served, the log says which permission is missing, and the ConfigMap is read later";

/// Who sends a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    Nobody,
    /// A client with the token of `admin` (in `system:masters`), of `reader` (who may get
    /// `/metrics` and `/unknown`) or of `jane` (who may do nothing); `wrong` is the token of nobody.
    Token(&'static str),
    /// A client with this name in a certificate of the users' authority.
    Certificate(&'static str),
    /// One in a certificate of the front proxies' authority.
    Proxy(&'static str),
    /// One in a certificate of an authority that nobody knows.
    Stranger(&'static str),
}

/// A request, and why its answer differs, if it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) who: Who,
    pub(crate) headers: &'static str,
    pub(crate) wished: Option<Reason>,
}

const fn get(path: &'static str, who: Who) -> Request {
    send("GET", path, who)
}

const fn send(method: &'static str, path: &'static str, who: Who) -> Request {
    Request {
        method,
        path,
        who,
        headers: "",
        wished: None,
    }
}

impl Request {
    const fn with(self, headers: &'static str) -> Self {
        Self { headers, ..self }
    }

    const fn differs(self, why: Reason) -> Self {
        Self {
            wished: Some(why),
            ..self
        }
    }

    /// Returns whether the content is that of one program, and only its type is compared.
    pub(crate) fn is_own_content(&self) -> bool {
        ["/metrics", "/metrics/slis", "/configz"].contains(&self.path)
    }
}

/// Requests to programs with the same flags.
pub(crate) struct Group {
    pub(crate) flags: &'static [&'static str],
    pub(crate) requests: &'static [Request],
}

use Who::{Certificate, Nobody, Proxy, Stranger, Token};

const AS_READER: &str = "X-Remote-User: reader\r\n";
const AS_JANE: &str = "X-Remote-User: jane\r\n";
const AS_MASTER: &str = "X-Remote-User: jane\r\nX-Remote-Group: system:masters\r\n";

pub(crate) const GROUPS: &[Group] = &[
    // Users by token, certificate and front proxy.
    Group {
        flags: &[
            "--authentication-kubeconfig={kubeconfig}",
            "--authorization-kubeconfig={kubeconfig}",
            "--client-ca-file={clients}",
            "--requestheader-client-ca-file={proxies}",
            "--requestheader-allowed-names=front-proxy-client",
        ],
        requests: &[
            get("/healthz", Nobody),
            get("/healthz", Token("jane")),
            get("/healthz", Token("wrong")).differs(OPEN_TO_EVERYBODY),
            get("/healthz", Certificate("jane")),
            get("/healthz", Proxy("front-proxy-client")).differs(OPEN_TO_EVERYBODY),
            get("/healthz", Stranger("jane")).differs(STRANGERS),
            get("/healthz?verbose", Nobody),
            get("/healthz?verbose=1", Nobody),
            get("/healthz?exclude=leaderElection", Nobody),
            get("/healthz?verbose&exclude=b&exclude=a", Nobody),
            send("HEAD", "/healthz", Nobody),
            send("POST", "/healthz", Nobody).differs(NOTHING_TO_CHANGE),
            get("/healthz/", Nobody),
            get("/healthz/", Token("admin")),
            get("/healthz/ping", Nobody),
            get("/healthz/ping", Token("admin")).differs(MORE_PAGES),
            get("/healthz/unknown", Token("admin")),
            get("/readyz", Nobody).differs(MORE_PAGES),
            get("/livez", Nobody).differs(MORE_PAGES),
            get("/readyz/ping", Nobody),
            get("/readyz/ping", Token("admin")).differs(MORE_PAGES),
            get("/metrics", Nobody),
            get("/metrics", Token("wrong")),
            get("/metrics", Token("jane")),
            get("/metrics", Token("reader")),
            get("/metrics", Token("admin")),
            send("POST", "/metrics", Token("reader")),
            send("DELETE", "/metrics", Token("admin")).differs(NOTHING_TO_CHANGE),
            get("/metrics/", Token("reader")),
            get("//metrics", Token("reader")),
            get("/./metrics", Token("admin")),
            get("/%6detrics", Token("reader")).differs(AS_WRITTEN),
            get("/metrics?a=b", Nobody),
            get("/metrics/slis", Token("jane")),
            get("/metrics/slis", Token("admin")),
            get("/metrics", Certificate("jane")),
            get("/metrics", Certificate("reader")),
            get("/metrics", Stranger("reader")).differs(STRANGERS),
            get("/metrics", Proxy("front-proxy-client")).with(AS_JANE),
            get("/metrics", Proxy("front-proxy-client")).with(AS_READER),
            get("/unknown", Proxy("front-proxy-client")).with(AS_READER),
            get("/unknown", Proxy("front-proxy-client")).with(AS_MASTER),
            get("/metrics", Proxy("front-proxy-client")),
            get("/metrics", Proxy("reader")).with(AS_READER),
            get("/metrics", Certificate("jane")).with(AS_READER),
            get("/metrics", Certificate("front-proxy-client")).with(AS_READER),
            get("/metrics", Stranger("front-proxy-client"))
                .with(AS_READER)
                .differs(STRANGERS),
            get("/metrics", Nobody).with(AS_MASTER),
            get("/unknown", Nobody),
            get("/unknown", Token("jane")),
            get("/unknown", Token("reader")),
            get("/unknown", Certificate("reader")),
            send("PUT", "/unknown", Token("reader")),
            send("POST", "/unknown", Token("admin")),
            get("/", Nobody),
            get("/", Token("admin")),
            get("/configz", Nobody),
            get("/configz", Token("admin")),
            get("/flagz", Token("admin")).differs(MORE_PAGES),
            get("/statusz", Token("admin")).differs(MORE_PAGES),
            get("/debug/flags/v", Token("jane")),
            get("/debug/flags/v", Token("admin")),
            get("/debug/pprof/cmdline", Nobody),
            get("/debug/pprof/cmdline", Token("admin")).differs(NO_PROFILES),
        ],
    },
    // Nobody to ask: tokens are ignored.
    Group {
        flags: &[],
        requests: &[
            get("/healthz", Nobody),
            get("/healthz", Token("wrong")),
            get("/metrics", Nobody),
            get("/metrics", Token("admin")),
            get("/metrics", Token("wrong")),
            get("/metrics", Certificate("reader")),
            get("/readyz", Nobody).differs(MORE_PAGES),
        ],
    },
    // Users by certificate, and nobody to ask what they may do.
    Group {
        flags: &["--client-ca-file={clients}"],
        requests: &[
            get("/metrics", Certificate("reader")),
            get("/metrics", Nobody).with(AS_MASTER),
            get("/metrics", Proxy("front-proxy-client"))
                .with(AS_READER)
                .differs(STRANGERS),
        ],
    },
    // As in upstream's test: the authorizer does not answer.
    Group {
        flags: &[
            "--authentication-skip-lookup",
            "--authentication-kubeconfig={kubeconfig}",
            "--authorization-kubeconfig={broken}",
        ],
        requests: &[
            get("/healthz", Nobody),
            get("/metrics", Nobody).differs(CAUSE_IN_THE_LOG),
            get("/metrics", Token("reader")).differs(CAUSE_IN_THE_LOG),
            get("/metrics", Token("wrong")),
            get("/unknown", Token("admin")),
        ],
    },
    // As in upstream's test: nobody answers.
    Group {
        flags: &[
            "--authentication-skip-lookup",
            "--authentication-kubeconfig={broken}",
            "--authorization-kubeconfig={broken}",
        ],
        requests: &[
            get("/healthz", Nobody),
            get("/healthz", Token("admin")).differs(OPEN_TO_EVERYBODY),
            get("/metrics", Nobody).differs(CAUSE_IN_THE_LOG),
            get("/metrics", Token("admin")),
        ],
    },
    // As in upstream's test: more paths are open.
    Group {
        flags: &[
            "--authentication-skip-lookup",
            "--authentication-kubeconfig={broken}",
            "--authorization-kubeconfig={broken}",
            "--authorization-always-allow-paths=/healthz,/metrics,/open/*",
        ],
        requests: &[
            get("/healthz", Nobody),
            get("/metrics", Nobody),
            get("/metrics", Token("admin")).differs(OPEN_TO_EVERYBODY),
            get("/open/a", Nobody),
            get("/open/../configz", Nobody),
            get("/open", Nobody).differs(CAUSE_IN_THE_LOG),
            get("/readyz", Nobody).differs(CAUSE_IN_THE_LOG),
        ],
    },
    // No path is open.
    Group {
        flags: &["--authorization-always-allow-paths="],
        requests: &[get("/healthz", Nobody), get("/readyz", Nobody)],
    },
    // The account may not read the ConfigMap of the cluster.
    Group {
        flags: &[
            "--authentication-tolerate-lookup-failure",
            "--authentication-kubeconfig={limited}",
            "--authorization-kubeconfig={limited}",
        ],
        requests: &[
            get("/healthz", Nobody),
            get("/metrics", Nobody),
            get("/metrics", Token("wrong")),
            get("/metrics", Token("jane")),
            get("/unknown", Token("reader")),
            get("/metrics", Certificate("reader")),
        ],
    },
];

/// Flags, and whether a program with them starts: upstream, and Skydock.
pub(crate) struct Start {
    pub(crate) flags: &'static [&'static str],
    pub(crate) starts: [bool; 2],
    /// Why it differs, if it does.
    pub(crate) wished: Option<Reason>,
}

const fn start(flags: &'static [&'static str], starts: bool) -> Start {
    Start {
        flags,
        starts: [starts, starts],
        wished: None,
    }
}

pub(crate) const STARTS: &[Start] = &[
    start(
        &["--tls-min-version=VersionTLS12", "--tls-cipher-suites="],
        true,
    ),
    // The second one is weak, and accepted.
    start(
        &["--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA"],
        true,
    ),
    start(&["--tls-cipher-suites=TLS_NULL"], false),
    start(&["--tls-min-version=1.2"], false),
    start(&["--tls-cert-file={certificate}"], false),
    start(
        &[
            "--tls-cert-file=/no/such/file",
            "--tls-private-key-file=/no/such/file",
        ],
        false,
    ),
    start(&["--client-ca-file=/no/such/file"], false),
    start(&["--client-ca-file={key}"], false),
    start(&["--authorization-always-allow-paths=/a*b"], false),
    start(&["--secure-port=65536"], false),
    start(&["--bind-address=localhost"], false),
    Start {
        flags: &[
            "--authentication-kubeconfig={limited}",
            "--authorization-kubeconfig={limited}",
        ],
        starts: [false, true],
        wished: Some(LOOKS_AGAIN),
    },
];

/// Flags, what a client offers, and whether they agree.
pub(crate) struct Handshake {
    pub(crate) version: &'static SupportedProtocolVersion,
    pub(crate) suite: Option<CipherSuite>,
    pub(crate) succeeds: bool,
}

/// The flags of the certificate for the following ones.
pub(crate) const CERTIFICATE: [&str; 2] = [
    "--tls-cert-file={certificate}",
    "--tls-private-key-file={key}",
];

const fn offered(
    version: &'static SupportedProtocolVersion,
    suite: Option<CipherSuite>,
    succeeds: bool,
) -> Handshake {
    Handshake {
        version,
        suite,
        succeeds,
    }
}

const AES_128: CipherSuite = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
const AES_256: CipherSuite = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384;
const CHACHA: CipherSuite = CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256;

pub(crate) const HANDSHAKES: &[(&[&str], &[Handshake])] = &[
    (
        &[],
        &[
            offered(&TLS12, Some(AES_128), true),
            offered(&TLS12, Some(AES_256), true),
            offered(&TLS12, Some(CHACHA), true),
            offered(&TLS13, None, true),
        ],
    ),
    (
        &["--tls-min-version=VersionTLS13"],
        &[offered(&TLS12, None, false), offered(&TLS13, None, true)],
    ),
    (
        &["--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"],
        &[
            offered(&TLS12, Some(AES_128), true),
            offered(&TLS12, Some(AES_256), false),
            offered(&TLS12, Some(CHACHA), false),
            offered(&TLS13, None, true),
        ],
    ),
];
