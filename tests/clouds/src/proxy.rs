//! A proxy before a cloud: it counts, and makes the cloud as bad as clouds are, by rules and from a seed.

mod body;
mod drip;
mod fault;
mod forward;
mod log;
mod memory;
mod operation;
mod rule;
mod serve;
mod shim;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

pub use self::fault::Fault;
pub use self::log::Call;
use self::log::Log;
use self::memory::Memory;
pub(crate) use self::operation::openstack as openstack_operation;
pub use self::rule::Rule;
use self::rule::Rules;
use self::shim::Shim;
use crate::http_client::HttpClient;
use crate::openstack::Service;
use crate::{Aws, AwsClient, Error, Keys, OpenStack, Project, Session};

/// A proxy on loopback before one cloud. It ends when dropped.
///
/// Before OpenStack, each service is below its type (`http://127.0.0.1:PORT/load-balancer/v2/…`), and wherever the cloud says
/// a service's own address, in the catalogue, in links or in `Location`, the proxy says its own instead. Before AWS, it also answers
/// what moto leaves out (`README.md` names it).
///
/// Operations are called `GET compute/servers/{id}`, `POST compute/servers/{id}/action:os-stop`, `ec2:DescribeInstances`,
/// `elb:…` (classic), `elbv2:…`, `iam:…`, `sts:…` and `imds:GET /latest/…`.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    task: AbortHandle,
}

/// What stands behind.
#[derive(Debug)]
enum Cloud {
    OpenStack(Vec<(&'static str, String)>),
    Aws { url: String, shim: Box<Shim> },
}

#[derive(Debug)]
struct Shared {
    url: String,
    cloud: Cloud,
    http: HttpClient,
    began: Instant,
    /// In microseconds.
    latency: AtomicU64,
    rules: Mutex<Rules>,
    log: Mutex<Log>,
    memory: Mutex<Memory>,
}

impl Proxy {
    /// Starts one before an OpenStack. What chance decides is decided by `seed`.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn before_openstack(cloud: &OpenStack, seed: u64) -> Result<Self, Error> {
        let urls = Service::ALL.iter().map(|service| (service.name(), cloud.url(*service).to_owned())).collect();
        Self::start(Cloud::OpenStack(urls), seed).await
    }

    /// Starts one before an AWS. If signatures are verified, then from before this call.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn before_aws(cloud: &Aws, seed: u64) -> Result<Self, Error> {
        let shim = Box::new(Shim::new(cloud.client().copied()));
        Self::start(Cloud::Aws { url: cloud.url().to_owned(), shim }, seed).await
    }

    /// Starts one before services of other kinds, each below its name, as before OpenStack: `[("compute", "http://…")]`.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn before_services(services: &[(&'static str, String)], seed: u64) -> Result<Self, Error> {
        Self::start(Cloud::OpenStack(services.to_vec()), seed).await
    }

    async fn start(cloud: Cloud, seed: u64) -> Result<Self, Error> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = TcpListener::bind(address).await.map_err(Error::setup("listen on 127.0.0.1"))?;
        let address = listener.local_addr().map_err(Error::setup("listen on 127.0.0.1"))?;
        let shared = Arc::new(Shared {
            url: format!("http://{address}"),
            cloud,
            http: HttpClient::new(),
            began: Instant::now(),
            latency: AtomicU64::new(0),
            rules: Mutex::new(Rules::new(seed)),
            log: Mutex::default(),
            memory: Mutex::default(),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self { shared, task })
    }

    /// Its address: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// Who asks an AWS through it, with these keys.
    #[must_use]
    pub fn aws_client(&self, keys: Keys) -> AwsClient {
        let client = AwsClient::new(self.shared.url.clone());
        client.use_keys(keys);
        client
    }

    /// A session of the project's user through it.
    ///
    /// # Errors
    /// When there is no token.
    pub async fn session(&self, project: &Project) -> Result<Session, Error> {
        let urls = Service::ALL.map(|service| format!("{}/{}", self.shared.url, service.name()));
        Session::log_in(self.shared.http.clone(), urls, &project.name, &project.password, &project.name).await
    }

    /// Keystone's address behind it, as clients want it.
    #[must_use]
    pub fn auth_url(&self) -> String {
        format!("{}/identity/v3", self.shared.url)
    }

    /// Holds every answer until this long after its request, so that each operation takes the same time: for benchmarks.
    pub fn set_latency(&self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.shared.latency.store(micros, Ordering::Relaxed);
    }

    /// Adds a rule. All rules are looked at for each request, in their order.
    pub fn rule(&self, rule: Rule) {
        self.shared.rules().add(rule);
    }

    /// Removes all rules: the cloud is well again.
    pub fn clear_rules(&self) {
        self.shared.rules().clear();
    }

    /// Every call since the start or since [`Self::forget`], in the order in which they ended.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.shared.log().calls.clone()
    }

    /// How often each operation was asked for.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.shared.log().counts()
    }

    /// How many of these operations were asked for; `*` stands for anything.
    #[must_use]
    pub fn count(&self, operation: &str) -> u64 {
        let matching = |name: &str| rule::matches(operation, name);
        self.counts().iter().filter(|(name, _)| matching(name)).map(|(_, count)| count).sum()
    }

    /// Every token that Keystone has handed out through it: for tests that revoke one, or look for it where none may be.
    #[must_use]
    pub fn tokens(&self) -> Vec<String> {
        self.shared.log().tokens.clone()
    }

    /// Forgets the calls, for the next measurement.
    pub fn forget(&self) {
        self.shared.log().calls.clear();
    }

    /// From now on, this target of target groups (an instance's ID or an address) is said to be in this state (`unhealthy`,
    /// `initial`, `draining` …); moto says `healthy` of all.
    pub fn set_target_health(&self, target: &str, state: &str) {
        if let Cloud::Aws { shim, .. } = &self.shared.cloud {
            shim.set_target_health(target, state);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    // Nothing that could panic half-way is done under the locks.
    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts connections until it is aborted; those it has accepted end with it.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve::connection(stream, Arc::clone(&shared)));
                }
                // Out of file descriptors, mostly: some will be given back.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
