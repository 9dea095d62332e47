//! A component in service: compiled, configured, checked, with its instances.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant as Clock},
};

use futures::future::BoxFuture;
use skydock_cloud::{Capability, ProviderInfo};
use tokio::time::{Instant, timeout, timeout_at};

use crate::{
    answers,
    call::{CallError, Function},
    code::Code,
    convert,
    error::{LoadError, LoadProblem, Stage},
    host::{Owned, Shared, Subject},
    identity::Identity,
    instance::{Blueprint, Instance},
    pool::Pool,
    source::{Digests, Settings},
    supervise::Supervisor,
    text::Cause,
};

/// What is in service, for people and programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationInfo {
    /// Counts up from 1 with each component or configuration that went into service.
    pub number: u64,
    /// SHA-256 of the component, in hexadecimal.
    pub digest: String,
    /// SHA-256 of the configuration, in hexadecimal.
    pub config_digest: Option<String>,
    /// File the component was read from.
    pub source: PathBuf,
    /// Name the plugin gives itself.
    pub name: String,
    /// Version the plugin gives itself.
    pub version: String,
    /// What it can do.
    pub capabilities: BTreeSet<Capability>,
    /// Hosts it wishes to reach.
    pub wanted_hosts: Vec<String>,
    /// What each step of loading took.
    pub stages: Vec<(Stage, Duration)>,
}

/// One generation.
pub(crate) struct Generation {
    pub(crate) info: GenerationInfo,
    pub(crate) provider: Arc<ProviderInfo>,
    pub(crate) digests: Digests,
    pub(crate) code: Arc<Code>,
    pub(crate) pool: Pool,
    pub(crate) supervisor: Supervisor,
    blueprint: Blueprint,
}

/// Notes what each step takes.
pub(crate) struct Stopwatch {
    started: Clock,
    stages: Vec<(Stage, Duration)>,
}

impl Stopwatch {
    /// From here on, after reading has taken so long.
    pub(crate) fn start(reading: Duration) -> Self {
        Self { started: Clock::now(), stages: vec![(Stage::Read, reading)] }
    }

    pub(crate) fn lap(&mut self, stage: Stage) {
        let now = Clock::now();
        self.stages.push((stage, now - self.started));
        self.started = now;
    }
}

impl Generation {
    /// Takes code and a configuration through the stages from instantiate to identity. `before`: what is in service.
    pub(crate) async fn load(
        shared: &Arc<Shared>,
        source: PathBuf,
        (code, settings, digests): (Arc<Code>, &Settings, Digests),
        mut watch: Stopwatch,
        number: u64,
        before: Option<&Self>,
    ) -> Result<Self, LoadError> {
        let capabilities = code.capabilities.clone();
        let settings = convert::settings(settings);
        let mut blueprint = Blueprint::new(code.pre.clone(), &capabilities, Arc::clone(shared), number, settings)
            .map_err(|problem| LoadError::new(Stage::Type, problem))?;

        let limit = shared.limits.read_deadline;
        let late = |_| LoadProblem::Call(CallError::Deadline(limit));
        let deadline = Instant::now() + limit;
        let mut first = timeout_at(deadline, blueprint.instantiate())
            .await
            .map_err(late)
            .flatten()
            .map_err(|problem| LoadError::new(stage_of_instance(&problem), problem))?;
        watch.lap(Stage::Instantiate);

        let configured = timeout_at(deadline, first.configure(&blueprint.settings)).await;
        configured
            .map_err(late)
            .and_then(|it| it.map_err(LoadProblem::Call))
            .and_then(|it| it.map_err(LoadProblem::Refused))
            .map_err(|problem| LoadError::new(Stage::Configure, problem))?;
        watch.lap(Stage::Configure);

        let said = timeout_at(deadline, first.info()).await;
        let answers::Introduction { provider, wanted_hosts, overlap } = said
            .map_err(late)
            .and_then(|it| it.map_err(LoadProblem::Call))
            .and_then(|it| answers::info(it, capabilities).map_err(LoadProblem::Info))
            .map_err(|problem| LoadError::new(Stage::Info, problem))?;
        watch.lap(Stage::Info);

        if let Some(before) = before {
            let identity = identity(&provider, &code, &digests.component, &wanted_hosts);
            let may = identity.may_follow(&before.identity(), &shared.grants);
            may.map_err(|problem| LoadError::new(Stage::Identity, problem))?;
        }
        watch.lap(Stage::Identity);

        let owned = Arc::new(Owned {
            provider_ids: provider.provider_id_prefixes.clone(),
            annotations: provider.annotation_prefixes.clone(),
        });
        first.store.data_mut().owned = Arc::clone(&owned);
        blueprint.owned = owned;
        let pool = Pool::new(Arc::clone(shared), &provider.capabilities, shared.overlap.unwrap_or(overlap));
        pool.put_first(first, &provider.capabilities);
        let info = GenerationInfo {
            number,
            digest: digests.component.clone(),
            config_digest: digests.config.clone(),
            source,
            name: provider.name.clone(),
            version: provider.version.clone(),
            capabilities: provider.capabilities.clone(),
            wanted_hosts,
            stages: watch.stages,
        };
        let supervisor = Supervisor::default();
        Ok(Self { info, provider: Arc::new(provider), digests, code, pool, supervisor, blueprint })
    }

    fn identity(&self) -> Identity<'_> {
        identity(&self.provider, &self.code, &self.digests.component, &self.info.wanted_hosts)
    }

    /// Runs one call on an instance of its own. Its clock starts when it has one; waiting for it, and making it, have their own.
    ///
    /// Dropping the future drops the instance with it.
    pub(crate) async fn call<W>(
        &self,
        function: Function,
        subject: Subject,
        call: impl for<'a> FnOnce(&'a mut Instance) -> BoxFuture<'a, wasmtime::Result<W>>,
    ) -> Result<W, CallError> {
        if !self.provider.can(function.capability) {
            return Err(CallError::Unsupported);
        }
        let limits = &self.blueprint.shared.limits;
        let queue = limits.queue_deadline;
        let waiting = timeout(queue, self.pool.acquire(function.capability));
        let mut slot = waiting.await.map_err(|_| CallError::TooBusy(queue))?;
        let instance = match slot.warm() {
            Some(warm) => warm,
            None => within(limits.read_deadline, self.start()).await?,
        };
        let mut lease = slot.lease(instance);
        let Some(instance) = lease.instance() else { return Err(CallError::Unsupported) };
        let limit = function.deadline(limits);
        let answer = within(limit, instance.run(subject, Instant::now() + limit, call)).await;
        if answer.is_ok() {
            lease.give_back();
        }
        answer
    }

    /// A further instance: made, configured and asked who it is, in the contract's order.
    async fn start(&self) -> Result<Instance, CallError> {
        let mut instance = self.blueprint.instantiate().await.map_err(|problem| match problem {
            LoadProblem::Call(error) => error,
            // The first instance of this very component had the right types.
            other => CallError::Instantiate(Cause::of(other)),
        })?;
        instance.configure(&self.blueprint.settings).await?.map_err(CallError::Refused)?;
        instance.info().await?;
        Ok(instance)
    }
}

/// The answer, if it comes in time.
async fn within<W>(limit: Duration, answer: impl Future<Output = Result<W, CallError>>) -> Result<W, CallError> {
    timeout(limit, answer).await.map_err(|_| CallError::Deadline(limit)).flatten()
}

/// A function of the wrong type shows when the instance is made, but it is not the instance's fault.
fn stage_of_instance(problem: &LoadProblem) -> Stage {
    if matches!(problem, LoadProblem::WrongType { .. }) { Stage::Type } else { Stage::Instantiate }
}

fn identity<'a>(
    provider: &'a ProviderInfo,
    code: &'a Code,
    digest: &'a str,
    wanted_hosts: &'a [String],
) -> Identity<'a> {
    Identity {
        name: &provider.name,
        exports: &code.capabilities,
        digest,
        imports: &code.imports,
        hosts: wanted_hosts,
        provider_ids: &provider.provider_id_prefixes,
        annotations: &provider.annotation_prefixes,
    }
}
