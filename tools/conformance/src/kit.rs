//! The run: loads the plugin, calls its functions, and has the observations judged.

mod balancers;
mod calls;
mod garbage;
mod routes;

use std::{path::PathBuf, sync::Arc};

use skydock_cloud::{Capability, Node};
use skydock_sandbox::{
    CallError, Compiler, Limits, LoadError, LoadProblem, PluginSource, RuntimeOptions, Stage,
};

use self::{balancers::Balanced, calls::Calls, routes::Routed};
use crate::{
    Check, Finding, KitError, Report, Subjects, Verdict,
    harness::{
        fake_cluster::FakeCluster, loaded_plugin::LoadedPlugin, meter::Reading, objects,
        observation::Observation,
    },
    judge::{self, failed, skipped},
};

/// What to check, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The plugin and its configuration. It gets no gateway of its own: all its requests are
    /// denied.
    pub source: PluginSource,
    /// Its limits.
    pub limits: Limits,
    /// The program that compiles it.
    pub compiler: Compiler,
    /// Number of calls of each function after which memory and handles must not have grown.
    pub calls: usize,
    /// Directory for compiled code, which later runs use again. Without one, each run compiles the
    /// plugin.
    pub cache_dir: Option<PathBuf>,
}

/// Handles that all instances may have open in the run with many calls: fewer than in service, so
/// that a leak in one of two calls of a function shows.
const HANDLES: usize = 200;

/// Loads one plugin again and again; it is compiled once.
pub(crate) struct Loader {
    options: Options,
    cache: PathBuf,
}

pub(crate) type Loaded = Result<LoadedPlugin, LoadError>;

impl Loader {
    async fn load(&self, limits: Limits) -> Result<Loaded, KitError> {
        self.load_with(limits, self.options.source.clone()).await
    }

    async fn load_with(&self, limits: Limits, source: PluginSource) -> Result<Loaded, KitError> {
        let runtime = RuntimeOptions::new(self.options.compiler.clone());
        let options = RuntimeOptions {
            cache_dir: Some(self.cache.clone()),
            limits,
            ..runtime
        };
        // The future is large.
        Box::pin(LoadedPlugin::load(options, source)).await
    }
}

/// Checks the plugin. Must be called within a tokio runtime.
///
/// # Errors
/// [`KitError`], if it cannot be checked. What the plugin does wrong is in the report.
pub async fn run(options: Options) -> Result<Report, KitError> {
    let files = tempfile::tempdir()?;
    let cache = options
        .cache_dir
        .clone()
        .unwrap_or_else(|| files.path().to_owned());
    let loader = Loader { options, cache };

    let mut report = Report::new(Subjects::Conformance);
    let limits = loader.options.limits.clone();
    let first = loader.load(limits.clone()).await?;
    report.findings.extend(loading(&first));

    let Ok(plugin) = first else {
        skip_others(&mut report, "it was not loaded");
        return Ok(report);
    };

    // Used once, an instance has nothing left of an earlier call.
    let limits = Limits { uses: 1, ..limits };
    let fresh = match loader.load(limits).await? {
        Ok(fresh) => fresh,
        Err(error) => {
            let seen = format!("the second instance was rejected: {error}");
            report.add(Check::Configure, unlike_the_first(seen));
            return Ok(report);
        }
    };

    report.add(Check::InfoStable, info_stable(&plugin, &fresh));
    garbage::run(&loader, &mut report).await?;

    let nodes = objects::nodes(&plugin.info());
    let cluster = Arc::new(FakeCluster::new(nodes.clone()));
    for plugin in [&plugin, &fresh] {
        plugin.set_cluster(Arc::clone(&cluster));
    }

    let observed = Observed::of(&plugin, &fresh, &nodes, &cluster).await;
    // The gateway counts the requests of all instances but the first.
    let early = quiet(&plugin.reading(), &fresh.reading());
    report.add(Check::NoEarlyRequest, early);

    let lookup = calls::lookup(&plugin, &nodes).await;
    observed.judge_calls(&mut report, lookup);

    let flat = flat(&loader, &nodes, cluster).await?;
    report.add(Check::Flat, flat);
    observed.judge_repetitions(&mut report, plugin.info().can(Capability::Routes));

    Ok(report)
}

/// All calls but those whose number matters.
struct Observed {
    called: Calls,
    balanced: Balanced,
    routed: Routed,
}

impl Observed {
    /// Calls all functions. `fresh` has an instance for each call.
    async fn of(
        plugin: &LoadedPlugin,
        fresh: &LoadedPlugin,
        nodes: &[Arc<Node>],
        cluster: &FakeCluster,
    ) -> Self {
        Self {
            called: calls::run(plugin, fresh, nodes).await,
            balanced: balancers::run(plugin, fresh, nodes, cluster).await,
            routed: routes::run(plugin, nodes).await,
        }
    }

    /// Returns the calls that were made one after the other.
    fn sequential(&self) -> Vec<&Observation> {
        let all = self.called.sequential();
        let all = all.chain(self.balanced.all()).chain(self.routed.all());

        made(all)
    }

    /// Judges each call for itself.
    fn judge_calls(&self, report: &mut Report, lookup: Verdict) {
        let Self {
            called, balanced, ..
        } = self;

        let sequential = self.sequential();
        // Unusual objects may well be `invalid`, and may take longer.
        let usual: Vec<_> = sequential
            .iter()
            .copied()
            .filter(|it| !called.is_unusual(it))
            .collect();
        let unusual: Vec<_> = called.unusual.iter().collect();
        // Only for what no call may do, whichever of several it was. Concurrent calls may wait for
        // each other, and have the denied requests of others.
        let all = [sequential.clone(), made(called.concurrent())].concat();

        report.add(Check::Answers, judge::answers(&all));
        report.add(Check::Order, called.order());
        report.add(Check::Lookup, lookup);
        report.add(Check::Repeatable, called.repeatable());
        report.add(Check::Empty, balanced.empty(&called.empty));
        report.add(Check::Unusual, judge::unusual(&unusual));
        report.add(Check::RefusedCloud, judge::refused_cloud(&sequential));
        report.add(Check::ErrorCase, judge::error_case(&usual));
        report.add(Check::ErrorText, judge::error_text(&all));
        report.add(Check::Deadlines, judge::deadlines(&sequential));
        report.add(Check::NoWait, judge::no_wait(&usual));
        report.add(Check::NoTrap, judge::no_trap(&all));
    }

    /// Judges calls that must have the same result as others.
    fn judge_repetitions(&self, report: &mut Report, exports_routes: bool) {
        let Self {
            called,
            balanced,
            routed,
        } = self;

        report.add(Check::TwoInstances, called.two_instances());
        report.add(Check::EnsureAgain, balanced.ensure_again());
        report.add(Check::UpdateMissing, balanced.update_missing());
        report.add(Check::DeleteTwice, balanced.delete_twice());
        report.add(Check::RoutesAgain, routed.again(exports_routes));
        report.add(Check::NoMemory, called.no_memory(balanced.pairs()));
    }
}

/// Returns those that were made: the others say nothing about the plugin.
fn made<'a>(calls: impl Iterator<Item = &'a Observation>) -> Vec<&'a Observation> {
    calls.filter(|it| !it.is_uncalled()).collect()
}

/// Adds a line for each check that was not made: a report has all of them.
fn skip_others(report: &mut Report, reason: &str) {
    for &check in Check::ALL {
        if report.findings.iter().all(|it| it.check != check.name()) {
            report.add(check, skipped(reason));
        }
    }
}

/// Returns the verdict about a plugin that was loaded before, and then rejected.
fn unlike_the_first(seen: String) -> Verdict {
    failed(
        "the same result in each instance",
        seen,
        "keep no state outside the instance",
    )
}

/// Judges whether two instances describe themselves in the same way.
fn info_stable(one: &LoadedPlugin, other: &LoadedPlugin) -> Verdict {
    let one = one.introduction();
    let other = other.introduction();
    let hint = "derive `info` from the configuration only";

    if one == other {
        Verdict::Ok
    } else {
        failed(&one, other, hint)
    }
}

/// Makes many calls, and judges whether memory and handles grow.
async fn flat(
    loader: &Loader,
    nodes: &[Arc<Node>],
    cluster: Arc<FakeCluster>,
) -> Result<Verdict, KitError> {
    let limits = &loader.options.limits;
    // Without a limit of uses, all calls are made in one instance, in which a leak adds up.
    let many = Limits {
        uses: usize::MAX / 4,
        handles: HANDLES.min(limits.handles),
        ..limits.clone()
    };

    Ok(match loader.load(many).await? {
        Ok(plugin) => {
            plugin.set_cluster(cluster);
            calls::flat(&plugin, nodes, loader.options.calls).await
        }
        Err(error) => unlike_the_first(error.to_string()),
    })
}

/// Judges how the plugin was loaded.
fn loading<T>(loaded: &Result<T, LoadError>) -> Vec<Finding> {
    let check_of = |stage: Stage| match stage {
        Stage::Configure => Check::Configure,
        Stage::Info | Stage::Identity => Check::Info,
        _ => Check::Component,
    };
    let wrong = loaded
        .as_ref()
        .err()
        .map(|error| (check_of(error.stage), error));

    let mut findings = Vec::new();
    for check in [Check::Component, Check::Configure, Check::Info] {
        match &wrong {
            Some((at, error)) if *at == check => {
                let hint =
                    "see `skydock plugin inspect`; pass the configuration that the plugin needs";
                findings.push(Finding::new(
                    check,
                    failed(check.text(), error.to_string(), hint),
                ));
                break;
            }
            _ => findings.push(Finding::new(check, Verdict::Ok)),
        }
    }

    findings
}

fn quiet(one: &Reading, other: &Reading) -> Verdict {
    match one.early + other.early {
        0 => Verdict::Ok,
        count => failed(
            "no request in `configure` and `info`",
            format!("{count} requests"),
            "connect to the cloud in the first call that needs it",
        ),
    }
}

/// Returns the error, if the plugin returned one and did not trap.
pub(crate) fn returned_error(error: &LoadError) -> Option<&skydock_cloud::CloudError> {
    match &error.source {
        LoadProblem::ConfigRejected(error) => Some(error),
        LoadProblem::Call(CallError::ConfigRejected(error)) => Some(error),
        _ => None,
    }
}
