//! A scenario that is running.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::{join, join_all};
use skydock_cloud::{Capability, Function};
use skydock_sandbox::{LoadError, PluginSource, Reload, Runtime};
use tokio::time::sleep;

use super::{
    Context, Subject,
    call::{self, Answered},
    file::{Action, Expect, Kill, Span, Step},
    files::Files,
    hook, patience,
    world::World,
};
use crate::{
    KitError, Verdict,
    harness::{
        loaded_plugin::LoadedPlugin,
        meter::{Meter, Reading},
    },
    judge::{failed, skipped},
};

/// Time between two looks at something that is not yet as expected.
const LOOK: Duration = Duration::from_millis(250);

/// Time between two looks at the number of requests of a call that is to be killed, or during which
/// the plugin is to be replaced.
const WATCH: Duration = Duration::from_millis(2);

const HINT: &str =
    "see the log of the cloud, and the documentation of the function in the contract";

/// The plugin, its replicas and the cluster.
pub(super) struct Run<'a> {
    context: Context<'a>,
    runtime: Runtime,
    meter: Arc<Meter>,
    source: PluginSource,
    files: Files,
    world: World,
    /// The plugin in the leader, and in other replicas if calls were made at once.
    replicas: Vec<LoadedPlugin>,
}

type Problem = (String, String);

impl<'a> Run<'a> {
    pub(super) async fn start(
        context: Context<'a>,
        subject: &Subject,
        cache: &Path,
    ) -> Result<Result<Self, LoadError>, KitError> {
        let started = subject.start(cache, subject.limits.clone())?;
        let (files, source) = Files::copy(&started.source)?;
        let meter = Arc::new(started.meter);
        let world = World::default();

        // The objects of the scenario come last: they replace those of the file with the same
        // names.
        world.give(&context.file.scenarios.given);
        world.give(&context.scenario.given);

        let mut run = Self {
            context,
            runtime: started.runtime,
            meter,
            source,
            files,
            world,
            replicas: Vec::new(),
        };

        Ok(run.load().await.map(|()| run))
    }

    /// Loads the plugin, in one more replica.
    async fn load(&mut self) -> Result<(), LoadError> {
        // The future is large, as that of `reload`.
        let replica = Box::pin(LoadedPlugin::open(
            &self.runtime,
            Arc::clone(&self.meter),
            self.source.clone(),
        ))
        .await?;

        replica.set_cluster(Arc::clone(&self.world.cluster) as _);
        self.replicas.push(replica);
        Ok(())
    }

    pub(super) fn can(&self, capability: Capability) -> bool {
        self.replicas
            .first()
            .is_some_and(|replica| replica.info().can(capability))
    }

    /// Performs a step.
    ///
    /// # Errors
    /// [`KitError`], if a file cannot be written.
    pub(super) async fn perform(&mut self, step: &Step) -> Result<Verdict, KitError> {
        let Some(action) = step.action() else {
            return Ok(skipped("the step does nothing"));
        };

        let ended = match action {
            Action::Call(function) => return Box::pin(self.call(function, step)).await,
            Action::Http(_) | Action::Run(_) => self.look(action, step).await,
            Action::Given(given) => {
                self.world.give(given);
                Ok(())
            }
            Action::Wait(Span(time)) => {
                sleep(time).await;
                Ok(())
            }
            Action::Swap => {
                self.files.change()?;
                self.reload().await
            }
            Action::Restart => self.restart().await,
        };

        Ok(self.verdict(ended))
    }

    /// Returns the verdict without secrets.
    fn verdict(&self, ended: Result<(), Problem>) -> Verdict {
        let redact = |text: &str| self.context.variables.redact(text);
        ended.map_or_else(
            |(expected, seen)| failed(&redact(&expected), redact(&seen), HINT),
            |()| Verdict::Ok,
        )
    }

    async fn reload(&self) -> Result<(), Problem> {
        let expected = || "a new generation in service".to_owned();
        let Some(replica) = self.replicas.first() else {
            return Ok(());
        };

        match Box::pin(replica.inner.reload()).await {
            Ok(Reload::Swapped(_)) => Ok(()),
            Ok(Reload::Unchanged) => Err((expected(), "the files have not changed".to_owned())),
            Err(error) => Err((expected(), error.to_string())),
        }
    }

    async fn restart(&mut self) -> Result<(), Problem> {
        self.replicas.clear();
        self.load().await.map_err(|error| {
            (
                "a plugin that is loaded again".to_owned(),
                error.to_string(),
            )
        })
    }

    /// Looks at the vendor's cloud until all is as expected, or time is over.
    async fn look(&self, action: Action<'_>, step: &Step) -> Result<(), Problem> {
        let begun = Instant::now();
        let within = step.within.map_or(Duration::ZERO, |Span(time)| time);

        loop {
            let problem = match self.seen(action, step).await {
                Ok(None) => return Ok(()),
                Ok(Some(problem)) => problem,
                Err(sentence) => ("an answer".to_owned(), sentence),
            };

            if begun.elapsed() + LOOK > within {
                return Err(problem);
            }
            sleep(LOOK).await;
        }
    }

    async fn seen(&self, action: Action<'_>, step: &Step) -> Result<Option<Problem>, String> {
        let variables = self.context.variables;
        let expect = &step.expect;

        Ok(match action {
            Action::Http(http) => {
                hook::judge_answer(&hook::request(http, variables).await?, expect, variables)
            }
            Action::Run(argv) => {
                let folder = self.context.file.path.parent().unwrap_or(Path::new(""));
                let given = step
                    .input
                    .as_ref()
                    .map(|input| variables.expand_all(input))
                    .transpose()?;
                let (nodes, services) = self.world.shown();
                let input = hook::input(
                    &self.context.scenario.name,
                    given.as_ref(),
                    &nodes,
                    &services,
                );

                hook::judge_program(
                    &hook::run(argv, &input, folder, variables).await?,
                    expect,
                    variables,
                )
            }
            _ => None,
        })
    }

    async fn call(&mut self, function: Function, step: &Step) -> Result<Verdict, KitError> {
        if let Some(kill) = step.kill {
            return Ok(self.killed(function, step, kill).await);
        }
        if step.swap {
            // Before the call, so that only the reload happens while it waits.
            self.files.change()?;
            return Ok(self.call_and_swap(function, step).await);
        }

        let at_once = step.at_once.unwrap_or(1) as usize;
        while self.replicas.len() < at_once {
            if let Err(error) = self.load().await {
                return Ok(self.verdict(Err(("a replica".to_owned(), error.to_string()))));
            }
        }

        let mut ended = Ok(());
        for _ in 0..step.times.unwrap_or(1) {
            let calls = self
                .replicas
                .iter()
                .take(at_once)
                .map(|replica| self.attempts(replica, function, step));
            ended = join_all(calls).await.into_iter().collect();

            if ended.is_err() {
                break;
            }
        }

        if ended.is_ok() && step.answer_lost {
            ended = self.restart().await;
        }
        Ok(self.verdict(ended))
    }

    /// Makes a call, and repeats it as controllers do until it is as expected, or time is over.
    async fn attempts(
        &self,
        replica: &LoadedPlugin,
        function: Function,
        step: &Step,
    ) -> Result<(), Problem> {
        let begun = Instant::now();
        let within = step.within.map_or(Duration::ZERO, |Span(time)| time);

        let mut failures = 0;
        loop {
            let before = self.meter.read();
            // An answer that is lost is not written to the cluster.
            let made = call::make(
                &*replica.inner,
                &self.world,
                function,
                step,
                !step.answer_lost,
            )
            .await;
            let answered = made.map_err(|sentence| ("a call".to_owned(), sentence))?;

            let after = self.meter.read();
            let Some(problem) = judged(&answered, &step.expect, &before, &after) else {
                return Ok(());
            };

            let delay = match answered.error() {
                Some(error) => patience::delay(error, failures),
                // The next check may find something else.
                None => Some(LOOK),
            };

            failures += 1;
            let Some(delay) = delay.filter(|delay| begun.elapsed() + *delay <= within) else {
                let (expected, seen) = problem;
                let tried = if failures > 1 {
                    format!(", after {failures} calls")
                } else {
                    String::new()
                };
                return Err((expected, seen + &tried));
            };

            sleep(delay).await;
        }
    }

    /// Makes a call and drops it in the middle, which ends its instance.
    async fn killed(&self, function: Function, step: &Step, kill: Kill) -> Verdict {
        let Some(replica) = self.replicas.first() else {
            return skipped("the plugin is not loaded");
        };
        let begun = Instant::now();
        let before = self.meter.read();

        let is_time = || {
            let answered = || {
                self.meter
                    .read()
                    .requests_since(&before)
                    .values()
                    .sum::<u64>()
            };

            kill.after.is_some_and(|Span(time)| begun.elapsed() >= time)
                || kill.requests.is_some_and(|requests| answered() >= requests)
        };

        tokio::select! {
            answered = call::make(&*replica.inner, &self.world, function, step, false) => {
                let ended = answered.map_or_else(|sentence| sentence, |it| it.shown());
                skipped(format!("the call ended before it was killed: {}", self.context.variables.redact(&ended)))
            }
            () = until(is_time) => Verdict::Ok,
        }
    }

    /// Makes a call, and replaces the plugin while it waits for the answer to its first request.
    async fn call_and_swap(&self, function: Function, step: &Step) -> Verdict {
        let Some(replica) = self.replicas.first() else {
            return skipped("the plugin is not loaded");
        };

        let before = self.meter.read();
        let is_asked = || {
            let now = self.meter.read();
            now.in_flight > before.in_flight || !now.requests_since(&before).is_empty()
        };

        let replaced = async {
            // A call without a request ends long before.
            let _ = tokio::time::timeout(Duration::from_secs(10), until(is_asked)).await;
            self.reload().await.map(|()| Instant::now())
        };
        let called = async { (self.attempts(replica, function, step).await, Instant::now()) };

        let (replaced, (called, ended)) = join(replaced, called).await;
        match replaced {
            Err(problem) => self.verdict(Err(problem)),
            Ok(at) if called.is_ok() && at > ended => skipped(
                "the call ended before the plugin was replaced: let the cloud answer more slowly",
            ),
            Ok(_) => self.verdict(called),
        }
    }
}

async fn until(mut is_true: impl FnMut() -> bool) {
    while !is_true() {
        sleep(WATCH).await;
    }
}

/// Returns what was expected of a call and what was seen, if they differ.
fn judged(
    answered: &Answered,
    expect: &Expect,
    before: &Reading,
    after: &Reading,
) -> Option<Problem> {
    if let Some((expected, seen)) = answered.judge(expect) {
        let denied = after.denied - before.denied;
        let more = if denied > 0 {
            format!("; {denied} requests were denied by the egress rules")
        } else {
            String::new()
        };
        return Some((expected, seen + &more));
    }

    let sent = after.requests_since(before);
    exceeded(&expect.max_requests, &sent).map(|it| (it, format!("requests by method: {sent:?}")))
}

fn exceeded(limits: &BTreeMap<String, u64>, sent: &BTreeMap<String, u64>) -> Option<String> {
    let of = |method: &str| match method {
        "all" => sent.values().sum(),
        method => sent.get(method).copied().unwrap_or_default(),
    };
    let over = limits.iter().find(|(method, limit)| of(method) > **limit);
    over.map(|(method, limit)| format!("at most {limit} requests ({method}) a call"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_limited_by_method_or_together() {
        let map = |pairs: &[(&str, u64)]| {
            pairs
                .iter()
                .map(|(key, count)| ((*key).to_owned(), *count))
                .collect()
        };
        let sent = map(&[("GET", 2), ("POST", 1)]);
        for (limits, expected) in [
            (map(&[("all", 3), ("GET", 2), ("PUT", 0)]), None),
            (map(&[("all", 2)]), Some("at most 2 requests (all) a call")),
            (
                map(&[("POST", 0)]),
                Some("at most 0 requests (POST) a call"),
            ),
        ] {
            assert_eq!(exceeded(&limits, &sent).as_deref(), expected);
        }
    }
}
