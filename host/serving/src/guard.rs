//! Lets only requests through that are allowed: by authentication, and then by authorization.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::Response,
};
use http::{HeaderValue, header};

use crate::{
    authenticator::Authenticator,
    authorizer::{AlwaysAllowPaths, Authorizer, Verdict},
    connections::Peer,
    status,
};

/// What requests have to pass.
pub(crate) struct Guard {
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Authorizer,
    pub(crate) always_allowed: AlwaysAllowPaths,
}

/// Returns a router that is guarded, including paths that it does not have.
pub(crate) fn guarded(router: Router, guard: Arc<Guard>) -> Router {
    router.layer(middleware::from_fn_with_state(guard, pass))
}

async fn pass(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = guard.answer(request, next).await;
    let headers = response.headers_mut();
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache, private"));
    response
}

impl Guard {
    async fn answer(&self, mut request: Request, next: Next) -> Response {
        let path = request.uri().path().to_owned();
        let Some(peer) = request.extensions().get::<Arc<Peer>>().cloned() else {
            return status::internal_error(&path);
        };

        // A connection is only kept for users who are known.
        let ending = peer.ends_unless_disarmed();

        // Health must not depend on the API server, so nobody is asked, also not about a token.
        if self.always_allowed.contain(&path) {
            return next.run(request).await;
        }

        let turn = peer.turn().await;
        let authenticated = self
            .authenticator
            .authenticate(peer.certificates(), request.headers())
            .await;
        let user = match authenticated {
            Ok(user) => user,
            Err(_) => return status::unauthorized(),
        };
        if !user.is_anonymous() {
            ending.disarm();
        }

        let verb = request.method().as_str().to_ascii_lowercase();
        let verdict = self.authorizer.authorize(&user, &verb, &path).await;
        drop(turn);
        match verdict {
            Ok(Verdict::Allowed) => {
                // Nothing behind the guard needs it.
                request.headers_mut().remove(header::AUTHORIZATION);
                let response = next.run(request).await;
                // All accounts have permission for some pages of the API server.
                if !user.is_anonymous() && response.status().is_success() {
                    peer.mark_authorized();
                }
                response
            }
            Ok(Verdict::Forbidden(reason)) => status::forbidden(&user.name, &verb, &path, &reason),
            Err(error) => {
                tracing::debug!(%error, path, "cannot authorize a request");
                status::internal_error(&path)
            }
        }
    }
}
