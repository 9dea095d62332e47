//! The run: loads the plugin, calls its functions, and has the observations judged.

mod balancers;
mod calls;
mod garbage;
mod life;
mod routes;
mod volumes;

use std::{path::PathBuf, sync::Arc};

use skydock_cloud::{Capability, Node, ProviderInfo};
use skydock_sandbox::{
    CallError, Compiler, Limits, LoadError, LoadProblem, PluginSource, RuntimeOptions, Stage,
};

use self::{
    balancers::LoadBalancerObservations, calls::CallObservations, garbage::GarbageObservations,
    life::Life, volumes::VolumeObservations,
};
use crate::{
    Check, KitError, Report, Subjects, Verdict,
    harness::{
        fake_cluster::FakeCluster, loaded_plugin::LoadedPlugin, objects, observation::Observation,
    },
    judge::{self, failed, skipped},
};

/// What to check, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The plugin and its configuration. Its gateways are not used: each time it is loaded, it gets
    /// a gateway that denies all requests, and counts those of all its instances.
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
/// that a leak in one of two calls of a function shows. It leaves half as many handles as calls
/// open, which is 250 after the 500 calls of `skydock plugin test`.
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
    match load_pair(&loader).await? {
        Ok(pair) => {
            let evidence = observe(&loader, &pair).await?;
            evidence.judge(&mut report);
        }
        Err(rejection) => rejection.judge(&mut report),
    }

    Ok(report)
}

/// A plugin that was loaded twice.
struct Pair {
    /// Its instance handles one call after the other.
    kept: LoadedPlugin,
    /// It has an instance for each call, in which nothing is left of an earlier one.
    fresh: LoadedPlugin,
}

/// Why a plugin was not loaded twice.
struct Rejection {
    /// The check that failed.
    check: Check,
    verdict: Verdict,
    /// Why the other checks are skipped.
    reason: &'static str,
}

async fn load_pair(loader: &Loader) -> Result<Result<Pair, Rejection>, KitError> {
    let limits = loader.options.limits.clone();
    let kept = match loader.load(limits.clone()).await? {
        Ok(kept) => kept,
        Err(error) => return Ok(Err(Rejection::of_first(&error))),
    };

    Ok(match loader.load(Limits { uses: 1, ..limits }).await? {
        Ok(fresh) => Ok(Pair { kept, fresh }),
        Err(error) => Err(Rejection::of_second(&error)),
    })
}

impl Rejection {
    fn of_first(error: &LoadError) -> Self {
        let check = check_of(error.stage);
        let hint = "see `skydock plugin inspect`; pass the configuration that the plugin needs";

        Self {
            check,
            verdict: failed(check.text(), error.to_string(), hint),
            reason: "it was not loaded",
        }
    }

    fn of_second(error: &LoadError) -> Self {
        let seen = format!("the second instance was rejected: {error}");
        Self {
            check: check_of(error.stage),
            verdict: unlike_the_first(seen),
            reason: "its second instance was rejected",
        }
    }

    fn judge(self, report: &mut Report) {
        for check in LOADING.into_iter().take_while(|it| *it != self.check) {
            report.add(check, Verdict::Ok);
        }
        report.add(self.check, self.verdict);

        skip_others(report, self.reason);
    }
}

/// The checks of loading, in the order of its stages.
const LOADING: [Check; 3] = [Check::Component, Check::Configure, Check::Info];

/// Returns the check that fails if the plugin is rejected at this stage.
fn check_of(stage: Stage) -> Check {
    match stage {
        Stage::Read
        | Stage::Type
        | Stage::Imports
        | Stage::Compile
        | Stage::Instantiate
        | Stage::Permissions
        | Stage::Egress => Check::Component,
        Stage::Configure => Check::Configure,
        Stage::Info | Stage::Identity => Check::Info,
    }
}

/// What was seen of a plugin that was loaded twice.
struct Evidence {
    /// How the two describe themselves.
    introductions: [String; 2],
    /// Number of requests in `configure` and `info`.
    early_requests: u64,
    garbage: GarbageObservations,
    observed: Observed,
    /// Judged at once, because it depends on the answers which calls follow.
    lookup: Verdict,
    /// Judged at once, because it depends on the growth how many calls follow.
    no_growth: Verdict,
    /// What it exports.
    info: Arc<ProviderInfo>,
}

/// Calls all functions of the plugin.
async fn observe(loader: &Loader, pair: &Pair) -> Result<Evidence, KitError> {
    let Pair { kept, fresh } = pair;
    let garbage = garbage::run(loader).await?;

    let nodes = objects::nodes(&kept.info());
    let cluster = Arc::new(FakeCluster::new(nodes.clone()));
    for plugin in [kept, fresh] {
        plugin.set_cluster(Arc::clone(&cluster));
    }

    let observed = Observed::of(pair, &nodes, &cluster).await;
    // By this time, `fresh` has configured many instances.
    let early_requests = kept.reading().early + fresh.reading().early;

    Ok(Evidence {
        introductions: [kept, fresh].map(LoadedPlugin::introduction),
        early_requests,
        garbage,
        observed,
        lookup: calls::lookup(kept, &nodes).await,
        no_growth: no_growth(loader, &nodes, cluster).await?,
        info: kept.info(),
    })
}

impl Evidence {
    fn judge(self, report: &mut Report) {
        for check in LOADING {
            report.add(check, Verdict::Ok);
        }

        report.add(Check::InfoStable, info_stable(&self.introductions));
        report.add(
            Check::NoEarlyRequest,
            no_early_requests(self.early_requests),
        );
        self.garbage.judge(report);
        self.observed.judge_calls(report, self.lookup);
        report.add(Check::Flat, self.no_growth);
        self.observed.judge_repetitions(report, &self.info);
    }
}

/// All calls but those whose number matters.
struct Observed {
    calls: CallObservations,
    load_balancers: LoadBalancerObservations,
    routes: Life,
    volumes: VolumeObservations,
}

impl Observed {
    async fn of(pair: &Pair, nodes: &[Arc<Node>], cluster: &FakeCluster) -> Self {
        let Pair { kept, fresh } = pair;
        Self {
            calls: calls::run(kept, fresh, nodes).await,
            load_balancers: balancers::run(kept, fresh, nodes, cluster).await,
            routes: routes::run(kept, nodes).await,
            volumes: volumes::run(kept).await,
        }
    }

    /// Returns the calls that were made one after the other.
    fn sequential(&self) -> Vec<&Observation> {
        let all = self.calls.sequential();
        let all = all
            .chain(self.load_balancers.all())
            .chain(self.routes.all())
            .chain(self.volumes.all());

        made(all)
    }

    /// Judges each call for itself.
    fn judge_calls(&self, report: &mut Report, lookup: Verdict) {
        let Self {
            calls,
            load_balancers,
            ..
        } = self;

        let sequential = self.sequential();
        // Unusual objects may well be `invalid`, and may take longer.
        let usual: Vec<_> = sequential
            .iter()
            .copied()
            .filter(|it| !calls.is_unusual(it))
            .collect();
        let unusual: Vec<_> = calls.unusual.iter().collect();
        // Only for what no call may do, whichever of several it was. Concurrent calls may wait for
        // each other, and have the denied requests of others.
        let all = [sequential.clone(), made(calls.concurrent())].concat();

        report.add(Check::Answers, judge::answers(&all));
        report.add(Check::Order, calls.order());
        report.add(Check::Lookup, lookup);
        report.add(Check::Repeatable, calls.repeatable());
        report.add(Check::Empty, load_balancers.empty(&calls.empty));
        report.add(Check::Unusual, judge::unusual(&unusual));
        report.add(Check::RejectingCloud, judge::rejecting_cloud(&sequential));
        report.add(Check::ErrorCase, judge::error_case(&usual));
        report.add(Check::ErrorText, judge::error_text(&all));
        report.add(Check::Deadlines, judge::deadlines(&sequential));
        report.add(Check::NoWait, judge::no_wait(&usual));
        report.add(Check::NoTrap, judge::no_trap(&all));
    }

    /// Judges calls that must have the same result as others.
    fn judge_repetitions(&self, report: &mut Report, info: &ProviderInfo) {
        let Self {
            calls,
            load_balancers,
            routes,
            volumes,
        } = self;
        let routes = routes.again("routes", info.can(Capability::Routes));
        let volumes = volumes.again(info.can(Capability::Volumes));

        report.add(Check::TwoInstances, calls.two_instances());
        report.add(Check::EnsureAgain, load_balancers.ensure_again());
        report.add(Check::UpdateMissing, load_balancers.update_missing());
        report.add(Check::DeleteTwice, load_balancers.delete_twice());
        report.add(Check::RoutesAgain, routes);
        report.add(Check::VolumesAgain, volumes);
        report.add(Check::NoMemory, calls.no_memory(load_balancers.pairs()));
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
fn info_stable([one, other]: &[String; 2]) -> Verdict {
    if one == other {
        Verdict::Ok
    } else {
        let hint = "derive `info` from the configuration only";
        failed(one, other.as_str(), hint)
    }
}

/// Makes many calls, and judges whether memory and handles grow.
async fn no_growth(
    loader: &Loader,
    nodes: &[Arc<Node>],
    cluster: Arc<FakeCluster>,
) -> Result<Verdict, KitError> {
    let limits = &loader.options.limits;
    // Without a limit of uses, all calls are made in one instance, in which a leak adds up.
    let many = Limits {
        uses: usize::MAX,
        handles: HANDLES.min(limits.handles),
        ..limits.clone()
    };

    Ok(match loader.load(many).await? {
        Ok(plugin) => {
            plugin.set_cluster(cluster);
            calls::no_growth(&plugin, nodes, loader.options.calls).await
        }
        Err(error) => unlike_the_first(error.to_string()),
    })
}

fn no_early_requests(count: u64) -> Verdict {
    match count {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_a_rejected_plugin_has_each_check_once() {
        let all: Vec<_> = Check::ALL.iter().map(|it| it.name()).collect();
        for (stage, fails) in [
            (Stage::Compile, "component"),
            (Stage::Configure, "configure"),
            (Stage::Info, "info"),
        ] {
            let error = LoadError {
                stage,
                source: LoadProblem::NotWasm,
            };
            for rejection in [Rejection::of_first(&error), Rejection::of_second(&error)] {
                let mut report = Report::new(Subjects::Conformance);
                rejection.judge(&mut report);

                let checks: Vec<_> = report.findings.iter().map(|it| &*it.check).collect();
                assert_eq!(checks, all);
                for finding in &report.findings {
                    let is_failed = matches!(finding.verdict, Verdict::Failed { .. });
                    assert_eq!(is_failed, finding.check == fails, "{finding:?}");
                }
            }
        }
    }
}
