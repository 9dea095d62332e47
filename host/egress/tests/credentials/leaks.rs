//! No log, error, metric or debug output contains a secret.

use std::{
    error::Error as _,
    io,
    sync::{Arc, Mutex, OnceLock},
};

use base64::{Engine as _, engine::general_purpose};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use skydock_credentials::{Credential, CredentialError};
use skydock_egress::{
    Call, Code, Gateway, GatewayDependencies, InstanceRequests, Options, PluginPhase, Settings,
};
use tracing_subscriber::fmt::MakeWriter;

use crate::{
    aws,
    oauth2::GRANTS,
    sessions::{CLOUD_CONF, FORM, JSON, KEYSTONE, VSPHERE},
    world::{World, cloud, echo},
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
    let key = include_str!("../../../credentials/tests/data/rsa.key")
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
        .filter(|line| line.contains("skydock_egress") || line.contains("skydock_credentials"))
        .collect();
    assert!(ours.len() > 50, "{}", ours.len());
    assert_none(&ours.join("\n"), "logs");
}

/// A token as a cloud creates it.
const TOKEN: &str = "xK9vQ2mB7tR4wZ8nL3pC6hJ1dF5gS0yTcV2bN4mA8sD-q7Ew";
/// A password as a person does. Only complete quotes of it are found.
const PASSPHRASE: &str = "Summer-in-the-cloud_2031!";

/// Returns a gateway whose only rule sends the content of the file `secret`.
fn gateway(world: &World, url: &str, yaml: &str) -> Gateway {
    let rule = format!(
        "[{{name: api, to: '{url}', addresses: [127.0.0.1/32], credential: c, limits: {{rate: 10000, burst: 10000}}}}]"
    );
    let settings = Settings {
        rules: serde_saphyr::from_str(&rule).unwrap(),
        credentials: [("c".to_owned(), world.credential(yaml))].into(),
        ..Settings::default()
    };
    Gateway::new("p", &settings, GatewayDependencies::default()).unwrap()
}

/// Returns all that the plugin sees of an answer.
async fn seen(gateway: &Gateway, url: &str) -> Result<Vec<u8>, Code> {
    let request = Request::get(url).header("accept-charset", "utf-16");
    answer(gateway, request.body(Full::default()).unwrap()).await
}

async fn answer(gateway: &Gateway, request: Request<Full<Bytes>>) -> Result<Vec<u8>, Code> {
    let instance = InstanceRequests::default();
    let call = Call {
        instance: &instance,
        phase: PluginPhase::Serving,
        capability: skydock_cloud::Capability::Instances,
        dry_run: false,
        left: std::time::Duration::from_secs(30),
        options: Options::default(),
    };
    let (head, body) = request.into_parts();
    let answer = gateway.admit(&head, &call).unwrap().send(head, body).await;
    let answer = answer.map_err(|error| error.code())?;
    let mut all = format!("{:?}\n", answer.headers()).into_bytes();
    let body = answer.into_body().collect().await;
    all.extend(body.map_err(|error| error.code())?.to_bytes());
    Ok(all)
}

/// Fails if what a plugin sees has 12 characters of the secret, in any of the encodings.
fn assert_no_part(seen: &[u8], secret: &str, whence: &str) {
    let text: Vec<u8> = seen.iter().copied().filter(|byte| *byte != 0).collect();
    let text = String::from_utf8_lossy(&text).to_lowercase();
    for part in secret.as_bytes().windows(12) {
        let escaped = |prefix: &str, suffix: &str| -> String {
            let hex = |byte| format!("{prefix}{byte:02x}{suffix}");
            part.iter().map(hex).collect()
        };
        // At each alignment, without the characters at its ends, which have other bits.
        let base64 = |shift: usize| {
            let encoded =
                general_purpose::STANDARD_NO_PAD.encode([&[b'x'; 2][..shift], part].concat());
            encoded[shift * 2..encoded.len() - 1].to_owned()
        };
        let forms = [
            String::from_utf8(part.to_vec()).unwrap(),
            escaped("", ""),
            escaped("\\u00", ""),
            escaped("%", ""),
            escaped("&#x", ";"),
            base64(0),
            base64(1),
            base64(2),
        ];
        for form in forms {
            assert!(
                !text.contains(&form.to_lowercase()),
                "{whence}: {form} in {text}"
            );
        }
    }
}

// Holds: SEC-18, SEC-26
#[tokio::test]
async fn a_plugin_sees_no_part_of_a_secret_that_is_quoted() {
    let world = World::new().await;
    let url = echo::start().await;
    let header = "type: header, prefix: 'Bearer ', valueFile: DIR/secret";
    let basic = "type: basic, userFile: DIR/user, passwordFile: DIR/secret";
    // The file has what basic authentication sends, without and with the scheme.
    let pair = "type: header, prefix: 'Basic ', valueFile: DIR/pair";
    let value = "type: header, valueFile: DIR/value";
    for (secret, yaml) in [TOKEN, PASSPHRASE]
        .into_iter()
        .flat_map(|secret| [header, basic, pair, value].map(|yaml| (secret, yaml)))
    {
        let encoded = general_purpose::STANDARD.encode(format!("ccm:{secret}"));
        world.write("secret", secret);
        world.write("pair", &encoded);
        world.write("value", &format!("Basic {encoded}"));
        let gateway = gateway(&world, &url, yaml);
        let whole = ["json", "url", "html", "upper", "hex", "trace", "utf16"].map(str::to_owned);
        let whole = whole
            .into_iter()
            .chain((0..3).map(|n| format!("base64?n={n}")));
        // Cuts that leave at least one part.
        let first = if secret == TOKEN { 30 } else { 79 };
        let cut = (first..80).flat_map(|n| ["cut", "redirect"].map(|path| format!("{path}?n={n}")));
        let end = (0..if secret == TOKEN { 16 } else { 6 }).map(|n| format!("end?n={n}"));
        for path in whole.chain(cut).chain(end) {
            let whence = format!("{path} with {yaml}");
            let seen = seen(&gateway, &format!("{url}/{path}")).await.unwrap();
            assert_no_part(&seen, secret, &whence);
        }
        for path in ["gzip", "ebcdic"] {
            let code = seen(&gateway, &format!("{url}/{path}")).await.unwrap_err();
            assert_eq!(code, Code::HttpResponseContentCoding, "{path}");
        }
    }
}

// Holds: SEC-18
#[tokio::test]
async fn the_answer_to_a_masked_login_has_no_part_of_a_secret() {
    let world = World::new().await;
    let url = echo::start().await;
    let logins = [
        (
            "/v3/auth/tokens",
            "keystone: {cloudConf: DIR/cloud.conf}".to_owned(),
            format!("\"{url}/v3\""),
        ),
        (
            "/v3/auth/tokens",
            format!(
                "keystone: {{authUrl: '{url}', userId: ccm, passwordFile: DIR/secret, projectId: k8s}}"
            ),
            format!("\"{url}/v3\""),
        ),
        (
            "/sdk",
            format!(
                "vsphereSoap: {{url: '{url}/sdk', userFile: DIR/user, passwordFile: DIR/secret}}"
            ),
            "<userName>ccm</userName>".to_owned(),
        ),
    ];
    // The plugin has no part in the request, and cannot guess a short secret.
    let passwords = [TOKEN, "hunter2hunter2", "Hunter22"];
    for (password, (path, login, kept)) in passwords
        .iter()
        .flat_map(|password| logins.iter().map(move |login| (*password, login)))
    {
        world.write("secret", password);
        world.write(
            "cloud.conf",
            &format!(
                "[Global]\nauth-url={url}/v3\nuser-id=ccm\npassword={password}\ntenant-id=k8s\n"
            ),
        );
        let gateway = gateway(
            &world,
            &url,
            &format!("type: session, masked: true, login: {{{login}}}"),
        );
        let body = "<Envelope><Body><Login/></Body></Envelope>";
        let request = Request::post(format!("{url}{path}"))
            .body(Full::from(body))
            .unwrap();
        let seen = answer(&gateway, request).await.unwrap();
        assert_no_part(&seen, echo::SESSION, login);
        if password == TOKEN {
            assert_no_part(&seen, TOKEN, login);
        }
        let seen = String::from_utf8(seen).unwrap();
        for form in forms(password) {
            assert!(!seen.contains(&form), "{form} of {login}: {seen}");
        }
        assert!(
            seen.contains("skydock-") && seen.contains(kept.as_str()),
            "{seen}"
        );
    }
}

#[tokio::test]
async fn a_secret_that_cannot_be_masked_is_told() {
    let logged = logged();
    let world = World::new().await;
    let url = echo::start().await;
    world.write("secret", "hunter2");
    let yaml = format!(
        "type: session, masked: true, login: {{vsphereSoap: {{url: '{url}/sdk', userFile: DIR/user, passwordFile: DIR/secret}}}}"
    );
    let gateway = gateway(&world, &url, &yaml);
    let request = Request::post(format!("{url}/sdk"))
        .body(Full::from("<Envelope><Body><Login/></Body></Envelope>"))
        .unwrap();
    answer(&gateway, request).await.unwrap();
    let text = String::from_utf8_lossy(&logged.0.lock().unwrap()).into_owned();
    assert!(text.contains("a secret of its login has fewer than 8 bytes"));
}

// Holds: SEC-40
#[tokio::test]
async fn a_plugin_cannot_test_guesses_at_a_secret() {
    let world = World::new().await;
    let url = echo::start().await;
    world.write("secret", "hunter22");
    // A short password, and one that only the issuer receives.
    for (yaml, guess) in [
        (
            "type: basic, userFile: DIR/user, passwordFile: DIR/secret",
            "hunter22",
        ),
        (FORM, cloud::PASSWORD),
    ] {
        let gateway = gateway(&world, &url, yaml);
        let forms =
            ["", "ccm:"].map(|user| general_purpose::URL_SAFE.encode(format!("{user}{guess}")));
        for guess in forms {
            let seen = seen(&gateway, &format!("{url}/say?{guess}")).await.unwrap();
            let seen = String::from_utf8(seen).unwrap();
            assert_eq!(seen.matches(&guess).count(), 2, "{yaml}: {seen}");
        }
    }
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
