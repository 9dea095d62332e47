//! Servers whose clock differs from that of this machine, and that reject what is too old or from
//! the future, like AWS and Microsoft Entra ID.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use axum::{Router, body::Body, extract::State, http::HeaderMap, response::IntoResponse as _};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::Full;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use skydock_egress::{
    Call, Gateway, GatewayDependencies, InstanceRequests, Options, PluginPhase, Settings,
};

use crate::{aws, world::World};

/// Maximum difference in seconds that the servers accept.
const ACCEPTED: i64 = 300;

#[derive(Clone)]
struct Late {
    /// How far the server's clock is ahead of the machine's.
    ahead: i64,
    /// What it states, if that is another time.
    stated: i64,
    requests: Arc<AtomicUsize>,
}

impl Late {
    async fn start(ahead: i64, stated: i64) -> (String, Arc<AtomicUsize>) {
        let requests = Arc::<AtomicUsize>::default();
        let late = Self {
            ahead,
            stated,
            requests: requests.clone(),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(late);
        tokio::spawn(async move { axum::serve(listener, router).await });
        (url, requests)
    }

    fn date(&self) -> String {
        let now = Timestamp::now() + SignedDuration::from_secs(self.stated);
        let now = now.to_zoned(TimeZone::UTC);
        now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }
}

async fn answer(
    State(late): State<Late>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    late.requests.fetch_add(1, SeqCst);
    let is_token = uri.path() == "/token";
    let signed = if is_token {
        assertion_time(&body)
    } else {
        let text = headers["x-amz-date"].to_str().unwrap();
        let date = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", text).unwrap();
        date.to_zoned(TimeZone::UTC)
            .unwrap()
            .timestamp()
            .as_second()
    };
    let now = Timestamp::now().as_second() + late.ahead;
    let date = [("date", late.date())];
    if (signed - now).abs() > ACCEPTED {
        let status = if is_token {
            StatusCode::UNAUTHORIZED
        } else {
            StatusCode::FORBIDDEN
        };
        return (status, date, "{\"error\": \"invalid_client\"}").into_response();
    }
    let token = "{\"access_token\": \"token-of-the-issuer\", \"expires_in\": 3600}";
    (date, token).into_response()
}

/// Returns when an assertion was signed.
fn assertion_time(form: &[u8]) -> i64 {
    let form = std::str::from_utf8(form).unwrap();
    let assertion = form
        .split('&')
        .find_map(|pair| pair.strip_prefix("client_assertion="));
    let claims = assertion.unwrap().split('.').nth(1).unwrap();
    let claims: serde_json::Value =
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    claims["iat"].as_i64().unwrap()
}

async fn status(world: &World, url: &str, yaml: &str) -> Result<u16, String> {
    let rule = format!(
        "[{{name: api, to: '{url}', addresses: [127.0.0.1/32], credential: c, actions: ['*']}}]"
    );
    let settings = Settings {
        rules: serde_saphyr::from_str(&rule).unwrap(),
        credentials: [("c".to_owned(), world.credential(yaml))].into(),
        ..Settings::default()
    };
    let gateway = Gateway::new("p", &settings, GatewayDependencies::default()).unwrap();
    let instance = InstanceRequests::default();
    let call = Call {
        instance: &instance,
        capability: skydock_cloud::Capability::Instances,
        phase: PluginPhase::Serving,
        dry_run: false,
        left: std::time::Duration::from_secs(30),
        options: Options::default(),
    };
    let request = Request::get(format!("{url}/?Action=DescribeInstances"));
    let request = request.header("x-amz-date", "20300101T000000Z");
    let (head, body) = request.body(Full::<Bytes>::default()).unwrap().into_parts();
    let answer = gateway.admit(&head, &call).unwrap().send(head, body).await;
    answer
        .map(|answer| answer.status().as_u16())
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn signatures_follow_the_clock_of_the_server() {
    let world = World::new().await;
    let (source, _) = aws::SOURCES[0];
    // The server's clock, what it states, and the outcome with the number of requests.
    for (ahead, stated, expected, requests) in [
        (0, 0, 200, 1),
        (600, 600, 200, 2),
        (-600, -600, 200, 2),
        // A server that wants a signature for later does not get it.
        (7200, 7200, 403, 1),
        // One that rejects everything is asked twice, as always.
        (3600, 700, 403, 2),
    ] {
        let (url, asked) = Late::start(ahead, stated).await;
        let found = status(&world, &url, &aws::yaml(source)).await;
        assert_eq!(
            (found, asked.load(SeqCst)),
            (Ok(expected), requests),
            "{ahead} {stated}"
        );
    }
}

#[tokio::test]
async fn assertions_follow_the_clock_of_the_issuer() {
    let world = World::new().await;
    for (ahead, is_issued, requests) in [
        (0, true, 1),
        (600, true, 2),
        (-600, true, 2),
        (7200, false, 1),
    ] {
        let (url, asked) = Late::start(ahead, ahead).await;
        let yaml = format!(
            "type: oauth2, grant: {{privateKey: {{tokenUrl: {url}/token, clientId: client, keyFile: DIR/tls.key}}}}"
        );
        let credential = world.credential(&yaml);
        let request = Request::get(format!("{}/cloud/things", world.cloud.url));
        let issued = world.send(&*credential, request, "").await;
        assert_eq!(
            (issued.is_ok(), asked.load(SeqCst)),
            (is_issued, requests),
            "{ahead}: {issued:?}"
        );
    }
}
