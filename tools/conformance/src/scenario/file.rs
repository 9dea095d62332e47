//! The file with scenarios.

mod check;
mod disk;
mod expect;
mod given;
mod step;

use serde::Deserialize;
use serde_saphyr::Spanned;

pub use check::Mistake;
pub(crate) use disk::{SnapshotSpec, VolumeSpec};
pub(crate) use expect::{ErrorCase, Expect};
pub(crate) use given::Given;
pub(crate) use step::{Action, Called, Http, Kill, Step};

/// The version of the file format.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
enum ApiVersion {
    #[serde(rename = "skydock.dev/v1alpha1")]
    V1Alpha1,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
enum Kind {
    Scenarios,
}

/// Scenarios for a plugin and its cloud.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenarios {
    #[serde(rename = "apiVersion")]
    _api_version: ApiVersion,
    #[serde(rename = "kind")]
    _kind: Kind,
    /// Objects of the cluster in each scenario.
    #[serde(default)]
    pub(crate) given: Given,
    /// Steps before each scenario.
    #[serde(default)]
    pub(crate) before: Vec<Spanned<Step>>,
    pub(crate) scenarios: Vec<Spanned<Scenario>>,
    /// Steps after each scenario, also if it failed.
    #[serde(default)]
    pub(crate) after: Vec<Spanned<Step>>,
}

/// A sequence of steps. It begins with a plugin that has just been loaded.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Scenario {
    /// In reports: lower-case letters, digits and dashes.
    pub(crate) name: String,
    /// Objects of the cluster, in addition to those of the file. Those with the same name replace
    /// them.
    #[serde(default)]
    pub(crate) given: Given,
    pub(crate) steps: Vec<Spanned<Step>>,
    /// Steps after this scenario, also if it failed.
    #[serde(default)]
    pub(crate) after: Vec<Spanned<Step>>,
}

/// A duration as in Go: `10s`, `250ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) std::time::Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = text
            .parse::<jiff::SignedDuration>()
            .ok()
            .and_then(|it| std::time::Duration::try_from(it).ok());

        let wrong = || {
            serde::de::Error::custom(format!(
                "{text:?} is not a valid duration; expected for example 10s"
            ))
        };

        parsed.map(Self).ok_or_else(wrong)
    }
}
