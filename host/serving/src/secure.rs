//! HTTPS with authentication and authorization: the options of `k8s.io/apiserver` (its
//! `SecureServingOptions`, `DelegatingAuthenticationOptions` and `DelegatingAuthorizationOptions`).
//!
//! Certificates and authorities are read again while the process runs.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use axum::Router;
use rustls::ServerConfig;
use skydock_kube::{
    api::with_causes,
    clients::{self, ClientError, ClusterAccess},
};
use tokio::{
    runtime::Handle,
    task::spawn_blocking,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    ServeError,
    authenticator::{Authenticator, FrontProxy, RequestHeaders, Trust, cluster},
    authorizer::{AlwaysAllowPaths, Authorizer},
    cache::Cache,
    connections::{self, Protocol},
    guard::{Guard, guarded},
    review::{Access, Reviewer},
    tls::{
        self, Authorities, CertificateFiles, Certificates, Files, NamedCertificate, Source,
        TlsError, TlsParameters,
    },
};

/// How often files are read again, and attempts that failed are repeated.
const CHECK: Duration = Duration::from_secs(10);
/// How often the ConfigMap of the cluster is read again.
const LOOK_UP: Duration = Duration::from_secs(60);
/// Maximum time for the answer with the ConfigMap.
const ANSWER: Duration = Duration::from_secs(10);

/// How to serve HTTPS.
#[derive(Clone, Debug)]
pub struct SecureServing {
    /// The address.
    pub address: SocketAddr,
    /// Whether other processes may listen on the same port (SO_REUSEPORT).
    pub permit_port_sharing: bool,
    /// Maximum number of streams of a connection; `None` disables HTTP/2.
    pub http2_streams: Option<u32>,
    /// Versions and cipher suites.
    pub tls: TlsParameters,
    /// The certificate.
    pub certificate: Option<CertificateFiles>,
    /// Directory for a self-signed certificate, if there is no other one; without it, it is in
    /// memory.
    pub certificate_directory: Option<PathBuf>,
    /// Certificates for certain names.
    pub named_certificates: Vec<NamedCertificate>,
    /// How users are recognized.
    pub authentication: AuthenticationOptions,
    /// What they may do.
    pub authorization: AuthorizationOptions,
}

/// How users are recognized.
#[derive(Clone, Debug, Default)]
pub struct AuthenticationOptions {
    /// The API server that knows tokens; by default, that of the Pod.
    pub kubeconfig: Option<PathBuf>,
    /// Whether the ConfigMap of the cluster is not read.
    pub skip_lookup: bool,
    /// Whether it is expected that the ConfigMap cannot be read.
    pub tolerate_lookup_failure: bool,
    /// How long the answer about a token is used.
    pub token_cache_ttl: Duration,
    /// Authorities of client certificates, instead of those in the ConfigMap.
    pub client_ca_file: Option<PathBuf>,
    /// Authorities of front proxies, instead of those in the ConfigMap.
    pub request_header: Option<RequestHeaderOptions>,
}

/// A proxy that authenticates users.
#[derive(Clone, Debug, Default)]
pub struct RequestHeaderOptions {
    /// Authorities of the certificates of proxies.
    pub client_ca_file: PathBuf,
    /// Common names of proxies; if there are none, any.
    pub allowed_names: Vec<String>,
    /// Headers with the name of the user.
    pub username_headers: Vec<String>,
    /// Headers with their UID.
    pub uid_headers: Vec<String>,
    /// Headers with their groups.
    pub group_headers: Vec<String>,
    /// Beginnings of headers with anything else.
    pub extra_headers_prefix: Vec<String>,
}

/// What users may do.
#[derive(Clone, Debug, Default)]
pub struct AuthorizationOptions {
    /// The API server that knows it; by default, that of the Pod.
    pub kubeconfig: Option<PathBuf>,
    /// How long an answer is used that allows.
    pub authorized_ttl: Duration,
    /// How long an answer is used that does not.
    pub unauthorized_ttl: Duration,
    /// Paths that everybody may use.
    pub always_allow_paths: AlwaysAllowPaths,
}

/// Starts serving until `stop`. Returns the address, which contains the actual port if port 0 was
/// requested. The API server is not needed yet.
///
/// # Errors
/// If the address or the certificate cannot be used.
pub async fn start(
    options: SecureServing,
    router: Router,
    stop: CancellationToken,
) -> Result<SocketAddr, ServeError> {
    let access = [Access::Pending, Access::Pending];
    start_with(options, access, CHECK, router, stop).await
}

/// Starts with this access for authentication and for authorization, and with this time between
/// checks of files.
async fn start_with(
    options: SecureServing,
    access: [Access; 2],
    check: Duration,
    router: Router,
    stop: CancellationToken,
) -> Result<SocketAddr, ServeError> {
    let options = Arc::new(options);
    let reading = Arc::clone(&options);
    let read = spawn_blocking(move || Material::read(&reading)).await;
    let material = read.unwrap_or(Err(TlsError::Random))?;

    let flags = "--bind-address and --secure-port";
    let (listener, bound) =
        connections::listen(options.address, options.permit_port_sharing, flags)?;

    let guard = Arc::new(guard(&options, access).map_err(|_| TlsError::Random)?);
    let (config, trust) = material.apply(&options, &BTreeMap::new())?;
    guard.authenticator.set_trust(trust);
    let config = Arc::new(ArcSwap::from_pointee(config));

    let protocol = Protocol::Tls {
        config: Arc::clone(&config),
        streams: options.http2_streams.unwrap_or(1),
    };
    let router = guarded(router, Arc::clone(&guard));
    let following = Following {
        options,
        check,
        material,
        cluster: BTreeMap::new(),
        looked_up: None,
        is_unconnected: false,
        is_told: false,
        is_unreadable: false,
        guard,
        config,
    };
    tokio::spawn(connections::serve(listener, protocol, router, stop.clone()));
    tokio::spawn(stop.run_until_cancelled_owned(following.run()));
    Ok(bound)
}

fn guard(options: &SecureServing, access: [Access; 2]) -> Result<Guard, ring::error::Unspecified> {
    let [authentication, authorization] = access;
    let authenticator = Authenticator::new(
        Reviewer::new(authentication),
        options.authentication.token_cache_ttl,
    )?;
    let authorizer = Authorizer::new(
        Reviewer::new(authorization),
        Cache::new()?,
        options.authorization.authorized_ttl,
        options.authorization.unauthorized_ttl,
    );
    Ok(Guard {
        authenticator,
        authorizer,
        always_allowed: options.authorization.always_allow_paths.clone(),
    })
}

/// What files say.
#[derive(Clone)]
struct Material {
    source: Source,
    files: Files,
}

impl Material {
    fn read(options: &SecureServing) -> Result<Self, TlsError> {
        let source = Source::new(
            options.certificate.clone(),
            options.certificate_directory.as_deref(),
            options.address.ip(),
        )?;
        let files = Files::read(paths(&source, options))?;
        Ok(Self { source, files })
    }

    /// Returns the configuration of the server, and whom it believes. What flags do not set is in
    /// the ConfigMap of the cluster.
    fn apply(
        &self,
        options: &SecureServing,
        cluster: &BTreeMap<String, String>,
    ) -> Result<(ServerConfig, Trust), TlsError> {
        // The data was checked when it was read.
        let of_cluster = cluster::trust(cluster).unwrap_or_default();
        let authentication = &options.authentication;
        let authorities = |file: &Path| {
            let read = Authorities::from_pem(self.files.get(file));
            read.map_err(|_| TlsError::Certificates(file.to_owned()))
        };

        let clients = authentication.client_ca_file.as_deref().map(authorities);
        let front_proxy = authentication.request_header.as_ref().map(|it| {
            Ok::<_, TlsError>(FrontProxy {
                authorities: authorities(&it.client_ca_file)?,
                headers: RequestHeaders {
                    allowed_names: it.allowed_names.clone(),
                    usernames: it.username_headers.clone(),
                    uids: it.uid_headers.clone(),
                    groups: it.group_headers.clone(),
                    extra_prefixes: it.extra_headers_prefix.clone(),
                },
            })
        });
        let trust = Trust {
            clients: clients.transpose()?.or(of_cluster.clients),
            front_proxy: front_proxy.transpose()?.or(of_cluster.front_proxy),
        };

        let proxies = trust.front_proxy.as_ref().map(|it| &it.authorities);
        let all: Vec<_> = trust.clients.iter().chain(proxies).collect();
        let certificates =
            Certificates::new(&self.source, &options.named_certificates, &self.files)?;
        let http2 = options.http2_streams.is_some();
        let config = tls::server_config(&options.tls, certificates, &all, http2)?;
        Ok((config, trust))
    }
}

/// Returns the files that are read.
fn paths<'a>(source: &'a Source, options: &'a SecureServing) -> Vec<&'a Path> {
    let named = options.named_certificates.iter().map(|it| &it.files);
    let named = named.flat_map(|it| [it.certificate.as_path(), &it.key]);
    let authentication = &options.authentication;
    let clients = authentication.client_ca_file.as_deref();
    let proxies = authentication.request_header.as_ref();
    let proxies = proxies.map(|it| it.client_ca_file.as_path());

    let mut all = source.files();
    all.extend(named.chain(clients).chain(proxies));
    all
}

/// Keeps a server up to date.
struct Following {
    options: Arc<SecureServing>,
    /// Time between checks.
    check: Duration,
    material: Material,
    /// The data of the ConfigMap.
    cluster: BTreeMap<String, String>,
    looked_up: Option<Instant>,
    /// Whether the log says that a client cannot be created.
    is_unconnected: bool,
    /// Whether it says that the ConfigMap cannot be read.
    is_told: bool,
    /// Whether it says that a file cannot be read.
    is_unreadable: bool,
    guard: Arc<Guard>,
    config: Arc<ArcSwap<ServerConfig>>,
}

impl Following {
    async fn run(mut self) {
        let mut rejected = None;
        loop {
            self.connect().await;
            if let Some(data) = self.look_up().await {
                self.apply(self.material.clone(), data);
            }

            // What was rejected is not tried again until it changes.
            if let Some(files) = self.read_files().await
                && rejected.as_ref() != Some(&files)
            {
                let mut material = self.material.clone();
                material.files = files.clone();
                let is_applied = self.apply(material, self.cluster.clone());
                rejected = (!is_applied).then_some(files);
            }
            sleep(self.check).await;
        }
    }

    /// Applies contents of files and data of the ConfigMap, and returns whether they are valid.
    fn apply(&mut self, material: Material, cluster: BTreeMap<String, String>) -> bool {
        match material.apply(&self.options, &cluster) {
            Ok((config, trust)) => {
                // In this order: whoever may connect is also known.
                self.guard.authenticator.set_trust(trust);
                self.config.store(Arc::new(config));
                self.material = material;
                self.cluster = cluster;
                tracing::info!("the HTTPS server uses new certificates or authorities");
                true
            }
            Err(error) => {
                let error = with_causes(&error);
                tracing::warn!(
                    error,
                    "changed certificates or authorities of the HTTPS server are rejected, and the previous ones stay in use"
                );
                false
            }
        }
    }

    /// Creates clients, as long as there are none.
    async fn connect(&mut self) {
        let authentication = &self.options.authentication.kubeconfig;
        let authorization = &self.options.authorization.kubeconfig;
        let mut failed = false;
        for (reviewer, kubeconfig, name, lost) in [
            (
                self.guard.authenticator.reviewer(),
                authentication,
                "authentication",
                "tokens and certificates of the cluster are not known",
            ),
            (
                self.guard.authorizer.reviewer(),
                authorization,
                "authorization",
                "only health is served, and everything to system:masters",
            ),
        ] {
            if !matches!(reviewer.access(), Access::Pending) {
                continue;
            }
            match client(kubeconfig.clone(), name).await {
                Ok(Some(client)) => reviewer.set(Access::Ready(client)),
                Ok(None) => {
                    tracing::warn!(
                        "--{name}-kubeconfig is not set, and this is not a Pod with a service account: {lost}"
                    );
                    reviewer.set(Access::Off);
                }
                Err(error) => {
                    failed = true;
                    if !self.is_unconnected {
                        let error = with_causes(&error);
                        tracing::warn!(error, "--{name}-kubeconfig cannot be used: {lost}");
                    }
                }
            }
        }
        self.is_unconnected = failed;
    }

    /// Returns the data of the ConfigMap, if it has changed.
    async fn look_up(&mut self) -> Option<BTreeMap<String, String>> {
        let options = Arc::clone(&self.options);
        let options = &options.authentication;
        let is_needed = options.client_ca_file.is_none() || options.request_header.is_none();
        let is_due = self.looked_up.is_none_or(|at| at.elapsed() >= LOOK_UP);
        let Access::Ready(client) = self.guard.authenticator.reviewer().access() else {
            return None;
        };
        if options.skip_lookup || !is_needed || !is_due {
            return None;
        }

        let problem = match timeout(ANSWER, cluster::look_up(&client)).await {
            Ok(Ok(data)) => match cluster::trust(&data) {
                Ok(_) => {
                    self.looked_up = Some(Instant::now());
                    self.is_told = false;
                    return (data != self.cluster).then_some(data);
                }
                Err(error) => error.to_string(),
            },
            Ok(Err(error @ kube::Error::Api(_))) => with_causes(&error),
            // The process waits for the API server, and says so.
            Ok(Err(_)) | Err(_) => return None,
        };

        if !std::mem::replace(&mut self.is_told, true) {
            let name = cluster::NAME;
            if options.tolerate_lookup_failure {
                tracing::info!(problem, "cannot read the ConfigMap kube-system/{name}");
            } else {
                tracing::warn!(
                    problem,
                    "cannot read the ConfigMap kube-system/{name}: client certificates of the cluster are not known; bind the Role \
                     {name}-reader to Skydock's account, or set --authentication-skip-lookup"
                );
            }
        }
        None
    }

    /// Returns the contents of the files, if they have changed.
    async fn read_files(&mut self) -> Option<Files> {
        let options = Arc::clone(&self.options);
        let source = self.material.source.clone();
        let read = spawn_blocking(move || Files::read(paths(&source, &options)));
        match read.await {
            Ok(Ok(files)) => {
                self.is_unreadable = false;
                (files != self.material.files).then_some(files)
            }
            Ok(Err(error)) => {
                if !std::mem::replace(&mut self.is_unreadable, true) {
                    let error = with_causes(&error);
                    tracing::warn!(error, "the HTTPS server cannot read its files again");
                }
                None
            }
            Err(_) => None,
        }
    }
}

/// Returns a client; `None` if nothing says which API server to ask. It may start a program for
/// credentials.
async fn client(
    kubeconfig: Option<PathBuf>,
    name: &'static str,
) -> Result<Option<kube::Client>, ClientError> {
    let runtime = Handle::current();
    let is_optional = kubeconfig.is_none();
    let access = ClusterAccess {
        kubeconfig,
        master: None,
    };
    let building = spawn_blocking(move || {
        let mut config = runtime.block_on(clients::load(&access))?;
        // `review` does it.
        config.default_retry = false;
        let _in_runtime = runtime.enter();
        clients::named(&config, name)
    });
    match building.await {
        Ok(Ok(client)) => Ok(Some(client)),
        Ok(Err(ClientError::InCluster(_))) if is_optional => Ok(None),
        Ok(Err(error)) => Err(error),
        // The process ends.
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests;
