//! Clients of the API server: how to reach it (kubeconfig, service account), and under which name.

pub mod metrics;
mod read_ahead;
pub(crate) mod reason;
mod stack;
mod unprocessed;

use std::{fmt, path::PathBuf, time::Duration};

use http::{HeaderValue, Uri, header, uri::Authority};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use self::stack::Stack;
use crate::api::with_causes;

/// How long an answer of the API server is waited for at the start, before it is asked again.
const API_SERVER_ANSWER: Duration = Duration::from_secs(10);
/// Time between attempts.
const API_SERVER_POLL: Duration = Duration::from_secs(1);
/// How often the log says that the API server is waited for.
const API_SERVER_REMINDER: Duration = Duration::from_secs(60);
/// Connecting within a data center takes milliseconds; a packet filter that drops takes forever.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How to reach the cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterAccess {
    /// Without it, the Pod's own service account is used.
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server, instead of the configured one. A user and a password in it are
    /// ignored.
    pub master: Option<Uri>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {file}: {reason}")]
    Kubeconfig {
        /// Path of the kubeconfig.
        file: String,
        /// What cannot be read, or is not valid, without values of the file.
        reason: String,
    },
    /// There is neither a kubeconfig nor a Pod's service account.
    #[error(
        "no access to the API server is configured: set --kubeconfig, or run in a Pod with a service account"
    )]
    InCluster(#[source] Box<kube::config::InClusterError>),
    /// The client cannot be built.
    #[error("cannot build a client for {url}: {reason}")]
    Build {
        /// URL of the API server.
        url: String,
        /// What is wrong with TLS or the credentials, without values of them.
        reason: String,
    },
}

/// Reads how to reach the cluster.
///
/// # Errors
/// If the kubeconfig, or without one the Pod's service account, cannot be used.
pub async fn load(access: &ClusterAccess) -> Result<Config, ClientError> {
    let mut config = match &access.kubeconfig {
        Some(file) => {
            let failed = |error| ClientError::Kubeconfig {
                file: file.display().to_string(),
                reason: reason::of_kubeconfig(&error),
            };

            let kubeconfig = Kubeconfig::read_from(file).map_err(failed)?;
            let authority = authority(&kubeconfig);
            let options = KubeConfigOptions::default();
            let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .map_err(failed)?;

            // Clients read this file again, which kube asks for in Pods alone.
            config.root_cert_file = authority;
            config
        }
        None => Config::incluster().map_err(|source| ClientError::InCluster(Box::new(source)))?,
    };

    if let Some(master) = &access.master {
        config.cluster_url = master.clone();
    }
    // Logs and errors have this URL.
    config.cluster_url = without_user(config.cluster_url);
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Ok(config)
}

/// Returns a URL without user and password, which API servers do not know.
fn without_user(url: Uri) -> Uri {
    let mut parts = url.clone().into_parts();
    let authority = parts.authority.as_ref().map(Authority::as_str);
    let Some((_, host)) = authority.and_then(|it| it.rsplit_once('@')) else {
        return url;
    };

    // What is left of a valid URL is valid.
    parts.authority = host.parse().ok();
    Uri::from_parts(parts).unwrap_or_default()
}

/// The file that the certificate authorities are in.
fn authority(kubeconfig: &Kubeconfig) -> Option<PathBuf> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig
        .contexts
        .iter()
        .find(|named| named.name == *current)?
        .context
        .as_ref()?;

    let cluster = kubeconfig
        .clusters
        .iter()
        .find(|named| named.name == context.cluster)?
        .cluster
        .as_ref()?;

    // What stands in the kubeconfig itself goes before a file.
    cluster
        .certificate_authority
        .as_ref()
        .filter(|_| cluster.certificate_authority_data.is_none())
        .map(PathBuf::from)
}

/// A client whose user agent ends with the name of who uses it (C-02). Its requests share an HTTP/2
/// connection, if the API server speaks it.
///
/// # Errors
/// If TLS or credentials of the configuration do not work.
pub fn named(config: &Config, name: &str) -> Result<Client, ClientError> {
    Ok(builder(config, name)?.build())
}

/// What [`named`] makes a client of.
///
/// # Errors
/// If TLS or credentials of the configuration do not work.
pub(crate) fn builder(config: &Config, name: &str) -> Result<Stack, ClientError> {
    let url = config.cluster_url.to_string();
    let config = with_user_agent(config.clone(), name);
    stack::shared(config).map_err(|error| ClientError::Build {
        url,
        reason: reason::of_client(&error),
    })
}

/// Name under which the API server notes in `metadata.managedFields` what these clients have
/// written: the user agent up to the slash.
pub const MANAGER: &str = "skydock";

/// The configuration with a user agent that ends with the name of who uses it.
fn with_user_agent(mut config: Config, name: &str) -> Config {
    let agent = format!("{MANAGER}/{} {name}", env!("CARGO_PKG_VERSION"));
    if let Ok(value) = HeaderValue::from_str(&agent) {
        config
            .headers
            .retain(|(header, _)| header != header::USER_AGENT);
        config.headers.push((header::USER_AGENT, value));
    }
    config
}

/// Waits until the API server answers, and says which version it has. The wait has no limit: a
/// control plane may come up long after this process, and a restart would only add its pause.
pub async fn wait_for_api_server(client: &Client, url: impl fmt::Display) -> String {
    let mut warned_at = None;
    loop {
        // One that does not answer is as good as none.
        let answer = tokio::time::timeout(API_SERVER_ANSWER, client.apiserver_version()).await;
        let error = match answer.unwrap_or_else(|silent| Err(kube::Error::Service(silent.into()))) {
            Ok(version) => return version.git_version,
            // It answered: what it denies to this account, others may be given.
            Err(error) if is_an_answer(&error) => return "unknown".to_owned(),
            Err(error) => with_causes(&error),
        };

        let now = tokio::time::Instant::now();
        if warned_at.is_none_or(|at| now >= at + API_SERVER_REMINDER) {
            tracing::warn!(api_server = %url, error, "waiting for the API server: it does not answer yet");
            warned_at = Some(now);
        }
        tokio::time::sleep(API_SERVER_POLL).await;
    }
}

/// Returns whether this error shows that the API server serves this account. While a control plane
/// comes up, balancers in front of it answer in its place, and tokens are not known yet.
fn is_an_answer(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code < 500 && ![401, 429].contains(&status.code))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn only_an_answer_to_this_account_ends_the_wait() {
        let answer = |code| kube::Error::Api(Box::new(Status::failure("", "").with_code(code)));
        for (code, ends) in [(403, true), (404, true), (401, false), (429, false)] {
            assert_eq!(is_an_answer(&answer(code)), ends, "{code}");
        }
        assert!(!is_an_answer(&answer(503)));
        assert!(!is_an_answer(&kube::Error::Service("rejected".into())));
    }

    #[tokio::test]
    async fn a_password_in_an_address_is_not_in_logs_and_errors() {
        let file = std::env::temp_dir().join(format!("kubeconfig-{}", uuid::Uuid::new_v4()));
        let kubeconfig = "{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a, user: {}}], \
             clusters: [{name: a, cluster: {server: 'https://user:hunter2@a:6443'}}]}";
        std::fs::write(&file, kubeconfig).unwrap();
        for (master, expected) in [
            (None, "https://a:6443/"),
            (Some("https://user:hunter2@b:9/path"), "https://b:9/path"),
            (Some("http://hunter2@[::1]"), "http://[::1]/"),
            (Some("user:hunter2@10.0.0.1:6443"), "10.0.0.1:6443"),
            (Some("https://c:6443"), "https://c:6443/"),
        ] {
            let access = ClusterAccess {
                kubeconfig: Some(file.clone()),
                master: master.map(|url| url.parse().unwrap()),
            };
            let config = load(&access).await.unwrap();
            assert_eq!(config.cluster_url.to_string(), expected);
        }
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn the_ca_file_is_that_of_the_current_context() {
        let file = |cluster: &str| {
            let kubeconfig = format!(
                "{{current-context: b, contexts: [{{name: a, context: {{cluster: a}}}}, {{name: b, context: {{cluster: b}}}}], \
                 clusters: [{{name: a, cluster: {{certificate-authority: /a}}}}, {{name: b, cluster: {{{cluster}}}}}]}}"
            );
            authority(&Kubeconfig::from_yaml(&kubeconfig).unwrap())
        };

        assert_eq!(file("certificate-authority: /b"), Some(PathBuf::from("/b")));
        assert_eq!(
            file("certificate-authority: /b, certificate-authority-data: Yg=="),
            None
        );
        assert_eq!(file("server: https://b"), None);
    }
}
