//! Calls of a plugin: back-off, tracing span, metrics, and the conversion of errors for
//! controllers.

use std::{sync::Arc, time::Instant};

use skydock_cloud::{Answers, CloudError, Function, NodeSet};
use skydock_resources::limits::Limits;
use tracing::Instrument as _;

use crate::{
    answers::Element,
    call_error::CallError,
    contract::{Guest, Page, Running},
    execution::{
        call_site::{CallSite, ElementError},
        generation::Generation,
        supervise::{Evidence, Scope},
    },
    imports::{CallAnnotations, ClusterSlot, Subject},
    metrics::PluginMetrics,
    plugin::Plugin,
};

/// What a call about a Service's load balancer gets.
pub(super) struct BalancerCall<'a> {
    pub(super) subject: Subject,
    /// UID of the Service.
    pub(super) uid: &'a str,
    pub(super) nodes: &'a NodeSet,
}

/// Outcome of a call whose caller was canceled.
const CANCELED: &str = "canceled";

/// Counts a call when it ends, also if its caller was canceled.
struct CallMeter<'a> {
    metrics: &'a PluginMetrics,
    plugin: &'a str,
    function: Function,
    started: Instant,
    outcome: &'static str,
    /// Why the instance was terminated, if it was.
    terminated: Option<&'static str>,
}

impl<'a> CallMeter<'a> {
    /// Begins a call. It counts as canceled if the meter is dropped before it has ended.
    fn new(metrics: &'a PluginMetrics, plugin: &'a str, function: Function) -> Self {
        Self {
            metrics,
            plugin,
            function,
            started: Instant::now(),
            outcome: CANCELED,
            terminated: Some(CANCELED),
        }
    }

    fn ended<T>(&mut self, answer: &Result<T, CallError>) {
        self.outcome = answer.as_ref().map_or_else(CallError::kind, |_| "ok");
        self.terminated = answer
            .as_ref()
            .err()
            .filter(|error| error.ends_instance())
            .map(CallError::kind);

        if let Err(CallError::BadAnswer(_) | CallError::Unreadable(_)) = answer {
            self.metrics.bad_answers(self.plugin, self.function, 1);
        }
    }
}

impl Drop for CallMeter<'_> {
    fn drop(&mut self) {
        self.metrics.call(
            self.plugin,
            self.function,
            self.outcome,
            self.started.elapsed(),
        );
        if let Some(kind) = self.terminated {
            self.metrics.terminated(self.plugin, kind);
        }
    }
}

/// Writes the annotations of a call when it is dropped, however the call ends.
struct WriteAnnotations<'a> {
    annotations: Option<Arc<CallAnnotations>>,
    cluster: &'a ClusterSlot,
}

impl Drop for WriteAnnotations<'_> {
    fn drop(&mut self) {
        self.annotations
            .iter()
            .for_each(|annotations| annotations.hand_over(self.cluster));
    }
}

/// Runs one call, unless calls of its capability, about Services of the same namespace, are
/// suspended after failures.
async fn supervised<'s, T: Send>(
    generation: &Generation,
    function: Function,
    subject: Subject,
    call: impl for<'a> FnOnce(Guest<'a, 's>) -> Running<'a, T> + Send,
) -> Result<T, CallError> {
    let scope = Scope {
        capability: function.capability(),
        namespace: subject.namespace(),
    };
    let admitted = generation.supervisor.admit(scope, Instant::now());
    let admitted = admitted.map_err(CallError::BackOff)?;

    let answer = generation.call(function, subject, call).await;
    admitted.ended(match &answer {
        // An error of the cloud shows that the plugin works.
        Ok(_) | Err(CallError::Cloud(_)) => Evidence::Works,
        Err(error) if error.is_plugin_failure() => Evidence::Fails,
        // For example a full queue.
        Err(_) => Evidence::Unknown,
    });

    answer
}

impl Plugin {
    /// Runs one call.
    pub(super) async fn call<'s, T: Send>(
        &self,
        function: Function,
        subject: Subject,
        call: impl for<'a> FnOnce(Guest<'a, 's>) -> Running<'a, T> + Send,
    ) -> Result<T, CloudError> {
        self.call_on(&self.current(), function, subject, call).await
    }

    /// Runs one call on this generation.
    pub(super) async fn call_on<'s, T: Send>(
        &self,
        generation: &Generation,
        function: Function,
        subject: Subject,
        call: impl for<'a> FnOnce(Guest<'a, 's>) -> Running<'a, T> + Send,
    ) -> Result<T, CloudError> {
        // Calls that only read can be repeated at any time, so they write no annotations.
        let subject = if function.only_reads() {
            subject
        } else {
            subject.with_annotations()
        };

        let _write = WriteAnnotations {
            annotations: subject.annotations.clone(),
            cluster: &self.shared.cluster,
        };

        let call_site = self.call_site(generation, function);
        let CallSite {
            plugin,
            generation: number,
            ..
        } = call_site;

        let span = tracing::debug_span!(
            "plugin_call",
            plugin,
            generation = number,
            interface = function.capability().name(),
            function = function.name()
        );

        let mut meter = CallMeter::new(&self.shared.metrics, plugin, function);
        let answer = supervised(generation, function, subject, call);
        let answer = answer.instrument(span).await;

        meter.ended(&answer);

        answer.map_err(|error| {
            if error.is_plugin_failure() {
                tracing::warn!(
                    plugin,
                    generation = number,
                    function = %function,
                    kind = error.kind(),
                    "call failed: {error}"
                );
            }
            call_site.cloud_error(error)
        })
    }

    /// Runs a call about several objects. An answer that violates the contract becomes an error in
    /// its place, and is counted.
    pub(super) async fn call_for_each<'s, T: Send, E: ElementError>(
        &self,
        function: Function,
        subject: Subject,
        call: impl for<'a> FnOnce(Guest<'a, 's>) -> Running<'a, Vec<Element<T, E>>> + Send,
    ) -> Result<Answers<T, E>, CloudError> {
        let generation = self.current();
        let elements = self.call_on(&generation, function, subject, call).await?;

        let call_site = self.call_site(&generation, function);
        let bad = elements.iter().filter(|element| element.is_err()).count();
        self.shared
            .metrics
            .bad_answers(call_site.plugin, function, bad);

        Ok(elements
            .into_iter()
            .map(|element| call_site.batch_element(element))
            .collect())
    }

    /// Runs a call for each page of a list, which has at most `limit` elements.
    pub(super) async fn all_pages<T: Send>(
        &self,
        function: Function,
        limit: impl FnOnce(&Limits) -> usize + Send,
        call: impl for<'a, 's> Fn(Guest<'a, 's>, Option<&'s str>, usize) -> Running<'a, Page<T>>
        + Send
        + Sync,
    ) -> Result<Vec<T>, CloudError> {
        let generation = self.current();
        let limit = limit(generation.limits());
        let mut all = Vec::new();
        let mut page = None::<String>;

        // A page may be empty, but an endless series of empty pages is an error.
        for _ in 0..=limit {
            let asked = page.take();
            let before = all.len();

            let answer = self.call_on(&generation, function, Subject::default(), |guest| {
                call(guest, asked.as_deref(), before)
            });
            let Page { items, next } = answer.await?;

            all.extend(items);
            match next {
                None => return Ok(all),
                // Another generation may not understand the token of the next page.
                Some(_) if self.current().info.number != generation.info.number => {
                    return Err(CloudError::Conflict(format!(
                        "the plugin was replaced during {}",
                        function.name()
                    )));
                }
                next => page = next,
            }
        }

        Err(CloudError::Internal(format!(
            "plugin {}, {function}: the list does not end",
            self.name()
        )))
    }

    /// Runs a call with the nodes of a Service's load balancer. The plugin can query the difference
    /// from the previous call.
    pub(super) async fn call_with_nodes<'s, T: Send>(
        &self,
        function: Function,
        balancer: BalancerCall<'_>,
        call: impl for<'a> FnOnce(Guest<'a, 's>) -> Running<'a, T> + Send,
    ) -> Result<T, CloudError> {
        let BalancerCall {
            subject,
            uid,
            nodes,
        } = balancer;
        let last = &self.shared.last_nodes;
        let generation = self.current();
        let number = generation.info.number;
        let subject = subject.with_nodes(nodes, last.take(uid, number));
        let answer = self.call_on(&generation, function, subject, call).await;

        if answer.is_ok() {
            last.set(uid, number, nodes);
        }
        answer
    }

    fn call_site<'a>(&'a self, generation: &'a Generation, function: Function) -> CallSite<'a> {
        CallSite {
            plugin: self.name(),
            generation: generation.info.number,
            function,
            settings: generation.settings(),
        }
    }
}
