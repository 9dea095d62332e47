//! Calls as HTTP requests. The host signs them with its credentials; a plugin has none.

use quick_xml::{Reader, events::Event};
use skydock_sdk::http::{self, Request, Response};

use crate::{
    client::{
        api::{call::Call, failure::Failure, wire::Wire},
        endpoint::Endpoint,
    },
    cloud::Setup,
};

/// Maximum number of concurrent requests. AWS' token buckets hold some tens of requests.
const AT_ONCE: usize = 8;

/// Sends calls to AWS through the host.
#[derive(Debug)]
pub struct Http<'a> {
    setup: &'a Setup,
}

impl<'a> Http<'a> {
    /// Uses the endpoints of this configuration.
    #[must_use]
    pub fn new(setup: &'a Setup) -> Self {
        Self { setup }
    }
}

impl Wire for Http<'_> {
    fn send(&self, calls: &[Call]) -> Vec<Result<String, Failure>> {
        let requests = calls
            .iter()
            .map(|call| request(call, self.setup.config.endpoints.of(call.api)))
            .collect();
        let answers = http::send_all(requests, AT_ONCE);
        calls
            .iter()
            .zip(answers)
            .map(|(call, answer)| read(call.action, answer))
            .collect()
    }
}

fn request(call: &Call, endpoint: &Endpoint) -> Request {
    Request::post(endpoint.url.as_str())
        .header("Authorization", scope(endpoint))
        .text(
            "application/x-www-form-urlencoded; charset=utf-8",
            call.form(),
        )
}

/// Returns the scope that the host signs the request for. Key, date and signature are placeholders
/// that the host replaces.
fn scope(endpoint: &Endpoint) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential=host/19700101/{}/{}/aws4_request, SignedHeaders=host, Signature=0",
        endpoint.signing_region, endpoint.signing_name
    )
}

fn read(action: &'static str, answer: skydock_sdk::Result<Response>) -> Result<String, Failure> {
    let answer = answer.map_err(|error| Failure::Unanswered { action, error })?;
    let status = answer.status;
    let good = answer.is_success();

    // `from_utf8` does not copy the body, which can have megabytes.
    let unreadable = |_| Failure::Unreadable {
        action,
        reason: "it is not UTF-8".into(),
    };
    let body = String::from_utf8(answer.body).map_err(unreadable)?;
    if !good {
        return Err(Failure::read(action, status, &body));
    }

    // An answer that is not from AWS, for example an error page of a proxy, would be parsed as an
    // empty list.
    let root = root(&body);
    if root.strip_suffix("Response") == Some(action) {
        return Ok(body);
    }
    Err(Failure::Unreadable {
        action,
        reason: format!("expected <{action}Response>, not <{}>", shown(&root)),
    })
}

/// Returns the name of the root element, or an empty string if there is none.
fn root(body: &str) -> String {
    let mut reader = Reader::from_str(body);
    loop {
        match reader.read_event() {
            Ok(Event::Start(element) | Event::Empty(element)) => {
                return element.local_name().as_ref().to_owned();
            }
            Ok(Event::Eof) | Err(_) => return String::new(),
            Ok(_) => {}
        }
    }
}

fn shown(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_graphic)
        .take(64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::endpoint::{Api, Url};

    #[test]
    fn a_request_names_its_signing_scope() {
        let endpoint = Endpoint {
            url: Url::parse("https://h").unwrap(),
            signing_region: "eu-west-1".into(),
            signing_name: "ec2".into(),
        };
        let request = request(&Call::new(Api::Ec2, "DescribeInstances"), &endpoint);

        assert_eq!(request.body, b"Action=DescribeInstances&Version=2016-11-15");

        let authorization = request
            .headers
            .iter()
            .find(|(name, _)| name == "Authorization")
            .unwrap();

        assert!(
            authorization.1.contains("/eu-west-1/ec2/aws4_request"),
            "{authorization:?}"
        );
    }

    fn answer(body: &str) -> Result<String, Failure> {
        read(
            "DescribeTags",
            Ok(Response {
                status: 200,
                headers: Vec::new(),
                body: body.as_bytes().to_vec(),
            }),
        )
    }

    #[test]
    fn an_unexpected_response_document_is_an_error() {
        let right = "<?xml version=\"1.0\"?>\n<!-- x -->\n<DescribeTagsResponse xmlns=\"u\"><R/></DescribeTagsResponse>";
        assert_eq!(answer(right).unwrap(), right);
        assert!(answer("<DescribeTagsResponse/>").is_ok());
        for wrong in [
            "",
            "ok",
            "<html>maintenance</html>",
            "<DescribeRulesResponse/>",
            "<DescribeTags/>",
            "{}",
            "<",
        ] {
            assert!(
                matches!(answer(wrong), Err(Failure::Unreadable { .. })),
                "{wrong}"
            );
        }

        let message = answer("<html>maintenance</html>").unwrap_err().to_string();
        assert!(
            message.contains("expected <DescribeTagsResponse>, not <html>"),
            "{message}"
        );
    }
}
