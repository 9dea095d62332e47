//! Interception of requests by tests.
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::http::{Request, Response};

type Interceptor = Arc<dyn Fn(&mut Request) -> Option<Response> + Send + Sync>;

thread_local! {
    static HERE: RefCell<Vec<Interceptor>> = const { RefCell::new(Vec::new()) };
}

/// A guard: requests of the thread that created it are intercepted until it is dropped.
#[must_use = "interception ends when this is dropped"]
pub struct Interception {
    hand: Interceptor,
    // Keeps the guard on the thread that created it.
    stays: PhantomData<*const ()>,
}

/// Passes each request of this thread to `hand` before it is sent. `hand` may change the request,
/// for example add the token that a host would add, and may answer it. This ends when the guard is
/// dropped. If there are several interceptors, they are called from the most recent to the oldest,
/// until one answers.
///
/// An interceptor belongs to the calling thread, so that concurrent tests do not affect each other;
/// [`send_all`](crate::http::send_all), which starts its own threads, calls it from those.
///
/// ```
/// use skydock_sdk::http::{self, Request, Response};
///
/// let _token = http::native::intercept(|request| {
///     request.headers.push(("x-auth-token".into(), "made by the test".into()));
///     None
/// });
/// ```
pub fn intercept(
    hand: impl Fn(&mut Request) -> Option<Response> + Send + Sync + 'static,
) -> Interception {
    let hand: Interceptor = Arc::new(hand);
    HERE.with_borrow_mut(|here| here.push(Arc::clone(&hand)));
    Interception {
        hand,
        stays: PhantomData,
    }
}

impl Drop for Interception {
    fn drop(&mut self) {
        HERE.with_borrow_mut(|here| here.retain(|other| !Arc::ptr_eq(other, &self.hand)));
    }
}

impl fmt::Debug for Interception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interception")
    }
}

/// The interceptors of one thread, oldest first.
pub(super) struct Interceptors(Vec<Interceptor>);

/// Returns the interceptors of the calling thread.
pub(super) fn here() -> Interceptors {
    Interceptors(HERE.with_borrow(Clone::clone))
}

impl Interceptors {
    /// Returns the answer of the first interceptor that has one.
    pub(super) fn answer(&self, request: &mut Request) -> Option<Response> {
        self.0.iter().rev().find_map(|hand| hand(request))
    }
}
