//! Runs the built host, with its files in one directory.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use serde_json::Value;
use skydock_support::{Host, Paths};
use tempfile::TempDir;

use crate::site::{PODS, Plugin, Site, configured};

/// The name of the configuration file.
const CONFIG: &str = "config.yaml";

/// Starts hosts for one cluster, one after the other.
pub struct Hosts {
    binary: PathBuf,
    args: Vec<OsString>,
    dir: TempDir,
    started: usize,
}

impl Hosts {
    /// Writes the configuration of a host that runs all controllers for which a site has something.
    ///
    /// # Errors
    /// Fails if a binary has not been built, or if files cannot be written.
    pub fn configure(
        site: &dyn Site,
        cluster: &str,
        kubeconfig: &Path,
        more: &[&str],
    ) -> Result<Self> {
        let cidr = format!("--cluster-cidr={PODS}");
        let mut flags = if site.has_only_nodes() {
            vec![
                "--controllers=cloud-node,cloud-node-lifecycle",
                "--configure-cloud-routes=false",
            ]
        } else {
            vec![
                cidr.as_str(),
                "--controllers=*",
                "--allocate-node-cidrs",
                "--configure-cloud-routes",
            ]
        };
        flags.push("--node-monitor-period=1s");
        flags.extend(more);
        Self::of_site(site, cluster, kubeconfig, &flags)
    }

    /// Writes the configuration of a host with these flags for a site.
    ///
    /// # Errors
    /// See [`Self::configure`].
    pub fn of_site(
        site: &dyn Site,
        cluster: &str,
        kubeconfig: &Path,
        flags: &[&str],
    ) -> Result<Self> {
        let plugin = site.plugin().file(site.provider())?;
        Self::with(cluster, kubeconfig, flags, |dir| {
            configured(site, &plugin, dir, cluster)
        })
    }

    /// Writes the configuration of a host with these flags. The function returns the configuration,
    /// and writes the files that it refers to. Compiled plugins are stored in a directory that all
    /// hosts share.
    ///
    /// # Errors
    /// See [`Self::configure`].
    pub fn with(
        cluster: &str,
        kubeconfig: &Path,
        flags: &[&str],
        document: impl FnOnce(&Path) -> Result<Value>,
    ) -> Result<Self> {
        let paths = Paths::of_checkout()?;
        let dir = tempfile::Builder::new().prefix("skydock-e2e-").tempdir()?;
        let config = dir.path().join(CONFIG);
        // JSON is valid YAML.
        fs::write(&config, serde_json::to_vec_pretty(&document(dir.path())?)?)?;
        let compiled = Plugin::compiled()?;
        fs::create_dir_all(&compiled)?;
        let mut args = vec![
            format!("--config={}", config.display()).into(),
            format!("--kubeconfig={}", kubeconfig.display()).into(),
            format!("--plugin-cache-dir={}", compiled.display()).into(),
            format!("--cluster-name={cluster}").into(),
        ];
        args.extend(flags.iter().map(OsString::from));
        Ok(Self {
            binary: paths.skydock,
            args,
            dir,
            started: 0,
        })
    }

    /// Returns the directory with cloud.conf, the files with secrets, and the rest of the
    /// configuration.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Changes the configuration file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or written.
    pub fn edit(&self, change: impl FnOnce(&mut Value)) -> Result<()> {
        let file = self.dir.path().join(CONFIG);
        let mut document = serde_json::from_slice(&fs::read(&file)?)?;
        change(&mut document);
        fs::write(&file, serde_json::to_vec_pretty(&document)?)
            .with_context(|| file.display().to_string())
    }

    /// Sets an environment variable for hosts that are started afterwards: `NAME=VALUE`.
    pub fn set(&mut self, variable: &str) {
        let binary = std::mem::replace(&mut self.binary, PathBuf::from("/usr/bin/env"));
        self.args
            .splice(0..0, [OsString::from(variable), binary.into()]);
    }

    /// Starts a host and waits until it is ready.
    ///
    /// # Errors
    /// Fails if it ends instead, with the end of its log.
    pub async fn start(&mut self) -> Result<Host> {
        self.started += 1;
        Host::start(
            &self.binary,
            self.dir.path(),
            &format!("host-{}", self.started),
            &self.args,
        )
        .await
    }

    /// Returns the logs of all hosts so far.
    ///
    /// # Errors
    /// Fails if a log cannot be read.
    pub fn logs(&self) -> Result<String> {
        let names =
            (1..=self.started).map(|number| self.dir.path().join(format!("host-{number}.log")));
        names
            .map(|log| fs::read_to_string(&log).with_context(|| log.display().to_string()))
            .collect()
    }

    /// Keeps files and logs, and returns their directory.
    pub fn keep(&mut self) -> &Path {
        self.dir.disable_cleanup(true);
        self.dir.path()
    }

    /// Stops a host gracefully.
    ///
    /// # Errors
    /// Fails if the host does not stop.
    pub async fn stop(mut host: Host) -> Result<()> {
        host.terminate()?;
        host.ended(Duration::from_secs(30)).await?;
        Ok(())
    }
}
