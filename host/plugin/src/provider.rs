//! Implementation of `CloudProvider` for a plugin.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use skydock_cloud::{
    self as cloud, Answers, CloudError, CloudProvider, LoadBalancerStatus, NewRoute, Node, NodeSet, Presence,
    ProviderInfo, Route, Service, Zone,
};
use tracing::Instrument as _;

use crate::{
    answers::{self, AnswerError},
    bindings::skydock::provider::types as wit,
    call::{CallError, Function, Place},
    convert,
    generation::Generation,
    host::{ClusterSlot, Notes, Subject, node_sets},
    instance::Instance,
    metrics::PluginMetrics,
    plugin::Plugin,
};

/// Returns the functions of an interface that the plugin exports. The caller has checked that it does.
fn exported<T>(guest: Option<&T>) -> wasmtime::Result<&T> {
    guest.ok_or_else(|| wasmtime::format_err!("the interface is not exported"))
}

/// Counts a call when it ends, also if its caller was canceled.
struct Meter<'a> {
    metrics: &'a PluginMetrics,
    plugin: &'a str,
    function: Function,
    started: Instant,
    outcome: &'static str,
    trap: Option<&'static str>,
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        self.metrics.call(self.plugin, self.function, self.outcome, self.started.elapsed());
        if let Some(kind) = self.trap {
            self.metrics.trap(self.plugin, kind);
        }
    }
}

/// Has the annotations of a call written, however the call ends.
struct Left<'a> {
    notes: Option<Arc<Notes>>,
    cluster: &'a ClusterSlot,
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.notes.iter().for_each(|notes| notes.hand_over(self.cluster));
    }
}

impl Plugin {
    /// Runs one call, including back-off, tracing span, metrics, and checking the answer, and converts its error for controllers.
    async fn call<W, T>(
        &self,
        function: Function,
        subject: Subject,
        call: impl for<'a> FnOnce(&'a mut Instance) -> BoxFuture<'a, wasmtime::Result<W>> + Send,
        check: impl FnOnce(W, &ProviderInfo, Place<'_>) -> Result<T, CallError> + Send,
    ) -> Result<T, CloudError>
    where
        W: Send,
        T: Send,
    {
        self.call_on(&self.current(), function, subject, call, check).await
    }

    async fn call_on<W, T>(
        &self,
        generation: &Generation,
        function: Function,
        subject: Subject,
        call: impl for<'a> FnOnce(&'a mut Instance) -> BoxFuture<'a, wasmtime::Result<W>> + Send,
        check: impl FnOnce(W, &ProviderInfo, Place<'_>) -> Result<T, CallError> + Send,
    ) -> Result<T, CloudError>
    where
        W: Send,
        T: Send,
    {
        let subject = if function.writes { subject.with_notes() } else { subject };
        let _left = Left { notes: subject.notes.clone(), cluster: &self.shared.cluster };
        let plugin = self.name();
        let place = Place { plugin, generation: generation.info.number, function };
        let span = tracing::debug_span!(
            "plugin_call",
            plugin,
            generation = place.generation,
            interface = function.capability.name(),
            function = function.name
        );
        let mut meter = Meter {
            metrics: &self.shared.metrics,
            plugin,
            function,
            started: Instant::now(),
            outcome: "cancelled",
            trap: Some("cancelled"),
        };
        let answer = async {
            let supervisor = &generation.supervisor;
            let attempt = supervisor.admit(function.capability, Instant::now()).map_err(CallError::BackOff)?;
            let answer = generation.call(function, subject, call).await;
            let answer = answer.and_then(|answer| check(answer, &generation.provider, place));
            attempt.ended(match &answer {
                Ok(_) | Err(CallError::Cloud(_)) => Some(false),
                Err(error) if error.is_plugin_failure() => Some(true),
                Err(_) => None,
            });
            answer
        };
        let answer = answer.instrument(span).await;
        meter.outcome = answer.as_ref().map_or_else(CallError::kind, |_| "ok");
        meter.trap = answer.as_ref().err().filter(|error| error.ends_instance()).map(CallError::kind);
        answer.map_err(|error| {
            if error.is_plugin_failure() {
                tracing::warn!(
                    plugin,
                    generation = place.generation,
                    function = %function,
                    kind = error.kind(),
                    "call failed: {error}"
                );
            }
            place.cloud_error(error)
        })
    }

    /// Runs a call with the nodes of a Service's load balancer. The plugin can query the difference from the previous call.
    async fn call_with_nodes<W, T>(
        &self,
        function: Function,
        (subject, uid, nodes): (Subject, &str, &NodeSet),
        call: impl for<'a> FnOnce(&'a mut Instance) -> BoxFuture<'a, wasmtime::Result<W>> + Send,
        check: impl FnOnce(W) -> Result<T, CallError> + Send,
    ) -> Result<T, CloudError>
    where
        W: Send,
        T: Send,
    {
        let (last, generation) = (&self.shared.last_nodes, self.current());
        let number = generation.info.number;
        let subject = subject.with_nodes(nodes, last.take(uid, number));
        let answer = self.call_on(&generation, function, subject, call, |answer, _, _| check(answer)).await;
        if answer.is_ok() {
            last.set(uid, number, nodes);
        }
        answer
    }

    /// Returns the subject of a call about routes to these nodes.
    fn named<'a>(&self, names: impl Iterator<Item = &'a str>) -> Subject {
        let Some(cluster) = self.shared.cluster.get() else { return Subject::default() };
        let nodes: Vec<_> = names.filter_map(|name| cluster.node(name)).collect();
        Subject::nodes(&nodes)
    }

    /// Checks each answer of a batch separately: one that violates the contract becomes an error in its place, and is counted.
    fn batch<W, T>(
        &self,
        place: Place<'_>,
        questions: usize,
        answers: Vec<Result<W, wit::CloudError>>,
        check: impl Fn(W) -> Result<T, AnswerError>,
    ) -> Result<Answers<T>, CallError> {
        let elements = checked(answers::batch(questions, answers, check))?;
        let bad = elements.iter().filter(|element| element.is_err()).count();
        self.shared.metrics.bad_answers(place.plugin, place.function, bad);
        Ok(elements.into_iter().map(|element| place.element(element)).collect())
    }
}

/// Converts the answer of a function that may fail as a whole.
fn whole<W>(answer: Result<W, wit::CloudError>) -> Result<W, CallError> {
    answer.map_err(|error| CallError::Cloud(answers::cloud_error(error)))
}

fn checked<T>(answer: Result<T, AnswerError>) -> Result<T, CallError> {
    answer.map_err(CallError::BadAnswer)
}

fn node_records(nodes: &[Arc<Node>]) -> Vec<wit::Node> {
    nodes.iter().map(|node| convert::node(node)).collect()
}

#[async_trait]
impl CloudProvider for Plugin {
    fn info(&self) -> Arc<ProviderInfo> {
        Arc::clone(&self.current().provider)
    }

    async fn check(&self, nodes: &[Arc<Node>]) -> Result<Answers<Presence>, CloudError> {
        let records = node_records(nodes);
        self.call(
            Function::CHECK,
            Subject::nodes(nodes),
            |it| {
                Box::pin(
                    async move { exported(it.guests.instances.as_ref())?.call_check(&mut it.store, &records).await },
                )
            },
            |answer, _, place| self.batch(place, nodes.len(), whole(answer)?, |it| Ok(answers::presence(it))),
        )
        .await
    }

    async fn describe(&self, nodes: &[Arc<Node>]) -> Result<Answers<cloud::Instance>, CloudError> {
        let records = node_records(nodes);
        self.call(
            Function::DESCRIBE,
            Subject::nodes(nodes),
            |it| {
                Box::pin(
                    async move { exported(it.guests.instances.as_ref())?.call_describe(&mut it.store, &records).await },
                )
            },
            |answer, info, place| self.batch(place, nodes.len(), whole(answer)?, |it| answers::instance(it, info)),
        )
        .await
    }

    async fn get_load_balancer(&self, service: &Service) -> Result<Option<LoadBalancerStatus>, CloudError> {
        let record = convert::service(service);
        self.call(
            Function::GET,
            Subject::service(service),
            |it| {
                Box::pin(
                    async move { exported(it.guests.load_balancers.as_ref())?.call_get(&mut it.store, &record).await },
                )
            },
            |answer, _, _| {
                let status = whole(answer)?.map(|it| answers::load_balancer(it, service, &self.shared.ingress));
                checked(status.transpose())
            },
        )
        .await
    }

    async fn ensure_load_balancer(&self, service: &Service, nodes: &NodeSet) -> Result<LoadBalancerStatus, CloudError> {
        let record = convert::service(service);
        self.call_with_nodes(
            Function::ENSURE,
            (Subject::service(service).ensured(), &service.uid, nodes),
            |it| {
                Box::pin(async move {
                    exported(it.guests.load_balancers.as_ref())?
                        .call_ensure(&mut it.store, &record, node_sets::lent())
                        .await
                })
            },
            |answer| checked(answers::load_balancer(whole(answer)?, service, &self.shared.ingress)),
        )
        .await
    }

    async fn update_load_balancer(&self, service: &Service, nodes: &NodeSet) -> Result<(), CloudError> {
        let record = convert::service(service);
        self.call_with_nodes(
            Function::UPDATE_NODES,
            (Subject::service(service), &service.uid, nodes),
            |it| {
                Box::pin(async move {
                    exported(it.guests.load_balancers.as_ref())?
                        .call_update_nodes(&mut it.store, &record, node_sets::lent())
                        .await
                })
            },
            whole,
        )
        .await
    }

    async fn ensure_load_balancer_deleted(&self, service: &Service) -> Result<(), CloudError> {
        self.shared.last_nodes.take(&service.uid, 0);
        let record = convert::service(service);
        self.call(
            Function::ENSURE_DELETED,
            Subject::service(service),
            |it| {
                Box::pin(async move {
                    exported(it.guests.load_balancers.as_ref())?.call_ensure_deleted(&mut it.store, &record).await
                })
            },
            |answer, _, _| whole(answer),
        )
        .await
    }

    fn max_routes(&self) -> Option<usize> {
        Some(self.shared.limits.routes)
    }

    async fn list_routes(&self) -> Result<Vec<Route>, CloudError> {
        let (limit, generation) = (self.shared.limits.routes, self.current());
        let (mut routes, mut page) = (Vec::new(), None);
        // A page may be empty, but an endless series of empty pages is an error.
        for _ in 0..=limit {
            let (asked, before) = (page.take(), routes.len());
            let (more, next) = self
                .call_on(
                    &generation,
                    Function::LIST_ROUTES,
                    Subject::default(),
                    |it| {
                        Box::pin(async move {
                            exported(it.guests.routes.as_ref())?.call_list_routes(&mut it.store, asked.as_deref()).await
                        })
                    },
                    |answer, _, _| checked(answers::route_page(whole(answer)?, before, limit)),
                )
                .await?;
            routes.extend(more);
            match next {
                None => return Ok(routes),
                // Another generation may not understand the token of the next page.
                Some(_) if self.current().info.number != generation.info.number => {
                    return Err(CloudError::Conflict("the plugin was replaced during list-routes".to_owned()));
                }
                next => page = next,
            }
        }
        Err(CloudError::Internal(format!("plugin {}, routes.list-routes: the list of routes is endless", self.name())))
    }

    async fn create_routes(&self, routes: &[NewRoute]) -> Result<Answers<()>, CloudError> {
        let records: Vec<_> = routes.iter().map(convert::new_route).collect();
        self.call(
            Function::CREATE_ROUTES,
            self.named(routes.iter().map(|route| route.target_node.as_str())),
            |it| {
                Box::pin(async move {
                    exported(it.guests.routes.as_ref())?.call_create_routes(&mut it.store, &records).await
                })
            },
            |answer, _, place| self.batch(place, routes.len(), answer, Ok),
        )
        .await
    }

    async fn delete_routes(&self, routes: &[Route]) -> Result<Answers<()>, CloudError> {
        let records: Vec<_> = routes.iter().map(convert::route).collect();
        self.call(
            Function::DELETE_ROUTES,
            self.named(routes.iter().filter_map(|route| route.target_node.as_deref())),
            |it| {
                Box::pin(async move {
                    exported(it.guests.routes.as_ref())?.call_delete_routes(&mut it.store, &records).await
                })
            },
            |answer, _, place| self.batch(place, routes.len(), answer, Ok),
        )
        .await
    }

    async fn locate(&self, nodes: &[Arc<Node>]) -> Result<Answers<Zone>, CloudError> {
        let records = node_records(nodes);
        self.call(
            Function::LOCATE,
            Subject::nodes(nodes),
            |it| {
                Box::pin(async move { exported(it.guests.zones.as_ref())?.call_locate(&mut it.store, &records).await })
            },
            |answer, _, place| self.batch(place, nodes.len(), whole(answer)?, answers::zone),
        )
        .await
    }

    async fn maintain(&self) -> Result<Duration, CloudError> {
        self.call(
            Function::MAINTAIN,
            Subject::everything(),
            |it| Box::pin(async move { exported(it.guests.maintenance.as_ref())?.call_maintain(&mut it.store).await }),
            |answer, _, _| whole(answer).map(answers::pause),
        )
        .await
    }
}
