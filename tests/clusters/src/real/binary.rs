//! The binary with all programs of Kubernetes: found in the cache, or built.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use sha2::{Digest, Sha256};
use skydock_support::{copy_folder, debian, last_lines};

use super::go;
use crate::Error;

/// The folder of the control plane's Go module.
const CONTROL_PLANE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/control-plane");
/// The package in the folder of the module.
const HERE: &str = ".";
/// Linker flags for a smaller binary without symbols and debug information.
const STRIPPED: &str = "-s -w";
/// The file with the versions of what a module uses.
const GO_MOD: &str = "go.mod";
/// The environment variable with another minor version of Kubernetes.
const KUBERNETES: &str = "SKYDOCK_KUBERNETES";

/// Returns the path of the control plane's binary, whose first argument is the program (`etcd`,
/// `kube-apiserver`, `kubectl`, …). If the cache does not have it for the current sources, it is
/// built, which takes about ten minutes. Two processes that need it at the same time build it only
/// once.
///
/// With `SKYDOCK_KUBERNETES=1.35`, it is the version of Kubernetes in `go-1.35.mod`.
///
/// The cache is `$SKYDOCK_CACHE`, otherwise `$XDG_CACHE_HOME/skydock`, otherwise
/// `~/.cache/skydock`.
///
/// # Errors
/// Fails if the cache cannot be written, if Go is not available, or if the build fails.
pub async fn control_plane_binary() -> Result<PathBuf, Error> {
    tokio::task::spawn_blocking(|| {
        let minor = std::env::var(KUBERNETES).unwrap_or_default();
        let (go_mod, tags) = kubernetes(&minor);
        let go_mod_path = Path::new(CONTROL_PLANE).join(&go_mod);
        let text = fs::read_to_string(&go_mod_path).map_err(Error::io("read", &go_mod_path))?;
        let version =
            word_after(&text, "k8s.io/kubernetes").ok_or(Error::NoVersion { file: go_mod_path })?;
        let settings = Settings {
            go_mod: &go_mod,
            tags: &tags,
            linker_flags: &linker_flags(version),
        };
        find_or_build(CONTROL_PLANE.as_ref(), HERE, "control-plane", &settings)
    })
    .await
    .map_err(Error::setup("build Kubernetes"))?
}

/// Returns the file with the versions for a minor version of Kubernetes, which is empty for the usual
/// one, and the build tags for it.
fn kubernetes(minor: &str) -> (String, String) {
    if minor.is_empty() {
        return (GO_MOD.to_owned(), String::new());
    }
    (format!("go-{minor}.mod"), format!("kubernetes{minor}"))
}

/// How a module is built.
struct Settings<'a> {
    /// The file in the module with the versions of what it uses.
    go_mod: &'a str,
    tags: &'a str,
    linker_flags: &'a str,
}

impl Settings<'_> {
    const USUAL: Settings<'static> = Settings {
        go_mod: GO_MOD,
        tags: "",
        linker_flags: STRIPPED,
    };
}

/// Returns the path of the program in this folder, which is a Go module, with this name in the
/// cache. It is built and cached like the control plane's binary.
///
/// # Errors
/// See [`control_plane_binary`].
pub async fn go_binary(module: &Path, name: &'static str) -> Result<PathBuf, Error> {
    go_tool(module, HERE, name).await
}

/// Like [`go_binary`], for a package of another module that the go.mod in this folder names as a
/// `tool`. The result is that module's own program in the required version.
///
/// # Errors
/// See [`control_plane_binary`].
pub async fn go_tool(
    module: &Path,
    package: &'static str,
    name: &'static str,
) -> Result<PathBuf, Error> {
    let module = module.to_owned();
    tokio::task::spawn_blocking(move || find_or_build(&module, package, name, &Settings::USUAL))
        .await
        .map_err(Error::setup("build a Go program"))?
}

/// Returns the folder of the cache with the files of another module, in the version that the go.mod
/// in this folder requires.
///
/// # Errors
/// See [`control_plane_binary`].
pub async fn go_module(
    module: &Path,
    wanted: &'static str,
    name: &'static str,
) -> Result<PathBuf, Error> {
    let module = module.to_owned();
    tokio::task::spawn_blocking(move || find_or_copy(&module, wanted, name))
        .await
        .map_err(Error::setup("download a Go module"))?
}

fn find_or_copy(module: &Path, wanted: &str, name: &str) -> Result<PathBuf, Error> {
    let module = fs::canonicalize(module).map_err(Error::io("find", module))?;
    let sources = Sources::read(&module, GO_MOD, wanted)?;
    let cache = cache()?;
    let folder = cache.join(name).join(&sources.digest).join(name);
    made_once(&folder, |partial| {
        let go = go::find(&module, &sources.go, &cache.join("go"))?;
        let downloaded = download(&go, &module, wanted)?;
        copy_folder(&downloaded, partial)
            .map_err(|error| Error::setup("copy a Go module")(format!("{error:#}")))
    })?;
    Ok(folder)
}

/// Returns the folder with the files of a module, in Go's own cache.
fn download(go: &Path, module: &Path, wanted: &str) -> Result<PathBuf, Error> {
    let output = Command::new(go)
        .current_dir(module)
        .args(["mod", "download", "-json", wanted])
        .output()
        .map_err(Error::io("start", go))?;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match answer.get("Dir").and_then(Value::as_str) {
        Some(folder) => Ok(folder.into()),
        None => Err(Error::Build {
            folder: module.to_owned(),
            output: last_lines(&format!(
                "{answer}\n{}",
                String::from_utf8_lossy(&output.stderr)
            )),
        }),
    }
}

fn find_or_build(
    module: &Path,
    package: &str,
    name: &str,
    settings: &Settings<'_>,
) -> Result<PathBuf, Error> {
    let module = fs::canonicalize(module).map_err(Error::io("find", module))?;
    let sources = Sources::read(&module, settings.go_mod, settings.linker_flags)?;
    let cache = cache()?;
    let binary = cache.join(name).join(&sources.digest).join(name);
    made_once(&binary, |partial| {
        let go = go::find(&module, &sources.go, &cache.join("go"))?;
        build(&go, &module, package, settings, partial)
    })?;
    Ok(binary)
}

/// Creates a file or folder in a folder of its own in the cache, unless it exists. It is made under
/// another path and renamed, so that it is always complete. Other processes wait in the meantime.
fn made_once(wanted: &Path, make: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    if wanted.exists() {
        return Ok(());
    }
    let folder = wanted.parent().unwrap_or(wanted);
    fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    // Held until the end of this function. The second process finds everything made.
    let lock_path = folder.join("lock");
    let lock = File::create(&lock_path).map_err(Error::io("create", &lock_path))?;
    lock.lock().map_err(Error::io("lock", &lock_path))?;
    if !wanted.exists() {
        let partial = wanted.with_extension("partial");
        // What an aborted run has left.
        if partial.is_dir() {
            fs::remove_dir_all(&partial).map_err(Error::io("remove", &partial))?;
        }
        make(&partial)?;
        fs::rename(&partial, wanted).map_err(Error::io("rename", &partial))?;
    }
    Ok(())
}

/// Returns the folder of the cache with these packages of Debian and what they need, except the
/// `unneeded` ones, which is filled once. The name changes whenever its content has to.
///
/// # Errors
/// If a package cannot be downloaded or unpacked.
pub(super) fn debian_tools(
    name: &str,
    packages: &[&str],
    unneeded: &[&str],
) -> Result<PathBuf, Error> {
    let folder = cache()?.join(name).join(std::env::consts::ARCH);
    made_once(&folder, |partial| {
        tracing::info!(?packages, "fetching packages of Debian, once");
        debian::unpack(packages, unneeded, partial)
            .map_err(|error| Error::setup("unpack packages of Debian")(format!("{error:#}")))
    })?;
    Ok(folder)
}

/// Returns the folder of the cache.
fn cache() -> Result<PathBuf, Error> {
    cache_root(|name| std::env::var_os(name)).ok_or_else(|| Error::Setup {
        action: "choose a cache folder",
        reason: "set SKYDOCK_CACHE or HOME".to_owned(),
    })
}

fn build(
    go: &Path,
    module: &Path,
    package: &str,
    settings: &Settings<'_>,
    binary: &Path,
) -> Result<(), Error> {
    let started = Instant::now();
    tracing::info!(module = %module.display(), "building with Go; all of Kubernetes takes some ten minutes");
    let output = Command::new(go)
        .current_dir(module)
        .args(["build", "-trimpath", "-ldflags", settings.linker_flags])
        .args(["-modfile", settings.go_mod, "-tags", settings.tags, "-o"])
        .arg(binary)
        .arg(package)
        .env("CGO_ENABLED", "0")
        .output()
        .map_err(Error::io("start", go))?;
    if !output.status.success() {
        let output = last_lines(&String::from_utf8_lossy(&output.stderr));
        return Err(Error::Build {
            folder: module.to_owned(),
            output,
        });
    }
    tracing::info!(seconds = started.elapsed().as_secs(), "built");
    Ok(())
}

/// The inputs of the binary.
struct Sources {
    /// A hash of all files and of the build settings, which determines the path in the cache.
    digest: String,
    /// The minimum version of Go, for example `1.26.0`.
    go: String,
}

impl Sources {
    fn read(module: &Path, go_mod: &str, linker_flags: &str) -> Result<Self, Error> {
        let go_mod_path = module.join(go_mod);
        let sums = go_mod_path.with_extension("sum");
        let mut files: Vec<PathBuf> = fs::read_dir(module)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
            .map_err(Error::io("read", module))?;
        files.retain(|path| {
            path.extension().is_some_and(|end| end == "go") || [&go_mod_path, &sums].contains(&path)
        });
        files.sort();
        let mut hash = Sha256::new();
        for file in &files {
            let content = fs::read(file).map_err(Error::io("read", file))?;
            hash.update(file.file_name().unwrap_or_default().as_encoded_bytes());
            hash.update(content.len().to_le_bytes());
            hash.update(content);
        }
        let go_mod = fs::read_to_string(&go_mod_path).map_err(Error::io("read", &go_mod_path))?;
        hash.update(linker_flags);
        hash.update(std::env::consts::ARCH); // several machines may share a home folder
        Ok(Self {
            digest: hex::encode(hash.finalize()),
            go: word_after(&go_mod, "go").unwrap_or_default().to_owned(),
        })
    }
}

/// Returns the word after `name` in the line of a go.mod that starts with it.
fn word_after<'a>(go_mod: &'a str, name: &str) -> Option<&'a str> {
    go_mod
        .lines()
        .map(str::split_whitespace)
        .find_map(|mut words| {
            if words.next() == Some(name) {
                words.next()
            } else {
                None
            }
        })
}

/// Returns flags for a small binary that knows its version. Without them, the API server reports
/// v0.0.0.
fn linker_flags(kubernetes: &str) -> String {
    let mut numbers = kubernetes.trim_start_matches('v').split('.');
    let major = numbers.next().unwrap_or_default();
    let minor = numbers.next().unwrap_or_default();
    let base = "-X k8s.io/component-base/version";
    format!(
        "{STRIPPED} {base}.gitVersion={kubernetes} {base}.gitMajor={major} {base}.gitMinor={minor} \
         -X k8s.io/client-go/pkg/version.gitVersion={kubernetes}"
    )
}

fn cache_root(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("SKYDOCK_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|folder| folder.join("skydock")))
        .or_else(|| set("HOME").map(|folder| folder.join(".cache/skydock")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(variables: &[(&str, &str)]) -> Option<PathBuf> {
        cache_root(|name| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_cache_directory_comes_from_the_environment() {
        let all = [
            ("SKYDOCK_CACHE", "/s"),
            ("XDG_CACHE_HOME", "/x"),
            ("HOME", "/h"),
        ];
        assert_eq!(root(&all), Some("/s".into()));
        assert_eq!(root(&all[1..]), Some("/x/skydock".into()));
        assert_eq!(root(&all[2..]), Some("/h/.cache/skydock".into()));
        assert_eq!(
            root(&[("SKYDOCK_CACHE", ""), ("HOME", "/h")]),
            Some("/h/.cache/skydock".into())
        );
        assert_eq!(root(&[]), None);
    }

    #[test]
    fn versions_are_read_from_go_mod() {
        let go_mod = "module x\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/kubectl v0.1.0\n\tk8s.io/kubernetes v1.36.3\n)\n";
        assert_eq!(word_after(go_mod, "k8s.io/kubernetes"), Some("v1.36.3"));
        assert_eq!(word_after(go_mod, "go"), Some("1.26.0"));
        assert_eq!(word_after(go_mod, "k8s.io/kubelet"), None);
    }

    #[test]
    fn the_documentation_names_the_versions_that_are_tested() {
        let minor = |name: &str| {
            let go_mod = fs::read_to_string(Path::new(CONTROL_PLANE).join(name)).unwrap();
            let version = word_after(&go_mod, "k8s.io/kubernetes").unwrap();
            version[1..].rsplit_once('.').unwrap().0.to_owned()
        };
        let [newest, other] = [kubernetes("").0, kubernetes("1.35").0].map(|name| minor(&name));
        assert_eq!(other, "1.35");
        let page = include_str!("../../../../docs/operating.md");
        let sentence =
            format!("tested with Kubernetes {newest}, and the most important parts with {other}.");
        assert!(page.contains(&sentence), "{sentence}");
    }

    #[test]
    fn another_version_of_kubernetes_has_its_own_tag() {
        let expected = ("go-1.35.mod".to_owned(), "kubernetes1.35".to_owned());
        assert_eq!(kubernetes("1.35"), expected);
        assert_eq!(kubernetes(""), (GO_MOD.to_owned(), String::new()));
    }

    #[test]
    fn linker_flags_set_the_version() {
        let flags = linker_flags("v1.36.3");
        assert!(
            flags.contains("version.gitMajor=1 ") && flags.contains("version.gitMinor=36 "),
            "{flags}"
        );
        assert!(
            flags.contains("client-go/pkg/version.gitVersion=v1.36.3"),
            "{flags}"
        );
    }

    #[test]
    fn any_source_change_gives_another_binary() {
        let module = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(module.path().join(name), text).unwrap();
        write(
            "go.mod",
            "go 1.26.0\nrequire (\nk8s.io/kubernetes v1.36.3\n)\n",
        );
        write("main.go", "package main");
        let first = Sources::read(module.path(), GO_MOD, "-s").unwrap().digest;
        write("README.md", "not a source");
        write("go-1.35.mod", "of another build");
        assert_eq!(
            Sources::read(module.path(), GO_MOD, "-s").unwrap().digest,
            first
        );
        write("main.go", "package main // changed");
        assert_ne!(
            Sources::read(module.path(), GO_MOD, "-s").unwrap().digest,
            first
        );
    }

    #[test]
    fn other_linker_flags_give_another_binary() {
        let module = tempfile::tempdir().unwrap();
        fs::write(module.path().join("go.mod"), "go 1.26.0\n").unwrap();
        let digest = |flags| Sources::read(module.path(), GO_MOD, flags).unwrap().digest;
        assert_ne!(digest("-s"), digest("-s -w"));
    }
}
