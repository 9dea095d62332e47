//! Bad configurations, which a plugin must reject.

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

/// How the plugin has received the bad configurations.
pub(super) struct GarbageObservations {
    /// Number of configurations that it has accepted.
    accepted: usize,
    /// The first rejection that was not `invalid` with a reason.
    wrong: Option<String>,
    /// The first rejection that quotes a value.
    quoted: Option<String>,
    /// Whether it normally has a configuration.
    has_config: bool,
}

/// Loads the plugin with each bad configuration.
pub(super) async fn run(loader: &Loader) -> Result<GarbageObservations, KitError> {
    let file = tempfile::NamedTempFile::new()?;
    let mut seen = GarbageObservations {
        accepted: 0,
        wrong: None,
        quoted: None,
        has_config: loader.options.source.cloud_config.is_some(),
    };

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
            Ok(_) => seen.accepted += 1,
            Err(error) => {
                if error.to_string().contains(VALUE) {
                    seen.quoted = seen.quoted.or(Some(error.to_string()));
                }

                // A plugin that is rejected before `configure` has not seen the text.
                let invalid = matches!(returned_error(&error), Some(CloudError::Invalid(text)) if !text.trim().is_empty());
                if error.stage >= Stage::Configure && !invalid {
                    seen.wrong = seen.wrong.or(Some(error.to_string()));
                }
            }
        }
    }

    Ok(seen)
}

impl GarbageObservations {
    pub(super) fn judge(self, report: &mut Report) {
        let accepts_any = self.accepted == GARBAGE.len();
        report.add(
            Check::Garbage,
            garbage(self.accepted, self.wrong, self.has_config),
        );

        let hint = "name the field and its place, never its value: a value may be a secret";
        let unquoted = self.quoted.map_or(Verdict::Ok, |it| {
            failed("a reason without values", it, hint)
        });
        report.add(
            Check::GarbageUnquoted,
            if accepts_any {
                skipped("it accepts any configuration")
            } else {
                unquoted
            },
        );
    }
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
