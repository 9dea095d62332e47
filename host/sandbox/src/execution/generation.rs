//! A generation: a compiled, configured and checked component with its instances.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use skydock_cloud::{Capability, Function, ProviderInfo};
use skydock_resources::{deadline::Deadline, limits::Limits};
use tokio::time::{Instant, timeout, timeout_at};

use crate::{
    answers::overlap::Overlap,
    call_error::CallError,
    contract::{Guest, Running},
    execution::{
        code::Code,
        instance::{Blueprint, ComponentId, Instance},
        pool::Pool,
        supervise::Supervisor,
    },
    grants::{gateway_provider::CutOff, owned::Owned},
    imports::{PluginData, Subject},
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
    /// Identifies component and configuration, in each process.
    pub(crate) revision: String,
    pub(crate) code: Arc<Code>,
    pub(crate) pool: Pool,
    pub(crate) supervisor: Supervisor,
    blueprint: Blueprint,
}

/// What a generation is loaded from.
pub(crate) struct Candidate<'a> {
    /// Number of the generation.
    pub(crate) number: u64,
    /// Path of the component.
    pub(crate) source: PathBuf,
    pub(crate) code: Arc<Code>,
    pub(crate) settings: &'a Settings,
    pub(crate) digests: Digests,
}

impl Candidate<'_> {
    fn blueprint(&self, shared: &Arc<PluginData>) -> Result<Blueprint, LoadError> {
        let component = ComponentId {
            generation: self.number,
            digest: &self.digests.component,
        };
        // A gateway of its own, because credentials may be bound to the digest of one component.
        let gateway = shared
            .gateways
            .as_ref()
            .map(|gateways| gateways.gateway(&self.digests.component));

        Blueprint::new(
            self.code.pre.clone(),
            &self.code.capabilities,
            Arc::clone(shared),
            component,
            Arc::new(self.settings.clone()),
            gateway,
        )
        .map_err(|problem| LoadError::new(Stage::Type, problem))
    }
}

/// An instance, and what it says about the plugin.
struct Created {
    instance: Instance,
    introduction: Introduction,
}

impl Generation {
    /// Takes code and a configuration through the stages from instantiate to egress. `before` is
    /// the generation in service.
    pub(crate) async fn load(
        shared: &Arc<PluginData>,
        candidate: Candidate<'_>,
        mut watch: Stopwatch,
        before: Option<&Self>,
    ) -> Result<Self, LoadError> {
        let mut blueprint = candidate.blueprint(shared)?;
        let Candidate {
            number,
            source,
            code,
            digests,
            ..
        } = candidate;

        let Created {
            instance: mut first,
            introduction,
        } = create_first_instance(&blueprint, &code, &mut watch).await?;
        let provider = introduction.provider;

        let accepted = Accepted {
            digest: digests.component.clone(),
            imports: Accepted::powers(&code.imports),
            exports: Some(code.capabilities.iter().map(ToString::to_string).collect()),
            hosts: introduction.wanted_hosts,
            provider_ids: provider.provider_id_prefixes.clone(),
            annotations: provider.annotation_prefixes.clone(),
        };
        let identity = Identity {
            name: &provider.name,
            driver: provider.driver.as_ref().map(|driver| driver.name.as_str()),
            exports: &code.capabilities,
            accepted: &accepted,
        };
        check(shared, &identity, before, &mut watch)?;
        let added = before.map(|before| accepted.beyond(&before.info.accepted));

        let overlap = shared.overlap.unwrap_or(introduction.overlap);
        grant_ownership(&mut blueprint, &mut first, &provider);
        let pool = pool_with(first, shared, &provider, overlap);

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

        Ok(Self {
            info,
            provider: Arc::new(provider),
            revision: format!("{} {}", digests.component, blueprint.settings.digest()),
            digests,
            code,
            pool,
            supervisor: Supervisor::default(),
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

    /// Returns true if it was loaded with these settings and this data of the plugin.
    pub(crate) fn is_loaded_with(&self, settings: &Settings, shared: &Arc<PluginData>) -> bool {
        *self.blueprint.settings == *settings && Arc::ptr_eq(&self.blueprint.shared, shared)
    }

    fn identity(&self) -> Identity<'_> {
        Identity {
            name: &self.provider.name,
            driver: self.provider.driver.as_ref().map(|it| it.name.as_str()),
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
            None => self.create_later_instance().await?,
        };

        let mut busy = slot.occupy(instance);
        let instance = busy.instance();

        let countdown = Countdown::start(Deadline::of(function, limits));
        let answer = countdown
            .wait(instance.run(function.capability(), subject, countdown.end, call))
            .await;

        // A deadline that passes during a request is the cloud's delay, not the plugin's.
        let answer = answer.map_err(|error| match error {
            CallError::Deadline(late) if instance.store.data().is_waiting() => {
                CallError::Waiting(late)
            }
            error => error,
        });

        // After a trap or a timeout, the instance may be in any state: `busy` drops it.
        if answer.is_ok() {
            busy.give_back();
        }

        answer.flatten()
    }

    /// Creates another instance, as the first one was created.
    async fn create_later_instance(&self) -> Result<Instance, CallError> {
        // Only the durations of the first instance are reported.
        let mut watch = Stopwatch::start(Duration::ZERO);
        let created = create_instance(&self.blueprint, &self.code.capabilities, &mut watch).await;

        // Its description must be valid, but that of the first instance counts.
        created
            .map(|created| created.instance)
            .map_err(|error| not_created(error.source))
    }
}

/// Returns why a call has no instance, although an earlier instance of the same component, with the
/// same configuration, was created.
fn not_created(problem: LoadProblem) -> CallError {
    match problem {
        LoadProblem::Call(error) => error,
        LoadProblem::ConfigRejected(error) => CallError::ConfigRejected(error),
        other => CallError::Instantiate(Cause::of(other)),
    }
}

/// Creates the first instance of a generation. What it says about the plugin must agree with what
/// the component declares.
async fn create_first_instance(
    blueprint: &Blueprint,
    code: &Code,
    watch: &mut Stopwatch,
) -> Result<Created, LoadError> {
    let created = create_instance(blueprint, &code.capabilities, watch).await?;

    // What `skydock plugin inspect` shows must be true.
    if let Some(metadata) = &code.metadata {
        metadata
            .agrees(&created.introduction)
            .map_err(|problem| LoadError::new(Stage::Info, problem))?;
    }

    Ok(created)
}

/// Creates an instance: instantiates it, configures it and requests its description, in the order of
/// the contract.
async fn create_instance(
    blueprint: &Blueprint,
    exported: &BTreeSet<Capability>,
    watch: &mut Stopwatch,
) -> Result<Created, LoadError> {
    // One time limit for all three together.
    let countdown = Countdown::start(Deadline::of_read(&blueprint.shared.limits));
    let end = countdown.end;

    let instantiated = countdown.wait(blueprint.instantiate(end)).await;
    let mut instance = watch.stage(Stage::Instantiate, instantiated)?;

    let configured = countdown.wait(async {
        instance
            .configure(&blueprint.settings, end)
            .await?
            .map_err(LoadProblem::ConfigRejected)
    });
    watch.stage(Stage::Configure, configured.await)?;

    let introduced = countdown.wait(async {
        instance
            .info(exported, end)
            .await?
            .map_err(LoadProblem::Info)
    });
    let introduction = watch.stage(Stage::Info, introduced.await)?;

    Ok(Created {
        instance,
        introduction,
    })
}

/// Compares what a plugin is and wants with the generation in service, with what the operator
/// permits, and with the credentials.
fn check(
    shared: &PluginData,
    identity: &Identity<'_>,
    before: Option<&Generation>,
    watch: &mut Stopwatch,
) -> Result<(), LoadError> {
    let accepted = identity.accepted;

    // After a restart, `Plugin::may_follow` compares with what was accepted earlier.
    let may_follow = before.map_or(Ok(()), |before| {
        identity.may_follow(&before.identity(), &shared.permissions)
    });
    watch.stage(Stage::Identity, may_follow)?;

    let permitted = shared
        .permissions
        .permit(&accepted.provider_ids, &accepted.annotations);
    watch.stage(
        Stage::Permissions,
        permitted.map_err(LoadProblem::NotPermitted),
    )?;

    let credentials_stay = match (before, &shared.gateways) {
        (Some(before), Some(gateways)) => {
            CutOff::find(&**gateways, &before.digests.component, &accepted.digest)
        }
        _ => Ok(()),
    };
    watch.stage(Stage::Egress, credentials_stay.map_err(LoadProblem::CutOff))
}

/// Gives a plugin what it owns: its first instance, its later ones, and its gateway get it.
fn grant_ownership(blueprint: &mut Blueprint, first: &mut Instance, provider: &ProviderInfo) {
    let shared = &blueprint.shared;
    let owned = Arc::new(Owned::new(
        provider,
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
}

/// Returns the pool of a plugin's instances, with the first one in it.
fn pool_with(
    first: Instance,
    shared: &Arc<PluginData>,
    provider: &ProviderInfo,
    overlap: Overlap,
) -> Pool {
    let pool = Pool::new(Arc::clone(shared), &provider.capabilities, overlap);
    // To create and configure an instance takes as long as about a hundred calls, so this one is
    // kept for the first call.
    pool.put_first(first, &provider.capabilities);

    pool
}

/// A deadline that counts down.
#[derive(Clone, Copy)]
struct Countdown {
    deadline: Deadline,
    /// The guest gets it as well, for the timeouts of its requests and for what it asks about the
    /// time that is left.
    end: Instant,
}

impl Countdown {
    fn start(deadline: Deadline) -> Self {
        Self {
            deadline,
            end: Instant::now() + deadline.limit,
        }
    }

    /// Returns the result if it arrives before the end.
    async fn wait<T, E: From<CallError>>(
        self,
        result: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        timeout_at(self.end, result)
            .await
            .map_err(|_| CallError::Deadline(self.deadline).into())
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::AnswerError;

    #[test]
    fn a_later_instance_with_invalid_info_is_not_used() {
        let error = not_created(LoadProblem::Info(AnswerError::Missing("name")));
        assert_eq!(
            error.to_string(),
            "cannot create an instance: its info violates the contract: name is missing"
        );
        assert!(error.is_plugin_failure() && !error.may_pass());
    }
}
