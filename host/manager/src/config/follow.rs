//! Applies changes of the configuration file while the process runs.
//!
//! Rules and credentials are replaced in the gateways (`egress.rs`); for other settings, the plugin
//! is loaded again.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::watch, time::sleep};

use super::{FileMetrics, PluginFlags, PluginSettings};
use crate::{
    egress::Egress,
    file::{self, SkydockConfiguration},
    process::blocking::blocking,
};

/// How often the file is checked.
const PERIOD: Duration = Duration::from_secs(2);

/// The result of a check of the file.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// Nothing has changed.
    Unchanged,
    /// Rules and credentials of the file are in effect, and these are the plugin's settings. `None`
    /// if the file names another plugin, which needs a restart.
    Applied(Option<Box<PluginSettings>>),
    /// The file is not valid, and the previous configuration stays in effect.
    Rejected(String),
}

/// What depends on the file.
pub struct Followed {
    /// What the command line says about the plugin.
    pub flags: PluginFlags,
    /// Network access of the plugin.
    pub egress: Arc<Egress>,
    /// The settings of the plugin. Sent again if they have not changed, but rules have: they may
    /// be the reason why a replacement was rejected.
    pub settings: watch::Sender<PluginSettings>,
    /// Whether the file is rejected, or needs a restart.
    pub metrics: FileMetrics,
}

/// Follows the file: its changes take effect, except for another plugin. Never ends.
pub async fn follow(path: PathBuf, followed: Followed) {
    let Followed {
        flags,
        egress,
        settings,
        metrics,
    } = followed;

    // The file may have changed since the process read it at startup, so its first content is
    // always applied.
    let mut known = None;
    let mut rejection = None;
    let mut seen = read(&path).await;

    loop {
        let now = parse(&seen, &path);
        let outcome = apply(known.as_ref(), &now, &flags, &path, &egress);
        let file = path.display();

        match outcome {
            Outcome::Unchanged => {
                metrics.rejected.set(0);
                rejection = None;
            }
            Outcome::Applied(applied) => {
                let is_first = known.is_none();
                if !is_first {
                    tracing::info!(%file, "configuration file applied");
                }

                metrics.rejected.set(0);
                metrics.restart_required.set(i64::from(applied.is_none()));
                known = now.ok();
                rejection = None;

                match applied {
                    // The plugin was loaded with these settings, unless the file has changed since.
                    Some(applied) if is_first => drop(settings.send_if_modified(|before| {
                        let differs = *before != *applied;
                        *before = *applied;
                        differs
                    })),
                    Some(applied) => drop(settings.send_replace(*applied)),
                    None => {
                        tracing::warn!(%file, plugin = flags.name, "the file names another plugin: restart Skydock to use that");
                    }
                }
            }
            Outcome::Rejected(why) => {
                metrics.rejected.set(1);
                // Logged once, not at each check.
                if rejection.as_ref() != Some(&why) {
                    tracing::error!(%file, "configuration file rejected; the previous one stays in effect: {why}");
                }
                rejection = Some(why);
            }
        }

        let text = Some(seen);
        seen = next(&path, text.as_ref().filter(|_| rejection.is_none())).await;
    }
}

/// Returns the next text that differs from the previous one and did not change between two checks:
/// a file that is being written may not be valid, or have fewer restrictions than the complete one.
/// After a rejection, the same text is returned again, since files that it refers to may have been
/// created.
async fn next(path: &Path, applied: Option<&Result<String, String>>) -> Result<String, String> {
    let mut before = None;
    loop {
        sleep(PERIOD).await;
        let now = read(path).await;
        if applied != Some(&now) && before.as_ref() == Some(&now) {
            return now;
        }
        before = Some(now);
    }
}

async fn read(path: &Path) -> Result<String, String> {
    let path = path.to_owned();
    blocking(async move { file::text(&path) })
        .await
        .map_err(|error| format!("{error:#}"))
}

fn parse(text: &Result<String, String>, path: &Path) -> Result<SkydockConfiguration, String> {
    SkydockConfiguration::parse(text.as_ref().map_err(Clone::clone)?, path)
        .map_err(|error| format!("{error:#}"))
}

/// Applies the file. `known` is the last configuration that was applied.
fn apply(
    known: Option<&SkydockConfiguration>,
    now: &Result<SkydockConfiguration, String>,
    flags: &PluginFlags,
    path: &Path,
    egress: &Egress,
) -> Outcome {
    let configuration = match now {
        Ok(configuration) if known == Some(configuration) => return Outcome::Unchanged,
        Ok(configuration) => configuration,
        Err(why) => return Outcome::Rejected(why.clone()),
    };

    let plugin = configuration.plugin(&flags.name);
    let names_another = plugin.is_none() && !configuration.plugins.is_empty();
    let settings = (!names_another)
        .then(|| flags.settings(Some((configuration, path))))
        .transpose();
    let settings = match settings {
        Ok(settings) => settings.map(Box::new),
        Err(why) => return Outcome::Rejected(why.to_string()),
    };

    // Rules of another plugin do not apply to this one, which can then reach nothing.
    let policy = plugin
        .map(|plugin| configuration.egress_policy(plugin))
        .unwrap_or_default();

    // Applied last, when everything else is valid: a rejected file must change nothing.
    match egress.update(policy) {
        Ok(()) => Outcome::Applied(settings),
        Err(why) => Outcome::Rejected(why.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use prometheus_client::registry::Registry;

    use super::*;
    use crate::egress::EgressPolicy;

    fn of(plugin: &str) -> Result<SkydockConfiguration, String> {
        let text = format!(
            "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins:\n- name: a\n{plugin}"
        );
        SkydockConfiguration::parse(&text, Path::new("/c.yaml")).map_err(|error| error.to_string())
    }

    fn flags() -> PluginFlags {
        PluginFlags {
            name: "a".to_owned(),
            ..PluginFlags::default()
        }
    }

    /// Follows a file. Returns the settings of the plugin.
    fn started(
        file: &Path,
        egress: &Arc<Egress>,
        metrics: &FileMetrics,
    ) -> (tokio::task::JoinHandle<()>, watch::Receiver<PluginSettings>) {
        let before = "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins: [{name: a, file: a.wasm}]";
        let before = SkydockConfiguration::parse(before, file).unwrap();
        let settings = flags().settings(Some((&before, file))).unwrap();
        let (sender, receiver) = watch::channel(settings);
        let followed = Followed {
            flags: flags(),
            egress: Arc::clone(egress),
            settings: sender,
            metrics: metrics.clone(),
        };
        (tokio::spawn(follow(file.to_owned(), followed)), receiver)
    }

    #[test]
    fn only_another_plugin_needs_a_restart() {
        let egress = Egress::new(
            "a",
            EgressPolicy::default(),
            Vec::new(),
            &mut Registry::default(),
        )
        .unwrap();
        let plain = of("  file: a.wasm");
        let opened = of("  file: a.wasm\n  egress: [{name: x, to: 'https://a.example:443'}]");
        let moved = of("  file: b.wasm\n  limits: {memory: 64Mi}");
        let other = of("  file: a.wasm").map(|mut other| {
            other.plugins[0].name = "b".to_owned();
            other
        });
        let wrong = of("  file: b.wasm\n  egress: [{name: x, to: 'https://a.example'}]");
        assert!(
            wrong
                .as_ref()
                .is_err_and(|why| why.contains("https://a.example")),
            "{wrong:?}"
        );

        let path = Path::new("/c.yaml");
        let settings = |of: &Result<SkydockConfiguration, String>| {
            let settings = flags().settings(Some((of.as_ref().unwrap(), path)));
            Some(Box::new(settings.unwrap()))
        };

        for (known, now, expected) in [
            (&plain, &plain, Outcome::Unchanged),
            (&plain, &opened, Outcome::Applied(settings(&plain))),
            (&opened, &moved, Outcome::Applied(settings(&moved))),
            (&moved, &other, Outcome::Applied(None)),
            (
                &opened,
                &wrong,
                Outcome::Rejected(wrong.clone().unwrap_err()),
            ),
        ] {
            let applied = apply(known.as_ref().ok(), now, &flags(), path, &egress);
            assert_eq!(applied, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_still_changing_is_not_applied() {
        use skydock_sandbox::GatewayProvider as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.yaml");
        let whole = "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins:\n- name: a\n  file: a.wasm\n";
        std::fs::write(&file, whole).unwrap();
        let egress = Arc::new(
            Egress::new(
                "a",
                EgressPolicy::default(),
                Vec::new(),
                &mut Registry::default(),
            )
            .unwrap(),
        );
        let gateway = egress.gateway("1");
        let (following, _) = started(&file, &egress, &FileMetrics::default());
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
        use skydock_sandbox::GatewayProvider as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.yaml");
        // The process has read a file without rules. The file is changed while the plugin is
        // compiled.
        let egress = Arc::new(
            Egress::new(
                "a",
                EgressPolicy::default(),
                Vec::new(),
                &mut Registry::default(),
            )
            .unwrap(),
        );
        let gateway = egress.gateway("1");
        let text = "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins:\n- name: a\n  file: a.wasm\n  egress: [{name: x, to: 'https://a.example:443', addresses: [0.0.0.0/0]}]";
        std::fs::write(&file, text).unwrap();
        let metrics = FileMetrics::default();
        let (following, mut settings) = started(&file, &egress, &metrics);
        sleep(PERIOD * 3).await;
        assert_eq!((gateway.warnings().len(), metrics.rejected.get()), (1, 0));
        assert!(!settings.has_changed().unwrap());

        let limited = format!("{text}\n  limits: {{memory: 64Mi}}");
        let other = text.replace("name: a\n", "name: b\n");
        for (text, expected) in [
            ("kind: SkydockConfiguration", (1, 0, false)),
            (text, (0, 0, false)),
            (&limited, (0, 0, true)),
            (&other, (0, 1, false)),
            // It may have been the reason for a rejection, even if the settings are the same.
            (&limited, (0, 0, true)),
        ] {
            std::fs::write(&file, text).unwrap();
            sleep(PERIOD * 3).await;
            let found = (
                metrics.rejected.get(),
                metrics.restart_required.get(),
                settings.has_changed().unwrap(),
            );
            assert_eq!(found, expected, "{text}");
            settings.mark_unchanged();
        }
        assert_eq!(settings.borrow().limits.memory, 64 << 20);
        following.abort();
    }
}
