//! BusyBox, a shell and common commands in one program, from a package of Debian.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

/// The version in Debian 12. `apt-cache show busybox-static` prints it, and the digest.
const VERSION: &str = "1.35.0-4+deb12u1+b1";
const PACKAGES: &str = "https://deb.debian.org/debian/pool/main/b/busybox";
/// SHA-256 of the package for each architecture.
const DIGESTS: [(&str, &str); 2] = [
    (
        "amd64",
        "3d3fdbe91d4660c873e14b092c213fe81c1da6362daa236eb25d0171eb108744",
    ),
    (
        "arm64",
        "732c9135564fc71337e0e05fb4da4d11e6c28c1834bce3e405e575afef2a52f5",
    ),
];
/// Where the package has the program.
const PROGRAM: &str = "bin/busybox";

/// Returns the architectures that it exists for.
pub(crate) fn architectures() -> impl Iterator<Item = &'static str> {
    DIGESTS.iter().map(|(architecture, _)| *architecture)
}

/// Returns the program for this architecture, which is linked statically. Its package is downloaded
/// to this folder, unless it is there.
///
/// # Errors
/// If the package cannot be downloaded or unpacked, or has another digest.
pub(crate) fn busybox(architecture: &str, downloads: &Path) -> Result<Vec<u8>> {
    let package = package(architecture, downloads)?;
    let files = run(Command::new("dpkg-deb").arg("--fsys-tarfile").arg(&package))?;
    program(&files)
}

fn package(architecture: &str, downloads: &Path) -> Result<PathBuf> {
    let mut digests = DIGESTS.iter().filter(|(name, _)| *name == architecture);
    let Some((_, expected)) = digests.next() else {
        bail!("BusyBox is not available for {architecture}");
    };

    let file = format!("busybox-static_{VERSION}_{architecture}.deb");
    let package = downloads.join(&file);
    if !package.exists() {
        fs::create_dir_all(downloads)
            .with_context(|| format!("cannot create {}", downloads.display()))?;
        // Renamed at the end, so that it is always complete.
        let partial = downloads.join(format!("{file}.{}", std::process::id()));
        run(Command::new("curl")
            .args(["--fail", "--silent", "--show-error", "--location"])
            .arg("--output")
            .arg(&partial)
            .arg(format!("{PACKAGES}/{file}")))?;
        fs::rename(&partial, &package)
            .with_context(|| format!("cannot rename {}", partial.display()))?;
    }

    let bytes = fs::read(&package).with_context(|| format!("cannot read {}", package.display()))?;
    let digest = hex::encode(Sha256::digest(bytes));
    ensure!(
        digest == *expected,
        "the SHA-256 of {} is {digest}; expected {expected}: delete the file",
        package.display()
    );
    Ok(package)
}

/// Returns the program in the files of the package, a tar archive.
fn program(files: &[u8]) -> Result<Vec<u8>> {
    let mut archive = tar::Archive::new(files);
    for entry in archive.entries().context("cannot read the package")? {
        let mut entry = entry.context("cannot read the package")?;
        let is_program = {
            let path = entry.path().context("cannot read the package")?;
            path.ends_with(PROGRAM)
        };
        if is_program {
            let mut program = Vec::new();
            entry
                .read_to_end(&mut program)
                .context("cannot read BusyBox in its package")?;
            return Ok(program);
        }
    }
    bail!("the package has no {PROGRAM}")
}

/// Runs a command, and returns its standard output.
fn run(command: &mut Command) -> Result<Vec<u8>> {
    let name = command.get_program().display().to_string();
    let output = command
        .output()
        .with_context(|| format!("cannot start {name}: install the package {name}"))?;
    ensure!(
        output.status.success(),
        "{name} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_with_another_digest_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        for architecture in architectures() {
            let file = format!("busybox-static_{VERSION}_{architecture}.deb");
            fs::write(folder.path().join(file), "changed").unwrap();
            let error = busybox(architecture, folder.path()).unwrap_err();
            assert!(error.to_string().contains("; expected "), "{error}");
        }
        let error = busybox("riscv64", folder.path()).unwrap_err().to_string();
        assert_eq!(error, "BusyBox is not available for riscv64");
    }

    #[test]
    fn the_program_is_found_in_the_package() {
        let tar = |path: &str| {
            let mut files = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_gnu();
            header.set_size(7);
            header.set_mode(0o755);
            files
                .append_data(&mut header, path, &b"program"[..])
                .unwrap();
            files.into_inner().unwrap()
        };
        assert_eq!(program(&tar("./bin/busybox")).unwrap(), b"program");
        assert_eq!(program(&tar("bin/busybox")).unwrap(), b"program");
        assert!(program(&tar("usr/share/doc")).is_err());
    }
}
