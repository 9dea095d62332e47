//! The CSI socket of the process: it exists from the start, and serves while this replica leads.

use std::{future::pending, path::Path, sync::Arc, time::Duration};

use anyhow::bail;
use skydock_cloud::{Capability, CloudProvider, ProviderInfo};
use skydock_csi::{Controller, CsiMetrics, ServeError, listen, serve};
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

/// The socket, and the controller part of a CSI driver behind it.
pub(super) struct Csi {
    controller: Arc<Controller>,
    leads: watch::Sender<bool>,
    /// Why the socket has failed, when it has.
    failure: watch::Receiver<Option<String>>,
}

impl Csi {
    /// Creates the socket. Until this replica leads, sidecars wait for it: `Probe` is answered with
    /// not ready, and changes with UNAVAILABLE.
    pub(super) fn start(
        path: &Path,
        provider: Arc<dyn CloudProvider>,
        metrics: CsiMetrics,
        process: &CancellationToken,
    ) -> Result<Self, ServeError> {
        let (leads, follows) = watch::channel(false);
        let controller = Arc::new(Controller::new(provider, follows));

        let socket = listen(path)?;
        let stop = process.clone().cancelled_owned();
        let serving = serve(socket, Arc::clone(&controller), metrics, stop);
        let (failed, failure) = watch::channel(None);
        tokio::spawn(async move {
            if let Err(error) = serving.await {
                failed.send_replace(Some(error.to_string()));
            }
        });

        Ok(Self {
            controller,
            leads,
            failure,
        })
    }

    /// Returns why the socket has failed, when it has.
    pub(super) fn failed(&self) -> impl Future<Output = String> + use<> {
        let mut failure = self.failure.clone();
        async move {
            let failed = failure.wait_for(Option::is_some).await;
            match failed.ok().and_then(|why| why.clone()) {
                Some(why) => why,
                // It has ended with the process.
                None => pending().await,
            }
        }
    }

    /// Serves until `end`, and then waits until the plugin has answered what it was asked, but no
    /// longer than this. Returns whether it has.
    pub(super) async fn lead(&self, end: impl Future<Output = ()>, grace: Duration) -> bool {
        self.leads.send_replace(true);
        end.await;

        self.leads.send_replace(false);
        timeout(grace, self.controller.idle()).await.is_ok()
    }
}

impl Drop for Csi {
    /// A process that has lost the Lease serves nothing more, also while it ends.
    fn drop(&mut self) {
        self.leads.send_replace(false);
    }
}

/// Checks that the plugin has volumes before the Lease is acquired, so that a standby also reports a
/// mistake.
pub(super) fn check(provider: &ProviderInfo) -> anyhow::Result<()> {
    if !provider.can(Capability::Volumes) {
        bail!(
            "--csi-endpoint: provider {} has no volumes: remove the flag, or use a plugin that exports `volumes`",
            provider.name
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use async_trait::async_trait;
    use prometheus_client::registry::Registry;
    use skydock_cloud::{AccessMode, Answers, CloudError, CsiDriver, StorageError, VolumeId};
    use skydock_csi::proto::DeleteVolumeRequest;

    use super::*;

    struct Nothing(Arc<ProviderInfo>);

    impl CloudProvider for Nothing {
        fn info(&self) -> Arc<ProviderInfo> {
            Arc::clone(&self.0)
        }
    }

    fn info(capability: Capability) -> ProviderInfo {
        ProviderInfo {
            name: "metal".into(),
            version: "1".into(),
            capabilities: [capability].into(),
            provider_id_prefixes: Vec::new(),
            annotation_prefixes: Vec::new(),
            max_batch: 1,
            driver: None,
        }
    }

    #[test]
    fn a_provider_without_volumes_is_rejected() {
        assert!(check(&info(Capability::Volumes)).is_ok());
        let error = check(&info(Capability::Instances)).unwrap_err().to_string();
        assert!(error.contains("provider metal has no volumes"), "{error}");
    }

    #[tokio::test]
    async fn the_socket_exists_from_the_start_and_ends_with_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("csi.sock");
        let metrics = || CsiMetrics::register(&mut Registry::default());
        let provider: Arc<dyn CloudProvider> = Arc::new(Nothing(info(Capability::Volumes).into()));
        let process = CancellationToken::new();
        let csi = Csi::start(&path, Arc::clone(&provider), metrics(), &process).unwrap();
        UnixStream::connect(&path).unwrap();
        assert!(!*csi.leads.borrow());

        let stop = CancellationToken::new();
        let leads = async {
            while !*csi.leads.borrow() {
                tokio::task::yield_now().await;
            }
            stop.cancel();
        };
        let second = Duration::from_secs(1);
        let (answered, ()) = tokio::join!(csi.lead(stop.cancelled(), second), leads);
        assert!(answered);
        assert!(!*csi.leads.borrow(), "it does not lead any more");

        // Closing the socket is no failure.
        process.cancel();
        assert!(timeout(second / 10, csi.failed()).await.is_err());

        let missing = folder.path().join("missing/csi.sock");
        let error = Csi::start(&missing, provider, metrics(), &process)
            .err()
            .unwrap();
        assert!(
            error.to_string().starts_with("cannot listen on "),
            "{error}"
        );
    }

    /// A cloud that answers after this time.
    struct Slow(Duration);

    #[async_trait]
    impl CloudProvider for Slow {
        fn info(&self) -> Arc<ProviderInfo> {
            let driver = CsiDriver {
                name: "metal.csi.example.com".into(),
                topology_keys: Vec::new(),
                access_modes: vec![AccessMode::SingleNodeWriter],
                clones: false,
            };
            Arc::new(ProviderInfo {
                driver: Some(driver),
                ..info(Capability::Volumes)
            })
        }

        async fn delete_volumes(
            &self,
            ids: &[VolumeId],
        ) -> Result<Answers<(), StorageError>, CloudError> {
            tokio::time::sleep(self.0).await;
            Ok(ids.iter().map(|_| Ok(())).collect())
        }
    }

    #[tokio::test]
    async fn the_plugin_may_have_no_answer_when_it_ends() {
        for (takes, expected) in [(50, true), (60_000, false)] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("csi.sock");
            let metrics = CsiMetrics::register(&mut Registry::default());
            let provider: Arc<dyn CloudProvider> = Arc::new(Slow(Duration::from_millis(takes)));
            let process = CancellationToken::new();
            let csi = Csi::start(&path, provider, metrics, &process).unwrap();

            let request = DeleteVolumeRequest {
                volume_id: "a".into(),
                ..DeleteVolumeRequest::default()
            };
            let controller = Arc::clone(&csi.controller);
            let end = async {
                tokio::spawn(async move {
                    let left = Duration::from_secs(60);
                    controller.delete_volume(request, left).await
                });
                tokio::time::sleep(Duration::from_millis(40)).await;
            };
            let answered = csi.lead(end, Duration::from_secs(1)).await;
            assert_eq!(answered, expected, "{takes} ms");
        }
    }
}
