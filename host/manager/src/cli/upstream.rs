//! Flags of upstream's cloud-controller-manager that Skydock does not support. They are rejected by
//! name, not ignored.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags that are accepted with this value only, because Skydock already behaves that way.
pub const SETTLED: &[&str] = &[
    "--contention-profiling=false",
    "--enable-leader-migration=false",
    "--leader-elect-resource-lock=leases",
    "--profiling=false",
    "--secure-port=0",
    "--webhook-secure-port=0",
];

/// Instead of the flags for upstream's server, which uses TLS.
const INSTEAD_OF_TLS: &str =
    "use --metrics-bind-address, which serves plain HTTP: set scheme: HTTP in the probes";

/// Upstream's other flags (see upstream's `options.go`), and what to use instead, if anything.
pub const NOT_HONORED: &[(&str, &str)] = &[
    ("allow-untagged-cloud", ""),
    ("authentication-kubeconfig", ""),
    ("authentication-skip-lookup", ""),
    ("authentication-token-webhook-cache-ttl", ""),
    ("authentication-tolerate-lookup-failure", ""),
    ("authorization-always-allow-paths", ""),
    ("authorization-kubeconfig", ""),
    ("authorization-webhook-cache-authorized-ttl", ""),
    ("authorization-webhook-cache-unauthorized-ttl", ""),
    ("bind-address", INSTEAD_OF_TLS),
    ("cert-dir", ""),
    ("client-ca-file", ""),
    (
        "cloud-node-lifecycle-monitor-nodes-workers",
        "remove it: nodes are checked in batches",
    ),
    (
        "concurrent-node-status-updates",
        "remove it: nodes are checked in batches",
    ),
    ("contention-profiling", ""),
    ("controller-start-interval", ""),
    ("disable-http2-serving", ""),
    ("enable-leader-migration", ""),
    ("external-cloud-volume-plugin", "use a CSI driver"),
    ("http2-max-streams-per-connection", ""),
    ("kube-api-burst", "remove it: the client has no rate limit"),
    (
        "kube-api-content-type",
        "remove it: nodes are read as protobuf, everything else as JSON",
    ),
    ("kube-api-qps", "remove it: the client has no rate limit"),
    (
        "leader-elect-resource-lock",
        "remove it: only Leases are supported",
    ),
    ("leader-migration-config", ""),
    ("log-flush-frequency", "remove it: the log is not buffered"),
    (
        "min-resync-period",
        "remove it: caches are kept up to date by watches",
    ),
    (
        "node-sync-period",
        "remove it: it has no effect upstream either",
    ),
    ("permit-address-sharing", ""),
    ("permit-port-sharing", ""),
    ("profiling", "set --profiling=false"),
    ("requestheader-allowed-names", ""),
    ("requestheader-client-ca-file", ""),
    ("requestheader-extra-headers-prefix", ""),
    ("requestheader-group-headers", ""),
    ("requestheader-uid-headers", ""),
    ("requestheader-username-headers", ""),
    ("secure-port", INSTEAD_OF_TLS),
    ("tls-cert-file", ""),
    ("tls-cipher-suites", ""),
    ("tls-curve-preferences", ""),
    ("tls-min-version", ""),
    ("tls-private-key-file", ""),
    ("tls-sni-cert-key", ""),
    ("vmodule", "use --v or RUST_LOG"),
    ("webhook-bind-address", ""),
    ("webhook-cert-dir", ""),
    ("webhook-disable-http2-serving", ""),
    ("webhook-secure-port", ""),
    ("webhook-tls-cert-file", ""),
    ("webhook-tls-private-key-file", ""),
    ("webhooks", ""),
];

/// Removes the flags whose value is already Skydock's behavior.
pub(super) fn without_settled(
    args: impl IntoIterator<Item = impl Into<OsString>>,
) -> impl Iterator<Item = OsString> {
    args.into_iter()
        .map(Into::into)
        .filter(|arg| !SETTLED.iter().any(|settled| arg == *settled))
}

/// The error message for a flag that only upstream supports; `None` for other errors.
pub(super) fn rejection(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };

    let name = flag.trim_start_matches('-').split('=').next()?;
    let (_, instead) = (error.kind() == ErrorKind::UnknownArgument)
        .then(|| NOT_HONORED.iter().find(|(known, _)| *known == name))
        .flatten()?;

    let instead = if instead.is_empty() {
        "remove it"
    } else {
        instead
    };
    Some(format!(
        "--{name} is a flag of upstream's cloud-controller-manager that Skydock does not support: {instead}"
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    const OPERATING: &str = include_str!("../../../../docs/operating.md");
    const README: &str = include_str!("../../../../README.md");
    /// Flags of cargo, kubectl, `skydock dev` and `skydock plugin new`.
    const OTHERS: &[&str] = &[
        "quick",
        "release",
        "target",
        "field-selector",
        "for",
        "allow-cloud-writes",
        "sdk-path",
        "simcloud",
    ];

    /// Returns the words after `--` in a text. A word with a dash at its end stands for several
    /// flags with this prefix.
    fn flags(text: &str) -> BTreeSet<&str> {
        let behind = text.split("--").skip(1);
        let name = |rest: &str| {
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
                .unwrap_or(rest.len())
        };
        behind
            .filter_map(|rest| rest.get(..name(rest)))
            .filter(|name| name.starts_with(char::is_alphabetic))
            .collect()
    }

    #[test]
    fn every_flag_in_the_documentation_exists() {
        let cli = Cli::command();
        let inner = cli
            .get_subcommands()
            .flat_map(clap::Command::get_subcommands);
        let commands = [&cli].into_iter().chain(cli.get_subcommands()).chain(inner);
        let mut known: BTreeSet<&str> = commands
            .flat_map(clap::Command::get_arguments)
            .filter_map(clap::Arg::get_long)
            .collect();
        known.insert("help");
        known.extend(NOT_HONORED.iter().map(|(name, _)| *name));
        known.extend(OTHERS.iter().copied());

        for (page, text) in [("README.md", README), ("docs/operating.md", OPERATING)] {
            let named = flags(text);
            assert!(named.contains("dry-run"), "{page}: {named:?}");
            let there = |flag: &str| {
                known
                    .iter()
                    .any(|known| *known == flag || flag.ends_with('-') && known.starts_with(flag))
            };
            let unknown: Vec<_> = named.into_iter().filter(|flag| !there(flag)).collect();
            assert!(unknown.is_empty(), "{page} names {unknown:?}");
        }
    }

    #[test]
    fn operating_md_lists_unsupported_flags_and_accepted_values() {
        let named = flags(OPERATING);
        let is_documented = |flag: &str| {
            named
                .iter()
                .any(|name| *name == flag || name.ends_with('-') && flag.starts_with(name))
        };
        let undocumented: Vec<_> = NOT_HONORED
            .iter()
            .filter(|(name, _)| !is_documented(name))
            .collect();
        assert!(undocumented.is_empty(), "{undocumented:?}");
        for settled in SETTLED {
            assert!(OPERATING.contains(&format!("`{settled}`")), "{settled}");
        }
    }

    #[test]
    fn every_unsupported_upstream_flag_is_rejected_by_name() {
        for (name, instead) in NOT_HONORED {
            let rejected = crate::cli::parse(["skydock", &format!("--{name}=x")])
                .expect_err(name)
                .sentence();
            assert!(
                rejected.starts_with(&format!("--{name} is a flag of upstream's")),
                "{rejected}"
            );
            assert!(
                rejected.ends_with(if instead.is_empty() {
                    "remove it"
                } else {
                    instead
                }),
                "{rejected}"
            );
        }
    }

    #[test]
    fn flags_that_request_fixed_behavior_are_accepted() {
        for settled in SETTLED {
            assert!(crate::cli::parse(["skydock", settled]).is_ok(), "{settled}");
            let (name, _) = settled.split_once('=').unwrap();
            assert!(
                crate::cli::parse(["skydock", &format!("{name}=another")]).is_err(),
                "{name}"
            );
        }
    }
}
