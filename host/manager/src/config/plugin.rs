//! Which plugin serves the cluster, and what flags and the configuration file say about it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use skydock_cloud::Pairs;
use skydock_controllers::service::ServiceOptions;
use skydock_credentials::config::DigestPin;
use skydock_sandbox::{ConfigSecrets, Limits, Overlap, Permissions, PluginSource};

use super::{ConfigError, config_secrets};
use crate::{
    cli::{
        CcmArgs, NamedPlugin,
        plugin_limits::{self, PluginLimit},
    },
    file::{CloudConfigSecrets, ConfigurationError, PluginConfiguration, SkydockConfiguration},
};

/// What the plugin is loaded with. All but the name can change while it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginSettings {
    /// Name of the plugin.
    pub name: String,
    /// File of the WebAssembly component.
    pub file: PathBuf,
    /// The provider configuration file.
    pub cloud_config: Option<PathBuf>,
    /// What happens to secrets in the provider configuration.
    pub secrets: ConfigSecrets,
    /// The operator's options for the provider.
    pub options: Pairs,
    /// Resource limits.
    pub limits: Limits,
    /// Required digest of its file.
    pub digest: DigestPin,
    /// Which calls may run concurrently; overrides what the plugin declares.
    pub overlap: Option<Overlap>,
    /// What the plugin may claim, write and read.
    pub permissions: Permissions,
}

impl PluginSettings {
    /// Returns the source of the plugin. What these settings do not determine is taken from
    /// `base`.
    #[must_use]
    pub fn source(&self, base: PluginSource) -> PluginSource {
        PluginSource {
            name: self.name.clone(),
            component: self.file.clone(),
            cloud_config: self.cloud_config.clone(),
            secrets: self.secrets,
            options: self.options.clone(),
            digest: self.digest.clone(),
            overlap: self.overlap,
            permissions: self.permissions.clone(),
            ..base
        }
    }
}

/// What the command line says about the plugin. It takes precedence over the configuration file.
#[derive(Clone, Debug, Default)]
pub struct PluginFlags {
    /// Name of the plugin.
    pub name: String,
    /// File of the WebAssembly component.
    pub file: Option<PathBuf>,
    /// `--cloud-config`.
    pub cloud_config: Option<PathBuf>,
    /// `--plugin-option`.
    pub options: Vec<(String, String)>,
    /// `--plugin-limit`.
    pub limits: Vec<PluginLimit>,
    /// Number of Services that are handled at a time.
    pub services: usize,
    /// Permissions that do not depend on the file, for tools of developers.
    pub permissions: Option<Permissions>,
}

impl PluginFlags {
    /// Returns the settings of the plugin, as far as flags do not determine them those in the file.
    ///
    /// # Errors
    /// If a setting is not valid, or the plugin has no file.
    pub fn settings(
        &self,
        configuration: Option<(&SkydockConfiguration, &Path)>,
    ) -> Result<PluginSettings, ConfigError> {
        // The settings in the file do not apply if another plugin is selected.
        let configured = configuration.and_then(|(configuration, file)| {
            let plugin = configuration.plugin(&self.name)?;
            Some((plugin, configuration.egress_policy(plugin), file))
        });

        let plugin = configured.as_ref().map(|(plugin, ..)| *plugin);
        let file = self.file.as_ref().or_else(|| Some(&plugin?.file));
        let cloud_config = self
            .cloud_config
            .clone()
            .or_else(|| plugin?.cloud_config.clone());
        let may_have_secrets =
            plugin.is_some_and(|it| it.cloud_config_secrets == CloudConfigSecrets::Allowed);

        let policy = configured
            .as_ref()
            .map(|(_, policy, _)| policy.clone())
            .unwrap_or_default();
        let secrets = config_secrets(&policy, cloud_config.as_deref(), may_have_secrets);

        let mut limits = Vec::new();
        let mut permissions = Permissions::by_name(&self.name);
        if let Some((plugin, _, file)) = &configured {
            let wrong = |sentence| ConfigurationError::without_position(file, sentence);
            limits = plugin.limits().map_err(wrong)?;
            permissions = plugin.permissions().map_err(wrong)?;
        }

        let limits = plugin_limits::merged(limits, self.limits.clone());
        let mut options = plugin
            .map(|plugin| plugin.options.clone())
            .unwrap_or_default();
        // Flags replace options of the same name in the file.
        options.extend(self.options.iter().cloned());

        Ok(PluginSettings {
            name: self.name.clone(),
            file: file.cloned().ok_or_else(|| ConfigError::NoPlugin {
                name: self.name.clone(),
            })?,
            cloud_config,
            secrets,
            options,
            limits: plugin_limits::limits(self.services, &limits)?,
            digest: plugin
                .map(|plugin| plugin.digest.clone())
                .unwrap_or_default(),
            overlap: plugin.and_then(|plugin| plugin.overlap).map(Into::into),
            permissions: self.permissions.clone().unwrap_or(permissions),
        })
    }
}

/// Selects the plugin named by `--cloud-provider`, or else by the configuration. Its file comes
/// from `--plugin`, then from the configuration, then from `--plugin-dir`. Returns no file if it
/// comes from the configuration.
pub(super) fn choose_plugin(
    args: &CcmArgs,
    configured: Option<&PluginConfiguration>,
) -> Result<(String, Option<PathBuf>), ConfigError> {
    let mut names = BTreeSet::new();
    if let Some(twice) = args
        .plugins
        .iter()
        .find(|plugin| !names.insert(&plugin.name))
    {
        return Err(ConfigError::PluginTwice(twice.name.clone()));
    }

    let mut name = args.cloud_provider.clone();
    if let Some(configured) = configured.filter(|_| name.is_empty()) {
        name.clone_from(&configured.name);
    }

    if name.is_empty() {
        return Err(ConfigError::NoProvider(
            args.plugins
                .iter()
                .map(|plugin| plugin.name.clone())
                .collect(),
        ));
    }

    if let Some(plugin) = args.plugins.iter().find(|plugin| plugin.name == name) {
        let NamedPlugin { name, file } = plugin.clone();
        return Ok((name, Some(file)));
    }
    if configured.is_some_and(|configured| configured.name == name) {
        return Ok((name, None));
    }

    let Some(dir) = &args.plugin_dir else {
        return Err(match (configured, &args.config) {
            (Some(configured), Some(file)) => ConfigError::OtherPlugin {
                flag: name,
                configured: configured.name.clone(),
                file: file.clone(),
            },
            _ => ConfigError::NoPlugin { name },
        });
    };

    let file = dir.join(format!("{name}.wasm"));
    if file.is_file() {
        Ok((name, Some(file)))
    } else {
        Err(ConfigError::NotInDirectory {
            name,
            file: file.display().to_string(),
        })
    }
}

/// Returns a plugin in the file as Skydock would load it with these limits, for tools.
pub(crate) fn source_in_file(
    configuration: &SkydockConfiguration,
    plugin: &PluginConfiguration,
    file: &Path,
    limits: Vec<PluginLimit>,
) -> Result<(PluginSource, Limits), ConfigError> {
    let flags = PluginFlags {
        name: plugin.name.clone(),
        limits,
        services: ServiceOptions::default().concurrent_syncs,
        ..PluginFlags::default()
    };
    let settings = flags.settings(Some((configuration, file)))?;

    let source = settings.source(PluginSource {
        cluster_name: "kubernetes".to_owned(),
        only_reads: true,
        ..PluginSource::default()
    });
    Ok((source, settings.limits))
}
