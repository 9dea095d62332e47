//! Forwards requests and replaces the URLs of the cloud by the proxy's.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};

use super::{Cloud, Shared};
use crate::Error;

/// Headers that apply to one connection only.
const HOP: [HeaderName; 5] = [
    CONNECTION,
    TRANSFER_ENCODING,
    CONTENT_LENGTH,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// A received request and its destination.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) head: http::request::Parts,
    pub(super) body: Bytes,
    /// The service (only for OpenStack).
    pub(super) service: &'static str,
    /// The scheme, host and port of the service.
    pub(super) base: String,
    /// The path for the cloud.
    pub(super) path: String,
    pub(super) query: String,
}

impl Asked {
    /// Creates the request. Returns `None` if there is no service below the path.
    pub(super) fn new(cloud: &Cloud, head: http::request::Parts, body: Bytes) -> Option<Self> {
        let (path, query) = (
            head.uri.path().to_owned(),
            head.uri.query().unwrap_or_default().to_owned(),
        );
        let (service, base, path) = match cloud {
            Cloud::Aws { url, .. } | Cloud::Other(url) => ("", url.clone(), path),
            Cloud::OpenStack(services) => {
                let (name, rest) = path
                    .trim_start_matches('/')
                    .split_once('/')
                    .unwrap_or((path.trim_start_matches('/'), ""));
                let (service, base) = services.iter().find(|(service, _)| *service == name)?;
                (*service, base.clone(), format!("/{rest}"))
            }
        };
        Some(Self {
            head,
            body,
            service,
            base,
            path,
            query,
        })
    }

    /// Returns the path and query.
    pub(super) fn target(&self) -> String {
        if self.query.is_empty() {
            self.path.clone()
        } else {
            format!("{}?{}", self.path, self.query)
        }
    }

    /// Returns the body as text, or an empty text if it is not UTF-8.
    pub(super) fn form(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or_default()
    }
}

impl Shared {
    /// Sends the request to the cloud.
    pub(super) async fn forward(&self, asked: &Asked) -> Response<Bytes> {
        let mut request = Request::builder()
            .method(asked.head.method.clone())
            .uri(format!("{}{}", asked.base, asked.target()));
        if let Some(headers) = request.headers_mut() {
            *headers = without_hop(&asked.head.headers);
            if matches!(self.cloud, Cloud::OpenStack(_)) {
                // OpenStack uses the header for links. For AWS it is signed, and others may use it
                // for links to the proxy itself.
                headers.remove(HOST);
                headers.remove("accept-encoding");
            }
        }
        let sent = async {
            let request = request
                .body(asked.body.clone())
                .map_err(Error::setup("pass a request on"))?;
            self.http.send(request).await
        };
        match sent.await {
            Ok(answer) => self.readdressed(answer),
            Err(error) => {
                let mut answer = Response::new(Bytes::from(format!(
                    "the cloud behind the proxy does not answer: {error}"
                )));
                *answer.status_mut() = StatusCode::BAD_GATEWAY;
                answer
            }
        }
    }

    /// Returns the answer with the proxy's URLs.
    fn readdressed(&self, answer: Response<Bytes>) -> Response<Bytes> {
        let (mut head, mut body) = answer.into_parts();
        head.headers = without_hop(&head.headers);
        if let Cloud::OpenStack(services) = &self.cloud {
            let text = std::str::from_utf8(&body)
                .ok()
                .and_then(|text| replaced(text, services, &self.url));
            if let Some(text) = text {
                body = Bytes::from(text);
            }
            for value in head.headers.values_mut() {
                let text = value
                    .to_str()
                    .ok()
                    .and_then(|text| replaced(text, services, &self.url));
                if let Some(value_of) = text.and_then(|text| HeaderValue::from_str(&text).ok()) {
                    *value = value_of;
                }
            }
        }
        Response::from_parts(head, body)
    }
}

/// Replaces the URL of each service by the proxy's. Returns `None` if the text contains none.
fn replaced(text: &str, services: &[(&'static str, String)], url: &str) -> Option<String> {
    let mut changed: Option<String> = None;
    for (service, base) in services {
        let seen = changed.as_deref().unwrap_or(text);
        if seen.contains(base.as_str()) {
            changed = Some(seen.replace(base.as_str(), &format!("{url}/{service}")));
        }
    }
    changed
}

fn without_hop(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    for name in HOP {
        kept.remove(name);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_urls_are_replaced_with_those_of_the_proxy() {
        let services = [
            ("compute", "http://127.0.0.1:1001".to_owned()),
            ("network", "http://127.0.0.1:1002".to_owned()),
        ];
        let text = r#"{"url": "http://127.0.0.1:1001/v2.1", "next": "http://127.0.0.1:1002/v2.0/ports?marker=a"}"#;
        let expected = r#"{"url": "http://127.0.0.1:9/compute/v2.1", "next": "http://127.0.0.1:9/network/v2.0/ports?marker=a"}"#;
        assert_eq!(
            replaced(text, &services, "http://127.0.0.1:9").as_deref(),
            Some(expected)
        );
        assert_eq!(replaced("{}", &services, "http://127.0.0.1:9"), None);
    }
}
