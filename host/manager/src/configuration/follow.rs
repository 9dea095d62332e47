//! Takes up what changes in the configuration file while the process runs.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::time::sleep;

use super::SkydockConfiguration;
use crate::{blocking::blocking, egress::Egress};

/// How often the file is looked at.
const PERIOD: Duration = Duration::from_secs(2);

/// What came of a change of the file.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Nothing has changed.
    Same,
    /// Rules and credentials are those of the file now; true if something else has changed too, which needs a restart.
    Taken { restart: bool },
    /// The file is wrong, and what was in force still is.
    Refused(String),
}

/// Follows the file: rules and credentials of this plugin take effect at once, and of the rest it is told that it does not. Never
/// ends.
pub async fn follow(path: PathBuf, plugin: String, egress: Arc<Egress>) {
    let mut known = read(&path).await;
    // What it was when the process read it at its start is not known here: the rest of the start takes a while.
    if let Outcome::Refused(why) = take(&Err(String::new()), &known, &plugin, &egress) {
        tracing::error!("the configuration was not taken, and the one before stays in force: {why}");
    }
    loop {
        sleep(PERIOD).await;
        let now = read(&path).await;
        let outcome = take(&known, &now, &plugin, &egress);
        let file = path.display();
        match &outcome {
            Outcome::Same => continue,
            Outcome::Taken { restart } => {
                tracing::info!(%file, "rules and credentials of the configuration are in force");
                if *restart {
                    tracing::warn!(%file, "what else has changed in the configuration takes effect with the next start");
                }
            }
            Outcome::Refused(why) => {
                tracing::error!("the configuration was not taken, and the one before stays in force: {why}");
            }
        }
        known = now;
    }
}

async fn read(path: &Path) -> Result<SkydockConfiguration, String> {
    let path = path.to_owned();
    let read = blocking(async move { SkydockConfiguration::read(&path) }).await;
    read.map_err(|error| format!("{error:#}"))
}

fn take(
    known: &Result<SkydockConfiguration, String>,
    now: &Result<SkydockConfiguration, String>,
    plugin: &str,
    egress: &Egress,
) -> Outcome {
    if known == now {
        return Outcome::Same;
    }
    let configuration = match now {
        Ok(configuration) => configuration,
        Err(why) => return Outcome::Refused(why.clone()),
    };
    let entry = configuration.plugins.iter().find(|entry| entry.name == plugin);
    let permits = entry.map(|entry| configuration.permits(entry)).unwrap_or_default();
    match egress.update(permits) {
        Ok(()) => Outcome::Taken { restart: known.as_ref().is_ok_and(|known| rest(known) != rest(configuration)) },
        Err(why) => Outcome::Refused(why.to_string()),
    }
}

/// All but what takes effect at once.
fn rest(configuration: &SkydockConfiguration) -> SkydockConfiguration {
    let mut rest = configuration.clone();
    rest.credentials.clear();
    rest.plugins.iter_mut().for_each(|plugin| plugin.egress.clear());
    rest
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use prometheus_client::registry::Registry;

    use super::*;
    use crate::egress::Permits;

    fn parse(plugin: &str) -> Result<SkydockConfiguration, String> {
        let text =
            format!("apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins:\n- name: a\n{plugin}");
        SkydockConfiguration::parse(&text, Path::new("/c.yaml")).map_err(|error| error.to_string())
    }

    // Holds: OPS-122
    #[test]
    fn rules_are_taken_up_at_once_and_the_rest_is_told() {
        let egress = Egress::new("a", Permits::default(), Vec::new(), &mut Registry::default()).unwrap();
        let plain = parse("  file: a.wasm");
        let opened = parse("  file: a.wasm\n  egress: [{name: x, to: 'https://a.example:443'}]");
        let moved = parse("  file: b.wasm\n  egress: [{name: x, to: 'https://a.example:443'}]");
        let wrong = parse("  file: b.wasm\n  egress: [{name: x, to: 'https://a.example'}]");
        assert!(wrong.as_ref().is_err_and(|why| why.contains("https://a.example")), "{wrong:?}");
        for (known, now, expected) in [
            (&plain, &plain, Outcome::Same),
            (&plain, &opened, Outcome::Taken { restart: false }),
            (&opened, &moved, Outcome::Taken { restart: true }),
            (&opened, &wrong, Outcome::Refused(wrong.clone().unwrap_err())),
            (&wrong, &opened, Outcome::Taken { restart: false }),
        ] {
            assert_eq!(take(known, now, "a", &egress), expected);
        }
    }

    #[tokio::test]
    async fn what_changed_before_the_first_look_is_taken_too() {
        use skydock_plugin::WayOut as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.yaml");
        // The process has read a file without rules; this is what it is while the plugin is compiled.
        let egress = Arc::new(Egress::new("a", Permits::default(), Vec::new(), &mut Registry::default()).unwrap());
        let gateway = egress.gateway("1");
        let text = "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins:\n- name: a\n  file: a.wasm\n  egress: [{name: x, to: 'https://a.example:443', addresses: [0.0.0.0/0]}]";
        std::fs::write(&file, text).unwrap();
        let following = tokio::spawn(follow(file, "a".to_owned(), Arc::clone(&egress)));
        sleep(PERIOD * 3).await;
        following.abort();
        assert_eq!(gateway.warnings().len(), 1);
    }
}
