//! No log, error, metric or debug output contains a secret.

use std::{
    error::Error as _,
    io,
    sync::{Arc, Mutex, OnceLock},
};

use base64::{Engine as _, engine::general_purpose};
use http::Request;
use skydock_egress::{Credential, CredentialError};
use tracing_subscriber::fmt::MakeWriter;

use crate::{
    aws, cloud,
    oauth2::GRANTS,
    sessions::{CLOUD_CONF, FORM, JSON, KEYSTONE, VSPHERE},
    world::World,
};

/// Everything that this process has logged.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Logged {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn logged() -> &'static Logged {
    static LOGGED: OnceLock<Logged> = OnceLock::new();
    LOGGED.get_or_init(|| {
        let logged = Logged::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(logged.clone());
        tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
        logged
    })
}

/// Returns all forms in which a text may contain a secret, computed without the code under test.
fn forms(secret: &str) -> Vec<String> {
    let percent = |keep: &str| {
        let bytes = secret.bytes();
        bytes
            .map(|b| {
                let plain = b.is_ascii_alphanumeric() || keep.as_bytes().contains(&b);
                if plain {
                    char::from(b).to_string()
                } else {
                    format!("%{b:02X}")
                }
            })
            .collect::<String>()
    };
    let json = serde_json::to_string(secret).unwrap();
    vec![
        secret.to_owned(),
        json[1..json.len() - 1].to_owned(),
        percent("-._~"),
        percent("-._~/"),
        percent("-._~").replace("%20", "+"),
        percent("").to_lowercase(),
        general_purpose::STANDARD_NO_PAD.encode(secret),
        general_purpose::URL_SAFE_NO_PAD.encode(secret),
        general_purpose::STANDARD_NO_PAD.encode(format!("client:{secret}")),
        general_purpose::STANDARD_NO_PAD.encode(format!("ccm:{secret}")),
        secret.bytes().map(|b| format!("{b:02x}")).collect(),
    ]
}

fn secrets() -> Vec<String> {
    // The lines of the PEM key. No single line may leak either.
    let key = include_str!("../data/rsa.key")
        .lines()
        .filter(|line| !line.starts_with('-'));
    let fixed = [
        cloud::PASSWORD,
        cloud::CLIENT_SECRET,
        cloud::ASSERTION,
        cloud::API_KEY,
        cloud::AWS_SECRET,
        cloud::EXTERNAL_ID,
        cloud::POD_TOKEN,
        "static-t0ken",
        // Everything that the cloud issues, and the beginning of the signatures of assertions.
        "-issued-0",
        "eyJhbGciOiJSUzI1NiI",
    ];
    key.chain(fixed).map(str::to_owned).collect()
}

fn assert_none(text: &str, whence: &str) {
    for secret in secrets() {
        for form in forms(&secret) {
            let at = text.find(&form);
            let around = at.map(|at| text[..at].lines().last().unwrap_or_default().to_owned());
            assert!(at.is_none(), "{whence}: {form} after {around:?}");
        }
    }
}

fn all_of(error: &CredentialError) -> String {
    let mut text = format!("{error} {error:?} {error:#?} {}", error.sentence());
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(&format!(" {inner} {inner:?}"));
        source = inner.source();
    }
    text
}

fn kinds() -> Vec<String> {
    let fixed = [
        "type: header, prefix: 'Bearer ', valueFile: DIR/token",
        "type: basic, userFile: DIR/user, passwordFile: DIR/password",
        KEYSTONE,
        CLOUD_CONF,
        VSPHERE,
        FORM,
        JSON,
    ];
    let masked = [CLOUD_CONF, VSPHERE, FORM, JSON].map(|yaml| format!("{yaml}, masked: true"));
    let grants = GRANTS.iter().map(|(yaml, _)| (*yaml).to_owned());
    let sources = aws::SOURCES.iter().map(|(source, _)| aws::yaml(source));
    fixed
        .iter()
        .map(|yaml| (*yaml).to_owned())
        .chain(masked)
        .chain(grants)
        .chain(sources)
        .collect()
}

async fn request(world: &World, credential: &dyn Credential) -> String {
    let request = Request::post(format!("{}/cloud/things", world.cloud.url));
    match world.send(credential, request, "<a/>").await {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => all_of(&error),
    }
}

// Holds: SEC-18
#[tokio::test]
async fn logs_errors_metrics_and_answers_contain_no_secrets() {
    logged();
    for yaml in kinds() {
        let world = World::new().await;
        let mut texts = Vec::new();
        // First a success; then the session ends, and its renewal fails in every way.
        let credential = world.credential(&yaml);
        texts.push(request(&world, &*credential).await);
        for path in [
            "/identity/v3/auth/tokens",
            "/sdk",
            "/api/session/create",
            "/api/login",
        ] {
            let body = "<Envelope><Body><Login></Login></Body></Envelope>";
            let login = Request::post(format!("{}{path}", world.cloud.url));
            texts.push(match world.send(&*credential, login, body).await {
                // A plugin that is allowed to reach the issuer receives its answers.
                Ok(answer) if world.cloud.last().uri.path() != path => format!("{answer:?}"),
                Ok(_) => String::new(),
                Err(error) => all_of(&error),
            });
        }
        world.cloud.revoke();
        world.cloud.fail(503);
        texts.push(request(&world, &*credential).await);
        texts.push(format!("{credential:?} {:?}", credential.secrets()));
        // Failures from the beginning.
        for failing in [400, 401, 403, 429, 500, 0] {
            world.cloud.fail(failing);
            world.cloud.garble(failing == 0);
            let credential = world.credential(&yaml);
            texts.push(request(&world, &*credential).await);
            texts.push(format!("{credential:?}"));
        }
        world.cloud.garble(false);
        let nobody = world.credential(&yaml.replace("URL", "http://127.0.0.1:1"));
        texts.push(request(&world, &*nobody).await);
        // The files have invalid content: that of other files.
        for name in ["tls.key", "google.json", "shared", "tls.crt"] {
            world.write(name, &format!("{} {}", cloud::PASSWORD, cloud::AWS_SECRET));
        }
        world.write(
            "cloud.conf",
            &format!(
                "[Global]\nauth-url=https://a\npassword={0}\nx {0}\n",
                cloud::PASSWORD
            ),
        );
        if let Ok(credential) = world.try_credential(&yaml) {
            texts.push(request(&world, &*credential).await);
        }
        let mut registry = prometheus_client::registry::Registry::default();
        world.metrics.register(&mut registry);
        let mut metrics = String::new();
        prometheus_client::encoding::text::encode(&mut metrics, &registry).unwrap();
        texts.push(metrics);
        for text in &texts {
            assert_none(text, &yaml);
        }
    }
    let logged = String::from_utf8(logged().0.lock().unwrap().clone()).unwrap();
    // The test's own server and client log bytes on the wire, which is not relevant here.
    let ours: Vec<&str> = logged
        .lines()
        .filter(|line| line.contains("skydock_egress"))
        .collect();
    assert!(ours.len() > 50, "{}", ours.len());
    assert_none(&ours.join("\n"), "logs");
}

#[test]
fn the_leak_check_finds_a_leak() {
    for text in [
        "Authorization: Bearer static-t0ken",
        "c3RhdGljLXQwa2Vu",
        "%73%74%61%74%69%63%2d%74%30%6b%65%6e",
    ] {
        let found = std::panic::catch_unwind(|| assert_none(text, "test"));
        assert_eq!(found.is_err(), !text.starts_with('%'), "{text}");
    }
}
