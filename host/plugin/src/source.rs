//! Where a plugin comes from: two files, each read once per generation.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use sha2::{Digest as _, Sha256};

use skydock_cloud::Pairs;
use skydock_egress::credentials::split_cloud_conf;

use crate::{answers::IngressRules, error::LoadProblem, grants::Grants, pool::Overlap, text::Cause, way_out::WayOut};

/// Largest component in bytes. Guests that carry a JavaScript or Python engine have 10 to 40 MiB.
const MAX_COMPONENT: u64 = 128 << 20;

/// Largest configuration in bytes: what fits a ConfigMap.
const MAX_CONFIG: u64 = 1 << 20;

/// What to load, as the operator says.
#[derive(Clone, Debug, Default)]
pub struct PluginSource {
    /// What logs and metrics call it. Need not be the name the plugin gives itself.
    pub name: String,
    /// File with the component.
    pub component: PathBuf,
    /// File of `--cloud-config`.
    pub cloud_config: Option<PathBuf>,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// `--cluster-cidr`, one per IP family.
    pub cluster_cidrs: Vec<String>,
    /// Which addresses its load balancers may have.
    pub ingress: IngressRules,
    /// The operator's options for it.
    pub options: Pairs,
    /// SHA-256 that the component must have, in hexadecimal; any, if there is none.
    pub digest: Option<String>,
    /// What it is granted.
    pub grants: Grants,
    /// Which of its calls may run at the same time, whatever it says itself.
    pub overlap: Option<Overlap>,
    /// Its only way out; without one nothing is let out.
    pub way_out: Option<Arc<dyn WayOut>>,
    /// Whether the file of `--cloud-config` is an OpenStack `cloud.conf`, whose secrets are the host's and not the plugin's.
    pub is_cloud_conf: bool,
    /// Whether the cloud is only to be asked, as in a dry run.
    pub only_reads: bool,
}

impl PluginSource {
    /// The files that a plugin is made from.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.component).chain(&self.cloud_config)
    }
}

/// What a plugin is configured with.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// `--cluster-name`.
    pub cluster_name: String,
    /// `--cluster-cidr`, one per IP family.
    pub cluster_cidrs: Vec<String>,
    /// File of `--cloud-config`, if one was given.
    pub cloud_config: Option<CloudConfig>,
    /// The operator's options.
    pub options: Pairs,
}

/// A configuration file. Not `Debug`: operators keep secrets in it.
#[derive(Clone, PartialEq, Eq)]
pub struct CloudConfig {
    /// Where it was read.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// SHA-256 in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// SHA-256 of both files: tells whether there is anything new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digests {
    pub(crate) component: String,
    pub(crate) config: Option<String>,
}

/// Both files as they were at one moment.
pub(crate) struct Files {
    pub(crate) component: Vec<u8>,
    pub(crate) settings: Settings,
    pub(crate) digests: Digests,
}

impl Files {
    /// Reads both files, each once. Blocks.
    pub(crate) fn read(source: &PluginSource) -> Result<Self, LoadProblem> {
        let component = read_limited(&source.component, MAX_COMPONENT)?;
        let mut cloud_config = source.cloud_config.as_deref().map(read_config).transpose()?;
        if let Some(config) = cloud_config.as_mut().filter(|_| source.is_cloud_conf) {
            let split = split_cloud_conf(&config.text);
            let split =
                split.map_err(|error| LoadProblem::CloudConf { path: config.path.clone(), reason: Cause::of(error) });
            (_, config.text) = split?;
        }
        let found = digest(&component);
        if let Some(expected) = source.digest.as_ref().filter(|expected| **expected != found) {
            return Err(LoadProblem::Digest { expected: expected.clone(), found });
        }
        let digests =
            Digests { component: found, config: cloud_config.as_ref().map(|config| digest(config.text.as_bytes())) };
        let settings = Settings {
            cluster_name: source.cluster_name.clone(),
            cluster_cidrs: source.cluster_cidrs.clone(),
            cloud_config,
            options: source.options.clone(),
        };
        Ok(Self { component, settings, digests })
    }
}

fn read_config(path: &Path) -> Result<CloudConfig, LoadProblem> {
    let bytes = read_limited(path, MAX_CONFIG)?;
    let text = String::from_utf8(bytes)
        .map_err(|error| LoadProblem::NotText { path: path.to_owned(), at: error.utf8_error().valid_up_to() })?;
    Ok(CloudConfig { path: path.to_owned(), text })
}

fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, LoadProblem> {
    let mut bytes = Vec::new();
    open(path)
        .and_then(|file| file.take(limit + 1).read_to_end(&mut bytes))
        .map_err(|source| LoadProblem::Read { path: path.to_owned(), source })?;
    if bytes.len() as u64 > limit {
        return Err(LoadProblem::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// Opens a file that can be read again and again. A pipe would be empty the next time, and may keep whoever opens it waiting for ever.
///
/// # Errors
/// If it cannot be opened, or is a directory or a pipe.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
    let file: File = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?.into();
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if metadata.file_type().is_fifo() {
        return Err(io::Error::other(
            "it is a pipe, and has to be a file: it is read again whenever it may have changed",
        ));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds: OPS-70
    #[test]
    fn a_component_may_have_128_mib() {
        let dir = tempfile::tempdir().unwrap();
        let source = PluginSource { component: dir.path().join("plugin.wasm"), ..PluginSource::default() };
        let file = File::create(&source.component).unwrap();
        for (bytes, fits) in [(128 << 20, true), ((128 << 20) + 1, false)] {
            file.set_len(bytes).unwrap();
            assert_eq!(Files::read(&source).is_ok(), fits, "{bytes} bytes");
        }
    }

    // Holds: OPS-105
    #[test]
    fn a_component_must_be_the_one_that_was_named() {
        let dir = tempfile::tempdir().unwrap();
        let component = dir.path().join("plugin.wasm");
        std::fs::write(&component, b"abc").unwrap();
        let source =
            |digest: Option<String>| PluginSource { component: component.clone(), digest, ..PluginSource::default() };
        let known = digest(b"abc");
        assert!(Files::read(&source(None)).is_ok() && Files::read(&source(Some(known.clone()))).is_ok());
        let refused = Files::read(&source(Some(digest(b"abd")))).err();
        assert!(matches!(refused, Some(LoadProblem::Digest { found, .. }) if found == known));
    }

    // Holds: OPS-117
    #[test]
    fn of_a_cloud_conf_the_plugin_gets_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let (component, config) = (dir.path().join("plugin.wasm"), dir.path().join("cloud.conf"));
        std::fs::write(&component, b"abc").unwrap();
        let text = "[Global]\nauth-url=https://k.example/v3\nusername=u\nuser-domain-id=default\ntenant-id=t\npassword=hunter2hunter2\nregion=north\n";
        std::fs::write(&config, text).unwrap();
        let source = PluginSource {
            component,
            cloud_config: Some(config.clone()),
            is_cloud_conf: true,
            ..PluginSource::default()
        };
        let files = Files::read(&source).ok().unwrap();
        let given = files.settings.cloud_config.unwrap().text;
        assert!(given.contains("region") && !given.contains("hunter2"), "{given}");
        std::fs::write(&config, text.replace("hunter2", "changed")).unwrap();
        assert_eq!(
            Files::read(&source).ok().unwrap().digests,
            files.digests,
            "another password is no other configuration"
        );
        std::fs::write(&config, "[LoadBalancer]\npassword=x\n").unwrap();
        assert!(matches!(Files::read(&source), Err(LoadProblem::CloudConf { .. })));
    }

    #[test]
    fn files_are_limited_and_configuration_is_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"abc").unwrap();
        assert_eq!(read_limited(&path, 3).unwrap(), b"abc");
        assert!(matches!(read_limited(&path, 2), Err(LoadProblem::TooLarge { limit: 2, .. })));
        std::fs::write(&path, b"ok \xff").unwrap();
        assert!(matches!(read_config(&path), Err(LoadProblem::NotText { at: 3, .. })));
        assert!(matches!(read_config(&dir.path().join("none")), Err(LoadProblem::Read { .. })));
    }

    #[test]
    fn what_can_be_read_once_is_refused_and_waited_for_by_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        for path in [pipe.as_path(), dir.path()] {
            assert!(matches!(read_config(path), Err(LoadProblem::Read { .. })), "{}", path.display());
        }
        assert_eq!(read_config(Path::new("/dev/null")).unwrap().text, "", "as some have it in their manifests");
    }
}
