//! OpenStack on loopback.

mod access_log;
mod conf;
mod holdings;
mod project;
mod servers;
mod session;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

pub use self::access_log::{LoggedRequest, count_requests};
pub use self::project::Project;
pub use self::servers::Server;
pub use self::session::Session;
use crate::http_client::HttpClient;
use crate::install::{self, Environment};
use crate::run::{Launch, Ready, Run};
use crate::{Error, cache};

/// The Python module that supervises all services.
const MODULE: &str = "skydock_clouds.openstack";

/// A service of OpenStack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// Keystone.
    Identity,
    /// Nova.
    Compute,
    /// Neutron.
    Network,
    /// Octavia.
    LoadBalancer,
    /// Glance.
    Image,
    /// Placement.
    Placement,
    /// Cinder.
    BlockStorage,
}

impl Service {
    /// All services.
    pub const ALL: [Self; 7] = [
        Self::Identity,
        Self::Compute,
        Self::Network,
        Self::LoadBalancer,
        Self::Image,
        Self::Placement,
        Self::BlockStorage,
    ];

    /// Returns the type in the catalog, for example `load-balancer`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Compute => "compute",
            Self::Network => "network",
            Self::LoadBalancer => "load-balancer",
            Self::Image => "image",
            Self::Placement => "placement",
            Self::BlockStorage => "block-storage",
        }
    }

    /// Returns the name of the OpenStack project, for example `octavia`.
    #[must_use]
    pub fn project(self) -> &'static str {
        match self {
            Self::Identity => "keystone",
            Self::Compute => "nova",
            Self::Network => "neutron",
            Self::LoadBalancer => "octavia",
            Self::Image => "glance",
            Self::Placement => "placement",
            Self::BlockStorage => "cinder",
        }
    }
}

/// A real OpenStack on loopback. Initially it has the flavors `m1.tiny`, `m1.small` and `m1.large`,
/// the image `tiny`, the external networks `public` (IPv4 and IPv6) and `public-2`, the load
/// balancer providers `amphora` and `ovn`, the types of volumes `fast` and `faulty`, and no quotas.
#[derive(Debug)]
pub struct OpenStack {
    run: Run,
}

impl OpenStack {
    /// Starts a cloud and waits until all services answer, which takes about five seconds. The
    /// first start on a machine installs and prepares it (see [`Self::prepare`]).
    ///
    /// # Errors
    /// Fails if it cannot be installed, or if a service ends or does not answer in time.
    pub async fn start() -> Result<Self, Error> {
        let prepared = prepared().await?;
        let began = Instant::now();
        let run = Run::start(
            &prepared.environment,
            MODULE,
            prepared.arguments(),
            |home| fill(&prepared.home, home),
        )
        .await?;
        tracing::info!(ms = began.elapsed().as_millis(), "an OpenStack is ready");
        Ok(Self { run })
    }

    /// Installs and prepares the data for all starts, unless the cache has it. This takes one to
    /// three minutes.
    ///
    /// # Errors
    /// Fails if Python or MariaDB are not available, if the cache cannot be written, or if a task
    /// fails.
    pub async fn prepare() -> Result<(), Error> {
        prepared().await.map(|_| ())
    }

    /// Returns Keystone's URL for clients: `http://127.0.0.1:PORT/v3`.
    #[must_use]
    pub fn auth_url(&self) -> String {
        format!("{}/v3", self.url(Service::Identity))
    }

    /// Returns the URL of a service: scheme, host and port.
    #[must_use]
    pub fn url(&self, service: Service) -> &str {
        self.run
            .ready
            .urls
            .get(service.project())
            .map_or("", String::as_str)
    }

    /// Returns the password of user `admin` in project `admin`.
    #[must_use]
    pub fn admin_password(&self) -> &str {
        &self.run.ready.password
    }

    /// Returns a session of the admin.
    ///
    /// # Errors
    /// Fails if Keystone does not issue a token.
    pub async fn admin(&self) -> Result<Session, Error> {
        admin(&self.run.ready).await
    }

    /// Creates a project with everything that a cluster needs, but without resources of a cluster.
    /// See [`Project`].
    ///
    /// # Errors
    /// Fails if a request to the cloud fails, for example because the project exists.
    pub async fn project(&self, name: &str) -> Result<Project, Error> {
        Project::create(&self.admin().await?, name).await
    }

    /// Returns all requests that a service has answered since the start, including those of other
    /// services.
    ///
    /// # Errors
    /// Fails if the log cannot be read.
    pub fn requests(&self, service: Service) -> Result<Vec<LoggedRequest>, Error> {
        access_log::read(
            &self
                .folder()
                .join("log")
                .join(format!("{}.access", service.project())),
        )
    }

    /// Returns the folder with all files of this cloud: `log`, `etc`, databases. It is deleted with
    /// the value, unless a test that holds it panics.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.run.home()
    }
}

/// Returns a session of the admin of a cloud with this information. The connections belong to the
/// caller's runtime, because tests that share a cloud have different runtimes.
pub(crate) async fn admin(ready: &Ready) -> Result<Session, Error> {
    let urls = Service::ALL.map(|service| {
        ready
            .urls
            .get(service.project())
            .cloned()
            .unwrap_or_default()
    });
    Session::log_in(HttpClient::new(), urls, "admin", &ready.password, "admin").await
}

/// The prepared data for all starts.
pub(crate) struct Prepared {
    pub(crate) environment: Environment,
    mariadb: PathBuf,
    /// The home folder that is copied.
    pub(crate) home: PathBuf,
}

impl Prepared {
    /// Returns the arguments of the supervisor.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        vec![
            "run".into(),
            "--mariadb".into(),
            self.mariadb.clone().into(),
        ]
    }
}

pub(crate) async fn prepared() -> Result<Prepared, Error> {
    tokio::task::spawn_blocking(|| {
        let (environment, mariadb) = std::thread::scope(|scope| {
            let mariadb = scope.spawn(install::mariadb);
            let environment = install::environment("openstack");
            let mariadb = mariadb
                .join()
                .unwrap_or_else(|_| Err(Error::setup("fetch MariaDB")("a thread has panicked")));
            Ok::<_, Error>((environment?, mariadb?))
        })?;
        let recipe = cache::files(install::recipes(), &["py", "conf"])?;
        let digest = cache::digest(&recipe, &[&environment.digest])?;
        let folder = cache::folder()?.join("openstack").join(digest);
        let home = cache::made_once(&folder, |folder| initialize(&environment, &mariadb, folder))?
            .join("home");
        Ok(Prepared {
            environment,
            mariadb,
            home,
        })
    })
    .await
    .map_err(Error::setup("prepare OpenStack"))?
}

/// Prepares a home folder in a location with a short path, and moves it into the cache.
fn initialize(environment: &Environment, mariadb: &Path, folder: &Path) -> Result<(), Error> {
    let began = Instant::now();
    tracing::info!("preparing OpenStack's databases, once");
    let temporary = tempfile::Builder::new()
        .prefix("skydock-cloud-")
        .tempdir()
        .map_err(Error::io("create a folder in", std::env::temp_dir()))?;
    let arguments = vec!["init".into(), "--mariadb".into(), mariadb.into()];
    let launch = Launch {
        environment,
        module: MODULE,
        arguments,
        home: temporary.path(),
    };
    install::chore("preparing OpenStack", launch.command().stdin(Stdio::null()))?;
    fill(temporary.path(), &folder.join("home"))?;
    tracing::info!(seconds = began.elapsed().as_secs(), "prepared");
    Ok(())
}

/// Copies a home folder. `cp` shares blocks if the file system supports it.
pub(crate) fn fill(from: &Path, to: &Path) -> Result<(), Error> {
    let mut copy = std::process::Command::new("cp");
    copy.args(["-a", "--reflink=auto", "--"])
        .arg(from.join("."))
        .arg(to);
    install::chore("copying a prepared cloud", &mut copy).map(|_| ())
}
