//! Writes the kubeconfig of the embedded control plane, readable only by its owner. Files written
//! by anyone else are not changed.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use kube::config::Kubeconfig;

/// Name of the cluster, user and context in a kubeconfig of the embedded control plane.
const OWN_NAME: &str = "devplane";

/// Why the kubeconfig cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// The path is a symbolic link, or not a regular file.
    #[error(
        "{} is not a regular file and was not changed: set another file with --write-kubeconfig", .0.display()
    )]
    NoFile(PathBuf),
    /// The file was written by someone else; it may contain the credentials of a real cluster.
    #[error(
        "{} was not written by `skydock dev` and was not changed: set another file with --write-kubeconfig", .0.display()
    )]
    NotOurs(PathBuf),
    /// Another `skydock dev` has written the file, and still runs.
    #[error(
        "{} belongs to a `skydock dev` that is running: stop that one, or set another file with --write-kubeconfig", .0.display()
    )]
    InUse(PathBuf),
    /// The file cannot be read or written.
    #[error("cannot write the kubeconfig {}", path.display())]
    Io {
        /// Path of the kubeconfig.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
}

/// A kubeconfig that no other run writes while this exists.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Held for its lock, which ends with the process.
    _lock: File,
}

/// Claims the file for this run, and checks it.
pub(crate) fn claim(file: &Path) -> Result<Claim, WriteError> {
    check(file)?;
    let failed = |source| WriteError::Io {
        path: file.to_owned(),
        source,
    };
    fs::create_dir_all(dir_of(file)).map_err(failed)?;

    // The kubeconfig itself is replaced, which would end a lock on it.
    let mut name = file.as_os_str().to_owned();
    name.push(".lock");

    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(name)
        .map_err(failed)?;

    match lock.try_lock() {
        Ok(()) => Ok(Claim { _lock: lock }),
        Err(TryLockError::WouldBlock) => Err(WriteError::InUse(file.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Checks that the file does not exist or was written by an earlier run. Symbolic links are not
/// followed.
fn check(file: &Path) -> Result<(), WriteError> {
    let failed = |source| WriteError::Io {
        path: file.to_owned(),
        source,
    };

    match fs::symlink_metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(found) if !found.is_file() => Err(WriteError::NoFile(file.to_owned())),
        Ok(_) => {
            let bytes = fs::read(file).map_err(failed)?;
            if is_ours(&bytes) {
                Ok(())
            } else {
                Err(WriteError::NotOurs(file.to_owned()))
            }
        }
    }
}

/// Writes a temporary file next to the target and renames it, so that the file is never incomplete
/// and symbolic links are not followed.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), WriteError> {
    let failed = |source| WriteError::Io {
        path: file.to_owned(),
        source,
    };

    let dir = dir_of(file);
    fs::create_dir_all(dir).map_err(failed)?;

    // `NamedTempFile` creates the file with mode 0600.
    let mut aside = tempfile::NamedTempFile::new_in(dir).map_err(failed)?;
    aside.write_all(text.as_bytes()).map_err(failed)?;

    // Again, since someone else may have written it in the meantime.
    check(file)?;
    aside.persist(file).map_err(|error| failed(error.error))?;
    Ok(())
}

fn dir_of(file: &Path) -> &Path {
    file.parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Returns true if the kubeconfig contains only the embedded control plane. kubectl may have added
/// a namespace.
fn is_ours(bytes: &[u8]) -> bool {
    let Some(config) = std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| Kubeconfig::from_yaml(text).ok())
    else {
        return false;
    };
    let clusters = config.clusters.iter().map(|it| it.name.as_str());
    let users = config.auth_infos.iter().map(|it| it.name.as_str());
    let contexts = config.contexts.iter().map(|it| it.name.as_str());

    // An empty kubeconfig has no other names either.
    config.clusters.len() == 1
        && clusters
            .chain(users)
            .chain(contexts)
            .all(|name| name == OWN_NAME)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use k8s_openapi::api::core::v1::Node;
    use kube::{Api, ResourceExt as _};
    use skydock_devplane::{Access, DevPlane, NodeSpec, Options};
    use skydock_kube::clients::{self, ClusterAccess};

    use super::*;

    const OURS: &str = "apiVersion: v1\nkind: Config\nclusters: [{name: devplane, cluster: {server: 'http://127.0.0.1:1'}}]\n\
                        users: [{name: devplane, user: {}}]\ncontexts:\n- {name: devplane, context: {cluster: devplane, \
                        user: devplane, namespace: shop}}\ncurrent-context: devplane\n";

    fn theirs() -> Vec<String> {
        let with_prod = OURS.replace(
            "clusters: [",
            "clusters: [{name: prod, cluster: {server: 'https://prod'}}, ",
        );
        let token = OURS.replace("users: [", "users: [{name: admin, user: {token: secret}}, ");
        vec![
            with_prod,
            token,
            String::new(),
            "notes".to_owned(),
            "apiVersion: v1\nkind: Config\n".to_owned(),
        ]
    }

    #[test]
    fn a_kubeconfig_of_others_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config");
        for text in theirs() {
            fs::write(&file, &text).unwrap();
            let rejected = write(&file, "new").unwrap_err().to_string();
            assert!(rejected.contains("--write-kubeconfig"), "{rejected}");
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
    }

    #[test]
    fn a_symlink_is_neither_followed_nor_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        let link = dir.path().join("link");
        symlink(&target, &link).unwrap();
        assert!(
            matches!(write(&link, "new"), Err(WriteError::NoFile(_))),
            "a link that leads nowhere yet"
        );
        fs::write(&target, OURS).unwrap();
        assert!(matches!(write(&link, "new"), Err(WriteError::NoFile(_))));
        assert_eq!(fs::read_to_string(&target).unwrap(), OURS);
        assert!(matches!(check(dir.path()), Err(WriteError::NoFile(_))));
    }

    #[test]
    fn a_run_does_not_take_the_kubeconfig_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("new/kubeconfig");
        let first = claim(&file).unwrap();
        write(&file, OURS).unwrap();
        let rejected = claim(&file).unwrap_err();
        assert!(matches!(rejected, WriteError::InUse(_)), "{rejected}");
        drop(first);
        claim(&file).unwrap();
    }

    #[test]
    fn the_kubeconfig_is_replaced_and_readable_only_by_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("new/kubeconfig");
        write(&file, OURS).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        write(&file, "second").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "second");
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    #[tokio::test]
    async fn the_kubeconfig_connects_to_the_embedded_plane() {
        let options = Options {
            access: Access::Secure,
            ..Options::default()
        };
        let plane = DevPlane::start(options).await.unwrap();
        plane
            .kubelets()
            .register(NodeSpec::new("node-1", "10.0.0.1".parse().unwrap()))
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kubeconfig");
        write(&file, &plane.kubeconfig()).unwrap();
        check(&file).unwrap();
        let access = clients::load(&ClusterAccess {
            kubeconfig: Some(file),
            master: None,
        })
        .await
        .unwrap();
        let nodes: Api<Node> = Api::all(clients::named(&access, "test").unwrap());
        assert_eq!(nodes.get("node-1").await.unwrap().name_any(), "node-1");
        plane.shutdown().await;
    }
}
