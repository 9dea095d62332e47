//! Responses of a cloud: status, headers, body.
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;

use super::{retry_after, said};
use crate::Result;
use crate::types::CloudError;

/// A complete response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// Status code, for example 200.
    pub status: u16,
    /// Names in lower case, and values, in the order of the response. Bytes of a value that are not
    /// valid UTF-8 are replaced.
    pub headers: Vec<(String, String)>,
    /// The body; may be empty.
    pub body: Vec<u8>,
}

/// Delay after a 429 that does not state one.
const THROTTLED: Duration = Duration::from_secs(5);

impl Response {
    /// Returns the first header with this name, ignoring case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    ///
    /// [`internal`](CloudError::Internal), with the position in the body, if it is not valid JSON
    /// or does not match `T`. The message may contain the beginning of a value from the body.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let kind = self.other_than_json().unwrap_or_default();
            let position = format!(" at line {} column {}", error.line(), error.column());
            let error = error.to_string();
            // The error may quote a value from the body, of any length.
            let what = said::printable(error.strip_suffix(&position).unwrap_or(&error));
            CloudError::internal(format!(
                "HTTP {}: the answer's JSON is not as expected: {what}{position}{kind}",
                self.status
            ))
        })
    }

    /// Returns why the body cannot be JSON, as the end of a sentence, if that is known.
    fn other_than_json(&self) -> Option<String> {
        if self.body.is_empty() {
            return Some(" (the body is empty)".to_owned());
        }

        let encoding = self
            .header("content-encoding")
            .filter(|encoding| !encoding.eq_ignore_ascii_case("identity"));
        let kind = self
            .header("content-type")
            .filter(|kind| !kind.to_ascii_lowercase().contains("json"));

        let (name, value) = encoding
            .map(|it| ("Content-Encoding", it))
            .or(kind.map(|it| ("Content-Type", it)))?;
        Some(format!(" ({name}: {})", said::printable(value)))
    }

    /// Returns the body as text.
    ///
    /// # Errors
    ///
    /// [`internal`](CloudError::Internal) if it is not valid UTF-8.
    pub fn text(&self) -> Result<&str> {
        std::str::from_utf8(&self.body).map_err(|error| {
            CloudError::internal(format!(
                "HTTP {}: the answer is not text: {error}",
                self.status
            ))
        })
    }

    /// Returns whether the status is from 200 to 299.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the response if it is a success.
    ///
    /// # Errors
    ///
    /// [`error`](Self::error) otherwise.
    pub fn success(self) -> Result<Self> {
        if self.is_success() {
            Ok(self)
        } else {
            Err(self.error())
        }
    }

    /// Returns the error that the status stands for, with the cloud's message from the body:
    ///
    /// | status | error |
    /// | --- | --- |
    /// | 429, and any from 400 on with a `Retry-After` | throttled, for the time that `Retry-After` states, or 5 s without one |
    /// | 401, 402, 403, 407 | denied |
    /// | 404, 410 | not-found |
    /// | 409, 412, 423 | conflict |
    /// | 408, 425, from 500 on | unavailable |
    /// | others from 400 on | invalid |
    /// | below 400 | internal: a redirect, which is not followed, 304, or not an error |
    ///
    /// If a status means something else for your cloud, check it before you call this.
    #[must_use]
    pub fn error(&self) -> CloudError {
        let mut message = format!("HTTP {}", self.status);
        if let Some(sentence) =
            said::sentence(self.header("content-type").unwrap_or_default(), &self.body)
        {
            let _ = write!(message, ": {sentence}");
        }

        // A cloud that states a delay asks for fewer requests, whatever its status.
        if self.status >= 400
            && let Some(after) = self.retry_after()
        {
            return CloudError::throttled(after, message);
        }

        match self.status {
            304 => CloudError::internal(
                message + ": not modified, but the SDK keeps no earlier answers",
            ),
            300..=399 => CloudError::internal(message + ": redirects are not followed"),
            ..=299 => CloudError::internal(message + " where an error was expected"),
            429 => CloudError::throttled(THROTTLED, message),
            401 | 402 | 403 | 407 => CloudError::denied(message),
            404 | 410 => CloudError::not_found(message),
            409 | 412 | 423 => CloudError::conflict(message),
            408 | 425 | 500.. => CloudError::unavailable(message),
            _ => CloudError::invalid(message),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        retry_after::delay(
            self.header("retry-after")?,
            self.header("date"),
            SystemTime::now(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        Response {
            status,
            headers,
            body: body.into(),
        }
    }

    #[test]
    fn each_status_maps_to_a_cloud_error() {
        let name = |status| match response(status, &[], "").error() {
            CloudError::NotFound(_) => "not-found",
            CloudError::ImplementedElsewhere => "implemented-elsewhere",
            CloudError::Conflict(_) => "conflict",
            CloudError::Throttled(_) => "throttled",
            CloudError::InProgress(_) => "in-progress",
            CloudError::Denied(_) => "denied",
            CloudError::Invalid(_) => "invalid",
            CloudError::Unavailable(_) => "unavailable",
            CloudError::Internal(_) => "internal",
        };
        let table: [(&str, &[u16]); 7] = [
            ("denied", &[401, 402, 403, 407]),
            ("not-found", &[404, 410]),
            ("conflict", &[409, 412, 423]),
            ("throttled", &[429]),
            (
                "unavailable",
                &[408, 425, 500, 501, 502, 503, 504, 599, 600, u16::MAX],
            ),
            (
                "invalid",
                &[400, 405, 406, 411, 413, 415, 422, 431, 451, 499],
            ),
            ("internal", &[0, 100, 200, 204, 299, 300, 301, 304, 399]),
        ];
        for (expected, statuses) in table {
            for status in statuses {
                assert_eq!(name(*status), expected, "{status}");
            }
        }
    }

    #[test]
    fn retry_after_sets_the_delay_of_a_throttled_error() {
        let throttled = |seconds| CloudError::throttled(Duration::from_secs(seconds), "HTTP 503");
        assert_eq!(
            response(503, &[("Retry-After", "7")], "").error(),
            throttled(7)
        );

        let dates = [
            ("date", "Sun, 06 Nov 1994 08:49:30 GMT"),
            ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ];
        assert_eq!(response(503, &dates, "").error(), throttled(7));
        assert_eq!(
            response(503, &[("retry-after", "soon")], "").error(),
            CloudError::unavailable("HTTP 503")
        );
        assert_eq!(
            response(429, &[], "").error(),
            CloudError::throttled(THROTTLED, "HTTP 429")
        );

        let accepted = response(202, &[("retry-after", "7")], "");
        assert!(matches!(accepted.error(), CloudError::Internal(_)));
        assert_eq!(accepted.clone().success(), Ok(accepted));
    }

    #[test]
    fn an_error_contains_the_message_of_the_cloud() {
        let body = r#"{"itemNotFound": {"message": "Instance could not be found", "code": 404}}"#;
        let error = response(404, &[("content-type", "application/json")], body).success();
        assert_eq!(
            error,
            Err(CloudError::not_found(
                "HTTP 404: Instance could not be found"
            ))
        );
        let plain = response(400, &[("Content-Type", "text/plain")], "no");
        assert_eq!(plain.error(), CloudError::invalid("HTTP 400: no"));
    }

    #[test]
    fn not_modified_is_not_called_a_redirect() {
        let message = "HTTP 304: not modified, but the SDK keeps no earlier answers";
        assert_eq!(
            response(304, &[], "").error(),
            CloudError::internal(message)
        );
        let redirect = CloudError::internal("HTTP 302: redirects are not followed");
        assert_eq!(response(302, &[], "").error(), redirect);
    }

    #[test]
    fn only_2xx_statuses_are_a_success() {
        for (status, expected) in [
            (199, false),
            (200, true),
            (299, true),
            (300, false),
            (404, false),
        ] {
            assert_eq!(response(status, &[], "").is_success(), expected, "{status}");
        }
    }

    #[test]
    fn an_error_about_json_is_short_and_tells_the_kind() {
        #[derive(Debug, serde::Deserialize)]
        enum State {
            #[serde(rename = "on")]
            On,
        }
        let told = |headers: &[(&str, &str)], body: &str| match response(200, headers, body)
            .json::<State>()
        {
            Err(CloudError::Internal(message)) => {
                message.replace("HTTP 200: the answer's JSON is not as expected: ", "")
            }
            other => panic!("{other:?}"),
        };
        let json = ("content-type", "application/problem+JSON");
        let quoted = r#""a\n\u202e\u001b[31mb""#;

        assert_eq!(
            told(&[json], quoted),
            "unknown variant `a [31mb`, expected `on` at line 1 column 22"
        );

        let long = told(&[json], &format!("\"{}\"", "ü\\n".repeat(1 << 20)));
        assert!(
            long.len() < 500 && long.ends_with("… at line 1 column 4194306"),
            "{} {long:.900}",
            long.len()
        );

        let login = told(&[("Content-Type", "text/html; charset=utf-8")], "<html>");
        assert_eq!(
            login,
            "expected value at line 1 column 1 (Content-Type: text/html; charset=utf-8)"
        );

        let packed = told(&[json, ("Content-Encoding", "gzip")], "\u{1f}");
        assert_eq!(
            packed,
            "expected value at line 1 column 1 (Content-Encoding: gzip)"
        );
        assert_eq!(
            told(&[json], ""),
            "EOF while parsing a value at line 1 column 0 (the body is empty)"
        );
        assert_eq!(told(&[], "x"), "expected value at line 1 column 1");
    }

    #[test]
    fn an_unexpected_body_is_an_internal_error() {
        let good = response(200, &[("A", "1"), ("a", "2")], "[1, 2]");
        assert_eq!(
            (good.json(), good.text(), good.header("a")),
            (Ok([1, 2]), Ok("[1, 2]"), Some("1"))
        );
        assert!(
            matches!(good.json::<String>(), Err(CloudError::Internal(message)) if message.contains("line 1"))
        );

        let bytes = Response {
            status: 200,
            body: vec![0xff],
            ..Response::default()
        };
        assert!(matches!(bytes.text(), Err(CloudError::Internal(_))));
    }
}
