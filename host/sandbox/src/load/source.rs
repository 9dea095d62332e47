//! The two files of a plugin, component and configuration, each read once for a generation.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use sha2::{Digest as _, Sha256};
use skydock_credentials::{config::DigestPin, has_global, split_cloud_conf};
use skydock_resources::files::open;

use skydock_cloud::Pairs;
use skydock_secrets::in_configuration;

use crate::{
    answers::{AddressRules, overlap::Overlap},
    grants::{gateway_provider::GatewayProvider, permissions::Permissions},
    load::{error::LoadProblem, redact::Redactor},
    words::text::{Cause, Quoted},
};

/// Maximum bytes of a component. Guests that contain a JavaScript or Python engine have 10 to 40
/// MiB.
pub(crate) const MAX_COMPONENT: u64 = 128 << 20;

/// Maximum bytes of a configuration: the limit of a ConfigMap.
const MAX_CONFIG: u64 = 1 << 20;

/// The plugin to load, as configured by the operator.
#[derive(Clone, Debug, Default)]
pub struct PluginSource {
    /// Name in logs and metrics. It may differ from the plugin's own name.
    pub name: String,
    /// File with the component.
    pub component: PathBuf,
    /// File of `--cloud-config`.
    pub cloud_config: Option<PathBuf>,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// `--cluster-cidr`, one for each IP family.
    pub cluster_cidrs: Vec<String>,
    /// Rules for the addresses of its load balancers.
    pub ingress: AddressRules,
    /// The operator's options for the plugin.
    pub options: Pairs,
    /// Options that apply if neither `options` nor the section `[Global]` of the file has them.
    pub default_options: Pairs,
    /// SHA-256 that the component must have. By default any.
    pub digest: DigestPin,
    /// What the operator permits it. By default nothing.
    pub permissions: Permissions,
    /// Which of its calls may run at the same time; overrides the plugin's own setting.
    pub overlap: Option<Overlap>,
    /// Source of its gateway; without one, no request is allowed.
    pub gateways: Option<Arc<dyn GatewayProvider>>,
    /// What happens to secrets in its configuration.
    pub secrets: ConfigSecrets,
    /// Whether requests to the cloud may only read, as in a dry run.
    pub only_reads: bool,
    /// Whether the last good build may serve while the component cannot be loaded.
    pub last_good: bool,
}

/// What happens to secrets in the file of `--cloud-config` and in the options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfigSecrets {
    /// The configuration is rejected.
    #[default]
    Rejected,
    /// The file is an OpenStack `cloud.conf`: those of its login are kept in the host, and not
    /// passed to the plugin; others are rejected.
    Kept,
    /// The operator lets the plugin have them.
    Passed,
}

impl PluginSource {
    /// Returns the files of the plugin.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.component).chain(&self.cloud_config)
    }
}

/// Configuration of a plugin. Not `Debug`, because operators may keep secrets in it.
#[derive(Clone)]
pub struct Settings {
    /// `--cluster-name`.
    pub cluster_name: String,
    /// `--cluster-cidr`, one for each IP family.
    pub cluster_cidrs: Vec<String>,
    /// File of `--cloud-config`, if one is set.
    pub cloud_config: Option<CloudConfig>,
    /// The operator's options.
    pub options: Pairs,
    redactor: Redactor,
}

/// What is redacted follows from the rest.
impl PartialEq for Settings {
    fn eq(&self, other: &Self) -> bool {
        self.cluster_name == other.cluster_name
            && self.cluster_cidrs == other.cluster_cidrs
            && self.cloud_config == other.cloud_config
            && self.options == other.options
    }
}

impl Settings {
    /// Creates a configuration for a cluster with this name and these Pod networks.
    #[must_use]
    pub fn new(
        cluster_name: String,
        cluster_cidrs: Vec<String>,
        cloud_config: Option<CloudConfig>,
        options: Pairs,
    ) -> Self {
        let config = cloud_config.as_ref();
        let path = config.map(|it| it.path.display().to_string());
        let text = config.map(CloudConfig::text).unwrap_or_default();
        let redactor = Redactor::new(path.unwrap_or_default(), text, &options);

        Self {
            cluster_name,
            cluster_cidrs,
            cloud_config,
            options,
            redactor,
        }
    }

    /// Returns the SHA-256 of everything that the plugin receives, in hexadecimal.
    pub(crate) fn digest(&self) -> String {
        let text = self.cloud_config.as_ref().map(CloudConfig::text);
        let all = (&self.cluster_name, &self.cluster_cidrs, text, &self.options);
        // Quoted, so that different values have different texts.
        digest(format!("{all:?}").as_bytes())
    }

    /// Returns the plugin's text without secrets, and without values of the configuration.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.redactor.redact(text)
    }

    /// Returns the plugin's text without secrets. An event, or an error of a call, is of no use without
    /// the names and IDs that it is about.
    pub(crate) fn redact_secrets(&self, text: &str) -> String {
        self.redactor.redact_secrets(text)
    }
}

/// A configuration file. Not `Debug`, because operators may keep secrets in it.
#[derive(Clone, PartialEq, Eq)]
pub struct CloudConfig {
    path: PathBuf,
    text: String,
}

impl CloudConfig {
    /// Returns a file with this path and these contents.
    #[must_use]
    pub fn new(path: PathBuf, text: String) -> Self {
        Self { path, text }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the contents of the file.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Returns the SHA-256 in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// SHA-256 of the component, and of the configuration as the plugin receives it: they show whether
/// anything has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digests {
    pub(crate) component: String,
    pub(crate) config: Option<String>,
}

/// Both files as they were read.
pub(crate) struct Files {
    pub(crate) component: Vec<u8>,
    pub(crate) settings: Settings,
    pub(crate) digests: Digests,
    /// How long it took to read them.
    pub(crate) took: Duration,
}

impl Files {
    /// Reads both files, each once. Blocks.
    pub(crate) fn read(source: &PluginSource) -> Result<Self, LoadProblem> {
        let started = Instant::now();
        let component = read_component(&source.component)?;
        let cloud_config = source.cloud_config.as_deref();
        let cloud_config = cloud_config
            .map(|path| read_config(path, source.secrets))
            .transpose()?;

        if source.secrets != ConfigSecrets::Passed {
            options_without_secrets(&source.options)?;
        }

        let found = digest(&component);
        if !source.digest.admits(&found) {
            return Err(LoadProblem::Digest {
                expected: source.digest.to_string(),
                found,
            });
        }

        let digests = Digests {
            component: found,
            config: cloud_config
                .as_ref()
                .map(|config| digest(config.text.as_bytes())),
        };

        let text = cloud_config.as_ref().map(CloudConfig::text);
        let options = with_defaults(source, text.unwrap_or_default());
        let settings = Settings::new(
            source.cluster_name.clone(),
            source.cluster_cidrs.clone(),
            cloud_config,
            options,
        );

        Ok(Self {
            component,
            settings,
            digests,
            took: started.elapsed(),
        })
    }
}

/// Reads a component. Blocks.
///
/// # Errors
/// If it cannot be read, or is too large.
pub(crate) fn read_component(path: &Path) -> Result<Vec<u8>, LoadProblem> {
    read_limited(path, MAX_COMPONENT)
}

/// Reads the configuration as the plugin receives it.
fn read_config(path: &Path, secrets: ConfigSecrets) -> Result<CloudConfig, LoadProblem> {
    let bytes = read_limited(path, MAX_CONFIG)?;
    let text = String::from_utf8(bytes).map_err(|error| LoadProblem::NotText {
        path: path.to_owned(),
        at: error.utf8_error().valid_up_to(),
    })?;

    let text = match secrets {
        ConfigSecrets::Kept => split_cloud_conf(&text)
            .map(|(_, rest)| rest)
            .map_err(|error| LoadProblem::CloudConf {
                path: path.to_owned(),
                reason: Cause::of(error),
            })?,
        ConfigSecrets::Rejected => match in_configuration(&text) {
            Some(finding) => {
                return Err(LoadProblem::ConfigSecret {
                    path: path.to_owned(),
                    finding: Cause::of(finding),
                });
            }
            None => text,
        },
        ConfigSecrets::Passed => text,
    };

    Ok(CloudConfig::new(path.to_owned(), text))
}

/// Returns the operator's options, and the defaults of those that neither they nor the file has.
fn with_defaults(source: &PluginSource, text: &str) -> Pairs {
    let given = &source.options;
    let is_given = |name: &str| given.keys().any(|key| key.eq_ignore_ascii_case(name));

    let mut options = given.clone();
    for (name, value) in &source.default_options {
        if !is_given(name) && !has_global(text, name) {
            options.insert(name.clone(), value.clone());
        }
    }
    options
}

fn options_without_secrets(options: &Pairs) -> Result<(), LoadProblem> {
    let is_secret = |(name, value): &(&String, &String)| {
        in_configuration(&format!("{name} = {value}")).is_some()
    };

    match options.iter().find(is_secret) {
        Some((name, _)) => Err(LoadProblem::OptionSecret(Quoted::new(name))),
        None => Ok(()),
    }
}

fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, LoadProblem> {
    let mut bytes = Vec::new();

    // One byte more than allowed shows that the file is too large.
    open(path)
        .and_then(|file| file.take(limit + 1).read_to_end(&mut bytes))
        .map_err(|source| LoadProblem::Read {
            path: path.to_owned(),
            source,
        })?;

    if bytes.len() as u64 > limit {
        return Err(LoadProblem::TooLarge {
            path: path.to_owned(),
            limit,
        });
    }

    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_component_of_up_to_128_mib_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let source = PluginSource {
            component: dir.path().join("plugin.wasm"),
            ..PluginSource::default()
        };
        let file = File::create(&source.component).unwrap();
        for (bytes, fits) in [(128 << 20, true), ((128 << 20) + 1, false)] {
            file.set_len(bytes).unwrap();
            assert_eq!(Files::read(&source).is_ok(), fits, "{bytes} bytes");
        }
    }

    #[test]
    fn a_component_must_match_the_configured_digest() {
        let dir = tempfile::tempdir().unwrap();
        let component = dir.path().join("plugin.wasm");
        std::fs::write(&component, b"abc").unwrap();
        let source = |digest: DigestPin| PluginSource {
            component: component.clone(),
            digest,
            ..PluginSource::default()
        };
        let (known, other) = (digest(b"abc"), digest(b"abd"));
        for pin in [
            DigestPin::Any,
            DigestPin::Sha256(vec![known.clone()]),
            DigestPin::Sha256(vec![other.clone(), known.clone()]),
        ] {
            assert!(Files::read(&source(pin.clone())).is_ok(), "{pin}");
        }
        let rejected = Files::read(&source(DigestPin::Sha256(vec![other]))).err();

        assert!(matches!(rejected, Some(LoadProblem::Digest { found, .. }) if found == known));
    }

    #[test]
    fn secrets_of_a_cloud_conf_do_not_reach_the_plugin() {
        let dir = tempfile::tempdir().unwrap();
        let (component, config) = (
            dir.path().join("plugin.wasm"),
            dir.path().join("cloud.conf"),
        );
        std::fs::write(&component, b"abc").unwrap();
        let text = "[Global]\nauth-url=https://k.example/v3\nusername=u\nuser-domain-id=default\ntenant-id=t\npassword=hunter2hunter2\nregion=north\n";
        std::fs::write(&config, text).unwrap();
        let source = PluginSource {
            component,
            cloud_config: Some(config.clone()),
            secrets: ConfigSecrets::Kept,
            ..PluginSource::default()
        };
        let files = Files::read(&source).ok().unwrap();
        let given = files.settings.cloud_config.unwrap().text;
        assert!(
            given.contains("region") && !given.contains("hunter2"),
            "{given}"
        );

        std::fs::write(&config, text.replace("hunter2", "changed")).unwrap();
        assert_eq!(
            Files::read(&source).ok().unwrap().digests,
            files.digests,
            "another password is no other configuration"
        );

        // The secrets are not passed to the plugin either if no credential uses them: the file is
        // rejected.
        let nobodys = PluginSource {
            secrets: ConfigSecrets::Rejected,
            ..source.clone()
        };
        let rejected = Files::read(&nobodys).err().unwrap().to_string();
        assert!(
            rejected.contains("cloud.conf: line 6: `password` is a secret")
                && !rejected.contains("changed"),
            "{rejected}"
        );

        std::fs::write(&config, text.replace("password=hunter2hunter2\n", "")).unwrap();
        assert!(Files::read(&nobodys).is_ok());
        std::fs::write(&config, "[LoadBalancer]\npassword=x\n").unwrap();
        assert!(matches!(
            Files::read(&source),
            Err(LoadProblem::CloudConf { .. })
        ));
    }

    // Holds: SEC-50
    #[test]
    fn a_secret_in_any_format_is_rejected_unless_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let (component, config) = (dir.path().join("plugin.wasm"), dir.path().join("cloud"));
        std::fs::write(&component, b"abc").unwrap();
        for text in [
            "global:\n  user: admin\n  password: S3cr3t-of-vcenter\n",
            "client_secret = \"S3cr3t-of-azure\"",
            "{\"aadClientId\": \"id\", \"aadClientSecret\": \"S3cr3t\"}",
            "[VirtualCenter \"10.0.0.1\"]\nport 443\npassword=S3cr3t\n",
            "[Global]\nusername = ccm ; old password: S3cr3t2\n",
        ] {
            std::fs::write(&config, text).unwrap();
            let source = PluginSource {
                component: component.clone(),
                cloud_config: Some(config.clone()),
                ..PluginSource::default()
            };
            let error = Files::read(&source).err().unwrap().to_string();
            assert!(
                error.contains("cloudConfigSecrets: allowed") && !error.contains("S3cr3t"),
                "{error}"
            );
            let allowed = PluginSource {
                secrets: ConfigSecrets::Passed,
                ..source
            };
            let given = Files::read(&allowed).ok().unwrap().settings;
            assert_eq!(given.cloud_config.unwrap().text, text);
        }
    }

    // Holds: SEC-50
    #[test]
    fn a_secret_in_an_option_is_rejected_unless_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let component = dir.path().join("plugin.wasm");
        std::fs::write(&component, b"abc").unwrap();
        let source = |name: &str, value: &str, secrets| PluginSource {
            component: component.clone(),
            options: [(name.to_owned(), value.to_owned())].into(),
            secrets,
            ..PluginSource::default()
        };
        for (name, value) in [
            ("api-token", "hunter2"),
            ("endpoint", "https://me:hunter2@h"),
        ] {
            let error = Files::read(&source(name, value, ConfigSecrets::Rejected)).err();
            let error = error.unwrap().to_string();
            assert!(
                error.contains(&format!("option `{name}`")) && !error.contains("hunter2"),
                "{error}"
            );
            assert!(Files::read(&source(name, value, ConfigSecrets::Passed)).is_ok());
        }

        assert!(Files::read(&source("region", "north", ConfigSecrets::Rejected)).is_ok());
    }

    #[test]
    fn a_default_option_applies_if_nothing_else_sets_it() {
        let pairs = |name: &str, value: &str| Pairs::from([(name.to_owned(), value.to_owned())]);
        for (options, text, expected) in [
            (Pairs::new(), "", pairs("region", "found")),
            (
                Pairs::new(),
                "[Global]\nVPC = v\n",
                pairs("region", "found"),
            ),
            (Pairs::new(), "[Global]\nRegion = r\n", Pairs::new()),
            (pairs("Region", "r"), "", pairs("Region", "r")),
        ] {
            let source = PluginSource {
                options,
                default_options: pairs("region", "found"),
                ..PluginSource::default()
            };
            assert_eq!(with_defaults(&source, text), expected, "{text}");
        }
    }

    #[test]
    fn file_size_is_limited_and_configuration_must_be_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"abc").unwrap();
        assert_eq!(read_limited(&path, 3).unwrap(), b"abc");

        std::fs::write(&path, vec![b' '; 1025]).unwrap();
        let error = read_limited(&path, 1 << 10).unwrap_err().to_string();
        assert_eq!(error, format!("{} is larger than 1Ki", path.display()));
        std::fs::write(&path, b"ok \xff").unwrap();
        assert!(matches!(
            read_config(&path, ConfigSecrets::Rejected),
            Err(LoadProblem::NotText { at: 3, .. })
        ));
        assert!(matches!(
            read_config(&dir.path().join("none"), ConfigSecrets::Rejected),
            Err(LoadProblem::Read { .. })
        ));
    }

    #[test]
    fn pipes_and_directories_are_rejected_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        for path in [pipe.as_path(), dir.path()] {
            assert!(
                matches!(
                    read_config(path, ConfigSecrets::Rejected),
                    Err(LoadProblem::Read { .. })
                ),
                "{}",
                path.display()
            );
        }

        assert_eq!(
            read_config(Path::new("/dev/null"), ConfigSecrets::Rejected)
                .unwrap()
                .text,
            "",
            "as some have it in their manifests"
        );
    }
}
