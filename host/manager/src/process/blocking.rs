//! Runs blocking work on a separate thread, so that it delays neither other tasks nor shutdown.

use anyhow::Context as _;
use tokio::{runtime::Handle, task::spawn_blocking};
use tokio_util::sync::CancellationToken;

/// Runs work that reads files, which may be on a volume that does not answer, or starts other
/// programs. Building a client does both, if the kubeconfig has an exec plugin.
///
/// If the returned future is dropped, the work ends at its next await point: the runtime, which it
/// needs, may be shut down soon.
///
/// # Errors
/// Those of the work.
pub async fn blocking<T, E>(
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> anyhow::Result<T>
where
    T: Send + 'static,
    E: Into<anyhow::Error> + Send + 'static,
{
    let runtime = Handle::current();
    let unwanted = CancellationToken::new();
    let stop = unwanted.clone();
    // Stops the work if this future is dropped.
    let _waits = unwanted.drop_guard();
    let done = spawn_blocking(move || runtime.block_on(stop.run_until_cancelled(work))).await?;
    done.context("the task was canceled")?.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{sync::oneshot, time::timeout};

    use super::*;

    #[tokio::test]
    async fn work_is_dropped_when_the_waiter_is_gone() {
        // Closed when the work, which never ends on its own, is dropped.
        let (mut held, kept) = oneshot::channel::<()>();
        let work = async move {
            let _kept = kept;
            std::future::pending::<anyhow::Result<()>>().await
        };

        assert!(
            timeout(Duration::from_millis(50), blocking(work))
                .await
                .is_err()
        );
        assert!(
            timeout(Duration::from_secs(10), held.closed())
                .await
                .is_ok(),
            "the work goes on"
        );
    }

    #[tokio::test]
    async fn work_returns_its_result() {
        assert_eq!(blocking(async { anyhow::Ok(7) }).await.unwrap(), 7);
    }
}
