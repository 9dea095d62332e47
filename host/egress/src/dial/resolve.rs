//! Name resolution.

use std::{
    io,
    net::{IpAddr, ToSocketAddrs as _},
    sync::Arc,
};

use async_trait::async_trait;
use tokio::{sync::Semaphore, task::spawn_blocking};

/// A resolver of names, which is called once per connection.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// Returns all addresses of the name, the preferred one first.
    ///
    /// # Errors
    /// If the name has no address or cannot be resolved.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Maximum number of concurrent lookups. Each blocks a thread until the system resolver returns,
/// even if the caller no longer waits.
const LOOKUPS: usize = 8;

/// The system resolver, which uses `/etc/hosts`, `/etc/resolv.conf` and other configured sources.
#[derive(Clone, Debug)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self {
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
        }
    }
}

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let permit = self
            .lookups
            .clone()
            .acquire_owned()
            .await
            .map_err(io::Error::other)?;
        let name = name.to_owned();
        let lookup = spawn_blocking(move || {
            // The permit is held while the thread is busy, even if the caller no longer waits.
            let _permit = permit;
            let all = (name.as_str(), 0).to_socket_addrs()?;
            Ok(all.map(|address| address.ip()).collect())
        });
        lookup.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_system_resolver_resolves_localhost() {
        let found = SystemResolver::default()
            .resolve("localhost")
            .await
            .unwrap();
        assert!(
            found.iter().all(IpAddr::is_loopback) && !found.is_empty(),
            "{found:?}"
        );
    }
}
