//! Work that blocks its thread, where it holds up nobody: shutdown is heard meanwhile, and does not wait for it.

use anyhow::Context as _;
use tokio::{runtime::Handle, task::spawn_blocking};
use tokio_util::sync::CancellationToken;

/// Runs what reads files that may lie on a volume that does not answer, or starts other programs. Building a client does
/// both, if the kubeconfig names a program for credentials.
///
/// When nobody waits for it any more, the work ends at its next pause: the runtime, without which it cannot go on, may be
/// about to end too.
///
/// # Errors
/// Those of the work.
pub async fn blocking<T, E>(work: impl Future<Output = Result<T, E>> + Send + 'static) -> anyhow::Result<T>
where
    T: Send + 'static,
    E: Into<anyhow::Error> + Send + 'static,
{
    let runtime = Handle::current();
    let unwanted = CancellationToken::new();
    let stop = unwanted.clone();
    let _waits = unwanted.drop_guard();
    let done = spawn_blocking(move || runtime.block_on(stop.run_until_cancelled(work))).await?;
    done.context("the work was given up")?.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{sync::oneshot, time::timeout};

    use super::*;

    #[tokio::test]
    async fn work_ends_when_nobody_waits_for_it() {
        // Closed when the work, which never ends by itself, is dropped.
        let (mut held, kept) = oneshot::channel::<()>();
        let work = async move {
            let _kept = kept;
            std::future::pending::<anyhow::Result<()>>().await
        };
        assert!(timeout(Duration::from_millis(50), blocking(work)).await.is_err());
        assert!(timeout(Duration::from_secs(10), held.closed()).await.is_ok(), "the work goes on");
    }

    #[tokio::test]
    async fn work_gives_its_answer() {
        assert_eq!(blocking(async { anyhow::Ok(7) }).await.unwrap(), 7);
    }
}
