//! What the kit has seen of one call.

use std::time::Duration;

use skydock_cloud::{CloudError, Function};

/// An element of an answer, as far as judgments need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// The whole value, for comparisons and for people.
    pub(crate) shown: String,
    /// It says that something does not exist: an absent instance, no load balancer.
    pub(crate) denies: bool,
}

/// Stands for a reason for ending an instance, if a call was not made.
const UNCALLED: &str = "uncalled";

/// One element, or its error.
pub(crate) type Element = Result<Value, CloudError>;

/// A call, and how it ended.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    pub(crate) function: Function,
    /// What it was called with, in a few words.
    pub(crate) with: &'static str,
    /// One element for each question; functions with a single answer have one.
    pub(crate) answer: Result<Vec<Element>, CloudError>,
    /// Number of questions.
    pub(crate) questions: usize,
    /// Why the call ended its instance, for example `cpu` or `trap`.
    pub(crate) ended: Vec<String>,
    /// Answers, or elements, that Skydock has rejected.
    pub(crate) rejected: u64,
    /// Requests to the cloud, all of which are denied.
    pub(crate) denied: u64,
    /// Wall-clock time.
    pub(crate) took: Duration,
    /// CPU time.
    pub(crate) cpu: Duration,
}

impl Observation {
    /// Returns the elements; a call that failed as a whole has one for each question.
    pub(crate) fn elements(&self) -> Vec<Element> {
        match &self.answer {
            Ok(elements) => elements.clone(),
            Err(error) => vec![Err(error.clone()); self.questions.max(1)],
        }
    }

    /// Returns the errors, of elements and of the whole call.
    pub(crate) fn errors(&self) -> Vec<CloudError> {
        match &self.answer {
            Ok(elements) => elements
                .iter()
                .filter_map(|it| it.as_ref().err().cloned())
                .collect(),
            Err(error) => vec![error.clone()],
        }
    }

    /// Puts the answers to questions of the same function together.
    pub(crate) fn together(parts: &[Self]) -> Option<Self> {
        Some(Self {
            answer: Ok(parts.iter().flat_map(Self::elements).collect()),
            questions: parts.iter().map(|it| it.questions).sum(),
            ended: parts.iter().flat_map(|it| it.ended.clone()).collect(),
            rejected: parts.iter().map(|it| it.rejected).sum(),
            denied: parts.iter().map(|it| it.denied).sum(),
            took: parts.iter().map(|it| it.took).max()?,
            ..parts.first()?.clone()
        })
    }

    /// Returns what stands for a call that was not made.
    pub(crate) fn uncalled(function: Function, with: &'static str, questions: usize) -> Self {
        let error =
            CloudError::Unavailable("not called: others have exceeded their time".to_owned());
        Self {
            function,
            with,
            answer: Err(error),
            questions,
            ended: vec![UNCALLED.to_owned()],
            rejected: 0,
            denied: 0,
            took: Duration::ZERO,
            cpu: Duration::ZERO,
        }
    }

    /// Returns true if the call was not made.
    pub(crate) fn is_uncalled(&self) -> bool {
        self.ended.iter().any(|kind| kind == UNCALLED)
    }

    /// Returns true if Skydock and not the plugin has made the answer.
    pub(crate) fn is_hosts(&self) -> bool {
        !self.ended.is_empty() || self.rejected > 0
    }

    /// Returns the call for people.
    pub(crate) fn call(&self) -> String {
        format!("{} with {}", self.function, self.with)
    }
}
