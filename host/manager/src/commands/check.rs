//! `skydock config check`: reports everything that is wrong with a configuration.

use std::{io::Write as _, path::Path};

use anyhow::anyhow;
use skydock_cloud::text::escape;
use skydock_controllers::service::ServiceOptions;
use skydock_sandbox::{Limits, LoadProblem, PluginSource, Stage};

use super::{
    PluginConfiguration, Problem, Reviewed, SkydockConfiguration, files, located, tree::Path as At,
};
use crate::{
    cli::{CheckArgs, plugin_limits::PluginLimit},
    commands::inspect,
    config::PluginFlags,
    process::blocking::blocking,
};

/// Validates a configuration file, the files that it names, and the plugin with its configuration,
/// and prints all errors and warnings.
///
/// # Errors
/// If there are errors, or with `--strict` warnings.
pub async fn check(args: CheckArgs) -> anyhow::Result<()> {
    let path = args.file.clone();
    let offline = args.offline;
    let mut reviewed = blocking(async move {
        let mut reviewed = Reviewed::new(&super::text(&path)?, &path);
        if !offline {
            reviewed.add_files();
        }
        anyhow::Ok(reviewed)
    })
    .await?;

    let mut lines = Vec::new();
    if !offline {
        lines = reviewed.load(&args.file).await?;
    }
    report(&args, &reviewed, &lines)
}

impl Reviewed {
    /// Adds what is wrong with the files.
    fn add_files(&mut self) {
        let (Some(configuration), Some(tree)) = (&self.configuration, &self.tree) else {
            return;
        };

        let problems = files::problems(configuration, tree).into_iter();
        self.errors
            .extend(problems.map(|(at, sentence)| located(tree, &at, &sentence)));
        let short = files::short_secrets(configuration).into_iter();
        self.warnings
            .extend(short.map(|(at, sentence)| located(tree, &at, &sentence)));

        for problems in [&mut self.errors, &mut self.warnings] {
            problems.sort_by_key(Problem::place);
        }
    }

    /// Loads each plugin without network access, and returns what it says. A plugin that rejects
    /// its configuration is an error.
    async fn load(&mut self, file: &Path) -> anyhow::Result<Vec<String>> {
        let (Some(configuration), Some(tree)) = (&self.configuration, &self.tree) else {
            return Ok(Vec::new());
        };

        let mut lines = Vec::new();
        for (index, plugin) in configuration.plugins.iter().enumerate() {
            let at = At::default().key("plugins").index(index);
            // Rules have no effect on how it loads, everything else of the plugin has.
            let rules = at.clone().key("egress");
            let is_wrong = |problem: &Problem| problem.is_within(&at) && !problem.is_within(&rules);
            if self.errors.iter().any(is_wrong) {
                continue;
            }
            lines.push(format!("plugin {}: {}", plugin.name, plugin.file.display()));

            let (source, limits) = source(configuration, plugin, file, Vec::new())?;
            match inspect::load(source, limits).await? {
                Ok(rows) => lines.extend(rows.into_iter().map(|row| format!("  {row}"))),
                Err(error) => {
                    // A plugin rejects its configuration at this stage; anything else is about the
                    // file.
                    let is_config = plugin.cloud_config.is_some()
                        && (error.stage == Stage::Configure
                            || matches!(error.source, LoadProblem::CloudConf { .. }));
                    let at = at.key(if is_config { "cloudConfig" } else { "file" });
                    let sentence = format!("the plugin cannot be loaded: {error}");
                    self.errors.push(located(tree, &at, &sentence));
                }
            }
        }
        Ok(lines)
    }
}

/// Returns the plugin as Skydock would load it with these flags, and its limits.
pub(crate) fn source(
    configuration: &SkydockConfiguration,
    plugin: &PluginConfiguration,
    file: &Path,
    limits: Vec<PluginLimit>,
) -> anyhow::Result<(PluginSource, Limits)> {
    let flags = PluginFlags {
        name: plugin.name.clone(),
        limits,
        services: ServiceOptions::default().concurrent_syncs,
        ..PluginFlags::default()
    };
    let settings = flags.settings(Some((configuration, file)))?;

    let source = settings.source(PluginSource {
        cluster_name: "kubernetes".to_owned(),
        only_reads: true,
        ..PluginSource::default()
    });
    Ok((source, settings.limits))
}

/// Prints what was found: what plugins say on standard output, problems on standard error.
fn report(args: &CheckArgs, reviewed: &Reviewed, lines: &[String]) -> anyhow::Result<()> {
    let file = args.file.display();

    for (word, problems) in [("error", &reviewed.errors), ("warning", &reviewed.warnings)] {
        for problem in problems {
            // If standard error is closed, nobody can be told.
            let _ = writeln!(std::io::stderr(), "{}", problem.line(&args.file, word));
        }
    }

    let mut out = std::io::stdout().lock();
    for line in lines {
        writeln!(out, "{}", escape(line))?;
    }

    let errors = reviewed.errors.len();
    let warnings = reviewed.warnings.len();
    if errors > 0 || args.strict && warnings > 0 {
        return Err(anyhow!(
            "{file} has {errors} error{} and {warnings} warning{}",
            plural(errors),
            plural(warnings)
        ));
    }

    match warnings {
        0 => writeln!(out, "{file}: ok")?,
        _ => writeln!(
            out,
            "{file}: ok, with {warnings} warning{}",
            plural(warnings)
        )?,
    }

    Ok(())
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
