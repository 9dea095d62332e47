//! Handles a request of the proxy.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::TcpStream;

use super::body::{AnswerBody, cut, whole};
use super::drip::{Drip, Pace};
use super::forward::Asked;
use super::{Call, Cloud, Fault, Shared, memory};
use crate::aws::xml;
use crate::operation;

/// Serves one connection until it ends.
pub(super) async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true); // without it, answers are only slower
    let pace = Pace::default();
    let drip = Drip::new(stream, pace.clone());
    let service = service_fn(move |request| {
        let (shared, pace) = (Arc::clone(&shared), pace.clone());
        async move { shared.serve(request, &pace).await }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(drip), service)
        .await;
    if let Err(error) = served {
        tracing::trace!(%error, "a connection has ended"); // clients and faults end connections
    }
}

/// The outcome of a request.
enum Outcome {
    Answer(Response<Bytes>),
    Cut(Response<Bytes>, usize),
    Closed,
}

impl Shared {
    async fn serve(
        &self,
        request: Request<Incoming>,
        pace: &Pace,
    ) -> Result<Response<AnswerBody>, io::Error> {
        let began = Instant::now();
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let Some(asked) = Asked::new(&self.cloud, head, body) else {
            return Ok(
                status(StatusCode::NOT_FOUND, "the proxy knows no such service\n").map(whole),
            );
        };
        let operation = self.operation(&asked);
        let target = asked.target();
        let faults = self.rules().next(&operation, |text| {
            target.contains(text) || asked.form().contains(text)
        });
        let names = faults.iter().map(Fault::name).collect();
        let outcome = self.suffer(&asked, &operation, faults, pace).await;
        let latency = Duration::from_micros(self.latency.load(Ordering::Relaxed));
        tokio::time::sleep(latency.saturating_sub(began.elapsed())).await;

        let status = match &outcome {
            Outcome::Answer(answer) | Outcome::Cut(answer, _) => Some(answer.status().as_u16()),
            Outcome::Closed => None,
        };
        if let Outcome::Answer(answer) = &outcome
            && asked.head.method == Method::POST
        {
            let token = answer
                .headers()
                .get("x-subject-token")
                .and_then(|token| token.to_str().ok());
            self.log().tokens.extend(token.map(str::to_owned));
        }
        let (at, took) = (began.duration_since(self.began), began.elapsed());
        self.log().calls.push(Call {
            operation,
            path: target,
            at,
            took,
            status,
            faults: names,
        });
        match outcome {
            Outcome::Answer(answer) => Ok(answer.map(whole)),
            Outcome::Cut(answer, after) => Ok(answer.map(|bytes| cut(&bytes, after))),
            // hyper closes the connection without an answer.
            Outcome::Closed => Err(io::Error::other("closed on purpose")),
        }
    }

    fn operation(&self, asked: &Asked) -> String {
        let method = asked.head.method.as_str();
        match self.cloud {
            Cloud::OpenStack(_) => {
                operation::openstack(asked.service, method, &asked.path, &asked.body)
            }
            Cloud::Aws { .. } => operation::aws(
                method,
                &asked.path,
                &asked.query,
                &asked.head.headers,
                &asked.body,
            ),
            Cloud::Other(_) => operation::other(method, &asked.path, asked.form()),
        }
    }

    /// Handles the request with these faults.
    async fn suffer(
        &self,
        asked: &Asked,
        operation: &str,
        faults: Vec<Fault>,
        pace: &Pace,
    ) -> Outcome {
        pace.set(Duration::ZERO);
        let mut answer = None;
        let (mut cut, mut closed, mut twice, mut slow, mut garbage) =
            (None, false, false, Duration::ZERO, None);
        for fault in faults {
            match fault {
                Fault::Delay(time) | Fault::Latency(time, _) => tokio::time::sleep(time).await,
                Fault::SlowAnswer(time) => slow += time,
                Fault::Drip(time) => pace.set(time),
                Fault::Throttle(after) => answer = Some(self.throttled(operation, after)),
                Fault::Status(code) => answer = Some(self.failed(operation, code)),
                Fault::Rejected => return Outcome::Closed,
                Fault::Lost => closed = true,
                Fault::Cut(after) => cut = Some(after),
                Fault::Stale(age) => {
                    answer =
                        answer.or_else(|| self.memory().last(&self.key(asked, operation), age));
                }
                Fault::WrongPage => answer = answer.or_else(|| self.first_page(asked, operation)),
                Fault::Twice => twice = true,
                Fault::Garbage(body) => garbage = Some(body),
            }
        }
        let mut answer = match answer {
            Some(answer) => answer,
            None => {
                let mut answer = self.ask(asked, operation).await;
                if twice {
                    answer = self.ask(asked, operation).await;
                }
                answer
            }
        };
        if let Some(garbage) = garbage {
            *answer.status_mut() = StatusCode::OK;
            *answer.body_mut() = Bytes::from_static(garbage.as_bytes());
        }
        tokio::time::sleep(slow).await;
        match (closed, cut) {
            (true, _) => Outcome::Closed,
            (false, Some(after)) => Outcome::Cut(answer, after),
            (false, None) => Outcome::Answer(answer),
        }
    }

    /// Sends the request to the cloud. The answer to a read request is remembered.
    async fn ask(&self, asked: &Asked, operation: &str) -> Response<Bytes> {
        let answer = match &self.cloud {
            Cloud::OpenStack(_) | Cloud::Other(_) => self.forward(asked).await,
            Cloud::Aws { shim, .. } => match shim.instead(operation, asked).await {
                Some(answer) => answer,
                None => {
                    shim.repaired(operation, asked, self.forward(asked).await)
                        .await
                }
            },
        };
        let reads = ["Describe", "List", "Get"];
        let action = operation.split(':').next_back().unwrap_or_default();
        let is_read =
            asked.head.method == Method::GET || reads.iter().any(|verb| action.starts_with(verb));
        if is_read && answer.status().is_success() {
            self.memory().remember(self.key(asked, operation), &answer);
        }
        answer
    }

    /// Returns the key of the request. For AWS, the path is part of the operation, and requests can
    /// differ in their forms.
    fn key(&self, asked: &Asked, operation: &str) -> String {
        memory::key(operation, &asked.path, &asked.query, asked.form())
    }

    /// Returns the last answer for the first page, if another page is requested.
    fn first_page(&self, asked: &Asked, operation: &str) -> Option<Response<Bytes>> {
        let query = memory::first_page(&asked.query);
        let first = memory::key(
            operation,
            &asked.path,
            &query,
            &memory::first_page(asked.form()),
        );
        (first != self.key(asked, operation))
            .then(|| self.memory().last(&first, Duration::MAX))
            .flatten()
    }

    fn throttled(&self, operation: &str, after: Option<u32>) -> Response<Bytes> {
        let mut answer = match self.cloud {
            Cloud::OpenStack(_) | Cloud::Other(_) => self.failed(operation, 429),
            // EC2 and Elastic Load Balancing use different errors.
            Cloud::Aws { .. } if operation.starts_with("ec2:") => aws_error(
                operation,
                503,
                "RequestLimitExceeded",
                "Request limit exceeded.",
            ),
            Cloud::Aws { .. } => aws_error(operation, 400, "Throttling", "Rate exceeded"),
        };
        if let Some(after) = after {
            answer
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(after));
        }
        answer
    }

    fn failed(&self, operation: &str, code: u16) -> Response<Bytes> {
        match self.cloud {
            Cloud::OpenStack(_) | Cloud::Other(_) => {
                let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                let message = code.canonical_reason().unwrap_or("a fault of the proxy's");
                let name = match self.cloud {
                    Cloud::OpenStack(_) => json!(code.as_u16()),
                    _ => json!(message),
                };
                let body = json!({"error": {"code": name, "title": message, "message": message}});
                let mut answer = status(code, &body.to_string());
                answer.headers_mut().insert(
                    header::CONTENT_TYPE,
                    HeaderValue::from_static("application/json"),
                );
                answer
            }
            Cloud::Aws { .. } => {
                let name = match code {
                    500 => "InternalError",
                    503 => "Unavailable",
                    401 | 403 => "UnauthorizedOperation",
                    _ => "InvalidRequest",
                };
                aws_error(operation, code, name, "a fault of the proxy's")
            }
        }
    }
}

fn status(code: StatusCode, body: &str) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::from(body.to_owned()));
    *answer.status_mut() = code;
    answer
}

/// Returns an error in the format of the operation's API.
pub(super) fn aws_error(operation: &str, code: u16, name: &str, message: &str) -> Response<Bytes> {
    let (name, message) = (xml::escape(name), xml::escape(message));
    let id = "00000000-0000-0000-0000-000000000000";
    let body = if operation.starts_with("ec2:") {
        format!(
            "<Response><Errors><Error><Code>{name}</Code><Message>{message}</Message></Error></Errors><RequestID>{id}</RequestID></Response>"
        )
    } else {
        format!(
            "<ErrorResponse><Error><Type>Sender</Type><Code>{name}</Code><Message>{message}</Message></Error><RequestId>{id}</RequestId></ErrorResponse>"
        )
    };
    let mut answer = status(
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        &body,
    );
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/xml"));
    answer
}
