//! Records HTTP exchanges as a guest sees them, and replays them.
//!
//! A request is recorded before the gateway adds credentials to it, and a response after the
//! gateway has masked them in it.

use std::{
    collections::VecDeque,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING},
    request,
};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use skydock_credentials::Secret;
use skydock_recording::{
    COMPRESSED, Ending, Fields, Player, RecordedResponse, Recorder, RequestHead, ResponseHead,
    Timeouts,
};
use wasmtime_wasi_http::{RequestOptions, WasiBody};

use super::{Failure, Sent};

/// Sends a request, and records the exchange, without the secrets of credentials.
pub(super) fn record(
    recorder: &Arc<Recorder>,
    request: Request<WasiBody>,
    options: Option<RequestOptions>,
    secrets: impl FnOnce() -> Vec<Secret> + Send + 'static,
    send: impl FnOnce(Request<WasiBody>) -> Sent,
) -> Sent {
    let (mut head, body) = request.into_parts();
    let exchange = recorder.request(head_of(&head, options));

    if is_compressed(&head.headers) {
        recorder.stop(COMPRESSED);
    }

    // Secrets in a compressed answer could not be masked.
    head.headers
        .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));

    let length = head
        .headers
        .get(http::header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    let length = length.or_else(|| body.is_end_stream().then_some(0));

    let observer = Upload {
        recorder: Arc::clone(recorder),
        exchange,
        sent: 0,
        length,
        written: false,
    };

    let sent = send(Request::from_parts(
        head,
        Observed { body, observer }.boxed_unsync(),
    ));

    let recorder = Arc::clone(recorder);
    Box::pin(async move {
        let response = sent
            .await
            .inspect_err(|failure| recorder.end(exchange, ending(failure)))?;

        Ok(record_response(recorder, exchange, response, secrets()))
    })
}

fn record_response(
    recorder: Arc<Recorder>,
    exchange: u64,
    response: Response<super::Body>,
    secrets: Vec<Secret>,
) -> Response<super::Body> {
    let (head, body) = response.into_parts();
    if is_compressed(&head.headers) {
        recorder.stop(COMPRESSED);
    }

    // An answer may quote one that was sent with an earlier request.
    recorder.know(secrets);
    recorder.response(
        exchange,
        ResponseHead {
            status: head.status.as_u16(),
            headers: fields(&head.headers),
        },
    );

    let observer = Download {
        recorder,
        exchange,
        received: false,
        ended: false,
    };
    Response::from_parts(head, Observed { body, observer }.boxed_unsync())
}

/// Compares a request with the recorded one, and returns the recorded response.
pub(super) fn play(
    player: &Arc<Player>,
    request: Request<WasiBody>,
    options: Option<RequestOptions>,
) -> Sent {
    let (head, body) = request.into_parts();
    let Some(exchange) = player.request(&head_of(&head, options)) else {
        // The request differs from the recording, and the player ends the call.
        return Box::pin(std::future::pending());
    };

    let player = Arc::clone(player);
    Box::pin(async move {
        let sending = send(Arc::clone(&player), exchange, body);
        // A server may answer before it has read the whole request, as it did when this was
        // recorded.
        if player.answers_last(exchange) {
            sending.await;
        } else {
            player.sending(sending);
        }

        let RecordedResponse {
            head,
            pieces,
            ending,
        } = player.response(exchange);
        match (head, ending) {
            (Some(head), ending) => Ok(response(
                head,
                Replayed {
                    player,
                    pieces,
                    ending,
                },
            )),
            (None, Some(Ending::Failure { code, message })) => Err(Failure { code, message }),
            _ => {
                player.waits();
                std::future::pending().await
            }
        }
    })
}

/// Reads the body of a request to its end, and compares it.
async fn send(player: Arc<Player>, exchange: u64, body: WasiBody) {
    let mut body = pin!(body);
    let mut bytes = Vec::new();

    let complete = loop {
        match body.frame().await {
            Some(Ok(frame)) => frame
                .data_ref()
                .into_iter()
                .for_each(|data| bytes.extend_from_slice(data)),
            Some(Err(_)) => break false,
            None => break true,
        }
    };

    player.sent(exchange, &bytes, complete);
}

fn head_of(head: &request::Parts, options: Option<RequestOptions>) -> RequestHead {
    let millis = |timeout: Option<Duration>| {
        timeout.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
    };

    let timeouts = options.map(|it| Timeouts {
        connect: millis(it.connect_timeout),
        first_byte: millis(it.first_byte_timeout),
        between_bytes: millis(it.between_bytes_timeout),
    });
    let method = head.method.to_string();
    let uri = head.uri.to_string();

    RequestHead {
        method,
        uri,
        headers: fields(&head.headers),
        timeouts,
    }
}

fn is_compressed(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

fn fields(headers: &HeaderMap) -> Fields {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers
        .iter()
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect()
}

fn headers(fields: Fields) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        if let (Ok(name), Ok(value)) = (
            name.parse::<HeaderName>(),
            HeaderValue::from_bytes(value.as_bytes()),
        ) {
            headers.append(name, value);
        }
    }
    headers
}

fn response(head: ResponseHead, body: Replayed) -> Response<super::Body> {
    let mut response = Response::new(body.boxed_unsync());
    // Recordings with another status are not read.
    *response.status_mut() = http::StatusCode::from_u16(head.status).unwrap_or_default();
    *response.headers_mut() = headers(head.headers);
    response
}

fn ending(failure: &Failure) -> Ending {
    Ending::Failure {
        code: failure.code,
        message: failure.message.clone(),
    }
}

/// What records a body.
trait Observer<E> {
    /// A piece of it.
    fn data(&mut self, data: &Bytes);

    /// Its end.
    fn end(&mut self, end: Result<Option<&HeaderMap>, &E>);
}

/// A body that is recorded while it is read.
struct Observed<B, O> {
    body: B,
    observer: O,
}

impl<B: Body<Data = Bytes> + Unpin, O: Observer<B::Error> + Unpin> Body for Observed<B, O> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Self { body, observer } = &mut *self;
        let frame = ready!(Pin::new(body).poll_frame(cx));

        match &frame {
            Some(Ok(frame)) => {
                frame
                    .data_ref()
                    .into_iter()
                    .for_each(|data| observer.data(data));
                frame
                    .trailers_ref()
                    .into_iter()
                    .for_each(|trailers| observer.end(Ok(Some(trailers))));
            }
            Some(Err(error)) => observer.end(Err(error)),
            None => observer.end(Ok(None)),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Records the body of a request, when it has ended.
struct Upload {
    recorder: Arc<Recorder>,
    exchange: u64,
    /// Number of bytes so far.
    sent: usize,
    /// Number of bytes, if it is known before.
    length: Option<usize>,
    written: bool,
}

impl Upload {
    fn write(&mut self, complete: bool) {
        if !std::mem::replace(&mut self.written, true) {
            self.recorder.request_body(self.exchange, complete);
        }
    }
}

impl<E> Observer<E> for Upload {
    fn data(&mut self, data: &Bytes) {
        self.recorder.sent(self.exchange, data.chunk());
        self.sent = self.sent.saturating_add(data.len());
        // An HTTP client that knows the length does not ask for the end.
        if self.length == Some(self.sent) {
            self.write(true);
        }
    }

    fn end(&mut self, end: Result<Option<&HeaderMap>, &E>) {
        self.write(end.is_ok());
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // A body that is dropped before its end was read only in part.
        self.write(self.length == Some(self.sent));
    }
}

/// Records the body of a response with its pieces, when it has ended.
struct Download {
    recorder: Arc<Recorder>,
    exchange: u64,
    /// There is a piece that is not written.
    received: bool,
    /// The end is written.
    ended: bool,
}

impl Download {
    fn write(&mut self) {
        if std::mem::replace(&mut self.received, false) {
            self.recorder.response_body(self.exchange);
        }
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.write();
    }
}

impl Observer<Failure> for Download {
    fn data(&mut self, data: &Bytes) {
        self.recorder.received(self.exchange, data.chunk());
        self.received = true;
    }

    fn end(&mut self, end: Result<Option<&HeaderMap>, &Failure>) {
        let ending = match end {
            Ok(trailers) => Ending::Trailers(trailers.map(fields)),
            Err(failure) => ending(failure),
        };
        self.write();

        // Whoever looks at a body after its trailers sees another end.
        if !std::mem::replace(&mut self.ended, true) {
            self.recorder.end(self.exchange, ending);
        }
    }
}

/// The body of a recorded response.
struct Replayed {
    player: Arc<Player>,
    pieces: VecDeque<Vec<u8>>,
    ending: Option<Ending>,
}

impl Body for Replayed {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        if let Some(piece) = self.pieces.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(piece.into()))));
        }

        match self.ending.take() {
            Some(Ending::Trailers(trailers)) => {
                // Whoever asks again gets the end again.
                self.ending = Some(Ending::Trailers(None));
                Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(headers(trailers)))))
            }
            Some(Ending::Failure { code, message }) => {
                Poll::Ready(Some(Err(Failure { code, message })))
            }
            None => {
                self.player.waits();
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use http_body_util::{Full, StreamBody, combinators::UnsyncBoxBody};

    use super::*;
    use skydock_recording::{Origin, Recordings};
    use skydock_resources::account::Account;

    fn body<E: 'static>(text: &'static str) -> UnsyncBoxBody<Bytes, E> {
        Full::new(Bytes::from(text))
            .map_err(|never| match never {})
            .boxed_unsync()
    }

    /// Sends a request with this coding, which is answered with that one, and returns the
    /// recording.
    async fn recorded(sent: &'static str, answered: &'static str) -> String {
        recorded_body(sent, answered, body("reply")).await
    }

    async fn recorded_body(
        sent: &'static str,
        answered: &'static str,
        reply: super::super::Body,
    ) -> String {
        let dir = tempfile::tempdir().unwrap();
        let recordings = Recordings::open(&dir.path().join("new"), 1 << 20).unwrap();
        let memory = Account::new(1 << 30, prometheus_client::metrics::gauge::Gauge::default());
        let recorder = Arc::new(Recorder::begin(
            &recordings,
            Origin {
                contract: "0.1.0",
                plugin: "p",
                generation: 1,
                component: "digest",
            },
            &memory,
        ));
        let request = Request::post("http://cloud/v1")
            .header("accept-encoding", "gzip")
            .header(CONTENT_ENCODING, sent);
        let request = request.body(body("question")).unwrap();
        let answer = record(&recorder, request, None, Vec::new, |request| {
            Box::pin(async move {
                assert_eq!(request.headers()[ACCEPT_ENCODING], "identity");
                request.into_body().collect().await.unwrap();
                let response = Response::builder().header(CONTENT_ENCODING, answered);
                Ok(response.body(reply).unwrap())
            })
        });
        answer.await.unwrap().into_body().collect().await.unwrap();
        drop((recorder, recordings));
        let mut files = fs::read_dir(dir.path().join("new")).unwrap();
        fs::read_to_string(files.next().unwrap().unwrap().path()).unwrap()
    }

    #[tokio::test]
    async fn a_compressed_body_is_not_recorded() {
        let text = recorded("identity", "identity").await;
        assert!(
            text.contains("question")
                && text.contains("reply")
                && text.contains(r#"["accept-encoding","gzip"]"#),
            "{text}"
        );
        let text = recorded("gzip", "identity").await;
        assert!(
            !text.contains("question")
                && text.ends_with(&format!("{{\"cut\":\"{COMPRESSED}\"}}\n")),
            "{text}"
        );
        let text = recorded("identity", "gzip").await;
        assert!(
            text.contains("question") && !text.contains("reply") && text.contains(COMPRESSED),
            "{text}"
        );
    }

    #[tokio::test]
    async fn the_trailers_of_a_body_are_its_only_end() {
        let trailers = vec![("x-checksum".to_owned(), "1".to_owned())];
        let frames = [
            Ok(Frame::data(Bytes::from("reply"))),
            Ok(Frame::trailers(headers(trailers))),
        ];
        let reply = StreamBody::new(futures::stream::iter(frames)).boxed_unsync();

        let text = recorded_body("identity", "identity", reply).await;
        let ends: Vec<_> = text.lines().filter(|it| it.contains("\"end\"")).collect();
        assert_eq!(
            ends,
            [r#"{"end":{"exchange":1,"trailers":[["x-checksum","1"]]}}"#]
        );
    }
}
