//! The clock that interrupts guests: a thread that ticks while a guest runs, and sleeps otherwise.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread::{self, Thread},
};

use crate::limits::TICK;

/// The clock. Its thread ends when it is dropped, or when there is nothing left to interrupt.
pub struct Ticker {
    /// Number of guest futures that are being polled.
    at_work: AtomicUsize,
    /// The thread sleeps until it is woken. Only true after it has found no running guest.
    asleep: AtomicBool,
    ticks: AtomicU64,
    thread: OnceLock<Thread>,
}

impl Ticker {
    /// Starts the thread. `tick` returns whether there may be something to interrupt later.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(tick: impl Fn() -> bool + Send + 'static) -> std::io::Result<Arc<Self>> {
        let ticker = Arc::new(Self {
            at_work: AtomicUsize::default(),
            asleep: AtomicBool::default(),
            ticks: AtomicU64::default(),
            thread: OnceLock::new(),
        });

        // Weak, so that the thread ends with the ticker.
        let weak = Arc::downgrade(&ticker);
        let spawned = thread::Builder::new()
            .name("plugin-ticker".into())
            .spawn(move || Self::run(&weak, tick))?;
        // It is set only here, so this cannot fail.
        let _ = ticker.thread.set(spawned.thread().clone());

        Ok(ticker)
    }

    fn run(ticker: &Weak<Self>, tick: impl Fn() -> bool) {
        loop {
            // Sleeping a fixed time never makes up for missed ticks, so a stalled machine causes no
            // burst of interrupts.
            thread::sleep(TICK);

            let sleeps = match ticker.upgrade() {
                Some(ticker) => {
                    ticker.ticks.fetch_add(1, Relaxed);
                    ticker.is_to_sleep()
                }
                None => return,
            };

            if sleeps {
                // If the thread is woken just before this, it does not sleep.
                thread::park();
            } else if !tick() {
                return;
            }
        }
    }

    /// Returns true if no guest is running. The next guest that starts then wakes the thread.
    fn is_to_sleep(&self) -> bool {
        if self.at_work.load(SeqCst) > 0 {
            return false;
        }

        self.asleep.store(true, SeqCst);
        // A guest that started in between has not seen that the thread is about to sleep.
        let sleeps = self.at_work.load(SeqCst) == 0;
        if !sleeps {
            self.asleep.store(false, SeqCst);
        }

        sleeps
    }

    /// Returns the number of ticks so far.
    pub fn ticks(&self) -> u64 {
        self.ticks.load(Relaxed)
    }

    /// Runs a guest's work, which the clock can interrupt while it is polled.
    pub async fn watch<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|context| {
            let _at_work = AtWork::begin(self);
            work.as_mut().poll(context)
        })
        .await
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.wake();
    }
}

/// Marks a guest as running until this is dropped, also by a panic.
struct AtWork<'a>(&'a Ticker);

impl<'a> AtWork<'a> {
    fn begin(ticker: &'a Ticker) -> Self {
        // In this order, and `is_to_sleep` in the other one, so that one of the threads sees the
        // other.
        ticker.at_work.fetch_add(1, SeqCst);
        if ticker.asleep.swap(false, SeqCst) {
            ticker.wake();
        }
        Self(ticker)
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.at_work.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use futures::FutureExt as _;

    use super::*;

    /// Returns a ticker and the number of its ticks.
    fn ticker() -> (Arc<Ticker>, Arc<AtomicUsize>) {
        let ticks = Arc::new(AtomicUsize::default());
        let counted = Arc::clone(&ticks);
        let ticker = Ticker::start(move || {
            counted.fetch_add(1, SeqCst);
            true
        });
        (ticker.unwrap(), ticks)
    }

    fn within_a_minute(reached: impl Fn() -> bool) -> bool {
        let begun = Instant::now();
        while !reached() && begun.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
        reached()
    }

    fn sleeps(ticker: &Ticker) -> bool {
        within_a_minute(|| ticker.asleep.load(SeqCst))
    }

    #[test]
    fn the_clock_ticks_only_while_a_guest_works() {
        let (ticker, ticks) = ticker();
        for worked in [3, 6] {
            assert!(sleeps(&ticker));
            let before = ticks.load(SeqCst);
            thread::sleep(TICK * 5);
            assert_eq!(ticks.load(SeqCst), before, "nobody works");
            let work = async { within_a_minute(|| ticks.load(SeqCst) >= worked) };
            assert_eq!(
                ticker.watch(work).now_or_never(),
                Some(true),
                "a guest works"
            );
        }
    }

    #[test]
    fn a_guest_waiting_for_the_host_does_not_count_as_working() {
        let (ticker, _) = ticker();
        let mut waits = Box::pin(ticker.watch(std::future::pending::<()>()));
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(sleeps(&ticker));
    }

    #[test]
    fn the_thread_ends_with_the_ticker_even_while_asleep() {
        let held = Arc::new(());
        let in_thread = Arc::clone(&held);
        let ticker = Ticker::start(move || Arc::strong_count(&in_thread) > 0).unwrap();
        assert!(sleeps(&ticker));
        drop(ticker);
        assert!(within_a_minute(|| Arc::strong_count(&held) == 1));
    }

    #[test]
    fn many_short_calls_keep_the_count_of_workers_correct() {
        let (ticker, ticks) = ticker();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..20_000).for_each(|_| ticker.watch(async {}).now_or_never().unwrap());
                });
            }
        });
        assert_eq!(ticker.at_work.load(SeqCst), 0);
        assert!(sleeps(&ticker));

        let (before, work) = (ticks.load(SeqCst), async {
            within_a_minute(|| ticks.load(SeqCst) > 0)
        });
        assert_eq!(
            ticker.watch(work).now_or_never(),
            Some(true),
            "{before} ticks before"
        );
    }
}
