//! Which plugin serves the cluster, and its settings in the configuration file.

use std::{collections::BTreeSet, path::Path};

use skydock_cloud::Pairs;
use skydock_egress::credentials::config::DigestPin;
use skydock_plugin::{Overlap, Permissions};

use super::ConfigError;
use crate::{
    cli::{CcmArgs, NamedPlugin, plugin_limits::PluginLimit},
    configuration::{ConfigurationError, PluginConfiguration},
};

/// The settings of the plugin in the configuration file.
pub struct Configured {
    /// Resource limits.
    pub limits: Vec<PluginLimit>,
    /// Options for the provider.
    pub options: Pairs,
    /// Required digest of its file.
    pub digest: DigestPin,
    /// Which calls may run concurrently; overrides what the plugin declares.
    pub overlap: Option<Overlap>,
    /// What the plugin may claim, write and read.
    pub permissions: Permissions,
}

impl Configured {
    /// Returns the settings of a plugin in a file. If either is missing, those are the defaults,
    /// with these permissions.
    ///
    /// # Errors
    /// If a setting is not valid.
    pub fn of(
        plugin: Option<&PluginConfiguration>,
        file: Option<&Path>,
        permissions: Permissions,
    ) -> Result<Self, ConfigError> {
        let (Some(plugin), Some(file)) = (plugin, file) else {
            return Ok(Self {
                limits: Vec::new(),
                options: Pairs::new(),
                digest: DigestPin::Any,
                overlap: None,
                permissions,
            });
        };
        let wrong = |sentence| ConfigurationError::said(file, sentence);
        Ok(Self {
            limits: plugin.limits().map_err(wrong)?,
            options: plugin.options.clone(),
            digest: plugin.digest.clone(),
            overlap: plugin.overlap.map(Into::into),
            permissions: plugin.permissions().map_err(wrong)?,
        })
    }
}

/// Selects the plugin named by `--cloud-provider`, or else by the configuration. Its file comes
/// from `--plugin`, then from the configuration, then from `--plugin-dir`.
pub(super) fn choose_plugin(
    args: &CcmArgs,
    configured: Option<&PluginConfiguration>,
) -> Result<NamedPlugin, ConfigError> {
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
        return Ok(plugin.clone());
    }
    if let Some(configured) = configured.filter(|configured| configured.name == name) {
        return Ok(NamedPlugin {
            name,
            file: configured.file.clone(),
        });
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
        Ok(NamedPlugin { name, file })
    } else {
        Err(ConfigError::NotInDirectory {
            name,
            file: file.display().to_string(),
        })
    }
}
