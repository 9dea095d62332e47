//! The languages of templates.

use std::path::Path;

use clap::ValueEnum;

use super::{c, go, name::ProviderName, python, rust, typescript};

/// A language, or a kind of project in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// A crate.
    Rust,
    /// A Go module.
    Go,
    /// A Go module that serves an existing provider for k8s.io/cloud-provider: that for OpenStack,
    /// to be replaced.
    GoProvider,
    /// A Python project.
    Python,
    /// A TypeScript project.
    #[value(name = "typescript")]
    TypeScript,
    /// A folder with C files and the SDK.
    C,
}

impl Language {
    /// Returns where the SDK is in a checkout, for example. No registry has it, so that a provider
    /// must not depend on its name: anyone could register that, and a build would run what they
    /// publish. `None` if a provider contains the SDK.
    pub(super) fn unpublished(self) -> Option<&'static str> {
        match self {
            Self::Rust => Some(rust::SDK.example),
            Self::Go | Self::GoProvider => Some(go::SDK.example),
            Self::Python => Some(python::SDK.example),
            Self::TypeScript => Some(typescript::SDK.example),
            Self::C => None,
        }
    }

    /// Returns the files of a provider.
    ///
    /// # Errors
    /// If `sdk` is not the SDK of the language.
    pub(super) fn files(
        self,
        name: &ProviderName,
        sdk: Option<&Path>,
    ) -> anyhow::Result<Vec<(&'static str, String)>> {
        match self {
            Self::Rust => rust::files(name, sdk),
            Self::Go => go::files(name, sdk),
            Self::GoProvider => go::existing(name, sdk),
            Self::Python => python::files(name, sdk),
            Self::TypeScript => typescript::files(name, sdk),
            Self::C => c::files(name, sdk),
        }
    }
}
