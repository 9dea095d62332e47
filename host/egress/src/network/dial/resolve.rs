//! Name resolution (DNS).

use std::{
    collections::HashMap,
    fmt, io,
    net::{IpAddr, ToSocketAddrs as _},
    sync::Arc,
};

use async_trait::async_trait;
use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared, WeakShared},
};
use parking_lot::Mutex;
use skydock_cloud::CallKind;
use tokio::task::spawn_blocking;

use crate::limits::shares::{Kinds, Shares};

/// A resolver of names, which is called once per connection.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// Returns all addresses of the name, the preferred one first, for this kind of calls.
    ///
    /// # Errors
    /// If the name has no address or cannot be resolved.
    async fn resolve(&self, name: &str, kind: CallKind) -> io::Result<Vec<IpAddr>>;
}

/// Maximum number of concurrent lookups, with a part for each kind of calls. Each blocks a thread
/// until the system resolver returns, even if the caller no longer waits.
const LOOKUPS: usize = 8;

/// The addresses of a name, or why there are none.
type Found = Result<Vec<IpAddr>, String>;

/// A function that looks a name up, and blocks the thread.
type LookUp = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// The system resolver, which uses `/etc/hosts`, `/etc/resolv.conf` and other configured sources.
/// Callers of the same kind that ask for the same name at the same time share one lookup, so that a
/// name whose server does not answer blocks one thread.
#[derive(Clone)]
pub struct SystemResolver {
    lookups: Arc<Shares>,
    running: Arc<Mutex<HashMap<(String, CallKind), Running>>>,
    look_up: Arc<LookUp>,
}

/// A lookup that callers wait for.
type Running = WeakShared<BoxFuture<'static, Found>>;

impl Default for SystemResolver {
    fn default() -> Self {
        Self::with(|name| {
            let all = (name, 0).to_socket_addrs()?;
            Ok(all.map(|address| address.ip()).collect())
        })
    }
}

impl SystemResolver {
    fn with(look_up: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self {
            lookups: Arc::new(Shares::new(
                LOOKUPS,
                CallKind::reserved(LOOKUPS),
                Kinds::ALL,
            )),
            running: Arc::default(),
            look_up: Arc::new(look_up),
        }
    }

    /// Starts a lookup, or joins the one that is running.
    fn start(&self, name: &str, kind: CallKind) -> Shared<BoxFuture<'static, Found>> {
        let mut running = self.running.lock();
        // Of lookups that have ended, or that nobody waits for, only the entry is left.
        running.retain(|_, lookup| lookup.upgrade().is_some());

        let key = (name.to_owned(), kind);
        if let Some(lookup) = running.get(&key).and_then(Running::upgrade) {
            return lookup;
        }

        let lookups = self.lookups.clone();
        let look_up = self.look_up.clone();
        let asked = name.to_owned();
        let all = self.running.clone();
        let own = key.clone();

        let lookup = async move {
            let permit = lookups.acquire(kind).await.map_err(|it| it.to_string())?;
            // From here on, it stays there until its thread is free, even if no caller waits any
            // more. One that has no thread yet is dropped with its last caller.
            let this = all.lock().get(&own).and_then(Running::upgrade);
            this.map(tokio::spawn);

            let found = spawn_blocking(move || {
                // The permit is held while the thread is busy.
                let _permit = permit;
                look_up(&asked).map_err(|error| error.to_string())
            });
            found.await.map_err(|error| error.to_string())?
        };

        let lookup = lookup.boxed().shared();
        running.extend(lookup.downgrade().map(|weak| (key, weak)));
        lookup
    }
}

impl fmt::Debug for SystemResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemResolver").finish_non_exhaustive()
    }
}

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str, kind: CallKind) -> io::Result<Vec<IpAddr>> {
        self.start(name, kind).await.map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use CallKind::{LoadBalancers, Nodes};

    /// A resolver that does not answer names that begin with `slow` until the sender is dropped.
    fn with_slow_names() -> (SystemResolver, std::sync::mpsc::Sender<()>) {
        let (answer, unanswered) = std::sync::mpsc::channel::<()>();
        let unanswered = Mutex::new(unanswered);
        let resolver = SystemResolver::with(move |name| {
            if name.starts_with("slow") {
                let _ = unanswered.lock().recv();
            }
            Ok(vec![IpAddr::from([192, 0, 2, 1])])
        });
        (resolver, answer)
    }

    async fn asks_in_vain(resolver: &SystemResolver, name: &str) {
        let asked = resolver.resolve(name, LoadBalancers);
        let wait = std::time::Duration::from_millis(1);
        assert!(tokio::time::timeout(wait, asked).await.is_err(), "{name}");
    }

    #[tokio::test]
    async fn a_name_that_is_not_answered_blocks_one_thread() {
        let (resolver, answer) = with_slow_names();
        for _ in 0..2 * LOOKUPS {
            asks_in_vain(&resolver, "slow.example").await;
        }
        let fast = resolver.resolve("fast.example", LoadBalancers).await;
        assert_eq!(fast.unwrap().len(), 1);
        drop(answer);
        let slow = resolver.resolve("slow.example", LoadBalancers).await;
        assert_eq!(slow.unwrap().len(), 1);
    }

    // Holds: SEC-30
    #[tokio::test]
    async fn names_that_are_not_answered_leave_other_kinds_their_part() {
        let (resolver, _answer) = with_slow_names();
        for number in 0..2 * LOOKUPS {
            asks_in_vain(&resolver, &format!("slow{number}.example")).await;
        }
        asks_in_vain(&resolver, "fast.example").await;
        let fast = resolver.resolve("fast.example", Nodes).await;
        assert_eq!(fast.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn the_system_resolver_resolves_localhost() {
        let resolver = SystemResolver::default();
        let found = resolver.resolve("localhost", Nodes).await.unwrap();
        assert!(
            found.iter().all(IpAddr::is_loopback) && !found.is_empty(),
            "{found:?}"
        );
    }
}
