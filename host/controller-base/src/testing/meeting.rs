//! A meeting of calls that block their thread: they only meet if each has a thread of its own.

use std::{
    sync::{Condvar, Mutex},
    time::{Duration, Instant},
};

/// A meeting of two calls that run at the same time, each on its own thread.
#[derive(Default)]
pub struct Meeting {
    there: Mutex<usize>,
    came: Condvar,
}

impl Meeting {
    const PATIENCE: Duration = Duration::from_secs(10);

    /// Blocks the thread until the other call arrives, or until it is clear that it does not.
    pub(super) fn join(&self) {
        let mut there = self.there.lock().unwrap();
        *there += 1;
        self.came.notify_all();
        let (mut there, alone) = self
            .came
            .wait_timeout_while(there, Self::PATIENCE, |there| *there < 2)
            .unwrap();
        *there -= usize::from(alone.timed_out());
    }

    /// Waits until both calls have met; returns false if they do not.
    pub async fn took_place(&self) -> bool {
        let until = Instant::now() + Self::PATIENCE * 2;
        while *self.there.lock().unwrap() < 2 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        *self.there.lock().unwrap() >= 2
    }
}
