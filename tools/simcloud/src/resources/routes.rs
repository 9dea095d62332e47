//! Routes.
use serde::{Deserialize, Serialize};

use crate::api::check::Labels;

/// Maximum number of routes.
pub(crate) const MOST: usize = 10_000;

/// A route, and what a client sends to create one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Route {
    pub(crate) name: String,
    pub(crate) cidr: String,
    pub(crate) target: String,
    #[serde(default)]
    pub(crate) labels: Labels,
}

/// A route as clients see it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct View<'a> {
    pub(crate) id: String,
    pub(crate) name: &'a str,
    pub(crate) cidr: &'a str,
    pub(crate) target: &'a str,
    pub(crate) blackhole: bool,
    pub(crate) labels: &'a Labels,
}

/// Returns the ID of a route.
pub(crate) fn id(number: u64) -> String {
    format!("rt-{number}")
}
