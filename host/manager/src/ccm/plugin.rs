//! The plugin of the process: how it is loaded, and how its settings change.

use std::sync::Arc;

use anyhow::Context as _;
use prometheus_client::registry::Registry;
use skydock_cloud::Pairs;
use skydock_credentials::has_global;
use skydock_sandbox::{
    ClusterSlot, Compiler, LoadError, Plugin, PluginMetrics, PluginSource, Recordings, Runtime,
    RuntimeOptions, Taping,
};
use tokio::sync::watch;

use crate::{
    cli::COMPILER,
    config::{AWS, Config, PluginSettings, REGION, RecordTo},
    egress::Egress,
    file,
    process::blocking::blocking,
};

/// Returns the network access of the plugin. The networks of the cluster are closed.
pub(super) fn egress(config: &Config, registry: &mut Registry) -> anyhow::Result<Egress> {
    let networks = config
        .ingress
        .pods
        .iter()
        .chain(&config.ingress.services)
        .copied()
        .collect();

    let name = &config.plugin.name;
    Egress::new(name, config.egress_policy.clone(), networks, registry)
        .with_context(|| format!("plugin {name}"))
}

/// Loads the plugin. Waits for it, if the configuration says so. What its settings do not determine
/// is taken from `template`.
pub(super) async fn load(
    config: &Config,
    metrics: PluginMetrics,
    cluster: ClusterSlot,
    template: PluginSource,
) -> anyhow::Result<Arc<Plugin>> {
    let cache_dir = config.plugin_cache_dir.clone();
    let limits = config.plugin.limits.clone();
    let options = RuntimeOptions::new(Compiler::this_program(COMPILER)?);

    let taping = match config.record.clone() {
        Some(RecordTo { directory, limit }) => {
            tracing::info!(
                "recording all calls of the plugin in {}",
                directory.display()
            );
            Taping::Record(blocking(async move { Recordings::open(&directory, limit) }).await?)
        }
        None => Taping::Off,
    };

    let runtime = blocking(async {
        Runtime::new(RuntimeOptions {
            cache_dir,
            limits,
            metrics,
            taping,
            ..options
        })
    })
    .await;
    let runtime = runtime.context("cannot start the plugin runtime")?;

    let source = config.plugin.source(template);
    let name = &config.plugin.name;
    let file = config.plugin.file.display();

    if config.waits_for_plugin {
        let log_error = |error: &LoadError| {
            tracing::error!(
                "cannot load plugin {name} from {file}: {error}; retrying when the plugin or its configuration changes, or after 10 minutes"
            );
        };
        return Ok(source.load_when_ready(&runtime, cluster, log_error).await);
    }

    let plugin = Plugin::load_or_last_good(&runtime, source, cluster).await;
    plugin.with_context(|| format!("cannot load plugin {name} from {file}"))
}

/// Returns what does not change about the source of the plugin while the process runs.
pub(super) async fn source_template(config: &Config, egress: Arc<Egress>) -> PluginSource {
    PluginSource {
        default_options: default_options(&config.plugin, &egress).await,
        cluster_name: config.options.cluster_name.clone(),
        cluster_cidrs: config.cluster_cidrs.clone(),
        ingress: config.ingress.clone(),
        gateways: Some(egress),
        only_reads: config.only_reads,
        last_good: config.last_good,
        ..PluginSource::default()
    }
}

/// Returns the region of this instance as an option of AWS's provider, if its configuration has
/// none. The official provider reads it itself, but plugins cannot reach the metadata service.
async fn default_options(plugin: &PluginSettings, egress: &Egress) -> Pairs {
    if plugin.name != AWS || has_region(plugin).await {
        return Pairs::new();
    }

    match egress.instance_region().await {
        Ok(Some(region)) => {
            tracing::info!(region, "using the region of this instance");
            Pairs::from([(REGION.to_owned(), region)])
        }
        Ok(None) => Pairs::new(),
        // The plugin is rejected, with the options that set a region.
        Err(error) => {
            tracing::warn!("cannot read the region of this instance: {error}");
            Pairs::new()
        }
    }
}

/// Returns whether options or file have a region of AWS.
async fn has_region(plugin: &PluginSettings) -> bool {
    let names = [REGION, "zone"];
    let is_name = |key: &String| names.iter().any(|name| key.eq_ignore_ascii_case(name));
    if plugin.options.keys().any(is_name) {
        return true;
    }

    let Some(path) = plugin.cloud_config.clone() else {
        return false;
    };
    let text = blocking(async move { file::text(&path) }).await;
    // A file that cannot be read is an error when the plugin is loaded.
    let text = text.unwrap_or_default();
    names.iter().any(|name| has_global(&text, name))
}

/// Applies each change of the settings to the plugin, which reports the outcome. Ends when there
/// are no more changes.
pub(super) async fn follow_settings(
    plugin: Arc<Plugin>,
    template: PluginSource,
    mut settings: watch::Receiver<PluginSettings>,
) {
    while settings.changed().await.is_ok() {
        let now = settings.borrow_and_update().clone();
        let source = now.source(template.clone());
        let _ = plugin.reconfigure(source, now.limits).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use crate::{config::PluginFlags, egress::EgressPolicy};

    use super::*;

    /// Serves what the metadata service of an instance answers, and returns its URL.
    async fn metadata_service(region: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 4096];
                let length = stream.read(&mut request).await.unwrap();
                let is_token = request[..length].starts_with(b"PUT ");
                let body = if is_token { "token" } else { region };
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        url
    }

    fn egress(plugin: &str, source: &str) -> Egress {
        let credentials = format!(
            "[{{type: aws-sigv4, name: c, for: {{plugin: {plugin}, digest: any}}, source: {source}, services: [ec2], regions: [eu-west-1]}}]"
        );
        let policy = EgressPolicy {
            credentials: serde_saphyr::from_str(&credentials).unwrap(),
            ..EgressPolicy::default()
        };
        Egress::new(plugin, policy, Vec::new(), &mut Registry::default()).unwrap()
    }

    #[tokio::test]
    async fn the_region_is_that_of_the_instance_by_default() {
        let dir = tempfile::tempdir().unwrap();
        let url = metadata_service("eu-west-1").await;
        let imds = format!("{{imds: {{endpoint: '{url}'}}}}");
        let files = "{files: {accessKeyIdFile: /nowhere/id, secretAccessKeyFile: /nowhere/key}}";
        let wrong = metadata_service("<html>").await;
        let wrong = format!("{{imds: {{endpoint: '{wrong}'}}}}");
        let (imds, wrong) = (imds.as_str(), wrong.as_str());

        for (name, source, option, file, expected) in [
            ("aws", imds, None, None, true),
            ("aws", imds, Some("vpc"), Some("[Global]\nVPC = v\n"), true),
            ("aws", imds, Some("Region"), None, false),
            (
                "aws",
                imds,
                None,
                Some("[Global]\nRegion = us-east-1\n"),
                false,
            ),
            (
                "aws",
                imds,
                None,
                Some("[Global]\nZone = us-east-1a\n"),
                false,
            ),
            ("aws", files, None, None, false),
            ("aws", wrong, None, None, false),
            ("metal", imds, None, None, false),
        ] {
            let cloud_config = file.map(|text| {
                let path = dir.path().join("cloud.conf");
                std::fs::write(&path, text).unwrap();
                path
            });
            let flags = PluginFlags {
                name: name.to_owned(),
                file: Some("aws.wasm".into()),
                cloud_config,
                options: option
                    .map(|it| (it.to_owned(), "x".to_owned()))
                    .into_iter()
                    .collect(),
                services: 1,
                ..PluginFlags::default()
            };
            let plugin = flags.settings(None).unwrap();
            let found = default_options(&plugin, &egress(name, source)).await;

            let region = found.get("region").map(String::as_str);
            let case = format!("{name} {source} {option:?} {file:?}");
            assert_eq!(region, expected.then_some("eu-west-1"), "{case}");
        }
    }
}
