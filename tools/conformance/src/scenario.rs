//! Scenarios: sequences of calls as controllers make them, with a cloud behind the plugin.

mod call;
mod disks;
mod file;
mod files;
mod hook;
mod matching;
mod patience;
mod run;
mod variables;
mod world;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    sync::Arc,
};

use prometheus_client::registry::Registry;
use serde_saphyr::Spanned;
use skydock_cloud::Capability;
use skydock_sandbox::{Compiler, GatewayProvider, Limits, PluginSource, Runtime, RuntimeOptions};

pub use self::file::{Mistake, Scenarios};
pub(crate) use self::{
    call::make,
    file::{Called, Given, Step},
    patience::delay,
    world::World,
};
use self::{file::Scenario, run::Run, variables::Variables};
use crate::{
    Finding, KitError, Report, Subjects, Verdict,
    harness::{loaded_plugin::without_egress, meter::Meter},
    judge::{failed, skipped},
};

/// Creates the network access of a plugin, whose metrics are added to the registry.
pub type Connect =
    Arc<dyn Fn(&mut Registry) -> Result<Arc<dyn GatewayProvider>, String> + Send + Sync>;

/// A plugin, and how it reaches its cloud.
#[derive(Clone)]
pub struct Subject {
    /// The plugin and its configuration.
    pub source: PluginSource,
    /// Its limits.
    pub limits: Limits,
    /// The program that compiles it.
    pub compiler: Compiler,
    /// Directory for machine code; a temporary one by default.
    pub cache_dir: Option<PathBuf>,
    /// Its network access. Without it, all its requests are denied.
    pub connect: Option<Connect>,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// What [`Subject::start`] starts.
pub(crate) struct StartedSubject {
    pub(crate) runtime: Runtime,
    /// The metrics of the runtime.
    pub(crate) meter: Meter,
    /// The plugin to load, with its network access.
    pub(crate) source: PluginSource,
}

/// A file with scenarios, and what its hooks need.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// The content. It was [checked](Scenarios::check).
    pub scenarios: Scenarios,
    /// Where it is.
    pub path: PathBuf,
    /// Values for `${NAME}`; others are those of environment variables.
    pub variables: BTreeMap<String, String>,
}

impl Subject {
    /// Starts a runtime with metrics of its own, and the network access.
    pub(crate) fn start(
        &self,
        cache: &std::path::Path,
        limits: Limits,
    ) -> Result<StartedSubject, KitError> {
        let mut registry = Registry::default();

        let gateways = match &self.connect {
            Some(connect) => connect(&mut registry).map_err(KitError::Gateway)?,
            None => without_egress(&self.source.name, &mut registry)?,
        };

        let meter = Meter::new(registry);
        let options = RuntimeOptions::new(self.compiler.clone());
        let cache_dir = Some(self.cache_dir.clone().unwrap_or_else(|| cache.to_owned()));

        let runtime = Runtime::new(RuntimeOptions {
            cache_dir,
            limits,
            metrics: meter.plugin.clone(),
            ..options
        })?;

        Ok(StartedSubject {
            runtime,
            meter,
            source: PluginSource {
                gateways: Some(gateways),
                ..self.source.clone()
            },
        })
    }
}

/// Runs all scenarios, one after the other. Must be called within a tokio runtime.
///
/// # Errors
/// [`KitError`], if they cannot be run. What is not as expected is in the report.
pub async fn run_scenarios(subject: Subject, file: ScenarioFile) -> Result<Report, KitError> {
    let cache = tempfile::tempdir()?;
    let variables = Variables::new(file.variables.clone());
    let mut report = Report::new(Subjects::Scenarios);
    let mut is_loaded = true;

    for scenario in &file.scenarios.scenarios {
        let context = Context {
            file: &file,
            variables: &variables,
            scenario: &scenario.value,
        };
        if is_loaded {
            is_loaded = context
                .run(&subject, cache.path(), &mut report.findings)
                .await?;
        } else {
            report
                .findings
                .push(context.loaded(skipped("it was not loaded for an earlier scenario")));
        }
    }

    Ok(report)
}

/// What all steps of a scenario share.
#[derive(Clone, Copy)]
struct Context<'a> {
    file: &'a ScenarioFile,
    variables: &'a Variables,
    scenario: &'a Scenario,
}

impl Context<'_> {
    /// Runs the scenario. Returns false if the plugin is not loaded.
    async fn run(
        self,
        subject: &Subject,
        cache: &std::path::Path,
        findings: &mut Vec<Finding>,
    ) -> Result<bool, KitError> {
        // The future is large.
        let mut run = match Box::pin(Run::start(self, subject, cache)).await? {
            Ok(run) => run,
            Err(error) => {
                let hint =
                    "see `skydock plugin inspect`; pass the configuration that the plugin needs";
                findings.push(self.loaded(failed(
                    "a plugin that is loaded",
                    error.to_string(),
                    hint,
                )));
                return Ok(false);
            }
        };

        if let Some(skips) = self.skipped(&run) {
            findings.extend(skips);
        } else {
            self.run_steps(&mut run, findings).await?;
        }
        Ok(true)
    }

    /// Returns the findings about a plugin that does not export what the steps need. They build on
    /// each other, so such a scenario is skipped as a whole.
    fn skipped(&self, run: &Run<'_>) -> Option<Vec<Finding>> {
        let steps = &self.scenario.steps;
        let needed: BTreeSet<Capability> = steps
            .iter()
            .filter_map(|step| Some(step.value.call?.0.capability()))
            .collect();

        let missing = needed.into_iter().find(|it| !run.can(*it))?;
        let verdict = skipped(format!("it does not export `{missing}`"));
        let skips = steps
            .iter()
            .zip(1..)
            .map(|(step, number)| self.finding("", number, step, verdict.clone()));

        Some(skips.collect())
    }

    /// Performs the steps of the file and of the scenario. After the first failure, only what
    /// cleans up is done.
    async fn run_steps(
        &self,
        run: &mut Run<'_>,
        findings: &mut Vec<Finding>,
    ) -> Result<(), KitError> {
        let file = &self.file.scenarios;
        let scenario = self.scenario;
        let mut problem = None;

        for (part, steps, is_cleanup) in [
            ("before.", &file.before, false),
            ("", &scenario.steps, false),
            ("after.", &scenario.after, true),
            ("after-all.", &file.after, true),
        ] {
            for (step, number) in steps.iter().zip(1..) {
                // A plugin without the capability has made nothing that is to be cleaned up.
                let is_without = step
                    .value
                    .call
                    .is_some_and(|called| !run.can(called.0.capability()));

                let verdict = match &problem {
                    Some(earlier) if !is_cleanup => skipped(format!("{earlier} failed")),
                    _ if is_without => continue,
                    _ => run.perform(&step.value).await?,
                };

                let finding = self.finding(part, number, step, verdict);
                let is_failure = matches!(finding.verdict, Verdict::Failed { .. });
                if is_failure && problem.is_none() {
                    problem = Some(finding.check.clone());
                }

                // What is the same in each scenario is not repeated in the report if all is well.
                if part.is_empty() || is_failure {
                    findings.push(finding);
                }
            }
        }

        Ok(())
    }

    fn loaded(&self, verdict: Verdict) -> Finding {
        let check = format!("{}.load", self.scenario.name);
        Finding {
            check,
            text: "the plugin is loaded".to_owned(),
            at: None,
            verdict,
        }
    }

    fn finding(
        &self,
        part: &str,
        number: usize,
        step: &Spanned<Step>,
        verdict: Verdict,
    ) -> Finding {
        let file = self.file.path.display();
        Finding {
            check: format!("{}.{part}{number}", self.scenario.name),
            text: step.value.text(),
            at: Some(format!("{file}:{}", step.referenced.line())),
            verdict,
        }
    }
}
