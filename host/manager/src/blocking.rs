//! Work that blocks its thread, where it holds up nobody: shutdown is heard meanwhile, and does not wait for it.

use tokio::{runtime::Handle, task::spawn_blocking};

/// Runs what reads files that may lie on a volume that does not answer, or starts other programs. Building a client does
/// both, if the kubeconfig names a program for credentials.
///
/// # Errors
/// Those of the work.
pub async fn blocking<T, E>(work: impl Future<Output = Result<T, E>> + Send + 'static) -> anyhow::Result<T>
where
    T: Send + 'static,
    E: Into<anyhow::Error> + Send + 'static,
{
    let runtime = Handle::current();
    spawn_blocking(move || runtime.block_on(work)).await?.map_err(Into::into)
}
