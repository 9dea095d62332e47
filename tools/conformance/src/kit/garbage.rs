//! Bad configurations.

use skydock_cloud::CloudError;
use skydock_sandbox::{ConfigSecrets, PluginSource, Stage};

use super::{Loader, returned_error};
use crate::{
    Check, KitError, Report, Verdict,
    judge::{failed, skipped},
};

/// A value that is in no real configuration, too short for Skydock to redact it.
const VALUE: &str = "qz7wvk";

/// Text in no format, and in several formats with an unknown field.
const GARBAGE: [&str; 3] = [
    "\u{7f}{[<( not a configuration\n",
    "{\"conformance\": \"qz7wvk\"}\n",
    "conformance: qz7wvk\n",
];

/// Loads the plugin with each bad configuration.
pub(super) async fn run(loader: &Loader, report: &mut Report) -> Result<(), KitError> {
    let file = tempfile::NamedTempFile::new()?;
    let mut accepted = 0;
    let mut wrong = None;
    let mut quoted = None;

    for text in GARBAGE {
        std::fs::write(file.path(), text)?;
        let source = PluginSource {
            cloud_config: Some(file.path().to_owned()),
            secrets: ConfigSecrets::Rejected,
            ..loader.options.source.clone()
        };

        match loader
            .load_with(loader.options.limits.clone(), source)
            .await?
        {
            Ok(_) => accepted += 1,
            Err(error) => {
                if error.to_string().contains(VALUE) {
                    quoted = quoted.or(Some(error.to_string()));
                }

                // A plugin that is rejected before `configure` has not seen the text.
                let invalid = matches!(returned_error(&error), Some(CloudError::Invalid(text)) if !text.trim().is_empty());
                if error.stage >= Stage::Configure && !invalid {
                    wrong = wrong.or(Some(error.to_string()));
                }
            }
        }
    }

    report.add(
        Check::Garbage,
        garbage(
            accepted,
            wrong,
            loader.options.source.cloud_config.is_some(),
        ),
    );

    let hint = "name the field and its place, never its value: a value may be a secret";
    let unquoted = quoted.map_or(Verdict::Ok, |it| {
        failed("a reason without values", it, hint)
    });
    report.add(
        Check::GarbageUnquoted,
        if accepted == GARBAGE.len() {
            skipped("it accepts any configuration")
        } else {
            unquoted
        },
    );

    Ok(())
}

/// Judges how bad configurations were received. A plugin that needs no configuration may ignore it.
fn garbage(accepted: usize, wrong: Option<String>, has_config: bool) -> Verdict {
    let hint = "parse the whole configuration in `configure`, and return `invalid` with file, line and reason";
    match wrong {
        Some(seen) => failed("`invalid`, with a reason", seen, hint),
        None if has_config && accepted == GARBAGE.len() => failed(
            "`invalid`, with a reason",
            "any text is accepted as the configuration",
            hint,
        ),
        None => Verdict::Ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plugin_with_a_configuration_must_reject_others() {
        let fails = |accepted, wrong: Option<&str>, has| {
            matches!(
                garbage(accepted, wrong.map(str::to_owned), has),
                Verdict::Failed { .. }
            )
        };
        assert!(fails(3, None, true) && !fails(3, None, false) && !fails(1, None, true));
        assert!(fails(0, Some("it trapped"), true) && fails(0, Some("it trapped"), false));
    }
}
