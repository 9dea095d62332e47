//! Answers requests.
use std::time::Duration;

use super::{Cloud, sim};
use crate::api::answer::{Answer, Outcome, Reply, Request};
use crate::api::error::{Error, Result};
use crate::api::path::Operation;
use crate::history::Millis;

impl Cloud {
    /// Answers a request. `now` is the time since the start, which never goes back.
    pub fn handle(&mut self, now: Duration, request: &Request) -> Outcome {
        // Half of the maximum, so that adding to it does not overflow.
        let now = self.ahead + Millis::try_from(now.as_millis()).unwrap_or(Millis::MAX / 2);

        // Hooks need no token, and are not delayed, limited or logged.
        if request.path.starts_with("/_sim/") {
            return Outcome {
                after: Duration::ZERO,
                answer: reply(sim::perform(self, now, request)),
            };
        }

        let operation = Operation::of(&request.method, &request.path);
        let name = operation.as_ref().ok().map(ToString::to_string);

        let (answer, injected) = match self.admit(now, request, operation) {
            Ok(operation) => self.try_to(now, operation, request),
            Err(error) => (reply(Err(error)), false),
        };

        let status = if let Answer::Reply(reply) = &answer {
            Some(reply.status)
        } else {
            None
        };

        self.calls.add(
            name,
            [&request.method, &request.path, &request.query],
            status,
            injected,
        );

        Outcome {
            after: Duration::from_millis(self.settings.latency_ms),
            answer,
        }
    }

    /// Decides whether a request is performed at all.
    fn admit(
        &mut self,
        now: Millis,
        request: &Request,
        operation: Result<Operation>,
    ) -> Result<Operation> {
        let token = request
            .authorization
            .as_deref()
            .and_then(|header| header.strip_prefix("Bearer "));
        if token.ok_or_else(Error::unauthorized)? != self.options.token {
            return Err(Error::forbidden());
        }

        // Requests for paths that do not exist count, too.
        let wait = self
            .settings
            .rate_limit
            .and_then(|limit| self.used.take(now, limit));
        wait.map_or(operation, |seconds| Err(Error::rate_limited(seconds)))
    }

    /// Performs an operation, unless it is to fail. Returns also whether it failed because a test
    /// wanted it.
    fn try_to(&mut self, now: Millis, operation: Operation, request: &Request) -> (Answer, bool) {
        let Some(failure) = self.failures.take(operation) else {
            return (reply(self.perform(now, operation, request)), false);
        };

        if failure.after {
            // The client does not learn whether it worked.
            let _ = self.perform(now, operation, request);
        }

        let answer = match failure.status {
            Some(status) => reply(Err(Error::injected(status, failure.retry_after))),
            None => Answer::Cut,
        };
        (answer, true)
    }
}

fn reply(result: Result<Reply>) -> Answer {
    Answer::Reply(result.unwrap_or_else(|error| {
        let body = serde_json::to_string(&error).unwrap_or_default();
        Reply {
            status: error.status,
            etag: None,
            retry_after: error.retry_after,
            body,
        }
    }))
}
