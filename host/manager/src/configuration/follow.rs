//! Applies changes of the configuration file while the process runs.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::sleep;

use super::SkydockConfiguration;
use crate::{blocking::blocking, egress::Egress};

/// How often the file is checked.
const PERIOD: Duration = Duration::from_secs(2);

/// The result of a check of the file.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Nothing has changed.
    Same,
    /// Rules and credentials of the file are in effect. `restart` is true if something else has
    /// changed, which needs a restart.
    Taken { restart: bool },
    /// The file is not valid, and the previous configuration stays in effect.
    Refused(String),
}

/// Follows the file: changes of the rules and credentials of this plugin take effect, and a warning
/// is logged if other changes need a restart. `refused` is 1 while the current file is rejected.
/// Never ends.
pub async fn follow(path: PathBuf, plugin: String, egress: Arc<Egress>, refused: Gauge) {
    // The file may have changed since the process read it at startup, so its first content is
    // always applied.
    let mut known = None;
    let mut text = None;
    let mut refusal = None;
    let mut seen = read(&path).await;
    loop {
        let now = parse(&seen, &path);
        let outcome = take(known.as_ref(), &now, &plugin, &egress);
        let file = path.display();
        match outcome {
            Outcome::Same => {
                refused.set(0);
                refusal = None;
            }
            Outcome::Taken { restart } => {
                if text.is_some() {
                    tracing::info!(%file, "configuration file applied: its egress rules and credentials are in effect");
                }
                if restart {
                    tracing::warn!(%file, "other changes in the file take effect only after a restart: restart Skydock");
                }
                refused.set(0);
                (known, refusal) = (now.ok(), None);
            }
            Outcome::Refused(why) => {
                refused.set(1);
                if refusal.as_ref() != Some(&why) {
                    tracing::error!(%file, "configuration file rejected; the previous one stays in effect: {why}");
                }
                refusal = Some(why);
            }
        }
        text = Some(seen);
        seen = next(&path, text.as_ref().filter(|_| refusal.is_none())).await;
    }
}

/// Returns the next text that differs from the previous one and did not change between two checks:
/// a file that is being written may not be valid, or have fewer restrictions than the complete one.
/// After a rejection, the same text is returned again, since files that it refers to may have been
/// created.
async fn next(path: &Path, taken: Option<&Result<String, String>>) -> Result<String, String> {
    let mut before = None;
    loop {
        sleep(PERIOD).await;
        let now = read(path).await;
        if taken != Some(&now) && before.as_ref() == Some(&now) {
            return now;
        }
        before = Some(now);
    }
}

async fn read(path: &Path) -> Result<String, String> {
    let path = path.to_owned();
    blocking(async move { super::text(&path) })
        .await
        .map_err(|error| format!("{error:#}"))
}

fn parse(text: &Result<String, String>, path: &Path) -> Result<SkydockConfiguration, String> {
    SkydockConfiguration::parse(text.as_ref().map_err(Clone::clone)?, path)
        .map_err(|error| format!("{error:#}"))
}

/// Applies the file. `known` is the last configuration that was applied.
fn take(
    known: Option<&SkydockConfiguration>,
    now: &Result<SkydockConfiguration, String>,
    plugin: &str,
    egress: &Egress,
) -> Outcome {
    let configuration = match now {
        Ok(configuration) if known == Some(configuration) => return Outcome::Same,
        Ok(configuration) => configuration,
        Err(why) => return Outcome::Refused(why.clone()),
    };
    let entry = configuration
        .plugins
        .iter()
        .find(|entry| entry.name == plugin);
    let permits = entry
        .map(|entry| configuration.permits(entry))
        .unwrap_or_default();
    match egress.update(permits) {
        Ok(()) => Outcome::Taken {
            restart: known.is_some_and(|known| rest(known) != rest(configuration)),
        },
        Err(why) => Outcome::Refused(why.to_string()),
    }
}

/// Returns the parts of the configuration that need a restart.
fn rest(configuration: &SkydockConfiguration) -> SkydockConfiguration {
    let mut rest = configuration.clone();
    rest.credentials.clear();
    rest.plugins
        .iter_mut()
        .for_each(|plugin| plugin.egress.clear());
    rest
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use prometheus_client::registry::Registry;

    use super::*;
    use crate::egress::Permits;

    fn of(plugin: &str) -> Result<SkydockConfiguration, String> {
        let text = format!(
            "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins:\n- name: a\n{plugin}"
        );
        SkydockConfiguration::parse(&text, Path::new("/c.yaml")).map_err(|error| error.to_string())
    }

    #[test]
    fn new_rules_apply_immediately_other_changes_need_a_restart() {
        let egress = Egress::new(
            "a",
            Permits::default(),
            Vec::new(),
            &mut Registry::default(),
        )
        .unwrap();
        let plain = of("  file: a.wasm");
        let opened = of("  file: a.wasm\n  egress: [{name: x, to: 'https://a.example:443'}]");
        let moved = of("  file: b.wasm\n  egress: [{name: x, to: 'https://a.example:443'}]");
        let wrong = of("  file: b.wasm\n  egress: [{name: x, to: 'https://a.example'}]");
        assert!(
            wrong
                .as_ref()
                .is_err_and(|why| why.contains("https://a.example")),
            "{wrong:?}"
        );
        for (known, now, expected) in [
            (&plain, &plain, Outcome::Same),
            (&plain, &opened, Outcome::Taken { restart: false }),
            (&opened, &moved, Outcome::Taken { restart: true }),
            (
                &opened,
                &wrong,
                Outcome::Refused(wrong.clone().unwrap_err()),
            ),
        ] {
            assert_eq!(take(known.as_ref().ok(), now, "a", &egress), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_still_changing_is_not_applied() {
        use skydock_plugin::WayOut as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.yaml");
        let whole = "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins:\n- name: a\n  file: a.wasm\n";
        std::fs::write(&file, whole).unwrap();
        let egress = Arc::new(
            Egress::new(
                "a",
                Permits::default(),
                Vec::new(),
                &mut Registry::default(),
            )
            .unwrap(),
        );
        let gateway = egress.gateway("1");
        let following = tokio::spawn(follow(
            file.clone(),
            "a".to_owned(),
            Arc::clone(&egress),
            Gauge::default(),
        ));
        sleep(PERIOD * 2).await;
        // Each text is valid, but has fewer restrictions than the last one.
        let rule =
            "  egress:\n  - {name: x, to: 'https://a.example:443', addresses: [0.0.0.0/0]}\n";
        for more in 0..9 {
            std::fs::write(&file, format!("{whole}{rule}{}", "#\n".repeat(more))).unwrap();
            sleep(PERIOD * 9 / 10).await;
            assert_eq!(gateway.warnings().len(), 0, "after {more}");
        }
        sleep(PERIOD * 2).await;
        assert_eq!(gateway.warnings().len(), 1, "at rest");
        following.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_before_the_first_poll_is_applied() {
        use skydock_plugin::WayOut as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.yaml");
        // The process has read a file without rules. The file is changed while the plugin is
        // compiled.
        let egress = Arc::new(
            Egress::new(
                "a",
                Permits::default(),
                Vec::new(),
                &mut Registry::default(),
            )
            .unwrap(),
        );
        let gateway = egress.gateway("1");
        let text = "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins:\n- name: a\n  file: a.wasm\n  egress: [{name: x, to: 'https://a.example:443', addresses: [0.0.0.0/0]}]";
        std::fs::write(&file, text).unwrap();
        let refused = Gauge::default();
        let following = tokio::spawn(follow(
            file.clone(),
            "a".to_owned(),
            Arc::clone(&egress),
            refused.clone(),
        ));
        sleep(PERIOD * 3).await;
        assert_eq!((gateway.warnings().len(), refused.get()), (1, 0));
        for (text, expected) in [("kind: SkydockConfiguration", 1), (text, 0)] {
            std::fs::write(&file, text).unwrap();
            sleep(PERIOD * 3).await;
            assert_eq!(refused.get(), expected, "{text}");
        }
        following.abort();
    }
}
