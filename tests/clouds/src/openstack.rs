//! OpenStack on loopback.

mod conf;
mod holdings;
mod project;
mod servers;
mod session;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

pub use self::project::Project;
pub use self::servers::Server;
pub use self::session::Session;
use crate::access_log::{self, LoggedRequest};
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
}

impl Service {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Identity, Self::Compute, Self::Network, Self::LoadBalancer, Self::Image, Self::Placement];

    /// Its type in the catalogue, such as `load-balancer`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Compute => "compute",
            Self::Network => "network",
            Self::LoadBalancer => "load-balancer",
            Self::Image => "image",
            Self::Placement => "placement",
        }
    }

    /// Its project's name, such as `octavia`.
    #[must_use]
    pub fn project(self) -> &'static str {
        match self {
            Self::Identity => "keystone",
            Self::Compute => "nova",
            Self::Network => "neutron",
            Self::LoadBalancer => "octavia",
            Self::Image => "glance",
            Self::Placement => "placement",
        }
    }
}

/// A real OpenStack on loopback. It begins with flavors `m1.tiny`, `m1.small` and `m1.large`, image `tiny`, the external networks
/// `public` (IPv4 and IPv6) and `public-2`, providers of load balancers `amphora` and `ovn`, and no quotas.
#[derive(Debug)]
pub struct OpenStack {
    run: Run,
}

impl OpenStack {
    /// Starts one, and returns once all services answer: some five seconds. The first start on a machine installs and prepares
    /// it (see [`Self::prepare`]).
    ///
    /// # Errors
    /// When it cannot be installed, or a service ends or does not answer in time.
    pub async fn start() -> Result<Self, Error> {
        let prepared = prepared().await?;
        let began = Instant::now();
        let run =
            Run::start(&prepared.environment, MODULE, prepared.arguments(), |home| fill(&prepared.home, home)).await?;
        tracing::info!(ms = began.elapsed().as_millis(), "an OpenStack is ready");
        Ok(Self { run })
    }

    /// Installs and prepares what every start begins with, unless the cache has it: one to three minutes.
    ///
    /// # Errors
    /// When there is no Python or MariaDB to be had, the cache cannot be written, or a chore fails.
    pub async fn prepare() -> Result<(), Error> {
        prepared().await.map(|_| ())
    }

    /// Keystone's address, as clients want it: `http://127.0.0.1:PORT/v3`.
    #[must_use]
    pub fn auth_url(&self) -> String {
        format!("{}/v3", self.url(Service::Identity))
    }

    /// A service's address: scheme, host and port.
    #[must_use]
    pub fn url(&self, service: Service) -> &str {
        self.run.ready.urls.get(service.project()).map_or("", String::as_str)
    }

    /// The password of user `admin` in project `admin`.
    #[must_use]
    pub fn admin_password(&self) -> &str {
        &self.run.ready.password
    }

    /// A session of the admin's.
    ///
    /// # Errors
    /// When Keystone gives no token.
    pub async fn admin(&self) -> Result<Session, Error> {
        admin(&self.run.ready).await
    }

    /// A new project, with all that a cluster needs and nothing of a cluster's: see [`Project`].
    ///
    /// # Errors
    /// When the cloud refuses a part of it, as if there is a project of this name.
    pub async fn project(&self, name: &str) -> Result<Project, Error> {
        Project::create(&self.admin().await?, name).await
    }

    /// Every request a service has answered since the start, those of other services included.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub fn requests(&self, service: Service) -> Result<Vec<LoggedRequest>, Error> {
        access_log::read(&self.folder().join("log").join(format!("{}.access", service.project())))
    }

    /// The folder with everything of this cloud: `log`, `etc`, databases. Gone with it, unless a test that holds it panics.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.run.home()
    }
}

/// A session of the admin's of a cloud that has told these things. Its connections live as long as the caller's runtime: tests that
/// share a cloud do not share that.
pub(crate) async fn admin(ready: &Ready) -> Result<Session, Error> {
    let urls = Service::ALL.map(|service| ready.urls.get(service.project()).cloned().unwrap_or_default());
    Session::log_in(HttpClient::new(), urls, "admin", &ready.password, "admin").await
}

/// What every start begins with.
pub(crate) struct Prepared {
    pub(crate) environment: Environment,
    mariadb: PathBuf,
    /// The home folder that is copied.
    pub(crate) home: PathBuf,
}

impl Prepared {
    /// The arguments of a cloud's supervisor.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        vec!["run".into(), "--mariadb".into(), self.mariadb.clone().into()]
    }
}

pub(crate) async fn prepared() -> Result<Prepared, Error> {
    tokio::task::spawn_blocking(|| {
        let (environment, mariadb) = std::thread::scope(|scope| {
            let mariadb = scope.spawn(install::mariadb);
            let environment = install::environment("openstack");
            let mariadb =
                mariadb.join().unwrap_or_else(|_| Err(Error::setup("fetch MariaDB")("a thread has panicked")));
            Ok::<_, Error>((environment?, mariadb?))
        })?;
        let recipe = cache::files(install::recipes(), &["py", "conf"])?;
        let digest = cache::digest(&recipe, &[&environment.digest])?;
        let folder = cache::folder()?.join("openstack").join(digest);
        let home = cache::made_once(&folder, |folder| initialise(&environment, &mariadb, folder))?.join("home");
        Ok(Prepared { environment, mariadb, home })
    })
    .await
    .map_err(Error::setup("prepare OpenStack"))?
}

/// Prepares a home folder, in a place with a short path, and moves it into the cache.
fn initialise(environment: &Environment, mariadb: &Path, folder: &Path) -> Result<(), Error> {
    let began = Instant::now();
    tracing::info!("preparing OpenStack's databases, once");
    let temporary = tempfile::Builder::new()
        .prefix("skydock-cloud-")
        .tempdir()
        .map_err(Error::io("create a folder in", std::env::temp_dir()))?;
    let arguments = vec!["init".into(), "--mariadb".into(), mariadb.into()];
    let launch = Launch { environment, module: MODULE, arguments, home: temporary.path() };
    install::chore("preparing OpenStack", launch.command().stdin(Stdio::null()))?;
    fill(temporary.path(), &folder.join("home"))?;
    tracing::info!(seconds = began.elapsed().as_secs(), "prepared");
    Ok(())
}

/// Copies a home folder. `cp` shares the blocks where the file system can.
pub(crate) fn fill(from: &Path, to: &Path) -> Result<(), Error> {
    let mut copy = std::process::Command::new("cp");
    copy.args(["-a", "--reflink=auto", "--"]).arg(from.join(".")).arg(to);
    install::chore("copying a prepared cloud", &mut copy).map(|_| ())
}
