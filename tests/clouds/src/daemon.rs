//! Clouds that keep running after the command that started them has returned.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::openstack::{Project, admin, fill, prepared};
use crate::run::{Launch, Ready, read};
use crate::{Error, Service, cache, install};

/// How long a cloud may take to stop.
const PATIENCE: Duration = Duration::from_secs(15);
/// The project that is created in a new OpenStack.
const PROJECT: &str = "demo";

/// The kind of the cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cloud {
    /// See [`crate::OpenStack`].
    OpenStack,
    /// See [`crate::Aws`]. Signatures are not verified.
    Aws,
}

/// A cloud that runs until it is stopped. There can be several, identified by name.
#[derive(Debug, Clone)]
pub struct Standing {
    cloud: Cloud,
    home: PathBuf,
}

impl Standing {
    /// Returns the cloud with this name, whether it runs or not.
    ///
    /// # Errors
    /// Fails if there is no cache folder.
    pub fn new(cloud: Cloud, name: &str) -> Result<Self, Error> {
        let kind = match cloud {
            Cloud::OpenStack => "openstack",
            Cloud::Aws => "aws",
        };
        Ok(Self {
            cloud,
            home: cache::folder()?.join("up").join(format!("{kind}-{name}")),
        })
    }

    /// Returns the information that the cloud wrote when it was ready, or `None` if it does not
    /// run.
    ///
    /// # Errors
    /// Fails if its folder cannot be read.
    fn ready(&self) -> Result<Option<Ready>, Error> {
        Ok(read(&self.home.join("ready.json"))?.filter(|ready| lives(ready.pid, &self.home)))
    }

    /// Starts the cloud unless it runs, and returns its environment like [`Self::environment`].
    ///
    /// # Errors
    /// See [`crate::OpenStack::start`].
    pub async fn up(&self) -> Result<String, Error> {
        match self.ready()? {
            Some(_) => self.environment(),
            None => self.start("{}").await,
        }
    }

    async fn start(&self, ports: &str) -> Result<String, Error> {
        cache::remove(&self.home)?;
        fs::create_dir_all(&self.home).map_err(Error::io("create", &self.home))?;
        let ready = match self.cloud {
            Cloud::OpenStack => {
                let prepared = prepared().await?;
                fill(&prepared.home, &self.home)?;
                let mut arguments = prepared.arguments();
                arguments.extend(["--ports".into(), ports.into()]);
                self.launch(&prepared.environment, "skydock_clouds.openstack", arguments)
                    .await?
            }
            Cloud::Aws => {
                let install = || install::environment("aws");
                let environment = tokio::task::spawn_blocking(install)
                    .await
                    .map_err(Error::setup("install an AWS"))??;
                self.launch(
                    &environment,
                    "skydock_clouds.aws",
                    vec!["--ports".into(), ports.into()],
                )
                .await?
            }
        };
        let text = match self.cloud {
            Cloud::OpenStack => {
                let session = admin(&ready).await?;
                openstack_environment(&Project::create(&session, PROJECT).await?, &ready)
            }
            Cloud::Aws => aws_environment(&ready),
        };
        let file = self.home.join("env");
        fs::write(&file, &text).map_err(Error::io("write", &file))?;
        Ok(text)
    }

    async fn launch(
        &self,
        environment: &install::Environment,
        module: &str,
        mut arguments: Vec<OsString>,
    ) -> Result<Ready, Error> {
        arguments.push("--detach".into());
        let launch = Launch {
            environment,
            module,
            arguments,
            home: &self.home,
        };
        launch.start(Stdio::null()).await.map(|(_, ready)| ready)
    }

    /// Stops the cloud and deletes its data. Returns true if it was running.
    ///
    /// # Errors
    /// Fails if it does not stop, or if its folder cannot be deleted.
    pub fn down(&self) -> Result<bool, Error> {
        let ready = self.ready()?;
        if let Some(pid) = ready.as_ref().and_then(|ready| Pid::from_raw(ready.pid)) {
            let end = |signal| {
                kill_process(pid, signal).map_err(Error::setup(format!("end process {pid:?}")))
            };
            end(Signal::TERM)?;
            let began = Instant::now();
            while test_kill_process(pid).is_ok() {
                if began.elapsed() > PATIENCE {
                    end(Signal::KILL)?;
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        cache::remove(&self.home)?;
        Ok(ready.is_some())
    }

    /// Stops the cloud and starts it again, empty, with the same addresses.
    ///
    /// # Errors
    /// See [`Self::down`] and [`Self::up`].
    pub async fn reset(&self) -> Result<String, Error> {
        let ready = self.ready()?;
        let port = |url: &str| {
            url.rsplit(':')
                .next()
                .and_then(|port| port.parse::<u16>().ok())
        };
        let ports: serde_json::Map<String, serde_json::Value> = ready
            .iter()
            .flat_map(|ready| &ready.urls)
            .filter_map(|(name, url)| Some((name.clone(), port(url)?.into())))
            .collect();
        self.down()?;
        self.start(&serde_json::Value::from(ports).to_string())
            .await
    }

    /// Returns the settings for clients, as `export NAME=VALUE` lines for a shell.
    ///
    /// # Errors
    /// Fails if the cloud does not run.
    pub fn environment(&self) -> Result<String, Error> {
        if self.ready()?.is_none() {
            let (what, hint) = ("a cloud that stands", "start it with `up`".to_owned());
            return Err(Error::Missing { what, hint });
        }
        let file = self.home.join("env");
        fs::read_to_string(&file).map_err(Error::io("read", file))
    }

    /// Returns a line for each service with its URL, one with the duration of the start, the
    /// process ID and the total resident memory, and one with the folder of the logs. Returns no
    /// lines if the cloud does not run.
    ///
    /// # Errors
    /// Fails if its folder cannot be read.
    pub fn status(&self) -> Result<Vec<String>, Error> {
        let Some(ready) = self.ready()? else {
            return Ok(Vec::new());
        };
        let mut lines: Vec<String> = ready
            .urls
            .iter()
            .map(|(name, url)| format!("{name} {url}"))
            .collect();
        let memory: u64 = processes(&self.home)
            .iter()
            .filter_map(|pid| resident(*pid))
            .sum();
        lines.push(format!(
            "up in {} s, process {}, {} MiB in all",
            ready.seconds,
            ready.pid,
            memory / 1024
        ));
        lines.push(format!("logs in {}", self.home.display()));
        Ok(lines)
    }
}

/// Returns whether this process runs and belongs to this folder, so that it is not another process
/// with the same ID.
fn lives(pid: i32, home: &Path) -> bool {
    names(pid, home)
}

fn names(pid: i32, home: &Path) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains(&*home.to_string_lossy())
}

/// Returns the processes with this folder in their command line.
fn processes(home: &Path) -> Vec<i32> {
    let entries = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| names(*pid, home)).collect()
}

/// Returns the resident memory of a process in KiB.
fn resident(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn openstack_environment(project: &Project, ready: &Ready) -> String {
    let url = |service: Service| {
        ready
            .urls
            .get(service.project())
            .cloned()
            .unwrap_or_default()
    };
    let mut lines = vec![
        ("OS_AUTH_URL", format!("{}/v3", url(Service::Identity))),
        ("OS_IDENTITY_API_VERSION", "3".to_owned()),
        ("OS_REGION_NAME", "RegionOne".to_owned()),
        ("OS_USERNAME", project.name.clone()),
        ("OS_PASSWORD", project.password.clone()),
        ("OS_PROJECT_NAME", project.name.clone()),
        ("OS_PROJECT_ID", project.id.clone()),
        ("OS_USER_DOMAIN_NAME", "Default".to_owned()),
        ("OS_PROJECT_DOMAIN_NAME", "Default".to_owned()),
        ("SKYDOCK_OS_ADMIN_PASSWORD", ready.password.clone()),
        ("SKYDOCK_OS_NETWORK_ID", project.network_id.clone()),
        ("SKYDOCK_OS_SUBNET_ID", project.subnet_id.clone()),
        ("SKYDOCK_OS_SUBNET6_ID", project.subnet6_id.clone()),
        ("SKYDOCK_OS_ROUTER_ID", project.router_id.clone()),
        (
            "SKYDOCK_OS_EXTERNAL_NETWORK_ID",
            project.external_network_id.clone(),
        ),
    ];
    lines.sort_by_key(|(name, _)| name.starts_with("SKYDOCK"));
    exports(&lines)
}

fn aws_environment(ready: &Ready) -> String {
    let url = ready.urls.get("aws").cloned().unwrap_or_default();
    exports(&[
        ("AWS_ENDPOINT_URL", url),
        ("AWS_REGION", crate::aws::REGION.to_owned()),
        ("AWS_DEFAULT_REGION", crate::aws::REGION.to_owned()),
        ("AWS_ACCESS_KEY_ID", "test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
    ])
}

/// No value contains characters that are special in a shell.
fn exports(lines: &[(&str, String)]) -> String {
    lines
        .iter()
        .map(|(name, value)| format!("export {name}={value}\n"))
        .collect()
}
