//! A real Prometheus reads the metrics of the built host as in production: by HTTPS, with the token of
//! an account that has the role of `deploy/components/secure-serving`. Each panel of the dashboard
//! has data, and each alert fires when it should: all of them for series that a file has, and some for
//! what the host does.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use skydock_clusters::{Plane as _, RealPlane, prometheus_program};
use skydock_e2e::{Cluster, Hosts, Plugin};
use skydock_simcloud::{Options, Simcloud};
use skydock_support::{
    Host, Paths, Process, Seen, checkout, eventually, free_address, metrics::get,
};

const LIMIT: Duration = Duration::from_secs(120);
/// The alerts about what the host does here: no rule allows to delete a load balancer, and the
/// configuration becomes one that is not valid.
const ALERTS: [&str; 3] = [
    "SkydockDenied",
    "SkydockEgressDenied",
    "SkydockPluginRejected",
];

/// Runs promtool, which must have no complaint.
fn promtool(folder: &Path, args: &[&str], input: Stdio) {
    let output = Command::new(prometheus_program("promtool").unwrap())
        .args(args)
        .current_dir(folder)
        .stdin(input)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{args:?}: {said}");
}

/// Writes the alerts as a rule file. Returns their names.
fn write_rules(folder: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(checkout().join("deploy/components/alerts/rules.yaml")).unwrap();
    let object: Value = serde_saphyr::from_str(&text).unwrap();
    // JSON is valid YAML.
    fs::write(folder.join("rules.yaml"), object["spec"].to_string()).unwrap();
    let rules = object["spec"]["groups"][0]["rules"].as_array().unwrap();
    rules
        .iter()
        .map(|rule| rule["alert"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn each_alert_fires_for_its_cluster_alone() {
    let folder = tempfile::tempdir().unwrap();
    let alerts = write_rules(folder.path());
    let tests = include_str!("alerts.yaml");
    fs::write(folder.path().join("alerts.yaml"), tests).unwrap();

    let tested: Value = serde_saphyr::from_str(tests).unwrap();
    let tested = tested["tests"].as_array().unwrap().iter();
    let tested: BTreeSet<_> = tested
        .map(|test| test["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(tested, alerts);

    promtool(
        folder.path(),
        &["check", "rules", "rules.yaml"],
        Stdio::null(),
    );
    promtool(
        folder.path(),
        &["test", "rules", "alerts.yaml"],
        Stdio::null(),
    );
}

/// Everything that runs, and its files.
struct Site {
    cloud: Simcloud,
    plane: RealPlane,
    dir: tempfile::TempDir,
}

impl Site {
    async fn start() -> Result<Self> {
        let cloud = Simcloud::start(Options {
            servers: 2,
            token: "a-secret-token".to_owned(),
            ..Options::default()
        })?;
        Ok(Self {
            cloud,
            plane: RealPlane::start().await?,
            dir: tempfile::tempdir()?,
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts the host. Load balancers cannot be deleted, because no rule allows it. Also returns the
    /// address of its HTTPS server.
    async fn host(&self) -> Result<(Host, SocketAddr)> {
        let paths = Paths::of_checkout()?;
        let cloud = json!({"url": self.cloud.url(), "region": "sim"});
        fs::write(self.file("cloud.json"), cloud.to_string())?;
        fs::write(self.file("cloud-token"), self.cloud.token())?;
        let rule = json!({
            "name": "api", "to": self.cloud.url(), "addresses": ["127.0.0.1/32"], "paths": ["/v1"],
            "methods": ["GET", "POST", "PUT", "PATCH"], "credential": "token",
        });
        let config = json!({
            "apiVersion": "skydock.dev/v1alpha1", "kind": "SkydockConfiguration",
            "plugins": [{
                "name": "simcloud", "file": paths.plugins.join("simcloud.wasm"), "cloudConfig": self.file("cloud.json"),
                "egress": [rule],
            }],
            "credentials": [{
                "name": "token", "type": "header", "for": {"plugin": "simcloud", "digest": "any"},
                "prefix": "Bearer ", "valueFile": self.file("cloud-token"),
            }],
        });
        fs::write(self.file("config.yaml"), config.to_string())?;

        let address = free_address()?;
        let kubeconfig = self.plane.kubeconfig_path().display();
        let compiled = Plugin::compiled()?;
        fs::create_dir_all(&compiled)?;
        let args = [
            format!("--config={}", self.file("config.yaml").display()),
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            format!("--bind-address={}", address.ip()),
            format!("--secure-port={}", address.port()),
            format!("--plugin-cache-dir={}", compiled.display()),
            "--cluster-name=prometheus".to_owned(),
            "--configure-cloud-routes=false".to_owned(),
        ];
        let args: Vec<_> = args.into_iter().map(Into::into).collect();
        let host = Host::start(&paths.skydock, self.dir.path(), "host", &args).await?;
        Ok((host, address))
    }

    /// Returns a token of an account that may read metrics, as `docs/operating.md` says.
    async fn token(&self) -> Result<String> {
        let roles = checkout().join("deploy/components/secure-serving/rbac.yaml");
        let roles = roles.to_str().context("a path")?;
        let role = "--clusterrole=skydock-metrics-reader";
        let account = "--serviceaccount=default:prometheus";
        for args in [
            &["apply", "-n", "kube-system", "-f", roles][..],
            &["create", "serviceaccount", "prometheus", "-n", "default"],
            &["create", "clusterrolebinding", "prometheus", role, account],
        ] {
            self.plane.kubectl(args).await?;
        }
        let args = ["create", "token", "prometheus", "-n", "default"];
        Ok(self.plane.kubectl(&args).await?.trim().to_owned())
    }

    /// Starts Prometheus, which reads the host at this address with a token. Returns its address.
    async fn prometheus(&self, host: SocketAddr) -> Result<(Process, SocketAddr)> {
        write_rules(self.dir.path());
        fs::write(self.file("token"), self.token().await?)?;
        let target =
            json!({"targets": [host], "labels": {"cluster": "test", "namespace": "kube-system"}});
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{
                "job_name": "skydock", "scheme": "https", "static_configs": [target],
                "authorization": {"credentials_file": "token"}, "tls_config": {"insecure_skip_verify": true},
            }],
        });
        fs::write(self.file("prometheus.yaml"), config.to_string())?;
        let file = self.file("prometheus.yaml");
        let file = file.to_str().context("a path")?;
        promtool(self.dir.path(), &["check", "config", file], Stdio::null());

        let address = free_address()?;
        let mut command = Command::new(prometheus_program("prometheus")?);
        command
            .arg(format!("--config.file={file}"))
            .arg(format!(
                "--storage.tsdb.path={}",
                self.file("data").display()
            ))
            .arg(format!("--web.listen-address={address}"));
        let process = Process::start("prometheus", command, &self.file("prometheus.log"))?;
        Ok((process, address))
    }

    /// Makes the host do something that each panel shows.
    async fn works(&self) -> Result<()> {
        let client = self.plane.client();
        let cluster = Cluster::new(client.clone());
        cluster.register("node-1").await?;

        let spec = json!({"type": "LoadBalancer", "ports": [{"port": 80}]});
        let service = json!({"metadata": {"name": "web"}, "spec": spec});
        let services: Api<Service> = Api::namespaced(client, "default");
        let service = serde_json::from_value(service)?;
        services.create(&PostParams::default(), &service).await?;
        cluster.told("web", "EnsuredLoadBalancer", LIMIT).await?;
        services.delete("web", &DeleteParams::default()).await?;
        Ok(())
    }
}

/// Returns the data of an answer of Prometheus' API.
async fn ask(prometheus: SocketAddr, path: &str) -> Result<Value> {
    let (status, body) = get(prometheus, path).await?;
    ensure!(status == 200, "{path}: {status}: {body}");
    let answer: Value = serde_json::from_str(&body)?;
    Ok(answer["data"].clone())
}

/// Returns how many series an expression has.
async fn series(prometheus: SocketAddr, expression: &str) -> Result<usize> {
    let query: String = expression
        .bytes()
        .map(|byte| format!("%{byte:02X}"))
        .collect();
    let data = ask(prometheus, &format!("/api/v1/query?query={query}")).await?;
    Ok(data["result"].as_array().map_or(0, Vec::len))
}

/// Returns the titles and expressions of all panels of the dashboard, as Grafana asks for all
/// clusters.
fn panels() -> Vec<(String, String)> {
    let file = checkout().join("deploy/components/dashboard/skydock.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let mut panels = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            let expression = expression
                .replace("$__rate_interval", "1m")
                .replace("$cluster", ".*")
                .replace("$job", ".*");
            panels.push((title.to_owned(), expression));
        }
    }
    panels
}

async fn shows_everything(prometheus: SocketAddr) -> Result<()> {
    eventually(LIMIT, || async {
        let mut empty = Vec::new();
        for (title, expression) in panels() {
            if series(prometheus, &expression).await? == 0 {
                empty.push((title, expression));
            }
        }
        Ok(Seen::when(empty.is_empty(), format!("no data: {empty:#?}")))
    })
    .await?;

    let rules = ask(prometheus, "/api/v1/rules").await?;
    for rule in rules["groups"][0]["rules"].as_array().context("rules")? {
        ensure!(rule["health"] == "ok", "{rule}");
    }
    Ok(())
}

/// Waits until the alerts about what the host does fire.
async fn alerts_fire(prometheus: SocketAddr) -> Result<()> {
    eventually(LIMIT, || async {
        let alerts = ask(prometheus, "/api/v1/alerts").await?;
        let alerts = alerts["alerts"].as_array().context("alerts")?;
        let firing: BTreeSet<_> = alerts
            .iter()
            .filter(|alert| alert["state"] == "firing" && alert["labels"]["cluster"] == "test")
            .filter_map(|alert| alert["labels"]["alertname"].as_str())
            .collect();
        let all = ALERTS.iter().all(|name| firing.contains(name));
        Ok(Seen::when(all, format!("firing: {firing:?}")))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_has_data_and_alerts() {
    let site = Site::start().await.unwrap();
    let (host, address) = site.host().await.unwrap();
    let (prometheus, at) = site.prometheus(address).await.unwrap();

    let shown = async {
        // It takes a moment to start.
        eventually(LIMIT, || async {
            let ready = get(at, "/-/ready").await;
            Ok(match ready {
                Ok((status, _)) => Seen::when(status == 200, format!("{status}")),
                Err(error) => Seen::NotYet(error.to_string()),
            })
        })
        .await?;
        site.works().await?;
        shows_everything(at).await?;
        fs::write(site.file("config.yaml"), "kind: Something\n")?;
        alerts_fire(at).await
    };
    if let Err(error) = shown.await {
        let (host, prometheus) = (host.last_words(), prometheus.last_words());
        panic!("{error:?}\n{host}\n{prometheus}");
    }

    // The format for those who do not ask for OpenMetrics.
    let metrics = site.file("metrics.txt");
    fs::write(&metrics, host.scrape().await.unwrap().text()).unwrap();
    let metrics = fs::File::open(metrics).unwrap();
    promtool(site.dir.path(), &["check", "metrics"], metrics.into());
    Hosts::stop(host).await.unwrap();
}
