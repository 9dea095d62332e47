//! From names to addresses.

use std::{
    io,
    net::{IpAddr, ToSocketAddrs as _},
    sync::Arc,
};

use async_trait::async_trait;
use tokio::{sync::Semaphore, task::spawn_blocking};

/// Finds the addresses of a name. Nobody asks it twice for one connection.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// All addresses of the name, the preferred first.
    ///
    /// # Errors
    /// If the name has none, or nobody can tell.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Look-ups at a time. Each blocks a thread until the system's resolver gives up, whether or not anybody still waits.
const LOOKUPS: usize = 8;

/// The system's resolver: `/etc/hosts`, `/etc/resolv.conf` and what else it is set up for.
#[derive(Clone, Debug)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(LOOKUPS)) }
    }
}

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let permit = self.lookups.clone().acquire_owned().await.map_err(io::Error::other)?;
        let name = name.to_owned();
        let lookup = spawn_blocking(move || {
            // As long as the thread is busy, not as long as somebody waits.
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
    async fn the_system_knows_localhost() {
        let found = SystemResolver::default().resolve("localhost").await.unwrap();
        assert!(found.iter().all(IpAddr::is_loopback) && !found.is_empty(), "{found:?}");
    }
}
