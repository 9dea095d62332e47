//! A test that has a hand in its requests.
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::http::{Request, Response};

type Interceptor = Arc<dyn Fn(&mut Request) -> Option<Response> + Send + Sync>;

thread_local! {
    static HERE: RefCell<Vec<Interceptor>> = const { RefCell::new(Vec::new()) };
}

/// Until this is dropped, requests of the thread that made it are intercepted.
#[must_use = "interception ends when this is dropped"]
pub struct Interception {
    hand: Interceptor,
    // Of the thread that made it.
    stays: PhantomData<*const ()>,
}

/// Shows each request of this thread to `hand` before it is sent: it may change the request, as to add the token that a host
/// would add, and may answer by itself. This ends when the guard is dropped. Of several, the newest is asked first, and each of
/// them until one answers.
///
/// It is for the calling thread, so that tests that run beside each other have nothing to do with each other;
/// [`send_all`](crate::http::send_all), which has threads of its own, asks it from those.
///
/// ```
/// use skydock_sdk::http::{self, Request, Response};
///
/// let _token = http::native::intercept(|request| {
///     request.headers.push(("x-auth-token".into(), "made by the test".into()));
///     None
/// });
/// ```
pub fn intercept(hand: impl Fn(&mut Request) -> Option<Response> + Send + Sync + 'static) -> Interception {
    let hand: Interceptor = Arc::new(hand);
    HERE.with_borrow_mut(|here| here.push(Arc::clone(&hand)));
    Interception { hand, stays: PhantomData }
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

/// Those of one thread, oldest first.
pub(super) struct Interceptors(Vec<Interceptor>);

/// Those of the calling thread.
pub(super) fn here() -> Interceptors {
    Interceptors(HERE.with_borrow(Clone::clone))
}

impl Interceptors {
    /// What one of them answers.
    pub(super) fn answer(&self, request: &mut Request) -> Option<Response> {
        self.0.iter().rev().find_map(|hand| hand(request))
    }
}
