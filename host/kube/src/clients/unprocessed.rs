//! Retries requests that the API server has not processed, like Go's HTTP/2 client.

use std::{error::Error, time::Duration};

use h2::Reason;
use http::{Request, Response};
use kube::client::{Body, retry::RetryPolicy};
use tokio::time::{Sleep, sleep};
use tower::{BoxError, retry::Policy};

/// Maximum number of retries, with increasing delays. The next connection may be closed too.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);

/// hyper's error for a request that was dropped before it was sent.
const DROPPED: &str = "dispatch task is gone";

/// A retry policy for requests that were rejected before they were processed: the connection was
/// about to be closed (GOAWAY), or it had too many requests.
#[derive(Clone)]
pub(super) struct Unprocessed {
    tried: u32,
    copies: RetryPolicy,
}

impl Default for Unprocessed {
    fn default() -> Self {
        Self {
            tried: 0,
            copies: RetryPolicy::server_retry(),
        }
    }
}

impl<B> Policy<Request<Body>, Response<B>, BoxError> for Unprocessed {
    type Future = Sleep;

    fn retry(
        &mut self,
        _: &mut Request<Body>,
        result: &mut Result<Response<B>, BoxError>,
    ) -> Option<Sleep> {
        let Err(error) = result else { return None };
        let again = self.tried < TRIES && is_unprocessed(&**error);
        self.tried += 1;
        again.then(|| sleep(PAUSE * self.tried))
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        Policy::<_, Response<B>, BoxError>::clone_request(&mut self.copies, request)
    }
}

/// Returns true if the server reported that it did not process the request, or if the request was
/// never sent. A connection that is closed without an error answers some requests and rejects the
/// others.
fn is_unprocessed(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source()).any(|error| {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let is_sent_away = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
            return error.is_remote()
                && (is_sent_away || error.reason() == Some(Reason::REFUSED_STREAM));
        }

        // The request waited for a connection with the maximum number of requests, which was then
        // closed. hyper drops it, and has no other error for this case.
        error
            .downcast_ref::<hyper::Error>()
            .is_some_and(|error| error.is_user() && error.to_string() == DROPPED)
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use h2::server::{Builder, Connection, SendResponse};
    use hyper_util::{client::legacy::Client, rt::TokioExecutor};
    use tokio::{
        net::{TcpListener, TcpStream},
        spawn,
        time::timeout,
    };
    use tower::{ServiceBuilder, ServiceExt as _, retry::RetryLayer};

    use super::*;

    /// After this time, data that was sent has arrived.
    const MOMENT: Duration = Duration::from_millis(200);

    /// Accepts a connection on which only one request at a time is processed.
    async fn accept(listener: &TcpListener) -> Connection<TcpStream, Bytes> {
        let (socket, _) = listener.accept().await.unwrap();
        Builder::new()
            .max_concurrent_streams(1)
            .handshake(socket)
            .await
            .unwrap()
    }

    fn answer(mut respond: SendResponse<Bytes>) {
        respond.send_response(Response::new(()), true).unwrap();
    }

    #[tokio::test]
    async fn a_request_waiting_on_a_closing_connection_is_resent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let serving = spawn(async move {
            let mut first = accept(&listener).await;
            let (_, respond) = first.accept().await.unwrap().unwrap();
            assert!(
                timeout(2 * MOMENT, first.accept()).await.is_err(),
                "the other waits for its turn"
            );
            first.graceful_shutdown();
            assert!(timeout(MOMENT, first.accept()).await.is_err());
            answer(respond);
            assert!(first.accept().await.is_none(), "it goes");
            let mut second = accept(&listener).await;
            while let Some(Ok((_, respond))) = second.accept().await {
                answer(respond);
            }
        });
        let client = Client::builder(TokioExecutor::new())
            .http2_only(true)
            .build_http::<Body>();
        let client = ServiceBuilder::new()
            .layer(RetryLayer::new(Unprocessed::default()))
            .map_err(BoxError::from)
            .service(client);
        let send = async |after| {
            sleep(after).await;
            let request = Request::get(&url).body(Body::empty()).unwrap();
            client
                .clone()
                .oneshot(request)
                .await
                .unwrap()
                .status()
                .as_u16()
        };
        assert_eq!(tokio::join!(send(Duration::ZERO), send(MOMENT)), (200, 200));
        serving.abort();
    }
}
