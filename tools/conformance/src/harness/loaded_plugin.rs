//! A loaded plugin whose calls are observed.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use prometheus_client::registry::Registry;
use skydock_cloud::{
    Answer, Arguments, CloudError, CloudProvider as _, Function, Node, ProviderInfo,
};
use skydock_egress::{EgressMetrics, Gateway, GatewayDependencies, Settings};
use skydock_sandbox::{
    ClusterSlot, GatewayProvider, LoadError, Plugin, PluginSource, Runtime, RuntimeOptions,
    WithheldRule,
};

use crate::{
    KitError,
    harness::{
        answer::{Part, parts},
        fake_cluster::FakeCluster,
        meter::{Meter, Reading},
        objects,
        observation::Observation,
    },
    judge,
};

/// A gateway that denies each request.
#[derive(Debug)]
struct NoEgress(Arc<Gateway>);

impl GatewayProvider for NoEgress {
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
pub(crate) fn without_egress(
    plugin: &str,
    registry: &mut Registry,
) -> Result<Arc<dyn GatewayProvider>, KitError> {
    let dependencies = GatewayDependencies {
        metrics: EgressMetrics::register(registry),
        ..GatewayDependencies::default()
    };
    let gateway = Gateway::new(plugin, &Settings::default(), dependencies);
    Ok(Arc::new(NoEgress(Arc::new(
        gateway.map_err(|error| KitError::Gateway(error.to_string()))?,
    ))))
}

/// A plugin in service, and what its calls did.
pub(crate) struct LoadedPlugin {
    pub(crate) inner: Arc<Plugin>,
    meter: Arc<Meter>,
    slot: ClusterSlot,
    /// Number of calls that have exceeded their time.
    late: AtomicUsize,
}

/// Number of calls that may exceed their time. Each may take two minutes, and there are many.
const LATE: usize = 2;

impl LoadedPlugin {
    /// Loads the plugin; the outer error is not the plugin's.
    pub(crate) async fn load(
        options: RuntimeOptions,
        source: PluginSource,
    ) -> Result<Result<Self, LoadError>, KitError> {
        let mut registry = Registry::default();
        let gateways = without_egress(&source.name, &mut registry)?;
        let meter = Arc::new(Meter::new(registry));
        let runtime = Runtime::new(RuntimeOptions {
            metrics: meter.plugin.clone(),
            ..options
        })?;

        Ok(Self::open(
            &runtime,
            meter,
            PluginSource {
                gateways: Some(gateways),
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
        let inner = Plugin::load(runtime, source, slot.clone()).await?;
        Ok(Self {
            inner,
            meter,
            slot,
            late: AtomicUsize::new(0),
        })
    }

    pub(crate) fn info(&self) -> Arc<ProviderInfo> {
        self.inner.info()
    }

    /// Returns how the plugin describes itself.
    pub(crate) fn introduction(&self) -> String {
        let info = self.info();
        format!(
            "{info:?}, wanted hosts {:?}",
            self.inner.generation().accepted.hosts
        )
    }

    /// Sets the cluster that the plugin sees.
    pub(crate) fn set_cluster(&self, cluster: Arc<FakeCluster>) {
        self.slot.set(cluster);
    }

    pub(crate) fn reading(&self) -> Reading {
        self.meter.read()
    }

    /// Calls a function; `with` says with what, in a few words.
    pub(crate) async fn call(
        &self,
        function: Function,
        with: &'static str,
        arguments: &Arguments,
    ) -> Observation {
        self.answer(function, with, arguments).await.0
    }

    /// Calls a function, and returns its answer, too.
    pub(crate) async fn answer(
        &self,
        function: Function,
        with: &'static str,
        arguments: &Arguments,
    ) -> (Observation, Option<Answer>) {
        let call = function.with(arguments);
        let questions = call.questions();
        if self.late.load(Ordering::Relaxed) >= LATE {
            return (Observation::uncalled(function, with, questions), None);
        }

        // The metrics are read before the clock starts and after it stops, as that takes time, too.
        let before = self.meter.read();
        let started = Instant::now();
        let answer = call.make(&*self.inner).await;
        let took = started.elapsed();
        let after = self.meter.read();

        let is_late = after
            .ended_since(&before)
            .iter()
            .any(|kind| judge::is_late(kind));
        self.late.fetch_add(usize::from(is_late), Ordering::Relaxed);

        let element =
            |part: Result<&dyn Part, &CloudError>| part.map(Part::value).map_err(Clone::clone);
        let elements = |answer: &Answer| parts(answer).into_iter().map(element).collect();

        let seen = Observation {
            function,
            with,
            answer: answer.as_ref().map(elements).map_err(Clone::clone),
            questions,
            ended: after.ended_since(&before),
            rejected: after.rejected - before.rejected,
            denied: after.denied - before.denied,
            took,
            cpu: Duration::from_micros(after.cpu.saturating_sub(before.cpu)),
        };
        (seen, answer.ok())
    }

    /// Calls the functions of the plugin that `which` selects, in the order of the contract. The
    /// routes to delete are those that it has created and listed, volumes and snapshots those that
    /// it has created.
    pub(crate) async fn call_all(
        &self,
        with: &'static str,
        arguments: &mut Arguments,
        which: impl Fn(Function) -> bool,
    ) -> Vec<Observation> {
        let info = self.info();
        let exported = |it: &Function| info.can(it.capability()) && which(*it);
        let mut seen = Vec::new();

        for function in Function::ALL.iter().copied().filter(exported) {
            let (observation, answer) = self.answer(function, with, arguments).await;
            seen.push(observation);
            match answer {
                Some(Answer::ListRoutes(routes)) => {
                    let ours = objects::created(routes, &arguments.new_routes);
                    arguments.routes.extend(ours);
                }
                Some(created) => {
                    let created = Some(&created);
                    arguments
                        .volume_ids
                        .extend(objects::created_volumes(created));
                    let snapshots = objects::created_snapshots(created);
                    arguments.snapshot_ids.extend(snapshots);
                }
                None => {}
            }
        }

        seen
    }

    /// Returns the provider ID that a node would get.
    pub(crate) async fn provider_id(&self, node: &Arc<Node>) -> Option<String> {
        let described = self.inner.describe(std::slice::from_ref(node)).await.ok()?;
        described.into_iter().next()?.ok()?.provider_id
    }
}
