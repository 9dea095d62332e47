//! The figures of a scenario.

use serde::Serialize;

use crate::scenario::{Figures, Scenario};

/// The figures of both sides for a scenario.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) scenario: Scenario,
    pub(crate) upstream: Figures,
    pub(crate) skydock: Figures,
}
