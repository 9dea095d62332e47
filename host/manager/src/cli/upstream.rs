//! Flags of upstream's cloud-controller-manager that Skydock does not honour, refused by name rather than swallowed.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags that may stay in a manifest, because Skydock does what this one value asks for.
const SETTLED: &[&str] = &[
    "--contention-profiling=false",
    "--enable-leader-migration=false",
    "--leader-elect-resource-lock=leases",
    "--profiling=false",
    "--secure-port=0",
    "--webhook-secure-port=0",
];

/// Upstream's other flags (see upstream's `options.go`), with what to do instead where there is something.
const NOT_HONOURED: &[(&str, &str)] = &[
    ("allow-untagged-cloud", ""),
    ("authentication-kubeconfig", ""),
    ("authentication-skip-lookup", ""),
    ("authentication-token-webhook-cache-ttl", ""),
    ("authentication-tolerate-lookup-failure", ""),
    ("authorization-always-allow-paths", ""),
    ("authorization-kubeconfig", ""),
    ("authorization-webhook-cache-authorized-ttl", ""),
    ("authorization-webhook-cache-unauthorized-ttl", ""),
    ("bind-address", "see --metrics-bind-address"),
    ("cert-dir", ""),
    ("client-ca-file", ""),
    ("cloud-node-lifecycle-monitor-nodes-workers", "nodes are looked up in batches"),
    ("concurrent-node-status-updates", "nodes are looked up in batches"),
    ("contention-profiling", ""),
    ("controller-start-interval", ""),
    ("disable-http2-serving", ""),
    ("enable-leader-migration", ""),
    ("external-cloud-volume-plugin", "use a CSI driver"),
    ("http2-max-streams-per-connection", ""),
    ("kube-api-burst", "requests are not limited by the client"),
    ("kube-api-content-type", "requests are JSON"),
    ("kube-api-qps", "requests are not limited by the client"),
    ("leader-elect-resource-lock", "only leases"),
    ("leader-migration-config", ""),
    ("log-flush-frequency", "the log is not buffered"),
    ("min-resync-period", "caches are kept by watches"),
    ("node-sync-period", "it has no effect upstream either"),
    ("permit-address-sharing", ""),
    ("permit-port-sharing", ""),
    ("profiling", "say --profiling=false"),
    ("requestheader-allowed-names", ""),
    ("requestheader-client-ca-file", ""),
    ("requestheader-extra-headers-prefix", ""),
    ("requestheader-group-headers", ""),
    ("requestheader-uid-headers", ""),
    ("requestheader-username-headers", ""),
    ("secure-port", "see --metrics-bind-address"),
    ("tls-cert-file", ""),
    ("tls-cipher-suites", ""),
    ("tls-curve-preferences", ""),
    ("tls-min-version", ""),
    ("tls-private-key-file", ""),
    ("tls-sni-cert-key", ""),
    ("vmodule", "see --v, or RUST_LOG"),
    ("webhook-bind-address", ""),
    ("webhook-cert-dir", ""),
    ("webhook-disable-http2-serving", ""),
    ("webhook-secure-port", ""),
    ("webhook-tls-cert-file", ""),
    ("webhook-tls-private-key-file", ""),
    ("webhooks", ""),
];

/// Leaves out the flags whose value is what Skydock does anyway.
pub(super) fn without_settled(args: impl IntoIterator<Item = impl Into<OsString>>) -> impl Iterator<Item = OsString> {
    args.into_iter().map(Into::into).filter(|arg| !SETTLED.iter().any(|settled| arg == *settled))
}

/// The sentence for a flag that upstream has and Skydock does not honour; `None` if the mistake is another one.
pub(super) fn refusal(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = flag.trim_start_matches('-').split('=').next()?;
    let (_, instead) = (error.kind() == ErrorKind::UnknownArgument)
        .then(|| NOT_HONOURED.iter().find(|(known, _)| *known == name))
        .flatten()?;
    let instead = if instead.is_empty() { "remove it" } else { instead };
    Some(format!(
        "--{name} is a flag of upstream's cloud-controller-manager that skydock does not honour yet: {instead}"
    ))
}
