//! Plans that are remembered: Octavia takes one change at a time, and a call does not wait for it. So that not every call has to
//! read the load balancer anew, the steps behind the first are kept in the host's store for the calls that follow, as long as they
//! ask for the same.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skydock_sdk::{
    Result,
    http::Method,
    types::{CloudError, Service},
};

use super::{at_work, ensure::take, plan::Step};
use crate::{
    cloud::{Cloud, text},
    host::Event,
};

/// How long a plan is kept. What others change meanwhile is seen by the plan after it.
const KEPT: Duration = Duration::from_secs(120);

/// The only reason of a step that may fail.
const OPTIONAL: &str = "LoadBalancerLbMethodUnknown";

/// Steps to take, and for what.
#[derive(Serialize, Deserialize)]
struct Todo {
    /// What was asked for, as a number.
    digest: u64,
    steps: Vec<Kept>,
    /// True if after these steps all is as asked for: none of them makes something whose parts come with a later plan.
    whole: bool,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    method: String,
    path: String,
    body: Option<Value>,
    what: String,
    optional: bool,
}

impl Kept {
    fn of(step: &Step) -> Self {
        Self {
            method: step.method.to_string(),
            path: step.path.clone(),
            body: step.body.clone(),
            what: step.what.clone(),
            optional: step.optional.is_some(),
        }
    }

    fn step(self) -> Option<Step> {
        let methods = [Method::Post, Method::Put, Method::Delete];
        let method = methods.into_iter().find(|method| method.to_string() == self.method)?;
        let optional = self.optional.then_some(OPTIONAL);
        Some(Step { method, path: self.path, body: self.body, what: self.what, optional })
    }
}

/// What is left of a plan.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// There is none, or it is of no use any more: a new one is to be made.
    Unknown,
    /// All its steps were taken, and nothing else is to be done.
    Nothing,
}

fn key(id: &str) -> String {
    format!("todo {id}")
}

/// Takes the first step that can be taken, and remembers the others. Success if there are none.
///
/// # Errors
/// "In progress" after a step; else what the cloud says.
pub(super) fn begin(cloud: &Cloud<'_>, service: &Service, id: &str, digest: u64, steps: &[Step]) -> Result<()> {
    let makes =
        |step: &Step| step.method == Method::Post && matches!(step.path.as_str(), "/lbaas/listeners" | "/lbaas/pools");
    // Tags of a load balancer are several Services': those that were read are not written later.
    let shared = |step: &Step| step.path.starts_with("/lbaas/loadbalancers/");
    let later = steps.iter().skip(1).position(shared).map(|place| place + 1);
    let whole = later.is_none() && !steps.iter().any(makes);
    let steps = steps.iter().take(later.unwrap_or(steps.len())).map(Kept::of).collect();
    advance(cloud, service, id, Todo { digest, steps, whole }).map(|_| ())
}

/// Goes on with a plan that was begun.
///
/// # Errors
/// "In progress" after a step; else what the cloud says.
pub(super) fn resume(cloud: &Cloud<'_>, service: &Service, id: &str, digest: u64) -> Result<Left> {
    let kept = cloud.host.kept(&key(id)).and_then(|kept| serde_json::from_slice::<Todo>(&kept).ok());
    match kept.filter(|todo| todo.digest == digest) {
        Some(todo) => advance(cloud, service, id, todo),
        None => Ok(Left::Unknown),
    }
}

fn advance(cloud: &Cloud<'_>, service: &Service, id: &str, todo: Todo) -> Result<Left> {
    let Todo { digest, steps, whole } = todo;
    cloud.host.forget(&key(id));
    let mut steps = steps.into_iter();
    while let Some(step) = steps.next().and_then(Kept::step) {
        match (take(cloud, &step), step.optional) {
            (Err(error @ CloudError::Invalid(_)), Some(reason)) => {
                cloud.host.tell(service, &Event::warning(reason, text(&error).to_owned()));
            }
            // The plan is of no use: what it was made for has changed. Of a lock of Octavia it says nothing.
            (Err(error), _) => return Err(error),
            (Ok(()), _) => {
                let left = Todo { digest, steps: steps.collect(), whole };
                if let Ok(left) = serde_json::to_vec(&left) {
                    cloud.host.keep(&key(id), &left, KEPT);
                }
                return Err(at_work(cloud, id, "is being changed"));
            }
        }
    }
    Ok(if whole { Left::Nothing } else { Left::Unknown })
}
