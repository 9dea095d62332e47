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
    /// A Go module that serves an existing provider for k8s.io/cloud-provider: that for OpenStack, to be replaced.
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
    /// Returns the files of a provider.
    ///
    /// # Errors
    /// If `sdk` is not the SDK of the language.
    pub(super) fn files(self, name: &ProviderName, sdk: Option<&Path>) -> anyhow::Result<Vec<(&'static str, String)>> {
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
