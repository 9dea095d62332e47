//! A loaded plugin whose calls are observed.

use std::{
    future::Future,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use prometheus_client::registry::Registry;
use skydock_cloud::{
    Answers, CloudError, CloudProvider as _, LoadBalancerStatus, NewRoute, Node, NodeSet,
    ProviderInfo, Route, Service,
};
use skydock_egress::{EgressMetrics, Gateway, Settings, Surroundings};
use skydock_sandbox::{
    ClusterSlot, LoadError, Plugin, PluginSource, Runtime, RuntimeOptions, WayOut, WithheldRule,
};

use crate::{
    KitError, judge,
    stand::{
        meter::{Meter, Reading},
        observation::{Element, Observation, Value},
        stage::Stage,
    },
};

/// A gateway that denies each request.
#[derive(Debug)]
struct NoWayOut(Arc<Gateway>);

impl WayOut for NoWayOut {
    fn gateway(&self, _: &str) -> Arc<Gateway> {
        Arc::clone(&self.0)
    }

    fn withheld(&self, _: &str) -> Vec<WithheldRule> {
        Vec::new()
    }

    fn is_api_server(&self, _: IpAddr) -> bool {
        false
    }

    fn translated(&self, address: IpAddr) -> IpAddr {
        address
    }
}

/// Returns gateways that deny each request, whose metrics are in the registry.
///
/// # Errors
/// [`KitError::Gateway`].
pub(crate) fn no_way_out(
    plugin: &str,
    registry: &mut Registry,
) -> Result<Arc<dyn WayOut>, KitError> {
    let surroundings = Surroundings {
        metrics: EgressMetrics::register(registry),
        ..Surroundings::default()
    };
    let gateway = Gateway::new(plugin, &Settings::default(), surroundings);
    Ok(Arc::new(NoWayOut(Arc::new(
        gateway.map_err(|error| KitError::Gateway(error.to_string()))?,
    ))))
}

/// A plugin in service.
pub(crate) struct Scene {
    pub(crate) plugin: Arc<Plugin>,
    meter: Arc<Meter>,
    slot: ClusterSlot,
    /// Number of calls that have exceeded their time.
    late: AtomicUsize,
}

/// Number of calls that may exceed their time. Each may take two minutes, and there are many.
const LATE: usize = 2;

/// A call, its name and what it was called with.
type Name = (&'static str, &'static str);

impl Scene {
    /// Loads the plugin; the outer error is not the plugin's.
    pub(crate) async fn load(
        options: RuntimeOptions,
        source: PluginSource,
    ) -> Result<Result<Self, LoadError>, KitError> {
        let mut registry = Registry::default();
        let way_out = no_way_out(&source.name, &mut registry)?;
        let meter = Arc::new(Meter::new(registry));
        let runtime = Runtime::new(RuntimeOptions {
            metrics: meter.plugin.clone(),
            ..options
        })?;

        Ok(Self::open(
            &runtime,
            meter,
            PluginSource {
                way_out: Some(way_out),
                ..source
            },
        )
        .await)
    }

    /// Loads the plugin in a runtime whose metrics are in `meter`.
    pub(crate) async fn open(
        runtime: &Runtime,
        meter: Arc<Meter>,
        source: PluginSource,
    ) -> Result<Self, LoadError> {
        let slot = ClusterSlot::default();
        let plugin = Plugin::load(runtime, source, slot.clone()).await?;
        Ok(Self {
            plugin,
            meter,
            slot,
            late: AtomicUsize::new(0),
        })
    }

    pub(crate) fn info(&self) -> Arc<ProviderInfo> {
        self.plugin.info()
    }

    /// Returns everything that the plugin has said of itself.
    pub(crate) fn introduction(&self) -> String {
        let info = self.info();
        format!(
            "{info:?}, wanted hosts {:?}",
            self.plugin.generation().accepted.hosts
        )
    }

    pub(crate) fn show(&self, stage: Arc<Stage>) {
        self.slot.set(stage);
    }

    pub(crate) fn reading(&self) -> Reading {
        self.meter.read()
    }

    async fn observe<T>(
        &self,
        (function, with): Name,
        questions: usize,
        call: impl Future<Output = Result<T, CloudError>>,
        elements: impl FnOnce(T) -> Vec<Element>,
    ) -> Observation {
        if self.late.load(Ordering::Relaxed) >= LATE {
            return Observation::uncalled(function, with, questions);
        }

        // The metrics are read before the clock starts and after it stops, as that takes time, too.
        let before = self.meter.read();
        let started = Instant::now();
        let answer = call.await.map(elements);
        let took = started.elapsed();
        let after = self.meter.read();

        let is_late = after
            .ended_since(&before)
            .iter()
            .any(|kind| judge::is_late(kind));
        self.late.fetch_add(usize::from(is_late), Ordering::Relaxed);

        Observation {
            function,
            with,
            answer,
            questions,
            ended: after.ended_since(&before),
            rejected: after.rejected - before.rejected,
            denied: after.denied - before.denied,
            took,
            cpu: Duration::from_micros(after.cpu.saturating_sub(before.cpu)),
        }
    }

    pub(crate) async fn check(&self, with: &'static str, nodes: &[Arc<Node>]) -> Observation {
        let elements = |answers| each(answers, Value::presence);
        self.observe(
            ("instances.check", with),
            nodes.len(),
            self.plugin.check(nodes),
            elements,
        )
        .await
    }

    pub(crate) async fn describe(&self, with: &'static str, nodes: &[Arc<Node>]) -> Observation {
        let elements = |answers| each(answers, Value::of);
        self.observe(
            ("instances.describe", with),
            nodes.len(),
            self.plugin.describe(nodes),
            elements,
        )
        .await
    }

    /// Returns the provider ID that a node would get.
    pub(crate) async fn provider_id(&self, node: &Arc<Node>) -> Option<String> {
        let described = self
            .plugin
            .describe(std::slice::from_ref(node))
            .await
            .ok()?;
        described.into_iter().next()?.ok()?.provider_id
    }

    pub(crate) async fn locate(&self, with: &'static str, nodes: &[Arc<Node>]) -> Observation {
        let elements = |answers| each(answers, Value::of);
        self.observe(
            ("zones.locate", with),
            nodes.len(),
            self.plugin.locate(nodes),
            elements,
        )
        .await
    }

    pub(crate) async fn get(&self, with: &'static str, service: &Service) -> Observation {
        let elements = |status: Option<LoadBalancerStatus>| {
            vec![Ok(Value {
                denies: status.is_none(),
                ..Value::of(&status)
            })]
        };
        self.observe(
            ("load-balancers.get", with),
            1,
            self.plugin.get_load_balancer(service),
            elements,
        )
        .await
    }

    /// Returns the status, too.
    pub(crate) async fn ensure(
        &self,
        with: &'static str,
        service: &Service,
        nodes: &NodeSet,
    ) -> (Observation, Option<LoadBalancerStatus>) {
        let mut kept = None;
        let elements = |status: LoadBalancerStatus| {
            let value = Value::of(&Some(&status));
            kept = Some(status);
            vec![Ok(value)]
        };

        let call = self.plugin.ensure_load_balancer(service, nodes);
        let seen = self
            .observe(("load-balancers.ensure", with), 1, call, elements)
            .await;

        (seen, kept)
    }

    pub(crate) async fn update(
        &self,
        with: &'static str,
        service: &Service,
        nodes: &NodeSet,
    ) -> Observation {
        let call = self.plugin.update_load_balancer(service, nodes);
        self.observe(("load-balancers.update-nodes", with), 1, call, |()| {
            vec![Ok(Value::of(&()))]
        })
        .await
    }

    pub(crate) async fn delete(&self, with: &'static str, service: &Service) -> Observation {
        let call = self.plugin.ensure_load_balancer_deleted(service);
        self.observe(("load-balancers.ensure-deleted", with), 1, call, |()| {
            vec![Ok(Value::of(&()))]
        })
        .await
    }

    /// Returns the routes, too.
    pub(crate) async fn list_routes(&self, with: &'static str) -> (Observation, Vec<Route>) {
        let mut kept = Vec::new();
        let elements = |routes: Vec<Route>| {
            kept.clone_from(&routes);
            vec![Ok(Value {
                denies: routes.is_empty(),
                ..Value::of(&routes)
            })]
        };

        let seen = self
            .observe(
                ("routes.list-routes", with),
                1,
                self.plugin.list_routes(),
                elements,
            )
            .await;

        (seen, kept)
    }

    pub(crate) async fn create_routes(
        &self,
        with: &'static str,
        routes: &[NewRoute],
    ) -> Observation {
        let elements = |answers| each(answers, Value::of);
        self.observe(
            ("routes.create-routes", with),
            routes.len(),
            self.plugin.create_routes(routes),
            elements,
        )
        .await
    }

    pub(crate) async fn delete_routes(&self, with: &'static str, routes: &[Route]) -> Observation {
        let elements = |answers| each(answers, Value::of);
        self.observe(
            ("routes.delete-routes", with),
            routes.len(),
            self.plugin.delete_routes(routes),
            elements,
        )
        .await
    }

    pub(crate) async fn maintain(&self) -> Observation {
        let elements = |delay| vec![Ok(Value::of(&delay))];
        self.observe(
            ("maintenance.maintain", "nothing"),
            1,
            self.plugin.maintain(),
            elements,
        )
        .await
    }
}

fn each<T>(answers: Answers<T>, value: impl Fn(&T) -> Value) -> Vec<Element> {
    answers
        .into_iter()
        .map(|answer| answer.map(|it| value(&it)))
        .collect()
}
