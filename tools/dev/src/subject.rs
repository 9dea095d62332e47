//! The plugin of `skydock plugin test` and `skydock plugin bench`, and its way to a cloud.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context as _, bail};
use clap::Args;
use skydock::{
    cli::{COMPILER, parse_option, plugin_limits},
    config::{PluginFlags, default_cache_dir},
    egress::{Egress, EgressPolicy},
    file::{PluginConfiguration, SkydockConfiguration},
};
use skydock_conformance::{Connect, Subject};
use skydock_controllers::service::ServiceOptions;
use skydock_sandbox::{Compiler, GatewayProvider, Permissions, PluginSource};

use crate::cluster::simcloud::Simulated;

/// A plugin and its configuration.
#[derive(Debug, Args)]
pub(crate) struct SubjectArgs {
    /// The plugin: a WebAssembly component. By default, the file in --config.
    #[arg(value_name = "FILE", required_unless_present = "config")]
    pub(crate) plugin: Option<PathBuf>,
    /// Configuration file of Skydock, as in production: options and limits of the plugin, egress
    /// rules and credentials.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Start simcloud, the example cloud, and let the plugin use it: with its URL in the cloud
    /// configuration and the options `endpoint` and `region`, an egress rule, and its token as a
    /// credential.
    #[arg(long, conflicts_with = "config", requires = "plugin")]
    pub(crate) simcloud: bool,
    /// Provider configuration to use. Takes precedence over --config.
    #[arg(long, value_name = "FILE")]
    pub(crate) cloud_config: Option<PathBuf>,
    /// Option of the provider; see its documentation. May be repeated. Takes precedence over
    /// --config.
    #[arg(long = "plugin-option", value_name = "KEY=VALUE", value_parser = parse_option)]
    pub(crate) plugin_options: Vec<(String, String)>,
    /// Resource limit of the plugin, for example memory=256Mi. May be repeated; --help lists all.
    #[arg(long = "plugin-limit", value_name = "KEY=VALUE", value_parser = plugin_limits::parse,
          long_help = plugin_limits::help())]
    pub(crate) plugin_limits: Vec<plugin_limits::PluginLimit>,
}

/// A plugin that can be loaded, and the cloud that was started for it.
pub(crate) struct Prepared {
    pub(crate) subject: Subject,
    pub(crate) simulated: Option<Simulated>,
}

impl SubjectArgs {
    /// Reads the files and starts the cloud. Blocks the thread.
    ///
    /// # Errors
    /// If a file cannot be read or is not valid, or the cloud cannot be started.
    pub(crate) fn prepare(self, servers: u16) -> anyhow::Result<Prepared> {
        let simulated = self
            .simcloud
            .then(|| Simulated::start(servers, self.plugin.as_deref()))
            .transpose()?;

        let file = self
            .config
            .clone()
            .or_else(|| simulated.as_ref().map(Simulated::configuration));
        let configuration = file
            .as_deref()
            .map(SkydockConfiguration::read)
            .transpose()?;

        let plugin = configuration.as_ref().and_then(|it| it.plugins.first());
        let policy = configuration
            .as_ref()
            .zip(plugin)
            .map(|(it, plugin)| it.egress_policy(plugin))
            .unwrap_or_default();
        let flags = self.flags(plugin)?;
        let name = flags.name.clone();

        let settings = flags.settings(configuration.as_ref().zip(file.as_deref()))?;
        for file in [Some(&settings.file), settings.cloud_config.as_ref()]
            .into_iter()
            .flatten()
        {
            skydock_sandbox::open(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
        }

        // Without a configuration, all requests are denied.
        let connect = file
            .is_some()
            .then(|| connect(&name, &policy))
            .transpose()?;

        let source = settings.source(PluginSource {
            cluster_name: "conformance".to_owned(),
            cluster_cidrs: vec!["10.244.0.0/16".to_owned()],
            ..PluginSource::default()
        });
        let subject = Subject {
            source,
            limits: settings.limits,
            compiler: Compiler::this_program(COMPILER)?,
            cache_dir: default_cache_dir(),
            connect,
        };

        Ok(Prepared { subject, simulated })
    }

    /// Returns what the flags say about the plugin, which is this one in the configuration.
    fn flags(self, plugin: Option<&PluginConfiguration>) -> anyhow::Result<PluginFlags> {
        let Some(component) = self.plugin.or_else(|| Some(plugin?.file.clone())) else {
            bail!("the plugin is missing: set it in the configuration, or on the command line");
        };
        let stem = || {
            component
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
                .unwrap_or_default()
        };

        Ok(PluginFlags {
            name: plugin.map_or_else(stem, |it| it.name.clone()),
            file: Some(component),
            cloud_config: self.cloud_config,
            options: self.plugin_options,
            limits: self.plugin_limits,
            services: ServiceOptions::default().concurrent_syncs,
            // Without an operator's file, the plugin gets what it wants.
            permissions: self.config.is_none().then(Permissions::unrestricted),
        })
    }
}

/// Returns what creates the network access of the configuration.
///
/// # Errors
/// If a rule or a credential is not valid.
fn connect(name: &str, policy: &EgressPolicy) -> anyhow::Result<Connect> {
    if let Some(error) = skydock::egress::review(name, policy).errors.first() {
        anyhow::bail!("plugin {name}: {}", error.sentence);
    }
    let name = name.to_owned();
    let policy = policy.clone();

    Ok(Arc::new(move |registry| {
        let egress = Egress::new(&name, policy.clone(), Vec::new(), registry)
            .map_err(|error| error.to_string())?;
        Ok(Arc::new(egress) as Arc<dyn GatewayProvider>)
    }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        subject: SubjectArgs,
    }

    #[test]
    fn the_configuration_is_that_of_production() {
        let dir = tempfile::tempdir().unwrap();
        let (wasm, config) = (
            dir.path().join("metal.wasm"),
            dir.path().join("config.yaml"),
        );
        fs::write(&wasm, "").unwrap();
        fs::write(dir.path().join("cloud.conf"), "").unwrap();
        let text = "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins:\n\
                    - {name: mine, file: metal.wasm, cloudConfig: cloud.conf, options: {a: '1', b: '2'}, limits: {memory: 64Mi}}\n";
        fs::write(&config, text).unwrap();
        let prepare = |more: &[&str]| {
            let args = ["test", "--config", config.to_str().unwrap()]
                .into_iter()
                .chain(more.iter().copied());
            Cli::try_parse_from(args).map(|cli| cli.subject.prepare(0).unwrap().subject)
        };
        let subject = prepare(&["--plugin-option", "b=3"]).unwrap();
        assert_eq!(
            (subject.source.name.as_str(), subject.limits.memory),
            ("mine", 64 << 20)
        );
        assert_eq!(
            (
                subject.source.options["a"].as_str(),
                subject.source.options["b"].as_str()
            ),
            ("1", "3")
        );
        assert_eq!(
            subject.source.cloud_config,
            Some(dir.path().join("cloud.conf"))
        );
        assert!(subject.connect.is_some());
        assert!(prepare(&["--simcloud"]).is_err(), "it would not be reached");

        let plain = Cli::try_parse_from(["test", wasm.to_str().unwrap()])
            .unwrap()
            .subject
            .prepare(0)
            .unwrap()
            .subject;
        assert!(
            plain.source.name == "metal" && plain.connect.is_none(),
            "all requests are denied"
        );
        assert!(Cli::try_parse_from(["test"]).is_err());
    }
}
