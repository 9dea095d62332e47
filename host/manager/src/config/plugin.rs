//! The plugin in the configuration: which one serves the cluster, and what flags and the file say
//! about it.

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
        NamedPlugin,
        plugin_limits::{self, PluginLimit},
    },
    egress,
    file::{CloudConfigSecrets, ConfigurationError, PluginConfiguration, SkydockConfiguration},
};

/// The name of AWS's provider.
pub(crate) const AWS: &str = "aws";
/// Its option with the region. By default, that of the instance.
pub(crate) const REGION: &str = "region";

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

/// Where plugins can come from.
pub(super) struct Sources<'a> {
    /// `--cloud-provider`; empty if it is not set.
    pub(super) provider: &'a str,
    /// `--plugin`.
    pub(super) flags: &'a [NamedPlugin],
    /// The plugin in the configuration file, and the file.
    pub(super) configured: Option<(&'a PluginConfiguration, &'a Path)>,
    /// `--plugin-dir`.
    pub(super) directory: Option<&'a Path>,
    /// The directory that is used if nothing else names a plugin.
    pub(super) default_directory: Option<&'a Path>,
}

/// The plugin that serves the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) name: String,
    /// Its file; `None` if that is in the configuration file.
    pub(super) file: Option<PathBuf>,
    /// Whether it serves only because there is no other one.
    pub(super) is_only_one: bool,
}

impl Chosen {
    fn by_name(name: &str, file: Option<PathBuf>) -> Self {
        Self {
            name: name.to_owned(),
            file,
            is_only_one: false,
        }
    }
}

impl Sources<'_> {
    /// Selects the plugin named by `--cloud-provider`, or else by the configuration, or else the
    /// only one. Its file comes from `--plugin`, then from the configuration, then from the
    /// directory. Blocks the thread.
    pub(super) fn choose(&self) -> Result<Chosen, ConfigError> {
        let mut names = BTreeSet::new();
        let mut twice = self.flags.iter().filter(|it| !names.insert(&it.name));
        if let Some(twice) = twice.next() {
            return Err(ConfigError::PluginTwice(twice.name.clone()));
        }

        let configured = self.configured.map(|(plugin, _)| plugin.name.as_str());
        let name = match configured {
            Some(configured) if self.provider.is_empty() => configured,
            _ => self.provider,
        };

        if let Some(plugin) = self.flags.iter().find(|plugin| plugin.name == name) {
            return Ok(Chosen::by_name(name, Some(plugin.file.clone())));
        }
        if configured == Some(name) {
            return Ok(Chosen::by_name(name, None));
        }

        let is_named = !self.flags.is_empty() || configured.is_some();
        let default = self.default_directory.filter(|_| !is_named);
        let directory = self.directory.or(default);
        let file = directory.map(|dir| dir.join(format!("{name}.wasm")));
        if let Some(file) = file
            .as_ref()
            .filter(|it| !name.is_empty() && super::exists(it))
        {
            return Ok(Chosen::by_name(name, Some(file.clone())));
        }

        let in_directory = directory.map(plugins_in).transpose()?.unwrap_or_default();
        self.only_one(&in_directory)
            .ok_or_else(|| self.none(name, file.as_deref(), &in_directory))
    }

    /// Returns the plugin if flags and configuration file name exactly one, or they name none and
    /// the directory has exactly one.
    fn only_one(&self, in_directory: &[NamedPlugin]) -> Option<Chosen> {
        let configured = self
            .configured
            .map(|(plugin, _)| (plugin.name.as_str(), None));
        let flags = self
            .flags
            .iter()
            .map(|it| (it.name.as_str(), Some(&it.file)));
        let mut named: Vec<_> = flags.chain(configured).collect();
        if named.is_empty() {
            let found = in_directory.iter();
            named.extend(found.map(|it| (it.name.as_str(), Some(&it.file))));
        }

        match named.as_slice() {
            [(name, file)] => Some(Chosen {
                is_only_one: true,
                ..Chosen::by_name(name, file.cloned())
            }),
            _ => None,
        }
    }

    /// Returns why no plugin can be chosen.
    fn none(&self, name: &str, file: Option<&Path>, in_directory: &[NamedPlugin]) -> ConfigError {
        let name = name.to_owned();
        if name.is_empty() {
            let known = self.flags.iter().chain(in_directory);
            return ConfigError::NoProvider(known.map(|plugin| plugin.name.clone()).collect());
        }

        match (file, self.configured) {
            (Some(file), _) => ConfigError::NotInDirectory {
                name,
                file: file.display().to_string(),
                others: in_directory.iter().map(|it| it.name.clone()).collect(),
            },
            (None, Some((configured, file))) => ConfigError::OtherPlugin {
                flag: name,
                configured: configured.name.clone(),
                file: file.to_owned(),
            },
            (None, None) => ConfigError::NoPlugin { name },
        }
    }
}

/// Returns the plugins in a directory, by name. In a directory that does not exist, there are none.
fn plugins_in(directory: &Path) -> Result<Vec<NamedPlugin>, ConfigError> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries.flatten(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => {
            return Err(ConfigError::File {
                what: "the plugin directory",
                file: directory.display().to_string(),
                source,
            });
        }
    };
    let plugin = |entry: std::fs::DirEntry| {
        let file = entry.path();
        let name = file.file_stem()?.to_str()?.to_owned();
        // Mounted volumes have hidden links and directories.
        let is_plugin = file.extension().is_some_and(|it| it == "wasm")
            && !name.starts_with('.')
            && file.is_file();
        is_plugin.then_some(NamedPlugin { name, file })
    };

    let mut plugins: Vec<_> = entries.filter_map(plugin).collect();
    plugins.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(plugins)
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

    // The file may be checked elsewhere than on the instance, whose region the keys are for.
    let policy = configuration.egress_policy(plugin);
    let keys = egress::of_instance(&policy, &plugin.name).filter(|_| plugin.name == AWS);
    let region = keys.and_then(|keys| keys.regions.first());

    let source = settings.source(PluginSource {
        default_options: region
            .map(|region| (REGION.to_owned(), region.clone()))
            .into_iter()
            .collect(),
        cluster_name: "kubernetes".to_owned(),
        only_reads: true,
        ..PluginSource::default()
    });
    Ok((source, settings.limits))
}
