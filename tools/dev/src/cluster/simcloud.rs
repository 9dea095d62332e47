//! `skydock dev --simcloud`: the example cloud, in this process, and the configuration with which a
//! plugin reaches it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde_json::{Value, json};
use skydock_simcloud::{Options, Simcloud};
use tempfile::TempDir;

/// Name of the plugin in the configuration.
const PLUGIN: &str = "simcloud";

/// A running cloud with a server for each simulated node, and its files. They are deleted when this
/// is dropped.
pub(crate) struct Simulated {
    cloud: Simcloud,
    files: TempDir,
}

impl Simulated {
    /// Starts the cloud, and writes the files for a plugin. Blocks the thread.
    ///
    /// # Errors
    /// If the cloud cannot listen, or a file cannot be written.
    pub(crate) fn start(nodes: u16, plugin: Option<&Path>) -> anyhow::Result<Self> {
        let options = Options {
            servers: nodes.into(),
            ..Options::default()
        };
        let region = options.region.clone();
        let cloud = Simcloud::start(options).context("cannot start simcloud")?;

        let files = tempfile::Builder::new()
            .prefix("skydock-simcloud-")
            .tempdir();
        let started = Self {
            cloud,
            files: files.context("cannot create a folder for the files of simcloud")?,
        };

        started
            .write(&region, plugin)
            .context("cannot write the files of simcloud")?;
        Ok(started)
    }

    fn write(&self, region: &str, plugin: Option<&Path>) -> io::Result<()> {
        fs::write(self.token_file(), self.cloud.token())?;
        let cloud_config = self.files.path().join("cloud.json");
        fs::write(
            &cloud_config,
            json!({"url": self.url(), "region": region}).to_string(),
        )?;

        let Some(plugin) = plugin else { return Ok(()) };
        let plugin = json!({
            "name": PLUGIN,
            "file": std::path::absolute(plugin)?,
            "cloudConfig": cloud_config,
            "options": {"endpoint": self.url(), "region": region},
            "egress": [self.rule()],
        });

        let credential = json!({
            "name": "token", "type": "header", "for": {"plugin": PLUGIN, "digest": "any"},
            "prefix": "Bearer ", "valueFile": self.token_file(),
        });

        let configuration = json!({
            "apiVersion": "skydock.dev/v1alpha1", "kind": "SkydockConfiguration",
            "plugins": [plugin], "credentials": [credential],
        });
        fs::write(self.configuration(), configuration.to_string())
    }

    /// Returns the rule for the API, but not for the hooks of tests, which need no token. It has no
    /// rate limit in effect: simcloud has its own, and `skydock plugin bench` would measure the
    /// limit.
    fn rule(&self) -> Value {
        json!({
            "name": "api", "to": self.url(), "addresses": ["127.0.0.1/32"], "paths": ["/v1"], "credential": "token",
            "limits": {"rate": 10_000, "burst": 10_000},
        })
    }

    /// Returns the configuration of Skydock, which exists if `start` was given a plugin.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.files.path().join("config.yaml")
    }

    pub(crate) fn token_file(&self) -> PathBuf {
        self.files.path().join("token")
    }

    pub(crate) fn url(&self) -> String {
        self.cloud.url()
    }

    pub(crate) fn token(&self) -> String {
        self.cloud.token().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skydock::file::SkydockConfiguration;

    #[test]
    fn a_plugin_can_reach_the_simulated_cloud_and_nothing_else() {
        let simulated = Simulated::start(2, Some(Path::new("my_cloud.wasm"))).unwrap();
        let configuration = SkydockConfiguration::read(&simulated.configuration()).unwrap();
        let plugin = &configuration.plugins[0];
        assert!(
            plugin.file.is_absolute() && plugin.file.ends_with("my_cloud.wasm"),
            "{}",
            plugin.file.display()
        );
        assert_eq!(plugin.options["endpoint"], simulated.url());
        assert_eq!(
            (plugin.egress.len(), configuration.credentials.len()),
            (1, 1)
        );
        let (status, servers) = simulated.cloud.request("GET", "/v1/servers", &Value::Null);
        assert_eq!(
            (status, servers.to_string().matches("\"node-").count()),
            (200, 2),
            "{servers}"
        );
        let folder = simulated.files.path().to_owned();
        drop(simulated);
        assert!(!folder.exists());
    }
}
