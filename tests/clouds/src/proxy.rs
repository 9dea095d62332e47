//! A proxy in front of a cloud that counts requests and injects faults, according to rules and a
//! seed.

mod body;
mod drip;
mod fault;
mod forward;
mod log;
mod memory;
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
pub use self::rule::Rule;
use self::rule::Rules;
use self::shim::Shim;
use crate::http_client::HttpClient;
use crate::openstack::Service;
use crate::{Aws, AwsClient, Error, Keys, OpenStack, Project, Session};

/// A proxy on loopback in front of one cloud. It stops when it is dropped.
///
/// In front of OpenStack, each service is below its type
/// (`http://127.0.0.1:PORT/load-balancer/v2/…`), and the proxy replaces the URLs of services by its
/// own in the catalog, in links and in `Location`. In front of AWS, it also implements features
/// that moto lacks (see `README.md`).
///
/// Names of operations are `GET compute/servers/{id}`, `POST compute/servers/{id}/action:os-stop`,
/// `ec2:DescribeInstances`, `elb:…` (classic), `elbv2:…`, `iam:…`, `sts:…` and `imds:GET
/// /latest/…`. In front of another server, they have the method and the path, or that of SOAP: `GET
/// /rest/com/vmware/cis/session`, `soap:FindByUuid`.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    task: AbortHandle,
}

/// The cloud behind the proxy.
#[derive(Debug)]
enum Cloud {
    OpenStack(Vec<(&'static str, String)>),
    Aws {
        url: String,
        shim: Box<Shim>,
    },
    /// The URL of another server.
    Other(String),
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
    /// Starts a proxy in front of an OpenStack. `seed` determines random choices.
    ///
    /// # Errors
    /// Fails if it cannot listen.
    pub async fn before_openstack(cloud: &OpenStack, seed: u64) -> Result<Self, Error> {
        let urls = Service::ALL
            .iter()
            .map(|service| (service.name(), cloud.url(*service).to_owned()))
            .collect();
        Self::start(Cloud::OpenStack(urls), seed).await
    }

    /// Starts a proxy in front of an AWS. If signatures are verified, this must be enabled before.
    ///
    /// # Errors
    /// Fails if it cannot listen.
    pub async fn before_aws(cloud: &Aws, seed: u64) -> Result<Self, Error> {
        let shim = Box::new(Shim::new(cloud.client().copied()));
        Self::start(
            Cloud::Aws {
                url: cloud.url().to_owned(),
                shim,
            },
            seed,
        )
        .await
    }

    /// Starts a proxy in front of other services, each below its name as for OpenStack:
    /// `[("compute", "http://…")]`.
    ///
    /// # Errors
    /// Fails if it cannot listen.
    pub async fn before_services(
        services: &[(&'static str, String)],
        seed: u64,
    ) -> Result<Self, Error> {
        Self::start(Cloud::OpenStack(services.to_vec()), seed).await
    }

    /// Starts a proxy in front of any other HTTP server: `http://127.0.0.1:PORT`.
    ///
    /// # Errors
    /// Fails if it cannot listen.
    pub async fn before_server(url: &str, seed: u64) -> Result<Self, Error> {
        Self::start(Cloud::Other(url.to_owned()), seed).await
    }

    async fn start(cloud: Cloud, seed: u64) -> Result<Self, Error> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = TcpListener::bind(address)
            .await
            .map_err(Error::setup("listen on 127.0.0.1"))?;
        let address = listener
            .local_addr()
            .map_err(Error::setup("listen on 127.0.0.1"))?;
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

    /// Returns the URL: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// Returns a client of AWS through the proxy, with these keys.
    #[must_use]
    pub fn aws_client(&self, keys: Keys) -> AwsClient {
        let client = AwsClient::new(self.shared.url.clone());
        client.use_keys(keys);
        client
    }

    /// Returns a session of the project's user through the proxy.
    ///
    /// # Errors
    /// Fails if Keystone does not issue a token.
    pub async fn session(&self, project: &Project) -> Result<Session, Error> {
        let urls = Service::ALL.map(|service| format!("{}/{}", self.shared.url, service.name()));
        Session::log_in(
            self.shared.http.clone(),
            urls,
            &project.name,
            &project.password,
            &project.name,
        )
        .await
    }

    /// Returns Keystone's URL through the proxy, for clients.
    #[must_use]
    pub fn auth_url(&self) -> String {
        format!("{}/identity/v3", self.shared.url)
    }

    /// Delays each answer until this time after its request, so that all operations take the same
    /// time. For benchmarks.
    pub fn set_latency(&self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.shared.latency.store(micros, Ordering::Relaxed);
    }

    /// Adds a rule. All rules are checked for each request, in order.
    pub fn rule(&self, rule: Rule) {
        self.shared.rules().add(rule);
    }

    /// Removes all rules, so that no faults are injected.
    pub fn clear_rules(&self) {
        self.shared.rules().clear();
    }

    /// Returns all calls since the start or since [`Self::forget`], in the order in which they
    /// ended.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.shared.log().calls.clone()
    }

    /// Returns how often each operation was called.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.shared.log().counts()
    }

    /// Returns the number of calls of the operations that match this pattern, in which `*` matches
    /// anything.
    #[must_use]
    pub fn count(&self, operation: &str) -> u64 {
        let matching = |name: &str| rule::matches(operation, name);
        self.counts()
            .iter()
            .filter(|(name, _)| matching(name))
            .map(|(_, count)| count)
            .sum()
    }

    /// Returns all tokens that Keystone has issued through the proxy, for tests that revoke tokens
    /// or search for leaked ones.
    #[must_use]
    pub fn tokens(&self) -> Vec<String> {
        self.shared.log().tokens.clone()
    }

    /// Forgets the recorded calls, for the next measurement.
    pub fn forget(&self) {
        self.shared.log().calls.clear();
    }

    /// Sets the reported health of this target of target groups (an instance ID or an address), for
    /// example `unhealthy`, `initial` or `draining`. moto reports `healthy` for all targets.
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
    // No code that holds a lock can panic in an inconsistent state.
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

/// Accepts connections until it is aborted. Accepted connections end with it.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve::connection(stream, Arc::clone(&shared)));
                }
                // Usually there are no free file descriptors, and some will be released.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
