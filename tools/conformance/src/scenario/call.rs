//! Calls as controllers make them, and what follows from their answers.

use serde_json::{Value, json};
use skydock_cloud::{Answer, CloudError, CloudProvider, Function};

use super::{
    file::{ErrorCase, Expect, Step},
    matching::{Order, difference},
    world::World,
};
use crate::harness::answer::{Part, parts};

/// How a call ended.
pub(crate) struct Answered {
    answer: Result<Value, CloudError>,
    /// Errors of elements that any call can have.
    failed: Vec<CloudError>,
    /// Cases of all errors of elements.
    cases: Vec<ErrorCase>,
    /// Whether it is a list of what exists, whose order does not count.
    is_list: bool,
}

impl Answered {
    fn new(function: Function, answer: Result<Answer, CloudError>) -> Self {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                return Self {
                    answer: Err(error),
                    failed: Vec::new(),
                    cases: Vec::new(),
                    is_list: false,
                };
            }
        };

        let is_list = matches!(
            function,
            Function::ListRoutes | Function::ListVolumes | Function::ListSnapshots
        );
        let parts = parts(&answer);
        let case = |part: &Result<&dyn Part, &CloudError>| match part {
            Ok(part) => part.refusal().map(ErrorCase::of_element),
            Err(error) => Some(ErrorCase::of(error)),
        };
        let cases = parts.iter().filter_map(case).collect();
        let failed = parts.iter().filter_map(|it| it.err().cloned()).collect();
        let mut values = parts
            .into_iter()
            .map(|it| it.map_or_else(error, Part::json));
        let answer = if function.answers_each() {
            values.collect()
        } else {
            values.next().unwrap_or_default()
        };

        Self {
            answer: Ok(answer),
            failed,
            cases,
            is_list,
        }
    }

    /// Returns the error of the call, or the first of an element.
    pub(crate) fn error(&self) -> Option<&CloudError> {
        self.answer.as_ref().err().or(self.failed.first())
    }

    /// Returns what was expected and what was seen, if they differ.
    pub(super) fn judge(&self, expect: &Expect) -> Option<(String, String)> {
        let is_expected = match (&self.answer, expect.error) {
            (Err(error), Some(case)) => ErrorCase::of(error) == case,
            // A function that answers for each element has no error of its own.
            (Ok(_), Some(case)) => {
                !self.cases.is_empty() && self.cases.iter().all(|it| *it == case)
            }
            (Ok(_), None) => self.cases.is_empty() || expect.answer.is_some(),
            (Err(_), None) => false,
        };

        if !is_expected {
            let expected = expect.error.map_or_else(
                || {
                    expect
                        .answer
                        .as_ref()
                        .map_or_else(|| "success".to_owned(), Value::to_string)
                },
                |case| format!("the error {}", case.name()),
            );
            return Some((expected, self.shown()));
        }

        let (Some(expected), Ok(seen)) = (&expect.answer, &self.answer) else {
            return None;
        };

        let differs = difference(expected, seen, Order::Counts)
            .filter(|_| !self.is_list || difference(expected, seen, Order::Any).is_some());
        differs.map(|it| (expected.to_string(), format!("{it}; {}", self.shown())))
    }

    pub(super) fn shown(&self) -> String {
        match &self.answer {
            Ok(Value::Null) => "success".to_owned(),
            Ok(value) => value.to_string(),
            Err(error) => error.to_string(),
        }
    }
}

/// Returns the error of an element.
fn error(error: &CloudError) -> Value {
    json!({"error": ErrorCase::of(error).name(), "message": error.to_string()})
}

/// Makes the call of a step. With `writes`, the cluster changes as controllers change it after the
/// answer.
///
/// # Errors
/// A sentence, if the call cannot be made.
pub(crate) async fn make(
    cloud: &dyn CloudProvider,
    world: &World,
    function: Function,
    step: &Step,
    writes: bool,
) -> Result<Answered, String> {
    let arguments = world.arguments(function, step)?;
    let answer = function.with(&arguments).make(cloud).await;

    if let Some(answer) = answer.as_ref().ok().filter(|_| writes) {
        world.write(&arguments, answer);
    }
    Ok(Answered::new(function, answer))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use skydock_cloud::{Cluster as _, Presence, ProviderInfo, Route, Service, StorageError};

    use super::*;

    fn expect(text: &str) -> Expect {
        serde_saphyr::from_str(text).unwrap()
    }

    fn done() -> Answered {
        Answered::new(Function::EnsureDeleted, Ok(Answer::EnsureDeleted(())))
    }

    #[test]
    fn an_answer_is_success_unless_something_else_is_expected() {
        let not_found = || CloudError::NotFound("n2".into());
        let check = |answers| Answered::new(Function::Check, answers);
        let good = check(Ok(Answer::Check(vec![Ok(Presence::Running)])));
        let mixed = check(Ok(Answer::Check(vec![
            Ok(Presence::Running),
            Err(not_found()),
        ])));
        let whole = check(Err(not_found()));
        let none = done();
        for (answered, text, bad) in [
            (&good, "{}", false),
            (&good, "error: not-found", true),
            (&good, "answer: [running]", false),
            (&good, "answer: [absent]", true),
            (&mixed, "{}", true),
            (&mixed, "answer: [running, {error: not-found}]", false),
            (&mixed, "answer: [running, running]", true),
            (&mixed, "error: not-found", false),
            (&whole, "error: not-found", false),
            (&whole, "error: denied", true),
            (&whole, "answer: [running]", true),
            (&none, "{}", false),
            (&none, "answer: null", false),
            (&none, "answer: {ingress: []}", true),
        ] {
            let found = answered.judge(&expect(text));
            assert_eq!(found.is_some(), bad, "{text}: {found:?}");
        }
    }

    #[test]
    fn the_order_of_routes_does_not_count() {
        let route = |cidr: &str| Route {
            name: cidr.into(),
            target_node: None,
            target_addresses: None,
            destination_cidr: cidr.into(),
            blackhole: false,
        };
        let routes = Answer::ListRoutes(vec![route("a"), route("b")]);
        let routes = Answered::new(Function::ListRoutes, Ok(routes));
        assert_eq!(
            routes.judge(&expect(
                "answer: [{destinationCIDR: b}, {destinationCIDR: a}]"
            )),
            None
        );
        assert!(
            routes
                .judge(&expect(
                    "answer: [{destinationCIDR: b}, {destinationCIDR: c}]"
                ))
                .is_some()
        );
    }

    #[test]
    fn an_element_about_volumes_has_more_cases() {
        let in_use = || Err(StorageError::InUse("by n1".into()));
        let deleted =
            |answers| Answered::new(Function::DeleteVolumes, Ok(Answer::DeleteVolumes(answers)));
        let (mixed, all) = (
            deleted(vec![Ok(()), in_use()]),
            deleted(vec![in_use(), in_use()]),
        );
        for (answered, text, bad) in [
            (&all, "error: in-use", false),
            (&all, "error: exists", true),
            (&all, "{}", true),
            (&mixed, "error: in-use", false),
            (&mixed, "answer: [null, {error: in-use}]", false),
            (&mixed, "answer: [null, null]", true),
            (&mixed, "{}", true),
        ] {
            let found = answered.judge(&expect(text));
            assert_eq!(found.is_some(), bad, "{text}: {found:?}");
        }
        // It is not one that says when to ask again.
        assert_eq!(all.error(), None);
    }

    #[test]
    fn only_routes_are_compared_without_their_order() {
        let names = Answered {
            answer: Ok(json!(["a", "b"])),
            failed: Vec::new(),
            cases: Vec::new(),
            is_list: false,
        };
        assert!(names.judge(&expect("answer: [b, a]")).is_some());
        assert_eq!(names.judge(&expect("answer: [a, b]")), None);
    }

    #[test]
    fn what_was_seen_is_shown() {
        let denied = || CloudError::Denied("no".into());
        let done = done();
        let mixed = Answer::Check(vec![Ok(Presence::Running), Err(denied())]);
        let mixed = Answered::new(Function::Check, Ok(mixed));
        let whole = Answered::new(Function::Maintain, Err(denied()));
        assert_eq!((done.shown().as_str(), done.error()), ("success", None));
        assert!(
            mixed.shown().starts_with("[\"running\","),
            "{}",
            mixed.shown()
        );
        assert_eq!(
            (mixed.error(), whole.error()),
            (Some(&denied()), Some(&denied()))
        );
        assert_eq!(whole.shown(), denied().to_string());
    }

    /// A cloud that deletes load balancers, or fails to.
    struct Deleting(Result<(), CloudError>);

    #[async_trait::async_trait]
    impl CloudProvider for Deleting {
        fn info(&self) -> Arc<ProviderInfo> {
            unreachable!("not asked")
        }

        async fn ensure_load_balancer_deleted(&self, _: &Service) -> Result<(), CloudError> {
            self.0.clone()
        }
    }

    #[tokio::test]
    async fn a_service_is_gone_after_its_load_balancer_was_deleted() {
        let step: Step =
            serde_saphyr::from_str("{call: load-balancers.ensure-deleted, service: web}").unwrap();
        for (result, writes, gone) in [
            (Ok(()), true, true),
            (Ok(()), false, false),
            (Err(CloudError::Denied("no".into())), true, false),
        ] {
            let world = World::default();
            world.give(
                &serde_saphyr::from_str("services: [{name: web, ports: [{port: 80}]}]").unwrap(),
            );

            let answered = make(
                &Deleting(result.clone()),
                &world,
                Function::EnsureDeleted,
                &step,
                writes,
            )
            .await
            .unwrap();

            assert_eq!(answered.error(), result.as_ref().err());
            assert_eq!(
                world.cluster.services().is_empty(),
                gone,
                "{result:?} {writes}"
            );
        }
    }
}
