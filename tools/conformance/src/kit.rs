//! The run: loads the plugin, calls its functions, and has the observations judged.

mod balancers;
mod calls;
mod garbage;
mod routes;

use std::{path::PathBuf, sync::Arc};

use skydock_cloud::Capability;
use skydock_sandbox::{
    CallError, Compiler, Limits, LoadError, LoadProblem, PluginSource, RuntimeOptions, Stage,
};

use crate::{
    Check, Finding, KitError, Report, Subjects, Verdict,
    judge::{self, failed, skipped},
    stand::{meter::Reading, objects, scene::Scene, stage},
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

/// Loads scenes of one plugin; it is compiled once.
pub(crate) struct Loader {
    options: Options,
    cache: PathBuf,
}

pub(crate) type Loaded = Result<Scene, LoadError>;

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
        Box::pin(Scene::load(options, source)).await
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
    // Used once, an instance has nothing left of an earlier call.
    let fresh = Limits {
        uses: 1,
        ..limits.clone()
    };

    let first = loader.load(limits.clone()).await?;
    report.findings.extend(loading(&first));

    let Ok(scene) = first else {
        // The report has a line for each check, also for those that were not made.
        let rest = Check::ALL
            .iter()
            .copied()
            .filter(|it| report.findings.iter().all(|found| found.check != it.name()));
        let rest: Vec<_> = rest
            .map(|check| Finding::new(check, skipped("it was not loaded")))
            .collect();

        report.findings.extend(rest);
        return Ok(report);
    };

    let second = loader.load(fresh).await?;
    let mut add = |check, verdict| report.findings.push(Finding::new(check, verdict));

    let second = match second {
        Ok(second) => second,
        Err(error) => {
            let says = format!("the second instance was rejected: {error}");
            add(
                Check::Configure,
                failed(
                    "the same result in each instance",
                    says,
                    "keep no state outside the instance",
                ),
            );
            return Ok(report);
        }
    };

    let one = scene.introduction();
    let other = second.introduction();
    let hint = "derive `info` from the configuration only";
    let stable = if one == other {
        Verdict::Ok
    } else {
        failed(&one, other, hint)
    };

    add(Check::InfoStable, stable);
    garbage::run(&loader, &mut add).await?;

    let nodes = objects::nodes(&scene.info());
    let stage = Arc::new(stage::Stage::new(nodes.clone()));
    for scene in [&scene, &second] {
        scene.show(Arc::clone(&stage));
    }

    let called = calls::run(&scene, &second, &nodes).await;
    let balanced = balancers::run(&scene, &second, &nodes, &stage).await;
    let routed = routes::run(&scene, &nodes).await;

    let all = called.all().chain(balanced.all()).chain(routed.all());
    // A call that was not made says nothing about the plugin.
    let all: Vec<_> = all.filter(|it| !it.is_uncalled()).collect();
    // Unusual objects may well be `invalid`, and may take longer.
    let usual: Vec<_> = all
        .iter()
        .copied()
        .filter(|it| !called.is_unusual(it))
        .collect();
    // The gateway counts the requests of all instances but the first.
    add(
        Check::NoEarlyRequest,
        quiet(&scene.reading(), &second.reading()),
    );

    add(Check::Answers, judge::answers(&all));
    add(Check::Order, called.order());
    add(Check::Lookup, calls::lookup(&scene, &nodes).await);
    add(Check::Repeatable, called.repeatable());
    add(Check::Empty, balanced.empty(&called.empty));
    add(
        Check::Unusual,
        judge::unusual(&called.unusual.iter().collect::<Vec<_>>()),
    );
    add(Check::RefusedCloud, judge::refused_cloud(&all));
    add(Check::ErrorCase, judge::error_case(&usual));
    add(Check::ErrorText, judge::error_text(&all));
    add(Check::Deadlines, judge::deadlines(&all));
    add(Check::NoWait, judge::no_wait(&usual));
    add(Check::NoTrap, judge::no_trap(&all));

    // Without a limit of uses, all calls are made in one instance, in which a leak adds up.
    let many = Limits {
        uses: usize::MAX / 4,
        handles: HANDLES.min(limits.handles),
        ..limits
    };

    let flat = match loader.load(many).await? {
        Ok(scene) => {
            scene.show(stage);
            calls::flat(&scene, &nodes, loader.options.calls).await
        }
        Err(error) => failed(
            "the same result in each instance",
            error.to_string(),
            "keep no state outside the instance",
        ),
    };

    add(Check::Flat, flat);
    add(Check::TwoInstances, called.two_instances());
    add(Check::EnsureAgain, balanced.ensure_again());
    add(Check::UpdateMissing, balanced.update_missing());
    add(Check::DeleteTwice, balanced.delete_twice());
    add(
        Check::RoutesAgain,
        routed.again(scene.info().can(Capability::Routes)),
    );
    add(Check::NoMemory, called.no_memory(balanced.pairs()));

    Ok(report)
}

/// Judges how the plugin was loaded.
fn loading<T>(loaded: &Result<T, LoadError>) -> Vec<Finding> {
    let stages = |stage: Stage| match stage {
        Stage::Configure => Check::Configure,
        Stage::Info | Stage::Identity => Check::Info,
        _ => Check::Component,
    };
    let wrong = loaded
        .as_ref()
        .err()
        .map(|error| (stages(error.stage), error));

    let mut findings = Vec::new();
    for check in [Check::Component, Check::Configure, Check::Info] {
        match &wrong {
            Some((at, error)) if *at == check => {
                let hint =
                    "see `skydock plugin inspect`; pass the configuration that the plugin needs";
                findings.push(Finding::new(
                    check,
                    failed(check.text().1, error.to_string(), hint),
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

/// Returns true if the plugin returned an error, and did not trap.
pub(crate) fn refusal(error: &LoadError) -> Option<&skydock_cloud::CloudError> {
    match &error.source {
        LoadProblem::Refused(error) => Some(error),
        LoadProblem::Call(CallError::Refused(error)) => Some(error),
        _ => None,
    }
}
