//! The one binary that holds all of Kubernetes: found in the cache, or built into it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use sha2::{Digest, Sha256};

use super::go;
use super::process::last_lines;
use crate::Error;

/// Where the Go module of the control plane is.
const CONTROL_PLANE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../control-plane");
/// The package in the folder itself.
const HERE: &str = ".";
/// A smaller binary: no symbols, no debug information.
const STRIPPED: &str = "-s -w";

/// The path of the control plane's binary (`etcd`, `kube-apiserver`, `kubectl` … by its first argument). It is built
/// when the cache has none for the present sources, which takes some ten minutes; two processes that want it at
/// once build it once.
///
/// The cache is `$SKYDOCK_CACHE`, else `$XDG_CACHE_HOME/skydock`, else `~/.cache/skydock`.
///
/// # Errors
/// When the cache cannot be written, no Go is to be had, or the build fails.
pub async fn control_plane_binary() -> Result<PathBuf, Error> {
    tokio::task::spawn_blocking(|| {
        let go_mod_path = Path::new(CONTROL_PLANE).join("go.mod");
        let go_mod = fs::read_to_string(&go_mod_path).map_err(Error::io("read", &go_mod_path))?;
        let version = word_after(&go_mod, "k8s.io/kubernetes").ok_or(Error::NoVersion { file: go_mod_path })?;
        find_or_build(CONTROL_PLANE.as_ref(), HERE, "control-plane", &linker_flags(version))
    })
    .await
    .map_err(Error::setup("build Kubernetes"))?
}

/// The path of the program in this folder, a Go module, under this name in the cache. Built and kept as the control
/// plane's binary is.
///
/// # Errors
/// As [`control_plane_binary`].
pub async fn go_binary(module: &Path, name: &'static str) -> Result<PathBuf, Error> {
    go_tool(module, HERE, name).await
}

/// As [`go_binary`], of a package of another module, which the go.mod in this folder names as a `tool`: that module's own
/// program, in the version that is required there.
///
/// # Errors
/// As [`control_plane_binary`].
pub async fn go_tool(module: &Path, package: &'static str, name: &'static str) -> Result<PathBuf, Error> {
    let module = module.to_owned();
    tokio::task::spawn_blocking(move || find_or_build(&module, package, name, STRIPPED))
        .await
        .map_err(Error::setup("build a Go program"))?
}

fn find_or_build(module: &Path, package: &str, name: &str, linker_flags: &str) -> Result<PathBuf, Error> {
    let module = fs::canonicalize(module).map_err(Error::io("find", module))?;
    let sources = Sources::read(&module, linker_flags)?;
    let cache = cache_root(|name| std::env::var_os(name)).ok_or_else(|| Error::Setup {
        action: "choose a cache folder",
        reason: "set SKYDOCK_CACHE or HOME".to_owned(),
    })?;
    let folder = cache.join(name).join(&sources.digest);
    let binary = folder.join(name);
    if binary.exists() {
        return Ok(binary);
    }
    fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
    // Held until the end of this function; the second to come finds the work done.
    let lock_path = folder.join("lock");
    let lock = File::create(&lock_path).map_err(Error::io("create", &lock_path))?;
    lock.lock().map_err(Error::io("lock", &lock_path))?;
    if !binary.exists() {
        let go = go::find(&module, &sources.go, &cache.join("go"))?;
        build(&go, &module, package, linker_flags, &binary)?;
    }
    Ok(binary)
}

/// Builds beside the final place and renames, so that a binary that exists is whole.
fn build(go: &Path, module: &Path, package: &str, linker_flags: &str, binary: &Path) -> Result<(), Error> {
    let partial = binary.with_extension("partial");
    let started = Instant::now();
    tracing::info!(module = %module.display(), "building with Go; all of Kubernetes takes some ten minutes");
    let output = Command::new(go)
        .current_dir(module)
        .args(["build", "-trimpath", "-ldflags", linker_flags, "-o"])
        .arg(&partial)
        .arg(package)
        .env("CGO_ENABLED", "0")
        .output()
        .map_err(Error::io("start", go))?;
    if !output.status.success() {
        let output = last_lines(&String::from_utf8_lossy(&output.stderr));
        return Err(Error::Build { folder: module.to_owned(), output });
    }
    fs::rename(&partial, binary).map_err(Error::io("rename", &partial))?;
    tracing::info!(seconds = started.elapsed().as_secs(), "built");
    Ok(())
}

/// What the binary is made of.
struct Sources {
    /// Of every file, and of how they are built: the binary's place in the cache.
    digest: String,
    /// The least version of Go, such as `1.26.0`.
    go: String,
}

impl Sources {
    fn read(module: &Path, linker_flags: &str) -> Result<Self, Error> {
        let mut files: Vec<PathBuf> = fs::read_dir(module)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
            .map_err(Error::io("read", module))?;
        files.retain(|path| path.extension().is_some_and(|end| end == "go" || end == "mod" || end == "sum"));
        files.sort();
        let mut hash = Sha256::new();
        for file in &files {
            let content = fs::read(file).map_err(Error::io("read", file))?;
            hash.update(file.file_name().unwrap_or_default().as_encoded_bytes());
            hash.update(content.len().to_le_bytes());
            hash.update(content);
        }
        let go_mod_path = module.join("go.mod");
        let go_mod = fs::read_to_string(&go_mod_path).map_err(Error::io("read", &go_mod_path))?;
        hash.update(linker_flags);
        hash.update(std::env::consts::ARCH); // a home folder may be shared by machines
        Ok(Self { digest: hex::encode(hash.finalize()), go: word_after(&go_mod, "go").unwrap_or_default().to_owned() })
    }
}

/// The word after `name` in the line of a go.mod that starts with it.
fn word_after<'a>(go_mod: &'a str, name: &str) -> Option<&'a str> {
    go_mod.lines().map(str::split_whitespace).find_map(
        |mut words| {
            if words.next() == Some(name) { words.next() } else { None }
        },
    )
}

/// Small, and telling its version: without these the API server calls itself v0.0.0.
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
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("SKYDOCK_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|folder| folder.join("skydock")))
        .or_else(|| set("HOME").map(|folder| folder.join(".cache/skydock")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(variables: &[(&str, &str)]) -> Option<PathBuf> {
        cache_root(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn the_cache_is_where_the_user_says_else_where_caches_are_kept() {
        let all = [("SKYDOCK_CACHE", "/s"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(root(&all), Some("/s".into()));
        assert_eq!(root(&all[1..]), Some("/x/skydock".into()));
        assert_eq!(root(&all[2..]), Some("/h/.cache/skydock".into()));
        assert_eq!(root(&[("SKYDOCK_CACHE", ""), ("HOME", "/h")]), Some("/h/.cache/skydock".into()));
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
    fn the_binary_tells_its_version() {
        let flags = linker_flags("v1.36.3");
        assert!(flags.contains("version.gitMajor=1 ") && flags.contains("version.gitMinor=36 "), "{flags}");
        assert!(flags.contains("client-go/pkg/version.gitVersion=v1.36.3"), "{flags}");
    }

    #[test]
    fn any_change_to_a_source_file_is_another_binary() {
        let module = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(module.path().join(name), text).unwrap();
        write("go.mod", "go 1.26.0\nrequire (\nk8s.io/kubernetes v1.36.3\n)\n");
        write("main.go", "package main");
        let first = Sources::read(module.path(), "-s").unwrap().digest;
        write("README.md", "not a source");
        assert_eq!(Sources::read(module.path(), "-s").unwrap().digest, first);
        write("main.go", "package main // changed");
        assert_ne!(Sources::read(module.path(), "-s").unwrap().digest, first);
    }

    #[test]
    fn other_linker_flags_are_another_binary() {
        let module = tempfile::tempdir().unwrap();
        fs::write(module.path().join("go.mod"), "go 1.26.0\n").unwrap();
        let digest = |flags| Sources::read(module.path(), flags).unwrap().digest;
        assert_ne!(digest("-s"), digest("-s -w"));
    }
}
