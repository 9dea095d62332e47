//! MariaDB from Debian's packages, unpacked into the cache.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::chore;
use crate::{Error, cache};

/// The package with the server and its initial tables.
const SERVER: &str = "mariadb-server-core";
/// Dependencies that are not required: MariaDB's configuration, which is not read.
const UNNEEDED: [&str; 1] = ["mariadb-common"];
/// Changes whenever the way of unpacking changes.
const REVISION: &str = "mariadb-1";

/// Returns the folder that contains `usr/sbin/mariadbd`: a folder in the cache, or `/` if MariaDB
/// is installed and apt is missing.
pub(crate) fn mariadb() -> Result<PathBuf, Error> {
    let apt = Command::new("apt-get")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success());
    if !apt {
        if Path::new("/usr/sbin/mariadbd").exists() {
            return Ok(PathBuf::from("/"));
        }
        let hint =
            "neither apt-get, to fetch it, nor /usr/sbin/mariadbd is there; install mariadb-server"
                .to_owned();
        return Err(Error::Missing {
            what: "MariaDB",
            hint,
        });
    }
    cache::made_once(&cache::folder()?.join(REVISION), |folder| {
        tracing::info!("fetching MariaDB, once");
        let apt = Apt::new(folder)?;
        let mut wanted = vec![SERVER.to_owned()];
        let mut seen = BTreeSet::new();
        while let Some(package) = wanted.pop() {
            if !seen.insert(package.clone()) {
                continue;
            }
            let file = apt.download(&package)?;
            chore(
                "unpacking",
                Command::new("dpkg-deb").arg("-x").arg(&file).arg(folder),
            )?;
            let depends = chore(
                "reading a package",
                Command::new("dpkg-deb").arg("-f").arg(&file).arg("Depends"),
            )?;
            wanted.extend(
                dependencies(&depends)
                    .filter(|name| !UNNEEDED.contains(name) && !installed(name))
                    .map(str::to_owned),
            );
        }
        cache::remove(&apt.folder)
    })
}

/// Returns the first alternative of each dependency, for example `libc6` for `libc6 (>= 2.34),
/// libaio1t64 | libaio1`.
fn dependencies(line: &str) -> impl Iterator<Item = &str> {
    line.split(',')
        .filter_map(|one| one.split(['|', '(', ':']).next())
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

fn installed(package: &str) -> bool {
    let status = Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Abbrev}", package])
        .output();
    status.is_ok_and(|output| output.stdout.starts_with(b"ii"))
}

/// Runs apt so that it writes only below this folder, which does not require root permissions.
struct Apt {
    folder: PathBuf,
    options: Vec<String>,
}

impl Apt {
    fn new(parent: &Path) -> Result<Self, Error> {
        let folder = parent.join("apt");
        fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
        Ok(Self {
            folder,
            options: vec!["-o".to_owned(), "APT::Sandbox::User=".to_owned()],
        })
    }

    fn command(&self, options: &[String]) -> Command {
        let mut command = Command::new("apt-get");
        command
            .current_dir(&self.folder)
            .args(&self.options)
            .args(options);
        command
    }

    /// Downloads a package with the package lists of the system, or with separate lists if those
    /// are missing or outdated.
    fn download(&self, package: &str) -> Result<PathBuf, Error> {
        let folder = tempfile::tempdir_in(&self.folder)
            .map_err(Error::io("create a folder in", &self.folder))?;
        let name = "downloading MariaDB";
        let first = chore(
            name,
            self.command(&[])
                .args(["download", package])
                .current_dir(folder.path()),
        );
        if first.is_err() {
            let lists = self.folder.join("lists");
            let own = vec![
                "-o".to_owned(),
                format!("Dir::State::lists={}", lists.display()),
                "-o".to_owned(),
                format!("Dir::Cache={}", self.folder.join("cache").display()),
            ];
            for folder in [
                lists.join("partial"),
                self.folder.join("cache/archives/partial"),
            ] {
                fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
            }
            if fs::read_dir(&lists).is_ok_and(|entries| entries.count() < 2) {
                chore("apt-get update", self.command(&own).arg("update"))?;
            }
            chore(
                name,
                self.command(&own)
                    .args(["download", package])
                    .current_dir(folder.path()),
            )?;
        }
        let folder = folder.keep();
        let files = cache::files(&folder, &["deb"])?;
        files.into_iter().next().ok_or_else(|| Error::Setup {
            action: format!("download {package}"),
            reason: "apt-get has left no file".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_alternative_of_each_dependency_is_used() {
        let line = "mariadb-common (>= 1:10.11), libaio1t64 (>= 0.3) | libaio1, libc6 (>= 2.34), perl:any\n";
        assert_eq!(
            dependencies(line).collect::<Vec<_>>(),
            ["mariadb-common", "libaio1t64", "libc6", "perl"]
        );
        assert_eq!(dependencies("\n").count(), 0);
    }
}
