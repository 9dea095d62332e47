//! Observations for the tests.

use std::time::Duration;

use skydock_cloud::{CloudError, Function};

use crate::{
    Verdict,
    harness::observation::{Element, Observation, Value},
};

pub(crate) fn seen(
    function: &'static str,
    answer: Result<Vec<Element>, CloudError>,
) -> Observation {
    Observation {
        function: Function::named(function).unwrap(),
        with: "nodes",
        answer,
        questions: 1,
        ended: Vec::new(),
        rejected: 0,
        denied: 0,
        took: Duration::ZERO,
        cpu: Duration::ZERO,
    }
}

pub(crate) fn value(shown: &str, denies: bool) -> Element {
    Ok(Value {
        shown: shown.into(),
        denies,
    })
}

pub(crate) fn fails(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Failed { .. })
}
