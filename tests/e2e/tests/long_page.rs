//! The page for people about a process that has something to tell, in a browser: a rejected plugin, a
//! node that waits, and Services that wait. `SKYDOCK_WRITE_PAGE=1` writes the picture of it in
//! `docs/`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    io::{Write as _, stderr},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use http::{Request, header};
use kube::{Client, Config, client::Body};
use serde_json::json;
use skydock_clusters::{Plane as _, RealPlane};
use skydock_e2e::{Cluster, Hosts};
use skydock_simcloud::{Options, Simcloud};
use skydock_support::{Host, Paths, Seen, TAKEN, checkout, eventually, free_address, run};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

/// A timeout for each step.
const LIMIT: Duration = Duration::from_secs(60);
/// What the browser is called.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// The size of the picture.
const SIZE: (u32, u32) = (1200, 1200);
/// A picture of an empty page is smaller.
const LEAST_BYTES: usize = 20_000;
/// A file with the plugin.
const PLUGIN: &str = "simcloud.wasm";
/// What the page has to show.
const SHOWN: [&str; 8] = [
    "<td>leads</td>",
    "<em>rejected at stage type, generation 1 stays in service: ",
    "1 of 2 wait for their cloud.",
    "<td>node-9</td>",
    "FailedToInitialize: Node cannot be initialized: ",
    "<td>default/phone</td>",
    "<td>default/old</td>",
    "<td>api</td>",
];

/// Skydock, its cloud and its cluster.
struct Site {
    cluster: Cluster,
    hosts: Hosts,
    host: Host,
    /// Its HTTPS server, with the token of an account that may read the page.
    client: Client,
    _plane: RealPlane,
    _cloud: Simcloud,
}

impl Site {
    async fn start() -> Result<Self> {
        let cloud = Simcloud::start(Options {
            servers: 1,
            token: "a-secret-token".to_owned(),
            ..Options::default()
        })?;
        let plane = RealPlane::start_without_controllers().await?;
        let kubeconfig = plane.kubeconfig_path().display();
        let address = free_address()?;
        let flags = [
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            format!("--bind-address={}", address.ip()),
            format!("--secure-port={}", address.port()),
            "--configure-cloud-routes=false".to_owned(),
        ];
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let mut hosts = Hosts::with("page", plane.kubeconfig_path(), &flags, |dir| {
            fs::copy(Paths::of_checkout()?.plugins.join(PLUGIN), dir.join(PLUGIN))?;
            let config = json!({"url": cloud.url(), "region": "sim"});
            fs::write(dir.join("cloud.json"), config.to_string())?;
            fs::write(dir.join("token"), cloud.token())?;
            // No rule allows to delete a load balancer.
            let rule = json!({
                "name": "api", "to": cloud.url(), "addresses": ["127.0.0.1/32"], "paths": ["/v1"],
                "methods": ["GET", "POST", "PUT", "PATCH"], "credential": "token",
            });
            Ok(json!({
                "apiVersion": "skydock.dev/v1alpha1", "kind": "SkydockConfiguration",
                "plugins": [{
                    "name": "simcloud", "file": dir.join(PLUGIN), "cloudConfig": dir.join("cloud.json"),
                    "egress": [rule],
                }],
                "credentials": [{
                    "name": "token", "type": "header", "for": {"plugin": "simcloud", "digest": "any"},
                    "prefix": "Bearer ", "valueFile": dir.join("token"),
                }],
            }))
        })?;

        let host = hosts.start().await?;
        Ok(Self {
            cluster: Cluster::new(plane.client()),
            hosts,
            host,
            client: reader(&plane, address).await?,
            _plane: plane,
            _cloud: cloud,
        })
    }

    /// Brings about everything that the page has to show.
    async fn has_something_to_tell(&self) -> Result<()> {
        self.cluster.register("node-1").await?;
        // It has no instance.
        self.cluster.register("node-9").await?;
        let none = BTreeMap::new();
        for name in ["web", "old"] {
            self.cluster.serve(name, &["TCP/80"], &none).await?;
            let reason = "EnsuredLoadBalancer";
            self.cluster.told(name, reason, LIMIT).await?;
        }
        self.cluster.withdraw("old").await?;
        // The cloud does not have this protocol.
        self.cluster.serve("phone", &["SCTP/5060"], &none).await?;
        for name in ["old", "phone"] {
            let reason = "SyncLoadBalancerFailed";
            self.cluster.told(name, reason, LIMIT).await?;
        }

        let new = self.hosts.dir().join("new");
        fs::write(&new, "not a component")?;
        fs::rename(new, self.hosts.dir().join(PLUGIN))?;
        Ok(())
    }

    /// Waits until the page shows it. Returns the answer for a browser.
    async fn answer(&self) -> Result<String> {
        eventually(TAKEN, async || {
            let request = Request::get("/statusz/overview").body(Body::empty())?;
            let (head, body) = match self.client.send(request).await {
                Ok(answer) => answer.into_parts(),
                // Skydock closes connections after some time.
                Err(error) => return Ok(Seen::NotYet(error.to_string())),
            };
            let page = String::from_utf8(body.collect_bytes().await?.to_vec())?;
            // Roles take effect after a moment.
            let shows = |words: &&str| page.contains(*words);
            if head.status != 200 || !SHOWN.iter().all(shows) {
                return Ok(Seen::NotYet(format!("{}: {page}", head.status)));
            }

            let mut answer = "HTTP/1.1 200 OK\r\nConnection: close\r\n".to_owned();
            for name in [header::CONTENT_TYPE, header::CONTENT_SECURITY_POLICY] {
                let value = head.headers.get(&name).context(name.to_string())?;
                answer += &format!("{name}: {}\r\n", value.to_str()?);
            }
            answer += &format!("Content-Length: {}\r\n\r\n{page}", page.len());
            Ok(Seen::Yes(answer))
        })
        .await
    }
}

/// Creates an account that may read the page, as `docs/operating.md` says. Returns its client for
/// this HTTPS server.
async fn reader(plane: &RealPlane, server: SocketAddr) -> Result<Client> {
    let role = [
        "create",
        "clusterrole",
        "skydock-page-reader",
        "--verb=get",
        "--non-resource-url=/statusz/overview",
    ];
    let account = ["create", "serviceaccount", "reader", "-n", "default"];
    let binding = [
        "create",
        "clusterrolebinding",
        "skydock-page-reader",
        "--clusterrole=skydock-page-reader",
        "--serviceaccount=default:reader",
    ];
    for arguments in [&role[..], &account, &binding] {
        plane.kubectl(arguments).await?;
    }
    let token = ["create", "token", "reader", "-n", "default"];
    let token = plane.kubectl(&token).await?;

    let mut config = Config::new(format!("https://{server}").parse()?);
    // The certificate is self-signed.
    config.accept_invalid_certs = true;
    config.auth_info.token = Some(token.trim().to_owned().into());
    Ok(Client::try_from(config)?)
}

/// Answers a browser, which has no token, with what Skydock has answered. Returns the address.
async fn serve(answer: String) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                // A browser also opens connections that it does not use.
                if matches!(stream.read(&mut request).await, Ok(1..)) {
                    let _ = stream.write_all(answer.as_bytes()).await;
                    let _ = stream.shutdown().await;
                }
            });
        }
    });
    Ok(address)
}

fn browser() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders: Vec<_> = env::split_paths(&path).collect();
    BROWSERS.iter().find_map(|name| {
        let mut files = folders.iter().map(|folder| folder.join(name));
        files.find(|file| file.is_file())
    })
}

/// Lets a browser write a picture of a page, which it must show without a complaint.
async fn picture(browser: &Path, page: SocketAddr, file: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (width, height) = SIZE;
    let arguments = [
        "--headless".to_owned(),
        // It does not start as root otherwise; there is only this page.
        "--no-sandbox".to_owned(),
        "--disable-gpu".to_owned(),
        "--hide-scrollbars".to_owned(),
        // With what the page violates, above all its Content-Security-Policy.
        "--enable-logging=stderr".to_owned(),
        format!("--user-data-dir={}", folder.path().display()),
        format!("--window-size={width},{height}"),
        format!("--screenshot={}", file.display()),
        format!("http://{page}/"),
    ];
    let arguments: Vec<_> = arguments.into_iter().map(OsString::from).collect();
    let ended = run(browser, &arguments, LIMIT).await?;
    let said = ended.said;
    ensure!(ended.code == Some(0), "{:?}: {said}", ended.code);
    ensure!(!said.contains("INFO:CONSOLE"), "{said}");

    let picture = fs::read(file).context(said)?;
    ensure!(picture.len() > LEAST_BYTES, "{} bytes", picture.len());
    // The signature of PNG, then the length and the name of the first chunk, then its content.
    let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
    let begins = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], size.as_slice()].concat();
    ensure!(picture.starts_with(&begins), "another size");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_shows_what_waits_and_what_was_rejected() {
    let Some(browser) = browser() else {
        // Not with a macro, whose output a test keeps to itself.
        let _ = writeln!(stderr(), "skipped: none of {BROWSERS:?} is installed");
        return;
    };
    let site = Site::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = match env::var_os("SKYDOCK_WRITE_PAGE") {
        Some(_) => checkout().join("docs/status-page.png"),
        None => folder.path().join("status-page.png"),
    };

    let shown = async {
        site.has_something_to_tell().await?;
        let page = serve(site.answer().await?).await?;
        picture(&browser, page, &file).await
    };
    if let Err(error) = shown.await {
        panic!("{error:?}\n{}", site.host.last_words());
    }
    Hosts::stop(site.host).await.unwrap();
}
