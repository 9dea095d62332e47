//! Detection of outdated client certificates. A client keeps the certificate that it was built
//! with, so the process must be restarted to use another one. Clients renew tokens and certificate
//! authorities themselves.

use std::time::Duration;

use anyhow::anyhow;
use futures::future::{Either, select};
use jiff::{SignedDuration, Timestamp};
use kube::Config;
use skydock_kube::clients::{self, ClusterAccess};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::process::blocking::blocking;

/// How often to check. Certificates are renewed long before they expire.
const CHECK_PERIOD: Duration = Duration::from_secs(60);
/// Maximum time before its expiry at which the certificate of an exec plugin is no longer used. If
/// it is valid for a short time, a fifth of that time.
const MARGIN: SignedDuration = SignedDuration::from_mins(10);

/// Returns the reason when clients with this configuration should no longer be used. `valid_until`
/// is the expiry of what an exec plugin has returned.
pub async fn outdated(
    cluster: ClusterAccess,
    config: Config,
    valid_until: Option<Timestamp>,
) -> String {
    let last_use = valid_until.map(|end| last_use(end, Timestamp::now()));
    let built_with = certificate(&config);
    // A new certificate must be seen twice, since the file may be incomplete.
    let mut seen = None;
    loop {
        let left = last_use
            .map(|at| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default());
        sleep(left.unwrap_or(CHECK_PERIOD).min(CHECK_PERIOD)).await;

        if last_use.is_some_and(|at| Timestamp::now() >= at) {
            return "the client certificate of the kubeconfig's exec plugin is about to expire"
                .to_owned();
        }
        // Without a certificate, only the expiry matters.
        if built_with.is_none() {
            continue;
        }

        let file = cluster.clone();
        let reading = blocking(async move {
            clients::load(&file)
                .await
                .map(|config| certificate(&config))
        });
        // A kubeconfig that cannot be read has not changed: it may be incomplete.
        let now = reading.await.ok().flatten();

        let renewed = now.is_some() && now != built_with;
        if renewed && now == seen {
            return "the client certificate in the kubeconfig has changed".to_owned();
        }
        seen = now;
    }
}

/// Runs the work to its end. If the credentials are outdated earlier, `stop` is canceled, and the
/// result is an error, so that the supervisor restarts the process.
///
/// # Errors
/// Those of the work, or the reason why the process must be restarted.
pub async fn work_until(
    outdated: impl Future<Output = String>,
    stop: &CancellationToken,
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    match select(Box::pin(work), Box::pin(outdated)).await {
        Either::Left((ended, _)) => ended,
        Either::Right((why, work)) => {
            tracing::warn!("{why}: shutting down, so that Skydock is restarted");
            stop.cancel();
            work.await.and(Err(anyhow!("{why}: restart Skydock")))
        }
    }
}

/// Returns the time after which a certificate with this expiry is no longer used.
fn last_use(end: Timestamp, now: Timestamp) -> Timestamp {
    let margin = MARGIN
        .min(end.duration_since(now) / 5)
        .max(SignedDuration::ZERO);
    end.saturating_sub(margin).unwrap_or(end)
}

/// Returns the client certificate, if there is one that can be read.
fn certificate(config: &Config) -> Option<Vec<u8>> {
    let auth = &config.auth_info;
    match (&auth.client_certificate_data, &auth.client_certificate) {
        (Some(data), _) => Some(data.clone().into_bytes()),
        (None, Some(file)) => std::fs::read(file).ok(),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::time::{Instant, timeout};

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    async fn access(dir: &Path, certificate: &str) -> (ClusterAccess, Config) {
        std::fs::write(dir.join("client.crt"), certificate).unwrap();
        let kubeconfig = dir.join("kubeconfig");
        let text = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
                    users: [{name: u, user: {client-certificate: client.crt, client-key: client.key}}]\n\
                    contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n";
        std::fs::write(&kubeconfig, text).unwrap();
        let access = ClusterAccess {
            kubeconfig: Some(kubeconfig),
            master: None,
        };
        let config = clients::load(&access).await.unwrap();
        (access, config)
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewed_certificate_is_noticed_once_it_is_stable() {
        let dir = tempfile::tempdir().unwrap();
        let (cluster, config) = access(dir.path(), "first").await;
        assert!(
            timeout(DAY, outdated(cluster.clone(), config.clone(), None))
                .await
                .is_err(),
            "nothing has changed"
        );

        let start = Instant::now();
        let watched = tokio::spawn(outdated(cluster, config, None));
        sleep(CHECK_PERIOD * 3 / 2).await;
        std::fs::write(dir.path().join("client.crt"), "half").unwrap();
        sleep(CHECK_PERIOD).await;
        std::fs::write(dir.path().join("client.crt"), "second").unwrap();
        let why = watched.await.unwrap();

        assert!(
            why.contains("client certificate in the kubeconfig has changed"),
            "{why}"
        );
        assert_eq!(
            start.elapsed(),
            CHECK_PERIOD * 4,
            "seen twice, after it was seen half"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_certificate_does_not_count_as_changed() {
        let dir = tempfile::tempdir().unwrap();
        let (cluster, config) = access(dir.path(), "first").await;
        std::fs::remove_file(dir.path().join("client.crt")).unwrap();
        assert!(timeout(DAY, outdated(cluster, config, None)).await.is_err());
    }

    #[tokio::test]
    async fn outdated_credentials_stop_the_process_with_an_error() {
        let stop = CancellationToken::new();
        let work = async {
            stop.cancelled().await;
            Ok(())
        };
        let ended = work_until(async { "another certificate".to_owned() }, &stop, work).await;
        assert_eq!(
            ended.unwrap_err().to_string(),
            "another certificate: restart Skydock"
        );
        let done = work_until(std::future::pending(), &stop, async { Ok(()) }).await;
        assert!(done.is_ok());
    }

    #[test]
    fn a_certificate_is_outdated_before_it_expires() {
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        let table = [(3600, 3000), (600, 480), (10, 8), (0, 0), (-5, -5)];
        for (ends, used) in table {
            let at = |seconds| now + SignedDuration::from_secs(seconds);
            assert_eq!(last_use(at(ends), now), at(used), "{ends} s");
        }
    }
}
