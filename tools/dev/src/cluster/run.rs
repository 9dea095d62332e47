//! Runs an embedded control plane, simulated kubelets, the manager and a plugin in one process.

use std::{collections::BTreeMap, net::Ipv4Addr, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use skydock::{
    blocking::blocking,
    ccm,
    cli::RECORD_LIMIT,
    config::{Config, PluginFlags, RecordTo, default_cache_dir},
    file::SkydockConfiguration,
    telemetry::{self, LogOptions},
};
use skydock_controllers::{ClusterCidrs, lifecycle::LifecycleOptions, route::RouteOptions};
use skydock_devplane::{Access, DevPlane, NodeSpec, Options};
use skydock_kube::clients::{self, ClusterAccess};
use skydock_sandbox::{AddressRules, Permissions};
use tokio_util::sync::CancellationToken;

use crate::{
    cli::DevArgs,
    cluster::{kubeconfig, log, simcloud::Simulated},
};

/// Period of checking nodes that are not ready. It is shorter than in production, because a
/// developer waits for the result.
const NODE_MONITOR_PERIOD: Duration = Duration::from_secs(1);

/// Address range of Pods in the embedded cluster; it has a /24 for each node of the maximum number
/// of nodes.
const CLUSTER_CIDR: &str = "10.244.0.0/14";

/// Runs until `shutdown` is cancelled.
///
/// # Errors
/// Returns an error if the configuration is invalid or the control plane or the manager cannot be
/// started.
pub(crate) async fn run(args: DevArgs, shutdown: CancellationToken) -> anyhow::Result<()> {
    telemetry::init(LogOptions {
        verbosity: args.v,
        quiet: args.v == 0,
        ..LogOptions::default()
    });

    let args = Arc::new(args);
    let read = Arc::clone(&args);
    let reading = blocking(async move {
        // First, since another run may have claimed the file.
        let claim = kubeconfig::claim(&read.write_kubeconfig)?;
        let simulated = read
            .simcloud
            .then(|| Simulated::start(read.nodes, read.plugin.as_deref()))
            .transpose()?;
        let config = config(&read, simulated.as_ref())?;
        anyhow::Ok((config, simulated, claim))
    });

    let Some(read) = shutdown.run_until_cancelled(reading).await else {
        return Ok(());
    };

    // The last one is held until the end.
    let (config, simulated, _claim) = read?;

    let plane = DevPlane::start(Options {
        listen: args.listen,
        state_file: args.state.clone(),
        access: Access::Secure,
        ..Options::default()
    })
    .await?;
    kubeconfig::write(&args.write_kubeconfig, &plane.kubeconfig())?;

    for number in 1..=args.nodes {
        let [high, low] = number.to_be_bytes();
        let mut node = NodeSpec::new(
            format!("node-{number}"),
            Ipv4Addr::new(10, 0, high, low).into(),
        );
        node.pod_cidrs.push(format!("10.{}.{low}.0/24", 244 + high));
        plane.kubelets().register(node)?;
    }
    log::intro(&args, &config, simulated.as_ref());

    let access = clients::load(&config.cluster).await?;
    let followed = tokio::spawn(log::follow(clients::named(&access, "dev-log")?));
    let ended = Box::pin(ccm::run(config, shutdown)).await;
    followed.abort();
    plane.shutdown().await;
    ended
}

fn config(args: &DevArgs, simulated: Option<&Simulated>) -> anyhow::Result<Config> {
    // What the operator configures takes precedence.
    let generated = simulated
        .filter(|_| args.config.is_none())
        .map(Simulated::configuration);
    let is_generated = generated.is_some();
    let file = args.config.clone().or(generated);

    let configuration = file
        .as_deref()
        .map(SkydockConfiguration::read)
        .transpose()?;
    let egress_policy = configuration
        .as_ref()
        .and_then(|it| Some(it.egress_policy(it.plugins.first()?)))
        .unwrap_or_default();

    let options = controller_options(args);
    let plugin_flags = plugin_flags(args, configuration.as_ref(), &options)?;
    let plugin = plugin_flags.settings(configuration.as_ref().zip(file.as_deref()))?;
    must_be_readable("--plugin", &plugin.file)?;
    if let Some(file) = &plugin.cloud_config {
        must_be_readable("--cloud-config", file)?;
    }

    Ok(Config {
        plugin,
        plugin_flags,
        plugin_cache_dir: default_cache_dir(),
        last_good: false,
        record: args.record.clone().map(|directory| RecordTo {
            directory,
            limit: RECORD_LIMIT,
        }),
        // Set even if no egress rule exists yet: rules may be added while the process runs.
        only_reads: !args.allow_cloud_writes && !is_generated,
        egress_policy,
        waits_for_plugin: true,
        accepted_in: None,
        file,
        cluster_cidrs: vec![CLUSTER_CIDR.to_owned()],
        ingress: AddressRules {
            pods: CLUSTER_CIDR.parse().into_iter().collect(),
            node_addresses: args.load_balancer_allow_node_addresses,
            ..AddressRules::default()
        },
        cluster: ClusterAccess {
            kubeconfig: Some(args.write_kubeconfig.clone()),
            master: None,
        },
        service_account_credentials: false,
        controllers: skydock_controllers::parse_controllers(&["*".to_owned()])?,
        options,
        csi_socket: None,
        election: None,
        secure_serving: None,
        metrics_compat: None,
        // Any free port, so that several clusters can run.
        serve: Some((Ipv4Addr::LOCALHOST, 0).into()),
        log: LogOptions::default(),
        effective_flags: BTreeMap::new(),
        accepted_flags: Vec::new(),
        notices: Vec::new(),
    })
}

fn controller_options(args: &DevArgs) -> skydock_controllers::Options {
    skydock_controllers::Options {
        lifecycle: LifecycleOptions {
            period: NODE_MONITOR_PERIOD,
            ..LifecycleOptions::default()
        },
        cluster_name: "dev".to_owned(),
        routes: RouteOptions {
            cluster_cidrs: ClusterCidrs::parse(&[CLUSTER_CIDR]),
            configure: args.routes,
            ..RouteOptions::default()
        },
        ..skydock_controllers::Options::default()
    }
}

/// Returns what the flags say about the plugin, which the configuration or else its file names.
fn plugin_flags(
    args: &DevArgs,
    configuration: Option<&SkydockConfiguration>,
    options: &skydock_controllers::Options,
) -> anyhow::Result<PluginFlags> {
    let stem = |file: &Path| {
        file.file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let name = configuration
        .and_then(|configuration| configuration.plugins.first())
        .map(|plugin| plugin.name.clone())
        .or_else(|| args.plugin.as_deref().map(stem));
    let Some(name) = name else {
        bail!("the plugin is missing: set it in the configuration, or with --plugin")
    };

    Ok(PluginFlags {
        name,
        file: args.plugin.clone(),
        cloud_config: args.cloud_config.clone(),
        options: Vec::new(),
        limits: args.plugin_limits.clone(),
        services: options.services.concurrent_syncs,
        // Without an operator's file, the plugin gets what it wants.
        permissions: args.config.is_none().then(Permissions::unrestricted),
    })
}

fn must_be_readable(flag: &str, file: &Path) -> anyhow::Result<()> {
    let opened = skydock_sandbox::open(file);
    opened.with_context(|| format!("{flag}: cannot read {}", file.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// Egress rules that are added at run time allow only reads, too.
    #[test]
    fn the_cloud_is_read_only_unless_writes_are_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let plugin = dir.path().join("static.wasm");
        std::fs::write(&plugin, "").unwrap();
        let only_reads = |more: &[&str]| {
            let words = ["skydock-dev", "--plugin", plugin.to_str().unwrap()];
            let args = DevArgs::try_parse_from(words.iter().chain(more)).unwrap();
            let simulated = args
                .simcloud
                .then(|| Simulated::start(1, args.plugin.as_deref()).unwrap());
            config(&args, simulated.as_ref()).unwrap().only_reads
        };
        assert!(only_reads(&[]) && !only_reads(&["--allow-cloud-writes"]));

        let mine = dir.path().join("config.yaml");
        std::fs::write(
            &mine,
            "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\n",
        )
        .unwrap();

        assert!(!only_reads(&["--simcloud"]), "it is not a real cloud");
        assert!(
            only_reads(&["--simcloud", "--config", mine.to_str().unwrap()]),
            "it may name a real cloud"
        );
    }
}
