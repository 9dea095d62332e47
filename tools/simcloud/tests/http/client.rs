//! A client as small as can be.
use serde_json::{Value, json};
use skydock_simcloud::Simcloud;

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) etag: Option<String>,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Value,
}

/// Sends a request with these headers. An error is a connection that was cut.
pub(crate) fn send(
    url: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Result<Response, ureq::Error> {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_idle_connections(0);
    let agent: ureq::Agent = config.build().into();
    let mut request = ureq::http::Request::builder()
        .method(method)
        .uri(format!("{url}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let text = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let mut response = agent.run(request.body(text).unwrap())?;
    let header = |name| {
        response
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    let (etag, retry_after) = (header("etag"), header("retry-after"));
    let text = response.body_mut().read_to_string()?;
    let body = if text.is_empty() {
        Value::Null
    } else {
        serde_json::from_str(&text).unwrap()
    };
    Ok(Response {
        status: response.status().as_u16(),
        etag,
        retry_after,
        body,
    })
}

/// Sends a request with the token.
pub(crate) fn call(cloud: &Simcloud, method: &str, path: &str, body: &Value) -> Response {
    tagged(cloud, method, path, None, body)
}

/// Sends a request with the token and another header.
pub(crate) fn tagged(
    cloud: &Simcloud,
    method: &str,
    path: &str,
    header: Option<(&str, &str)>,
    body: &Value,
) -> Response {
    let token = format!("Bearer {}", cloud.token());
    let headers: Vec<_> = [("authorization", token.as_str())]
        .into_iter()
        .chain(header)
        .collect();
    send(&cloud.url(), method, path, &headers, body).unwrap()
}

/// Reads something.
pub(crate) fn get(cloud: &Simcloud, path: &str) -> Response {
    call(cloud, "GET", path, &Value::Null)
}

/// Returns the body of a load balancer.
pub(crate) fn web() -> Value {
    json!({"name": "web", "listeners": [{"protocol": "tcp", "port": 80, "target_port": 30080}], "targets": ["srv-1"]})
}
