//! `skydock config check`: reports everything that is wrong with a configuration.

use std::{io::Write as _, path::Path};

use anyhow::anyhow;
use skydock_cloud::text::escape;
use skydock_sandbox::{LoadProblem, Stage};

use crate::{
    cli::CheckArgs,
    commands::inspect,
    config::source_in_file,
    file::{self, FieldPath, Problem, Reviewed},
    process::blocking::blocking,
};

/// Validates a configuration file, the files that it names, and the plugin with its configuration,
/// and prints all errors and warnings.
///
/// # Errors
/// If there are errors, or with `--strict` warnings.
pub async fn run(args: CheckArgs) -> anyhow::Result<()> {
    let path = args.file.clone();
    let offline = args.offline;
    let mut reviewed = blocking(async move {
        let mut reviewed = Reviewed::new(&file::text(&path)?, &path);
        if !offline {
            reviewed.add_references();
        }
        anyhow::Ok(reviewed)
    })
    .await?;

    let mut lines = Vec::new();
    if !offline {
        lines = load(&mut reviewed, &args.file).await?;
    }
    report(&args, &reviewed, &lines)
}

/// Loads each plugin without network access, and returns what it says. A plugin that rejects its
/// configuration is an error.
async fn load(reviewed: &mut Reviewed, file: &Path) -> anyhow::Result<Vec<String>> {
    let Some(configuration) = reviewed.configuration.clone() else {
        return Ok(Vec::new());
    };

    let mut lines = Vec::new();
    for (index, plugin) in configuration.plugins.iter().enumerate() {
        let path = FieldPath::default().key("plugins").index(index);
        // Rules have no effect on how it loads, everything else of the plugin has.
        let rules = path.clone().key("egress");
        let is_wrong = |problem: &Problem| problem.is_within(&path) && !problem.is_within(&rules);
        if reviewed.errors.iter().any(is_wrong) {
            continue;
        }
        lines.push(format!("plugin {}: {}", plugin.name, plugin.file.display()));

        let (source, limits) = source_in_file(&configuration, plugin, file, Vec::new())?;
        match inspect::load(source, limits).await? {
            Ok(rows) => lines.extend(rows.into_iter().map(|row| format!("  {row}"))),
            Err(error) => {
                // A plugin rejects its configuration at this stage; anything else is about the
                // file.
                let is_config = plugin.cloud_config.is_some()
                    && (error.stage == Stage::Configure
                        || matches!(error.source, LoadProblem::CloudConf { .. }));
                let field = if is_config { "cloudConfig" } else { "file" };
                let sentence = format!("the plugin cannot be loaded: {error}");
                reviewed.add_error(&path.key(field), &sentence);
            }
        }
    }
    Ok(lines)
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
