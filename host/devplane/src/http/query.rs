//! Query parameters.

use std::time::Duration;

use http::Uri;
use rand::Rng as _;

use crate::{
    refusal::Refusal,
    render::Include,
    write::{FieldValidation, Options},
};

/// All that any request may ask for. What is unknown is ignored, as it is by an API server.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub(super) watch: bool,
    pub(super) labels: String,
    pub(super) fields: String,
    pub(super) resource_version: String,
    pub(super) version_match: String,
    pub(super) limit: usize,
    pub(super) next: String,
    pub(super) bookmarks: bool,
    pub(super) initial_events: bool,
    pub(super) timeout: Option<u64>,
    pub(super) include: String,
    pub(super) manager: String,
    pub(super) validation: String,
    pub(super) dry_run: bool,
    /// A precondition of a deletion without a body.
    pub(super) uid: String,
}

impl Query {
    pub(super) fn parse(uri: &Uri) -> Result<Self, Refusal> {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| Refusal::bad_request(format!("cannot read the query: {error}")))?;
        let mut query = Self::default();
        for (name, value) in pairs.0 {
            let flag = || matches!(value.as_str(), "" | "1" | "true" | "True" | "TRUE" | "t" | "T");
            let number = || {
                let message = || format!("query parameter {name}: expected a whole number, found {value:?}");
                value.parse::<u64>().map_err(|_| Refusal::bad_request(message()))
            };
            match name.as_str() {
                "watch" => query.watch = flag(),
                "labelSelector" => query.labels = value,
                "fieldSelector" => query.fields = value,
                "resourceVersion" => query.resource_version = value,
                "resourceVersionMatch" => query.version_match = value,
                "limit" => query.limit = usize::try_from(number()?).unwrap_or(usize::MAX),
                "continue" => query.next = value,
                "allowWatchBookmarks" => query.bookmarks = flag(),
                "sendInitialEvents" => query.initial_events = flag(),
                "timeoutSeconds" => query.timeout = Some(number()?),
                "includeObject" => query.include = value,
                "fieldManager" => query.manager = value,
                "fieldValidation" => query.validation = value,
                "uid" => query.uid = value,
                "dryRun" if value == "All" => query.dry_run = true,
                "dryRun" if !value.is_empty() => {
                    return Err(Refusal::bad_request(format!("query parameter dryRun: expected All, found {value:?}")));
                }
                _ => {}
            }
        }
        Ok(query)
    }

    /// How much of an object a table carries.
    pub(super) fn include(&self) -> Result<Include, Refusal> {
        match self.include.as_str() {
            "" | "Metadata" => Ok(Include::Metadata),
            "None" => Ok(Include::None),
            "Object" => Ok(Include::Object),
            other => {
                let message = "query parameter includeObject: expected None, Metadata or Object, found";
                Err(Refusal::bad_request(format!("{message} {other:?}")))
            }
        }
    }

    /// How long a watch lasts: what was asked for, or between 30 and 60 minutes, so that not all end at once.
    pub(super) fn timeout(&self) -> Duration {
        let seconds = self.timeout.filter(|seconds| *seconds > 0);
        Duration::from_secs(seconds.unwrap_or_else(|| rand::rng().random_range(1800..=3600)))
    }

    /// For writes. Without `fieldManager`, the first part of the user agent names the writer.
    pub(super) fn options(&self, user_agent: &str) -> Result<Options, Refusal> {
        let validation = match self.validation.as_str() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let message = "query parameter fieldValidation: expected Ignore, Warn or Strict, found";
                return Err(Refusal::bad_request(format!("{message} {other:?}")));
            }
        };
        let agent = user_agent.split('/').next().unwrap_or_default();
        let manager = if self.manager.is_empty() { agent } else { &self.manager };
        Ok(Options { dry_run: self.dry_run, manager: manager.to_owned(), validation })
    }

    /// Server-side apply must say who applies.
    pub(super) fn names_manager(&self) -> bool {
        !self.manager.is_empty()
    }
}
