//! An account: a limited quantity that all instances of a plugin share, for example memory.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use prometheus_client::metrics::gauge::Gauge;

/// The limit, and how much of it is taken.
#[derive(Debug)]
pub struct Account {
    limit: usize,
    taken: AtomicUsize,
    /// The same for the metrics, where all accounts with this gauge are added up: if the limits of
    /// a plugin change, it has two.
    shown: Gauge,
}

impl Account {
    /// Creates the account of a limit, which is shown in the gauge.
    #[must_use]
    pub fn new(limit: usize, shown: Gauge) -> Arc<Self> {
        Arc::new(Self {
            limit,
            taken: AtomicUsize::new(0),
            shown,
        })
    }

    /// Returns the limit.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns how much of it is taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.load(Relaxed)
    }
}

/// The part that one instance has taken. It is returned when the share is dropped.
#[derive(Debug)]
pub struct Share {
    account: Arc<Account>,
    taken: usize,
}

impl Share {
    /// Creates an empty share.
    #[must_use]
    pub fn new(account: &Arc<Account>) -> Self {
        Self {
            account: Arc::clone(account),
            taken: 0,
        }
    }

    /// Takes this much more, if it is available. Returns whether it was taken.
    pub fn take(&mut self, more: usize) -> bool {
        let add = |taken: usize| {
            taken
                .checked_add(more)
                .filter(|sum| *sum <= self.account.limit)
        };

        // Relaxed is enough: the number guards no other memory.
        let granted = self
            .account
            .taken
            .fetch_update(Relaxed, Relaxed, add)
            .is_ok();

        if granted {
            self.taken += more;
            self.account.shown.inc_by(i64::try_from(more).unwrap_or(0));
        }

        granted
    }

    /// Returns everything above `rest`.
    pub fn keep(&mut self, rest: usize) {
        let surplus = self.taken.saturating_sub(rest);
        self.account.taken.fetch_sub(surplus, Relaxed);
        self.account
            .shown
            .dec_by(i64::try_from(surplus).unwrap_or(0));
        self.taken -= surplus;
    }

    /// Returns how much it has taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Returns the limit of the account.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.account.limit
    }

    /// Returns true if the limit would allow this much more with no other instance holding a share.
    pub fn would_suffice(&self, more: usize) -> bool {
        self.taken.saturating_add(more) <= self.account.limit
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.keep(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_exceed_the_account_and_return_to_it() {
        let shown = Gauge::default();
        let account = Account::new(10, shown.clone());
        let (mut one, mut other) = (Share::new(&account), Share::new(&account));
        assert!(one.take(6) && !other.take(5) && other.take(4));
        assert!(!one.take(usize::MAX));
        assert!(one.would_suffice(4) && !one.would_suffice(5));

        one.keep(2);
        assert_eq!((one.taken(), account.taken(), shown.get()), (2, 6, 6));
        drop(other);
        assert!(one.take(8) && !one.take(1));
        drop(one);
        assert_eq!((account.taken(), shown.get()), (0, 0));
    }

    #[test]
    fn accounts_of_a_plugin_are_shown_as_one_sum() {
        let shown = Gauge::default();
        let (before, after) = (
            Account::new(10, shown.clone()),
            Account::new(20, shown.clone()),
        );
        let (mut one, mut other) = (Share::new(&before), Share::new(&after));
        assert!(one.take(10) && other.take(20));
        assert_eq!((before.taken(), after.taken(), shown.get()), (10, 20, 30));
        drop(one);
        assert_eq!(shown.get(), 20);
    }
}
