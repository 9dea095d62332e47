//! Calls as controllers make them, and what follows from their answers.

use serde_json::Value;
use skydock_cloud::{Answers, CloudError, CloudProvider};

use super::{
    answer,
    file::{ErrorCase, Expect, Function, Step},
    matching::{Order, difference},
    world::World,
};

/// How a call ended.
pub(crate) struct Answered {
    answer: Result<Value, CloudError>,
    /// Errors of elements.
    failed: Vec<CloudError>,
}

impl Answered {
    fn one<T>(answer: Result<T, CloudError>, value: impl FnOnce(&T) -> Value) -> Self {
        Self {
            answer: answer.map(|it| value(&it)),
            failed: Vec::new(),
        }
    }

    fn each<T>(answers: Result<Answers<T>, CloudError>, value: impl Fn(&T) -> Value) -> Self {
        let failed = answers
            .iter()
            .flatten()
            .filter_map(|it| it.as_ref().err().cloned())
            .collect();
        Self {
            answer: answers.map(|it| answer::each(&it, value)),
            failed,
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
                !self.failed.is_empty() && self.failed.iter().all(|it| ErrorCase::of(it) == case)
            }
            (Ok(_), None) => self.failed.is_empty() || expect.answer.is_some(),
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

        // The order of a list of routes does not count; that of nodes and of addresses does.
        let differs = difference(expected, seen, Order::Counts).filter(|_| {
            !self.is_list_of_routes() || difference(expected, seen, Order::Any).is_some()
        });
        differs.map(|it| (expected.to_string(), format!("{it}; {}", self.shown())))
    }

    fn is_list_of_routes(&self) -> bool {
        let is_route = |it: &Value| it.get("destinationCIDR").is_some();
        self.answer
            .as_ref()
            .is_ok_and(|it| it.as_array().is_some_and(|all| all.iter().any(is_route)))
    }

    pub(super) fn shown(&self) -> String {
        match &self.answer {
            Ok(Value::Null) => "success".to_owned(),
            Ok(value) => value.to_string(),
            Err(error) => error.to_string(),
        }
    }
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
    let names = step.nodes.as_deref();
    let service = step.service.as_deref().unwrap_or_default();

    let object = |deleting| {
        world
            .service(service, deleting)
            .ok_or_else(|| format!("unknown Service `{service}`"))
    };

    Ok(match function {
        Function::Check => Answered::each(cloud.check(&world.nodes(names)).await, answer::presence),
        Function::Locate => Answered::each(cloud.locate(&world.nodes(names)).await, answer::zone),
        Function::Describe => {
            let nodes = world.nodes(names);
            let answers = cloud.describe(&nodes).await;

            for (node, described) in nodes.iter().zip(answers.iter().flatten()) {
                if let Some(instance) = described.as_ref().ok().filter(|_| writes) {
                    world.described(&node.name, instance);
                }
            }

            Answered::each(answers, answer::instance)
        }
        Function::Get => Answered::one(cloud.get_load_balancer(&object(None)?).await, |status| {
            status.as_ref().map_or(Value::Null, answer::status)
        }),
        Function::Ensure => {
            let answer = cloud
                .ensure_load_balancer(&object(Some(false))?, &world.targets(names))
                .await;
            if let Some(status) = answer.as_ref().ok().filter(|_| writes) {
                world.ensured(service, status);
            }
            Answered::one(answer, answer::status)
        }
        Function::UpdateNodes => {
            let answer = cloud
                .update_load_balancer(&object(None)?, &world.targets(names))
                .await;
            Answered::one(answer, |()| Value::Null)
        }
        Function::EnsureDeleted => {
            let answer = cloud
                .ensure_load_balancer_deleted(&object(Some(true))?)
                .await;
            if answer.is_ok() && writes {
                world.deleted(service);
            }

            Answered::one(answer, |()| Value::Null)
        }
        Function::ListRoutes => {
            let answer = cloud.list_routes().await;
            if let Some(routes) = answer.as_ref().ok().filter(|_| writes) {
                world.listed(routes);
            }
            Answered::one(answer, |routes| routes.iter().map(answer::route).collect())
        }
        Function::CreateRoutes => {
            Answered::each(cloud.create_routes(&world.new_routes(names)).await, |()| {
                Value::Null
            })
        }
        Function::DeleteRoutes => {
            let routes = world
                .routes(names)
                .ok_or("no routes were listed: call routes.list-routes first")?;
            Answered::each(cloud.delete_routes(&routes).await, |()| Value::Null)
        }
        Function::Maintain => {
            Answered::one(cloud.maintain().await, |delay| delay.as_secs_f64().into())
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use skydock_cloud::{Cluster as _, Presence, ProviderInfo, Route, Service};

    use super::*;

    fn expect(text: &str) -> Expect {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn an_answer_is_success_unless_something_else_is_expected() {
        let not_found = || CloudError::NotFound("n2".into());
        let good = Answered::each(Ok(vec![Ok(Presence::Running)]), answer::presence);
        let mixed = Answered::each(
            Ok(vec![Ok(Presence::Running), Err(not_found())]),
            answer::presence,
        );
        let whole = Answered::each::<Presence>(Err(not_found()), answer::presence);
        let none = Answered::one(Ok(()), |()| Value::Null);
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
        let routes = Answered::one(Ok(vec![route("a"), route("b")]), |all| {
            all.iter().map(answer::route).collect()
        });
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
    fn only_routes_are_compared_without_their_order() {
        let names = Answered::one(Ok(()), |()| serde_json::json!(["a", "b"]));
        assert!(names.judge(&expect("answer: [b, a]")).is_some());
        assert_eq!(names.judge(&expect("answer: [a, b]")), None);
    }

    #[test]
    fn what_was_seen_is_shown() {
        let denied = || CloudError::Denied("no".into());
        let done = Answered::one(Ok(()), |()| Value::Null);
        let mixed = Answered::each(
            Ok(vec![Ok(Presence::Running), Err(denied())]),
            answer::presence,
        );
        let whole = Answered::one::<()>(Err(denied()), |()| Value::Null);
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
                world.stage.services().is_empty(),
                gone,
                "{result:?} {writes}"
            );
        }
    }
}
