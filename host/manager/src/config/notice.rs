//! Notices that are logged at startup about the command line, and about the defaults that were taken.

use std::path::Path;

use crate::{
    cli::{BindAddress, CcmArgs},
    egress::EgressPolicy,
};

/// A line for the log, which cannot be written before the flags of the log are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Everything is as it was probably meant.
    Info(String),
    /// Something that was asked for is not done.
    Warning(String),
}

impl Notice {
    /// Writes the line.
    pub fn log(&self) {
        match self {
            Self::Info(line) => tracing::info!("{line}"),
            Self::Warning(line) => tracing::warn!("{line}"),
        }
    }

    /// Returns the text.
    #[must_use]
    pub fn line(&self) -> &str {
        match self {
            Self::Info(line) | Self::Warning(line) => line,
        }
    }

    pub(super) fn default_taken(flag: &str, path: &Path) -> Self {
        let path = path.display();
        Self::Info(format!("{flag} is not set: using {path}"))
    }

    /// Machine code is not kept.
    pub(super) fn without_cache_dir() -> Self {
        Self::Info(
            "there is no directory for compiled plugins, so the plugin is compiled at each start; set one with --plugin-cache-dir"
                .to_owned(),
        )
    }

    /// The plugin serves because there is no other.
    pub(super) fn only_plugin(provider: &str, name: &str) -> Self {
        if provider.is_empty() {
            Self::Info(format!(
                "--cloud-provider is not set: the only plugin, {name}, serves"
            ))
        } else {
            Self::Warning(format!(
                "--cloud-provider={provider} names no plugin: {name}, the only one, serves; set --cloud-provider={name}"
            ))
        }
    }
}

/// Returns what the command line asks for and Skydock does not do, and the words that it ignores.
pub(super) fn of_command_line(args: &CcmArgs) -> Vec<Notice> {
    let executables = args.executables.iter();
    let executables = executables.map(|path| {
        Notice::Info(format!(
            "{path} before the flags is ignored: it is an executable of another image"
        ))
    });

    let accepted = args.accepted.iter().filter_map(|accepted| {
        let why = accepted.no_effect.as_ref()?;
        let flag = &accepted.flag;
        Some(Notice::Warning(format!(
            "{flag} has no effect: {why}; remove the flag"
        )))
    });

    let open = match args.serving.metrics_bind_address {
        BindAddress::At(address) if !address.ip().is_loopback() => Some(Notice::Warning(format!(
            "--metrics-bind-address={address}: everybody who can reach this address can read all metrics; use --secure-port instead"
        ))),
        BindAddress::At(_) | BindAddress::Off => None,
    };

    executables.chain(accepted).chain(open).collect()
}

/// Returns which credentials have their secret in an environment variable that is not set.
pub(super) fn of_variables(policy: &EgressPolicy) -> impl Iterator<Item = Notice> {
    policy.credentials.iter().filter_map(|credential| {
        let variable = credential.variable()?.variable;
        let sentence = format!(
            "credential `{}`: the environment variable {variable} is not set: requests with it are denied; set it, and restart Skydock",
            credential.name()
        );
        (variable.length() == 0).then_some(Notice::Warning(sentence))
    })
}
