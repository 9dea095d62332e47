//! Programs from Debian's packages, unpacked into a folder, which does not require root permissions.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::last_lines;

/// Downloads these packages, and those that they need and that are not installed, except the
/// `unneeded` ones, and unpacks them into a folder.
///
/// # Errors
/// If a package cannot be downloaded, for example because this is neither Debian nor Ubuntu.
pub fn unpack(wanted: &[&str], unneeded: &[&str], folder: &Path) -> Result<()> {
    let apt = Apt::new(folder)?;
    let mut wanted: Vec<_> = wanted.iter().map(|&name| name.to_owned()).collect();
    let mut seen = BTreeSet::new();
    while let Some(package) = wanted.pop() {
        if !seen.insert(package.clone()) {
            continue;
        }
        let file = apt.download(&package)?;
        run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(folder))?;
        let depends = run(Command::new("dpkg-deb").arg("-f").arg(&file).arg("Depends"))?;
        let needed = dependencies(&depends);
        let missing = needed.filter(|name| !unneeded.contains(name) && !installed(name));
        wanted.extend(missing.map(str::to_owned));
    }
    fs::remove_dir_all(&apt.folder).with_context(|| format!("remove {}", apt.folder.display()))
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

/// Runs a command. Its output is shown only if it fails.
fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{name} failed with {}; its last lines:\n{}",
        output.status,
        last_lines(&format!("{text}{errors}"))
    );
    Ok(text.into_owned())
}

/// Runs apt so that it writes only below this folder.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(parent: &Path) -> Result<Self> {
        let folder = parent.join("apt");
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        Ok(Self { folder })
    }

    fn command(&self, options: &[String]) -> Command {
        let mut command = Command::new("apt-get");
        command
            .current_dir(&self.folder)
            .args(["-o", "APT::Sandbox::User="])
            .args(options);
        command
    }

    /// Downloads a package with the package lists of the system, or with separate lists if those
    /// are missing or outdated.
    fn download(&self, package: &str) -> Result<PathBuf> {
        let folder = self.folder.join(package);
        let create = |folder: &Path| {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())
        };
        create(&folder)?;
        let download = |options: &[String]| {
            let mut command = self.command(options);
            run(command.args(["download", package]).current_dir(&folder))
        };
        if download(&[]).is_err() {
            let lists = self.folder.join("lists");
            let own = vec![
                "-o".to_owned(),
                format!("Dir::State::lists={}", lists.display()),
                "-o".to_owned(),
                format!("Dir::Cache={}", self.folder.join("cache").display()),
            ];
            create(&lists.join("partial"))?;
            create(&self.folder.join("cache/archives/partial"))?;
            if fs::read_dir(&lists).is_ok_and(|entries| entries.count() < 2) {
                run(self.command(&own).arg("update"))?;
            }
            download(&own)?;
        }
        let files = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let mut files = files.filter_map(|entry| Some(entry.ok()?.path()));
        files
            .find(|file| file.extension().is_some_and(|end| end == "deb"))
            .with_context(|| format!("apt-get has left no file of {package}"))
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
