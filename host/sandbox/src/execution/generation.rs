//! A generation: a compiled, configured and checked component with its instances.

use std::{path::PathBuf, sync::Arc};

use skydock_cloud::{Function, ProviderInfo};
use skydock_resources::{deadline::Deadline, limits::Limits};
use tokio::time::{Instant, timeout, timeout_at};

use crate::{
    call_error::CallError,
    contract::{Guest, Running},
    execution::{
        code::Code,
        instance::{Blueprint, Instance},
        pool::Pool,
        supervise::Supervisor,
    },
    grants::{gateway_provider::CutOff, owned::Owned},
    imports::{Shared, Subject},
    load::{
        accepted::Accepted,
        error::{LoadError, LoadProblem, Stage},
        identity::Identity,
        info::{GenerationInfo, Introduction, Stopwatch},
        source::{Digests, Settings},
    },
    words::text::Cause,
};

pub(crate) struct Generation {
    pub(crate) info: GenerationInfo,
    provider: Arc<ProviderInfo>,
    pub(crate) digests: Digests,
    pub(crate) code: Arc<Code>,
    pub(crate) pool: Pool,
    pub(crate) supervisor: Supervisor,
    blueprint: Blueprint,
}

impl Generation {
    /// Takes code and a configuration through the stages from instantiate to egress. `before` is
    /// the generation in service.
    pub(crate) async fn load(
        shared: &Arc<Shared>,
        source: PathBuf,
        (code, settings, digests): (Arc<Code>, &Settings, Digests),
        mut watch: Stopwatch,
        number: u64,
        before: Option<&Self>,
    ) -> Result<Self, LoadError> {
        let exported = &code.capabilities;
        let mut blueprint = Blueprint::new(
            code.pre.clone(),
            exported,
            Arc::clone(shared),
            (number, &digests.component),
            Arc::new(settings.clone()),
        )
        .map_err(|problem| LoadError::new(Stage::Type, problem))?;

        // A gateway of its own, because credentials may be bound to the digest of one component.
        blueprint.gateway = shared
            .gateways
            .as_ref()
            .map(|gateways| gateways.gateway(&digests.component));

        // One time limit for instantiate, configure and info together.
        let deadline = Deadline::of_read(&shared.limits);
        let end = (Instant::now() + deadline.limit, deadline);
        let mut first = watch.stage(
            Stage::Instantiate,
            by(end, blueprint.instantiate(end.0)).await,
        )?;

        let configured = by(end, async {
            first
                .configure(&blueprint.settings, end.0)
                .await?
                .map_err(LoadProblem::Refused)
        });
        watch.stage(Stage::Configure, configured.await)?;

        let said = by(end, async {
            first
                .info(exported, end.0)
                .await?
                .map_err(LoadProblem::Info)
        });

        let said = said.await.and_then(|said| {
            let metadata = code.metadata.as_ref();
            // What `skydock plugin inspect` shows must be true.
            metadata.map_or(Ok(()), |it| it.agrees(&said))?;
            Ok(said)
        });

        let Introduction {
            provider,
            wanted_hosts,
            overlap,
        } = watch.stage(Stage::Info, said)?;

        let accepted = Accepted {
            digest: digests.component.clone(),
            imports: Accepted::powers(&code.imports),
            exports: Some(exported.iter().map(ToString::to_string).collect()),
            hosts: wanted_hosts,
            provider_ids: provider.provider_id_prefixes.clone(),
            annotations: provider.annotation_prefixes.clone(),
        };

        let identity = Identity {
            name: &provider.name,
            exports: &code.capabilities,
            accepted: &accepted,
        };

        // After a restart, `Plugin::may_follow` compares with what was accepted earlier.
        let may_follow = before.map_or(Ok(()), |before| {
            identity.may_follow(&before.identity(), &shared.permissions)
        });
        let added = before.map(|before| accepted.beyond(&before.info.accepted));
        watch.stage(Stage::Identity, may_follow)?;

        let permitted = shared.permissions.permit(
            &provider.provider_id_prefixes,
            &provider.annotation_prefixes,
        );
        watch.stage(
            Stage::Permissions,
            permitted.map_err(LoadProblem::NotPermitted),
        )?;

        let reaches = match (before, &shared.gateways) {
            (Some(before), Some(gateways)) => {
                CutOff::find(&**gateways, &before.digests.component, &digests.component)
            }
            _ => Ok(()),
        };
        watch.stage(Stage::Egress, reaches.map_err(LoadProblem::CutOff))?;

        let owned = Arc::new(Owned::new(
            &provider,
            Arc::clone(&shared.permissions),
            Arc::clone(&shared.permitted),
        ));
        // The first instance was created before it was known what the plugin owns.
        first.store.data_mut().owned = Arc::clone(&owned);
        blueprint.owned = owned;

        if let Some(gateway) = &blueprint.gateway {
            // Only kinds of calls that it serves have a reserved part of requests and connections.
            gateway.serves(&provider.capabilities);
        }

        let pool = Pool::new(
            Arc::clone(shared),
            &provider.capabilities,
            shared.overlap.unwrap_or(overlap),
        );
        // To create and configure an instance takes as long as about a hundred calls.
        pool.put_first(first, &provider.capabilities);

        let info = GenerationInfo {
            number,
            digest: digests.component.clone(),
            config_digest: digests.config.clone(),
            source,
            name: provider.name.clone(),
            version: provider.version.clone(),
            capabilities: provider.capabilities.clone(),
            accepted: Arc::new(accepted),
            added: added.unwrap_or_default().into(),
            stages: watch.stages,
        };

        let supervisor = Supervisor::default();
        Ok(Self {
            info,
            provider: Arc::new(provider),
            digests,
            code,
            pool,
            supervisor,
            blueprint,
        })
    }

    /// Returns what it says about itself, as far as it is still permitted.
    pub(crate) fn provider(&self) -> Arc<ProviderInfo> {
        self.blueprint.owned.permitted(&self.provider)
    }

    /// Returns the configuration that it was loaded with.
    pub(crate) fn settings(&self) -> &Settings {
        &self.blueprint.settings
    }

    /// Returns the limits that it was loaded with.
    pub(crate) fn limits(&self) -> &Limits {
        &self.blueprint.shared.limits
    }

    /// Returns true if it was loaded with these settings and terms.
    pub(crate) fn is_loaded_with(&self, settings: &Settings, shared: &Arc<Shared>) -> bool {
        *self.blueprint.settings == *settings && Arc::ptr_eq(&self.blueprint.shared, shared)
    }

    fn identity(&self) -> Identity<'_> {
        Identity {
            name: &self.provider.name,
            exports: &self.code.capabilities,
            accepted: &self.info.accepted,
        }
    }

    /// Runs one call on its own instance. The deadline of the call starts when it has an instance;
    /// waiting for one, and creating one, have their own deadlines.
    ///
    /// Dropping the future drops the instance with it.
    pub(crate) async fn call<'s, T>(
        &self,
        function: Function,
        subject: Subject,
        call: impl for<'a> FnOnce(Guest<'a, 's>) -> Running<'a, T>,
    ) -> Result<T, CallError> {
        // The configuration may leave an exported interface unused.
        if !self.provider.can(function.capability()) {
            return Err(CallError::Unsupported);
        }

        let limits = &self.blueprint.shared.limits;
        let queue = limits.queue_deadline;
        let waiting = timeout(queue, self.pool.acquire(function.capability()));
        let mut slot = waiting.await.map_err(|_| CallError::TooBusy(queue))?;

        let instance = match slot.warm() {
            Some(warm) => warm,
            None => {
                let deadline = Deadline::of_read(limits);
                within(deadline, self.start(Instant::now() + deadline.limit)).await?
            }
        };

        let mut lease = slot.lease(instance);
        let Some(instance) = lease.instance() else {
            return Err(CallError::Unsupported);
        };

        let deadline = Deadline::of(function, limits);
        let answer = within(
            deadline,
            instance.run(
                function.capability(),
                subject,
                Instant::now() + deadline.limit,
                call,
            ),
        )
        .await;

        // A deadline that passes during a request is the cloud's delay, not the plugin's.
        let answer = answer.map_err(|error| match error {
            CallError::Deadline(late) if instance.store.data().is_waiting() => {
                CallError::Waiting(late)
            }
            error => error,
        });

        // After a trap or a timeout, the instance may be in any state: the lease drops it.
        if answer.is_ok() {
            lease.give_back();
        }

        answer.flatten()
    }

    /// Creates another instance until `end`: instantiates it, configures it and requests its
    /// description, in the order of the contract.
    async fn start(&self, end: Instant) -> Result<Instance, CallError> {
        let mut instance =
            self.blueprint
                .instantiate(end)
                .await
                .map_err(|problem| match problem {
                    LoadProblem::Call(error) => error,
                    // The types were checked with the first instance of the same component.
                    other => CallError::Instantiate(Cause::of(other)),
                })?;

        instance
            .configure(&self.blueprint.settings, end)
            .await?
            .map_err(CallError::Refused)?;

        // It was checked with the first instance.
        let _ = instance.info(&self.code.capabilities, end).await?;
        Ok(instance)
    }
}

/// Returns the answer if it arrives in time.
async fn within<W>(
    deadline: Deadline,
    answer: impl Future<Output = Result<W, CallError>>,
) -> Result<W, CallError> {
    timeout(deadline.limit, answer)
        .await
        .map_err(|_| CallError::Deadline(deadline))
        .flatten()
}

/// Returns the result if it arrives before the end of the time limit.
async fn by<T>(
    (end, deadline): (Instant, Deadline),
    result: impl Future<Output = Result<T, LoadProblem>>,
) -> Result<T, LoadProblem> {
    timeout_at(end, result)
        .await
        .map_err(|_| LoadProblem::Call(CallError::Deadline(deadline)))
        .flatten()
}
