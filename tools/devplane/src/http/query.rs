//! Query parameters of lists, watches and writes.

use std::time::Duration;

use http::Uri;
use rand::Rng as _;

use crate::{
    formats::render::Include,
    status::{Cause, StatusError},
    storage::write::{self, FieldValidation, Options},
};

/// All query parameters of all requests. Unknown ones are ignored, as by an API server.
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
    pub(super) initial_events: Option<bool>,
    pub(super) timeout: Option<u64>,
    pub(super) include: String,
    pub(super) manager: String,
    pub(super) validation: String,
    pub(super) dry_run: Vec<String>,
    /// Precondition of a deletion without a body.
    pub(super) uid: String,
    /// Values that should be numbers and are not, with their names. Only requests that use them are
    /// rejected.
    pub(super) bad: Vec<(String, String)>,
    pub(super) propagation: Option<String>,
    pub(super) orphan: Option<bool>,
}

impl Query {
    pub(super) fn parse(uri: &Uri) -> Result<Self, StatusError> {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| StatusError::bad_request(format!("cannot read the query: {error}")))?;

        let mut query = Self::default();
        for (name, value) in pairs.0 {
            // All values except these two are true.
            let flag = !matches!(value.to_ascii_lowercase().as_str(), "0" | "false");
            let number = value.parse::<i64>().ok();

            if matches!(
                name.as_str(),
                "limit" | "timeoutSeconds" | "gracePeriodSeconds"
            ) && number.is_none()
            {
                query.bad.push((name, value));
                continue;
            }

            let number = number.and_then(|number| u64::try_from(number).ok());
            match name.as_str() {
                "watch" => query.watch = flag,
                "labelSelector" => query.labels = value,
                "fieldSelector" => query.fields = value,
                "resourceVersion" => query.resource_version = value,
                "resourceVersionMatch" => query.version_match = value,
                "limit" => {
                    query.limit = number
                        .and_then(|number| usize::try_from(number).ok())
                        .unwrap_or_default();
                }
                "continue" => query.next = value,
                "allowWatchBookmarks" => query.bookmarks = flag,
                "sendInitialEvents" => query.initial_events = Some(flag),
                "timeoutSeconds" => query.timeout = number,
                "includeObject" => query.include = value,
                "fieldManager" => query.manager = value,
                "fieldValidation" => query.validation = value,
                "uid" => query.uid = value,
                "dryRun" => query.dry_run.push(value),
                "propagationPolicy" => query.propagation = Some(value),
                "orphanDependents" => query.orphan = Some(flag),
                _ => {}
            }
        }

        Ok(query)
    }

    /// Rejects invalid values of these numbers.
    pub(super) fn numbers(&self, names: &[&str]) -> Result<(), StatusError> {
        match self
            .bad
            .iter()
            .find(|(name, _)| names.contains(&name.as_str()))
        {
            Some((_, value)) => Err(StatusError::bad_request(format!(
                "strconv.ParseInt: parsing {value:?}: invalid syntax"
            ))),
            None => Ok(()),
        }
    }

    /// Checks the parameters of a list, a watch or a deletion of a collection.
    pub(super) fn list_options(&self) -> Result<(), StatusError> {
        let mut causes = Vec::new();
        let mut forbid = |field: &str, why: &str| causes.push(Cause::forbidden(field, why));
        let matched = self.version_match.as_str();

        match (self.watch, self.initial_events) {
            (true, Some(_)) if matched != "NotOlderThan" => {
                forbid(
                    MATCH,
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                );
            }
            (true, None) if !matched.is_empty() => {
                forbid(
                    MATCH,
                    "is forbidden for watch unless sendInitialEvents is provided",
                );
            }
            (false, Some(_)) => forbid(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for list",
            ),
            _ => {}
        }

        if !matched.is_empty() {
            if !self.watch && self.resource_version.is_empty() {
                forbid(MATCH, "is forbidden unless resourceVersion is provided");
            }
            if !self.next.is_empty() {
                forbid(MATCH, "is forbidden when continue is provided");
            }
            if !self.watch && matched == "Exact" && self.resource_version == "0" {
                forbid(MATCH, "\"exact\" is forbidden for resourceVersion \"0\"");
            }
            let supported: &[&str] = if self.watch {
                &["NotOlderThan"]
            } else {
                &["Exact", "NotOlderThan", ""]
            };
            if !supported.contains(&matched) {
                causes.push(Cause::not_supported(MATCH, matched, supported));
            }
        }

        if causes.is_empty() {
            Ok(())
        } else {
            Err(StatusError::invalid_options("ListOptions", &causes))
        }
    }

    /// Returns how much of each object a table contains.
    pub(super) fn include(&self) -> Include {
        match self.include.as_str() {
            "" | "Metadata" => Include::Metadata,
            "None" => Include::None,
            "Object" => Include::Object,
            _ => Include::Invalid,
        }
    }

    /// Returns the duration of a watch: the requested one, or between 30 and 60 minutes, so that
    /// not all watches end at the same time.
    pub(super) fn timeout(&self) -> Duration {
        let seconds = self
            .timeout
            .filter(|seconds| *seconds > 0)
            .map(|seconds| seconds.min(MAX_TIMEOUT));
        Duration::from_secs(seconds.unwrap_or_else(|| rand::rng().random_range(1800..=3600)))
    }

    /// Returns the options of a write. `kind` is `CreateOptions`, `UpdateOptions` or
    /// `PatchOptions`.
    pub(super) fn options(&self, kind: &str) -> Result<Options, StatusError> {
        let mut causes = Vec::new();
        if self.manager.len() > MANAGER_LIMIT {
            let message = format!("Too long: may not be more than {MANAGER_LIMIT} bytes");
            causes.push(Cause {
                reason: "FieldValueTooLong",
                field: "fieldManager".into(),
                message,
            });
        }
        if self.manager.chars().any(char::is_control) {
            causes.push(Cause::invalid(
                "fieldManager",
                &self.manager.as_str().into(),
                "invalid character",
            ));
        }

        let (dry_run, not_all) = write::dry_run(&self.dry_run);
        causes.extend(not_all);

        let validation = match self.validation.as_str() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                causes.push(Cause::not_supported(
                    "fieldValidation",
                    other,
                    &["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Warn
            }
        };

        if causes.is_empty() {
            Ok(Options {
                dry_run,
                validation,
                manager: self.manager.clone(),
            })
        } else {
            Err(StatusError::invalid_options(kind, &causes))
        }
    }
}

/// Maximum duration of a watch in seconds, a day: longer ones end earlier, which clients expect at
/// any time.
const MAX_TIMEOUT: u64 = 86_400;

/// Maximum bytes of the name of a field manager.
const MANAGER_LIMIT: usize = 128;

const MATCH: &str = "resourceVersionMatch";
