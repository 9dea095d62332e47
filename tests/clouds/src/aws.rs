//! AWS on loopback.

mod holdings;
mod keys;
mod network;
pub(crate) mod sign;
pub mod xml;

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http::{Method, Request};

pub use self::keys::Keys;
pub use self::network::{Network, NewNetwork, Zone};
use crate::Error;
use crate::error::beginning;
use crate::http_client::HttpClient;
use crate::install;
use crate::run::Run;

/// The Python module that serves all APIs.
const MODULE: &str = "skydock_clouds.aws";
/// The region of all resources.
pub(crate) const REGION: &str = "us-east-1";

/// The APIs of AWS with the parameter `Action`: the name in signatures, the version, and the short
/// name used here.
pub(crate) const APIS: [(&str, &str, &str); 5] = [
    ("ec2", "2016-11-15", "ec2"),
    ("elasticloadbalancing", "2012-06-01", "elb"),
    ("elasticloadbalancing", "2015-12-01", "elbv2"),
    ("iam", "2010-05-08", "iam"),
    ("sts", "2011-06-15", "sts"),
];

/// EC2, Elastic Load Balancing (both APIs), IAM, STS and the metadata service of instances on one
/// loopback port, implemented by moto.
#[derive(Debug)]
pub struct Aws {
    run: Run,
    client: AwsClient,
}

/// A client of an [`Aws`], directly or through a [`crate::Proxy`].
#[derive(Debug)]
pub struct AwsClient {
    http: HttpClient,
    url: String,
    keys: Mutex<Option<Keys>>,
}

impl Aws {
    /// Starts a cloud, which takes less than a second. The first start on a machine installs it,
    /// which takes about ten. Signatures are not verified until [`Self::verify_signatures`].
    ///
    /// # Errors
    /// Fails if it cannot be installed, if it ends, or if it does not answer in time.
    pub async fn start() -> Result<Self, Error> {
        let install = || install::environment("aws");
        let environment = tokio::task::spawn_blocking(install)
            .await
            .map_err(Error::setup("install an AWS"))??;
        let began = Instant::now();
        let run = Run::start(&environment, MODULE, Vec::new(), |_| Ok(())).await?;
        tracing::info!(ms = began.elapsed().as_millis(), "an AWS is ready");
        let url = run.ready.urls.get("aws").cloned().unwrap_or_default();
        Ok(Self {
            run,
            client: AwsClient::new(url),
        })
    }

    /// Returns the URL of all APIs and of the metadata service: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.client.url
    }

    /// Returns the region: `us-east-1`.
    #[must_use]
    pub fn region(&self) -> &'static str {
        REGION
    }

    /// Calls an action of an API (`ec2`, `elb`, `elbv2`, `iam`, `sts`) and returns the XML of the
    /// answer.
    ///
    /// # Errors
    /// Fails if there is no answer, or if it is an error.
    pub async fn call(
        &self,
        api: &str,
        action: &str,
        parameters: &[(&str, &str)],
    ) -> Result<String, Error> {
        self.client.call(api, action, parameters).await
    }

    /// Returns the folder with its log. It is deleted with the value, unless a test that holds it
    /// panics.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.run.home()
    }

    pub(crate) fn client(&self) -> &AwsClient {
        &self.client
    }
}

impl AwsClient {
    pub(crate) fn new(url: String) -> Self {
        Self {
            http: HttpClient::new(),
            url,
            keys: Mutex::default(),
        }
    }

    /// Returns a copy with its own keys.
    pub(crate) fn copied(&self) -> Self {
        Self {
            http: self.http.clone(),
            url: self.url.clone(),
            keys: Mutex::new(self.keys()),
        }
    }

    fn keys(&self) -> Option<Keys> {
        self.keys
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn use_keys(&self, keys: Keys) {
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = Some(keys);
    }

    /// See [`Aws::call`].
    ///
    /// # Errors
    /// Fails if there is no answer, or if it is an error.
    pub async fn call(
        &self,
        api: &str,
        action: &str,
        parameters: &[(&str, &str)],
    ) -> Result<String, Error> {
        // Without verification any keys are accepted, but moto determines the service from the
        // signature.
        let keys = self.keys().unwrap_or_else(|| Keys {
            id: "none".to_owned(),
            secret: "none".to_owned(),
        });
        self.call_with(&keys, api, action, parameters).await
    }

    pub(crate) async fn call_with(
        &self,
        keys: &Keys,
        api: &str,
        action: &str,
        parameters: &[(&str, &str)],
    ) -> Result<String, Error> {
        let what = format!("{api}:{action}");
        let Some((service, version, _)) = APIS.iter().find(|(_, _, name)| *name == api) else {
            return Err(Error::setup(format!("ask for {what}"))(
                "there is no such API here",
            ));
        };
        let mut form = vec![("Action", action), ("Version", version)];
        form.extend(parameters);
        let body: Vec<String> = form
            .iter()
            .map(|(key, value)| format!("{}={}", encode(key), encode(value)))
            .collect();
        let host = self.url.trim_start_matches("http://");
        let now = jiff::Timestamp::now();
        let signed = sign::sign(
            keys,
            &sign::Scope {
                region: REGION,
                service,
                now,
            },
            host,
            &body.join("&"),
        );
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}/", self.url))
            .header("content-type", sign::FORM)
            .header("x-amz-date", signed.date)
            .header("authorization", signed.authorization)
            .body(Bytes::from(body.join("&")))
            .map_err(Error::setup(format!("ask for {what}")))?;
        let answer = self.http.send(request).await?;
        let text = String::from_utf8_lossy(answer.body()).into_owned();
        if answer.status().is_success() {
            return Ok(text);
        }
        let body = beginning(answer.body());
        Err(Error::Rejected {
            request: what,
            status: answer.status().as_u16(),
            body,
        })
    }

    /// Sends an unsigned request, for example to moto's own API.
    pub(crate) async fn plain(
        &self,
        method: Method,
        path: &str,
        body: &'static str,
    ) -> Result<String, Error> {
        let request = Request::builder()
            .method(&method)
            .uri(format!("{}{path}", self.url));
        let request = request
            .body(Bytes::from(body))
            .map_err(Error::setup(format!("ask for {path}")))?;
        let answer = self.http.send(request).await?;
        if answer.status().is_success() {
            return Ok(String::from_utf8_lossy(answer.body()).into_owned());
        }
        let (status, body) = (answer.status().as_u16(), beginning(answer.body()));
        Err(Error::Rejected {
            request: format!("{method} {path}"),
            status,
            body,
        })
    }
}

/// Percent-encodes everything except unreserved characters, as signatures require.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
