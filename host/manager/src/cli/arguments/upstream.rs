//! Flags of upstream and other cloud-controller-managers that Skydock does not have, and what
//! becomes of them; also those of programs that start one.
//!
//! A flag that cannot change what Skydock does is accepted with a warning, so that the manifest of
//! another cloud-controller-manager works. A flag that asks for something that Skydock does not do
//! is rejected. If Skydock gets such a flag, remove its row.

/// A flag that Skydock does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignFlag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// How its value is written.
    pub takes: Takes,
    /// The values that say how Skydock behaves already.
    pub fixed: &'static [&'static str],
    /// What becomes of other values.
    pub otherwise: Otherwise,
}

/// How the value of a flag is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// It is true unless a value follows after `=`.
    Bool,
    /// A value follows, after `=` or as the next word.
    Value,
}

/// What becomes of the values that do not say how Skydock behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// They are accepted, and this is why they have no effect.
    NoEffect(&'static str),
    /// They are rejected, and this is what to do instead.
    Rejected(&'static str),
}

use Otherwise::{NoEffect, Rejected};

const ANY_BOOL: &[&str] = &["true", "false"];
const OFF: &[&str] = &["false"];
const ON: &[&str] = &["true"];
const EMPTY: &[&str] = &[""];

const fn switch(
    name: &'static str,
    fixed: &'static [&'static str],
    otherwise: Otherwise,
) -> ForeignFlag {
    ForeignFlag {
        takes: Takes::Bool,
        ..value(name, fixed, otherwise)
    }
}

const fn value(
    name: &'static str,
    fixed: &'static [&'static str],
    otherwise: Otherwise,
) -> ForeignFlag {
    ForeignFlag {
        name,
        takes: Takes::Value,
        fixed,
        otherwise,
    }
}

const BATCHES: &str = "nodes are checked in batches";
const ONE_LOG: &str = "the whole log is written to standard error";
const NO_FILE: &str =
    "no log file is written: the log is on standard error, where the container runtime collects it";
const NO_BUFFER: &str = "the log is not buffered";
const NO_PROFILER: &str = "there is no profiler, and /debug/pprof answers 404";
const NO_SELECTION: &str = "metrics cannot be selected";
const NO_WEBHOOKS: &str = "Skydock has no webhooks";

/// Instead of the flags of earlier releases for plain HTTP.
const INSTEAD_OF_HTTP: Otherwise = Rejected(
    "use --secure-port, which serves HTTPS: set scheme: HTTPS in the probes; --metrics-bind-address serves plain HTTP",
);

/// Flags of upstream (see its `options.go`, and `component-base/logs`), of klog in earlier releases,
/// and of `go-runner`, which starts programs in images of Kubernetes.
const GENERAL: &[ForeignFlag] = &[
    switch(
        "add-dir-header",
        OFF,
        NoEffect("lines of the log name no files of Go"),
    ),
    value("address", &[], INSTEAD_OF_HTTP),
    value("allow-metric-labels", EMPTY, NoEffect(NO_SELECTION)),
    value(
        "allow-metric-labels-manifest",
        EMPTY,
        NoEffect(NO_SELECTION),
    ),
    switch(
        "allow-untagged-cloud",
        OFF,
        NoEffect("how resources in the cloud are recognized depends on the plugin; see its README"),
    ),
    switch("also-stdout", ANY_BOOL, NoEffect(ONE_LOG)),
    switch("alsologtostderr", ANY_BOOL, NoEffect(ONE_LOG)),
    value(
        "cloud-node-lifecycle-monitor-nodes-workers",
        &[],
        NoEffect(BATCHES),
    ),
    value("concurrent-node-status-updates", &[], NoEffect(BATCHES)),
    switch("contention-profiling", OFF, NoEffect(NO_PROFILER)),
    value(
        "controller-start-interval",
        &["0", "0s"],
        NoEffect("controllers start at once"),
    ),
    value("disabled-metrics", EMPTY, NoEffect(NO_SELECTION)),
    switch(
        "enable-leader-migration",
        OFF,
        Rejected("remove it: leader migration ended with the in-tree providers"),
    ),
    value(
        "external-cloud-volume-plugin",
        EMPTY,
        NoEffect("volumes belong to CSI drivers"),
    ),
    value(
        "kube-api-burst",
        &[],
        NoEffect("the client has no rate limit"),
    ),
    value(
        "kube-api-content-type",
        &[],
        NoEffect("nodes are read as protobuf, everything else as JSON"),
    ),
    value(
        "kube-api-qps",
        &[],
        NoEffect("the client has no rate limit"),
    ),
    value(
        "leader-elect-resource-lock",
        &["leases"],
        Rejected("remove it: only Leases are supported"),
    ),
    value(
        "leader-migration-config",
        EMPTY,
        Rejected("remove it: leader migration ended with the in-tree providers"),
    ),
    value(
        "log-backtrace-at",
        &["", ":0"],
        NoEffect("it names a line of Go"),
    ),
    value("log-dir", EMPTY, NoEffect(NO_FILE)),
    value("log-file", EMPTY, NoEffect(NO_FILE)),
    value("log-file-max-size", &[], NoEffect(NO_FILE)),
    value("log-flush-frequency", &[], NoEffect(NO_BUFFER)),
    value("log-json-info-buffer-size", &["0"], NoEffect(NO_BUFFER)),
    switch("log-json-split-stream", OFF, NoEffect(ONE_LOG)),
    value("log-text-info-buffer-size", &["0"], NoEffect(NO_BUFFER)),
    switch("log-text-split-stream", OFF, NoEffect(ONE_LOG)),
    switch("logtostderr", ON, NoEffect(ONE_LOG)),
    value(
        "min-resync-period",
        &[],
        NoEffect("caches are kept up to date by watches"),
    ),
    value(
        "node-sync-period",
        &[],
        NoEffect("it has no effect upstream either"),
    ),
    switch("one-output", ANY_BOOL, NoEffect(ONE_LOG)),
    switch(
        "permit-address-sharing",
        ANY_BOOL,
        NoEffect("addresses can always be shared (SO_REUSEADDR)"),
    ),
    value("port", &["0"], INSTEAD_OF_HTTP),
    switch("profiling", OFF, NoEffect(NO_PROFILER)),
    switch("redirect-stderr", ANY_BOOL, NoEffect(ONE_LOG)),
    value(
        "show-hidden-metrics-for-version",
        EMPTY,
        NoEffect(NO_SELECTION),
    ),
    switch(
        "skip-headers",
        OFF,
        NoEffect("each line of the log has its time and level"),
    ),
    switch("skip-log-headers", ANY_BOOL, NoEffect(NO_FILE)),
    value("stderrthreshold", &[], NoEffect(ONE_LOG)),
    value(
        "vmodule",
        EMPTY,
        NoEffect("it names files of Go; use --v or the environment variable RUST_LOG"),
    ),
    value("webhook-bind-address", &[], NoEffect(NO_WEBHOOKS)),
    value("webhook-cert-dir", &[], NoEffect(NO_WEBHOOKS)),
    switch("webhook-disable-http2-serving", &[], NoEffect(NO_WEBHOOKS)),
    value("webhook-secure-port", &["0"], NoEffect(NO_WEBHOOKS)),
    value("webhook-tls-cert-file", &[], NoEffect(NO_WEBHOOKS)),
    value("webhook-tls-private-key-file", &[], NoEffect(NO_WEBHOOKS)),
    value(
        "webhooks",
        EMPTY,
        Rejected("remove it: Skydock has no webhooks"),
    ),
];

/// Flags that only the program of one provider has, and what replaces them. They would change what
/// is done in the cloud. Other flags that nobody knows get the same advice, as far as it is general.
const OF_PROVIDERS: &[(&str, &str)] = &[
    (
        "cloud-config-key",
        "mount the Secret, and name its file in --cloud-config",
    ),
    (
        "cloud-config-secret-name",
        "mount the Secret, and name its file in --cloud-config",
    ),
    (
        "cloud-config-secret-namespace",
        "mount the Secret, and name its file in --cloud-config",
    ),
    (
        "enable-dynamic-reloading",
        "remove it: Skydock follows changes of the file of --cloud-config",
    ),
    ("node-labels", ""),
    ("nodebalancer-tags", ""),
    ("user-agent", ""),
];

/// Returns all flags of upstream that Skydock does not have.
pub fn foreign_flags() -> impl Iterator<Item = &'static ForeignFlag> {
    GENERAL.iter()
}

/// Returns the flags that only the program of one provider has, each with what to do instead.
pub fn flags_of_providers() -> impl Iterator<Item = (&'static str, String)> {
    OF_PROVIDERS.iter().map(|(name, instead)| {
        let instead = match *instead {
            "" => option_instead(name),
            instead => instead.to_owned(),
        };
        (*name, instead)
    })
}

/// Returns the flag with this name.
pub(super) fn find(name: &str) -> Option<&'static ForeignFlag> {
    foreign_flags().find(|flag| flag.name == name)
}

impl ForeignFlag {
    /// Returns the error if this flag is rejected.
    pub(super) fn rejection(&self) -> String {
        let instead = match self.otherwise {
            Rejected(instead) => instead.to_owned(),
            NoEffect(why) => format!("remove it: {why}"),
        };
        format!(
            "--{} is a flag of upstream's cloud-controller-manager that Skydock does not support: {instead}",
            self.name
        )
    }
}

/// What to write instead of a flag that sets something in the cloud.
pub(in crate::cli) fn option_instead(name: &str) -> String {
    format!(
        "remove it, and write `options: {{{name}: VALUE}}` for the plugin in the file of --config, if its README lists such an option"
    )
}

/// Returns the error for a flag that only the program of one provider has.
pub(super) fn rejection_of_provider(name: &str) -> Option<String> {
    let (_, instead) = flags_of_providers().find(|(known, _)| *known == name)?;
    Some(format!(
        "--{name} is a flag of one provider's cloud-controller-manager: {instead}"
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    const OPERATING: &str = include_str!("../../../../../docs/operating.md");
    const README: &str = include_str!("../../../../../README.md");
    /// Flags of cargo, kubectl, podman, skopeo, `skydock dev` and `skydock plugin new`.
    const OTHERS: &[&str] = &[
        "all",
        "preserve-digests",
        "quick",
        "release",
        "target",
        "clusterrole",
        "field-selector",
        "for",
        "name",
        "namespace",
        "non-resource-url",
        "patch",
        "pin",
        "server",
        "timeout",
        "serviceaccount",
        "type",
        "verb",
        "network",
        "rm",
        "user",
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

    /// Returns a value of the flag that does not say how Skydock behaves, if there is one.
    fn other_value(flag: &ForeignFlag) -> Option<&'static str> {
        let candidates = match flag.takes {
            Takes::Bool => ANY_BOOL,
            Takes::Value => &["x"],
        };
        let mut others = candidates
            .iter()
            .filter(|value| !flag.fixed.contains(value));
        others.next().copied()
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
        known.extend(foreign_flags().map(|flag| flag.name));
        known.extend(OF_PROVIDERS.iter().map(|(name, _)| *name));
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
    fn operating_md_lists_the_flags_that_are_rejected() {
        let named = flags(OPERATING);
        let is_documented = |flag: &str| {
            named
                .iter()
                .any(|name| *name == flag || name.ends_with('-') && flag.starts_with(name))
        };
        let undocumented: Vec<_> = foreign_flags()
            .filter(|flag| matches!(flag.otherwise, Rejected(_)))
            .map(|flag| flag.name)
            .chain(OF_PROVIDERS.iter().map(|(name, _)| *name))
            .filter(|name| !is_documented(name))
            .collect();
        assert!(undocumented.is_empty(), "{undocumented:?}");
    }

    #[test]
    fn a_flag_is_in_one_table_only_and_not_one_of_skydock() {
        let cli = Cli::command();
        let own = cli.get_arguments().filter_map(clap::Arg::get_long);
        let names = foreign_flags().map(|flag| flag.name);
        let names = names.chain(OF_PROVIDERS.iter().map(|(name, _)| *name));
        let mut seen = BTreeSet::new();
        for name in own.chain(names) {
            assert!(seen.insert(name.to_owned()), "{name}");
        }
    }

    #[test]
    fn every_unsupported_upstream_flag_is_rejected_by_name() {
        for flag in foreign_flags() {
            let Some(value) = other_value(flag) else {
                continue;
            };
            let (name, flag_and_value) = (flag.name, format!("--{}={value}", flag.name));
            let strict = crate::cli::parse(["skydock", "--strict-flags", &flag_and_value])
                .expect_err(name)
                .sentence();
            assert!(
                strict.starts_with(&format!("--{name} is a flag of upstream's")),
                "{strict}"
            );

            let given = crate::cli::parse(["skydock", &flag_and_value]);
            match flag.otherwise {
                NoEffect(why) => {
                    let accepted = given.expect(name).ccm.accepted;
                    assert_eq!(accepted.len(), 1, "{name}");
                    assert_eq!(accepted[0].flag, flag_and_value);
                    assert_eq!(accepted[0].no_effect.as_deref(), Some(why));
                }
                Rejected(instead) => {
                    let rejected = given.expect_err(name).sentence();
                    assert!(rejected.ends_with(instead), "{rejected}");
                }
            }
        }
    }

    #[test]
    fn flags_that_request_fixed_behavior_are_accepted() {
        for flag in foreign_flags() {
            for value in flag.fixed {
                for strict in [&[][..], &["--strict-flags"]] {
                    let given = format!("--{}={value}", flag.name);
                    let accepted = crate::cli::parse([&["skydock", &given], strict].concat())
                        .expect(&given)
                        .ccm
                        .accepted;
                    assert_eq!((accepted.len(), &accepted[0].no_effect), (1, &None));
                }
            }
        }
    }

    #[test]
    fn a_flag_of_a_provider_is_rejected_with_what_to_write() {
        for (given, expected) in [
            ("--user-agent=shoot", "options: {user-agent: VALUE}"),
            ("--node-labels=a=b", "options: {node-labels: VALUE}"),
            (
                "--cloud-config-secret-name=azure",
                "name its file in --cloud-config",
            ),
            ("--enable-dynamic-reloading", "Skydock follows changes"),
            // Nobody knows it, and nothing is similar.
            ("--vpc-names=a", "options: {vpc-names: VALUE}"),
        ] {
            let rejected = crate::cli::parse(["skydock", given])
                .expect_err(given)
                .sentence();
            assert!(rejected.contains(expected), "{rejected}");
        }
    }
}
