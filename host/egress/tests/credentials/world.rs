//! A test environment: a fake cloud, files with secrets, and a credential.

pub(crate) mod cloud;
pub(crate) mod echo;
pub(crate) mod issuer;

use std::{fs, path::PathBuf, sync::Arc};

use bytes::Bytes;
use http::{Request, StatusCode};
use skydock_credentials::{
    Credential, CredentialError, CredentialMetrics, Credentials, CredentialsErrors, Dependencies,
    Issuer, Prepared, RequestKind, SystemClock, config::CredentialConfig, instance_region,
};
use tempfile::TempDir;

use self::{cloud::Cloud, issuer::Plain};

/// The answer that a plugin receives.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
}

/// The environment of one test.
pub(crate) struct World {
    pub(crate) cloud: Cloud,
    pub(crate) folder: TempDir,
    pub(crate) metrics: CredentialMetrics,
    plain: Arc<Plain>,
}

impl World {
    pub(crate) async fn new() -> Self {
        let world = Self {
            cloud: Cloud::start().await,
            folder: tempfile::tempdir().unwrap(),
            metrics: CredentialMetrics::default(),
            plain: Arc::new(Plain::new()),
        };
        for (name, text) in cloud::files(&world.cloud.url) {
            world.write(name, &text);
        }
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Replaces `URL` and `DIR` in the text with the URL of the cloud and the directory of the
    /// files.
    fn fill(&self, yaml: &str) -> String {
        yaml.replace("URL", &self.cloud.url)
            .replace("DIR", self.folder.path().to_str().unwrap())
    }

    fn config(&self, yaml: &str) -> CredentialConfig {
        let yaml = format!(
            "{{name: c, for: {{plugin: p, digest: any}}, {}}}",
            self.fill(yaml)
        );
        serde_saphyr::from_str(&yaml).unwrap_or_else(|error| panic!("{yaml}: {error}"))
    }

    /// Returns the region of the instance, as with a credential of AWS.
    pub(crate) async fn instance_region(
        &self,
        yaml: &str,
    ) -> Result<Option<String>, CredentialError> {
        let CredentialConfig::AwsSigv4(config) = self.config(yaml) else {
            panic!("{yaml} is not of AWS");
        };
        let issuer = Arc::clone(&self.plain) as Arc<dyn Issuer>;
        instance_region(&config, issuer).await
    }

    pub(crate) fn try_credential(
        &self,
        yaml: &str,
    ) -> Result<Arc<dyn Credential>, CredentialsErrors> {
        let config = self.config(yaml);
        let plain = Arc::clone(&self.plain);
        let dependencies = Dependencies {
            issuers: Box::new(move |_| Arc::clone(&plain) as Arc<dyn Issuer>),
            clock: Arc::new(SystemClock),
            metrics: self.metrics.clone(),
        };
        Ok(Credentials::new(&[config], &dependencies)?
            .bind("c", "p", "")
            .unwrap())
    }

    pub(crate) fn credential(&self, yaml: &str) -> Arc<dyn Credential> {
        self.try_credential(yaml).unwrap()
    }

    /// Sends a plugin's request like the gateway: after a 401, it is retried once.
    pub(crate) async fn send(
        &self,
        credential: &dyn Credential,
        request: http::request::Builder,
        body: &str,
    ) -> Result<Answer, CredentialError> {
        let (original, body) = request
            .body(Bytes::copy_from_slice(body.as_bytes()))
            .unwrap()
            .into_parts();
        let mut tried = false;
        loop {
            let mut head = original.clone();
            let buffered = credential.needs_body(&head).then_some(&body);
            let version = match credential.prepare(&mut head, buffered).await? {
                Prepared::Send { version } => version,
                Prepared::Answer(answer) => return Ok(shown(answer)),
            };
            let answer = self
                .plain
                .send(Request::from_parts(head, body.clone()))
                .await
                .unwrap();
            if answer.status().is_success() {
                credential.accepted(version, RequestKind(0));
            }
            if answer.status() == StatusCode::UNAUTHORIZED
                && !tried
                && credential.rejected(version, RequestKind(0)).await
            {
                tried = true;
                continue;
            }
            let (mut head, body) = answer.into_parts();
            credential.mask(&mut head);
            return Ok(shown(http::Response::from_parts(head, body)));
        }
    }

    /// Returns the value of a header that the cloud received in a simple request of a plugin.
    pub(crate) async fn header(
        &self,
        credential: &dyn Credential,
        name: &str,
    ) -> Result<String, CredentialError> {
        let request = Request::get(format!("{}/cloud/things", self.cloud.url))
            .header("authorization", "Bearer guest");
        let answer = self.send(credential, request, "").await?;
        assert_eq!(answer.status, 200, "{answer:?}");
        let seen = self.cloud.last();
        let value = seen
            .headers
            .get(name)
            .unwrap_or_else(|| panic!("no {name}: {:?}", seen.headers));
        Ok(value.to_str().unwrap().to_owned())
    }
}

fn shown(answer: http::Response<Bytes>) -> Answer {
    let (head, body) = answer.into_parts();
    Answer {
        status: head.status,
        headers: head.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}
