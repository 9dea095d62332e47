//! Stored plans. Octavia accepts one change at a time, and a call does not wait for it. So that not
//! every call has to read the load balancer again, the steps after the first one are stored in the
//! host's cache, for following calls with the same request.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skydock_sdk::{Result, http::Method, types::CloudError};

use crate::{
    host_functions::Event,
    load_balancers::{Context, in_progress, plan::step::Step},
};

/// How long a plan is stored. Changes by others in the meantime are noticed by the next plan.
const STORED: Duration = Duration::from_secs(120);

/// The only event reason of optional steps.
const OPTIONAL: &str = "LoadBalancerLbMethodUnknown";

/// The remaining steps of a plan.
#[derive(Serialize, Deserialize)]
struct StoredPlan {
    /// A hash of the request.
    digest: u64,
    steps: Vec<StoredStep>,
    /// True if nothing else is left to do after these steps.
    whole: bool,
    /// The ID of the last resource with parts that the steps created.
    created_id: Option<String>,
    /// The first error of a step that the cloud has rejected. The others do not depend on it.
    #[serde(default)]
    rejected: Option<Rejected>,
}

/// A step that is not possible in the current state of the cloud, or never.
#[derive(Serialize, Deserialize)]
enum Rejected {
    Invalid(String),
    Denied(String),
    Conflict(String),
    Unavailable(String),
}

impl Rejected {
    /// Returns `None` for errors that show that the plan is outdated, or that the cloud does not
    /// work.
    fn of(error: &CloudError) -> Option<Self> {
        match error {
            CloudError::Invalid(text) => Some(Self::Invalid(text.clone())),
            CloudError::Denied(text) => Some(Self::Denied(text.clone())),
            CloudError::Conflict(text) => Some(Self::Conflict(text.clone())),
            _ => None,
        }
    }

    fn error(self) -> CloudError {
        match self {
            Self::Invalid(text) => CloudError::invalid(text),
            Self::Denied(text) => CloudError::denied(text),
            Self::Conflict(text) => CloudError::conflict(text),
            Self::Unavailable(text) => CloudError::unavailable(text),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct StoredStep {
    method: String,
    path: String,
    body: Option<Value>,
    what: String,
    optional: bool,
    follows: bool,
}

impl StoredStep {
    fn of(step: &Step) -> Self {
        Self {
            method: step.method.to_string(),
            path: step.path.clone(),
            body: step.body.clone(),
            what: step.what.clone(),
            optional: step.optional.is_some(),
            follows: step.follows,
        }
    }

    fn step(self) -> Option<Step> {
        let methods = [Method::Post, Method::Put, Method::Delete];
        let method = methods
            .into_iter()
            .find(|method| method.to_string() == self.method)?;
        let optional = self.optional.then_some(OPTIONAL);

        Some(Step {
            method,
            path: self.path,
            body: self.body,
            what: self.what,
            optional,
            follows: self.follows,
        })
    }
}

/// The result of a plan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All steps were taken, and nothing else is left to do.
    Done,
    /// All possible steps were taken. This is why not all of them were.
    Rejected(CloudError),
}

impl Outcome {
    /// Returns an error unless all steps were taken.
    ///
    /// # Errors
    /// Returns the reason.
    pub(crate) fn complete(self) -> Result<()> {
        match self {
            Self::Rejected(error) => Err(error),
            Self::Done => Ok(()),
        }
    }
}

fn key(id: &str) -> String {
    format!("todo {id}")
}

/// Takes the first possible step and stores the others. `impossible` says why the plan does not contain
/// everything.
///
/// # Errors
/// Returns "in progress" after a step, otherwise an error of the cloud that ends the plan, or that the
/// plan ended before all steps were taken.
pub(crate) fn begin(
    context: Context<'_>,
    id: &str,
    digest: u64,
    steps: &[Step],
    impossible: Option<String>,
) -> Result<Outcome> {
    // Several Services share the tags of a load balancer, so tags that were read are not written by
    // a later call.
    let later = steps.iter().skip(1).position(is_shared);
    let later = later.map(|place| place + 1);
    let whole = later.is_none();

    let steps = steps
        .iter()
        .take(later.unwrap_or(steps.len()))
        .map(StoredStep::of)
        .collect();
    let plan = StoredPlan {
        digest,
        steps,
        whole,
        created_id: None,
        rejected: impossible.map(Rejected::Unavailable),
    };

    let outcome = advance(context, id, plan)?;
    outcome.ok_or_else(|| {
        CloudError::unavailable(format!("load balancer {id} is not changed completely yet"))
    })
}

/// Returns true if a step changes the load balancer itself.
fn is_shared(step: &Step) -> bool {
    step.path.starts_with("/lbaas/loadbalancers/")
}

/// Continues a stored plan. Returns `None` if there is none, or if it is outdated: a new one is
/// required.
///
/// # Errors
/// See [`begin`].
pub(crate) fn resume(context: Context<'_>, id: &str, digest: u64) -> Result<Option<Outcome>> {
    let stored = context
        .cloud
        .host
        .cached(&key(id))
        .and_then(|stored| serde_json::from_slice::<StoredPlan>(&stored).ok());

    match stored.filter(|plan| plan.digest == digest) {
        Some(plan) => advance(context, id, plan),
        None => Ok(None),
    }
}

fn advance(context: Context<'_>, id: &str, plan: StoredPlan) -> Result<Option<Outcome>> {
    let Context { cloud, service, .. } = context;
    let StoredPlan {
        digest,
        steps,
        whole,
        created_id,
        mut rejected,
    } = plan;

    // It is stored again only after a step. A plan that fails is outdated.
    cloud.host.uncache(&key(id));

    let mut steps = steps.into_iter();
    let mut was_rejected = false;
    while let Some(step) = steps.next().and_then(StoredStep::step) {
        if step.follows && was_rejected {
            continue;
        }
        was_rejected = false;

        let Some(step) = step.with_created_id(created_id.as_deref()) else {
            return Ok(None);
        };

        match (step.take(cloud), step.optional) {
            (Err(error @ (CloudError::Invalid(_) | CloudError::Denied(_))), Some(reason)) => {
                cloud
                    .host
                    .publish(service, &Event::warning(reason, error.message().to_owned()));
            }
            (Err(error), _) => {
                // The error ends the plan if its basis may have changed. Everything depends on tags.
                let Some(this) = Rejected::of(&error).filter(|_| !is_shared(&step)) else {
                    return Err(error);
                };
                was_rejected = true;
                rejected.get_or_insert(this);
            }
            (Ok(new), _) => {
                let created_id = if step.has_parts() { new } else { created_id };
                let remaining = StoredPlan {
                    digest,
                    steps: steps.collect(),
                    whole,
                    created_id,
                    rejected,
                };
                if let Ok(remaining) = serde_json::to_vec(&remaining) {
                    cloud.host.cache(&key(id), &remaining, STORED);
                }
                return Err(in_progress(cloud, id, "is being changed"));
            }
        }
    }

    Ok(match rejected {
        Some(rejected) => Some(Outcome::Rejected(rejected.error())),
        None => whole.then_some(Outcome::Done),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};
    use skydock_sdk::types::Service;

    use super::*;
    use crate::{
        load_balancers::{desired_load_balancer::DesiredLoadBalancer, plan::step::CREATED_ID},
        testing::Script,
    };

    /// Takes an optional step that the cloud rejects, and another one.
    fn after_a_rejection(next: Step) -> (Result<Outcome>, usize) {
        let script = Script::new("");
        script.on(
            "PUT http://load-balancer/v2.0/lbaas/pools/p",
            400,
            json!({"faultstring": "unknown method"}),
        );
        let optional = Step {
            optional: Some(OPTIONAL),
            ..Step::update("pool", "p", Map::new())
        };
        let context = Context {
            cloud: &script.cloud(),
            service: &Service::default(),
            desired: &DesiredLoadBalancer::default(),
        };
        let answer = begin(context, "lb", 0, &[optional, next], None);
        (answer, script.requested().len())
    }

    #[test]
    fn a_plan_is_not_done_while_steps_are_left() {
        let tag = Step::update("loadbalancer", "lb", Map::new());
        let (answer, requests) = after_a_rejection(tag);
        assert!(
            matches!(answer, Err(CloudError::Unavailable(_))),
            "{answer:?}"
        );
        assert_eq!(requests, 1);

        let created = Step::delete("pool", CREATED_ID);
        let (answer, _) = after_a_rejection(created);
        assert!(
            matches!(answer, Err(CloudError::Unavailable(_))),
            "{answer:?}"
        );
    }
}
