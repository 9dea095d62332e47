//! The content of Skydock's image.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::Image;
use crate::busybox::busybox;

/// The program in the image.
pub const PROGRAM: &str = "/skydock";
/// The providers in the image, as `/plugins/NAME.wasm`.
pub const PROVIDERS: [&str; 3] = ["aws", "openstack", "static"];
/// The user and the group: `nonroot` of many images, and that of `deploy/`.
pub(crate) const NONROOT: u32 = 65532;
/// The key of the label with the licenses of what is in the image.
const LICENSES: &str = "org.opencontainers.image.licenses";
const BUSYBOX: &str = "/bin/busybox";
/// The commands of a shell in the image, which BusyBox knows by these names.
const COMMANDS: [&str; 12] = [
    "ash", "cat", "cp", "date", "env", "grep", "ls", "mkdir", "sed", "sh", "sleep", "tail",
];
/// A program: BusyBox has no command with the name `bash`. Its shell knows what scripts of manifests
/// use of bash, such as `[[` and `source`.
const BASH: &str = "#!/bin/sh\nexec /bin/sh \"$@\"\n";
/// Characters of a line in a PEM file (RFC 7468).
const PEM_LINE: usize = 64;

/// Returns the paths that executables have in images of other cloud-controller-managers. They are
/// links to Skydock, so that manifests with `command` work with another image. Skydock itself knows
/// programs by the same list.
pub fn links() -> impl Iterator<Item = &'static str> {
    include_str!("../../../host/manager/src/cli/arguments/executables.txt").lines()
}

/// Returns Skydock's image, with this program, which must be linked statically, and the providers
/// in this directory.
///
/// # Errors
/// If a file cannot be read.
pub fn skydock(program: &Path, plugins: &Path) -> Result<Image> {
    let users = format!(
        "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{NONROOT}:{NONROOT}:nonroot:/:/sbin/nologin\n"
    );
    let mut image = Image::of_program(PROGRAM, read(program)?)
        .with_context(|| program.display().to_string())?
        .user(NONROOT)
        // With many arenas, freed memory is kept for a long time.
        .variable("MALLOC_ARENA_MAX", "1")
        .file("/etc/passwd", 0o644, users)
        .file(
            "/etc/group",
            0o644,
            format!("root:x:0:\nnonroot:x:{NONROOT}:\n"),
        )
        // The program is linked with these two, and would search the image for others.
        .file("/etc/nsswitch.conf", 0o644, "hosts: files dns\n")
        .file("/etc/ssl/certs/ca-certificates.crt", 0o644, certificates())
        .directory("/tmp", 0o1777)
        .label("org.opencontainers.image.title", "Skydock")
        .label(
            "org.opencontainers.image.version",
            env!("CARGO_PKG_VERSION"),
        )
        .label(
            "org.opencontainers.image.source",
            env!("CARGO_PKG_REPOSITORY"),
        )
        .label(LICENSES, env!("CARGO_PKG_LICENSE"));
    for name in PROVIDERS {
        let component = read(&plugins.join(format!("{name}.wasm")))?;
        image = image.file(&format!("/plugins/{name}.wasm"), 0o644, component);
    }
    for path in links() {
        image = image.link(path, PROGRAM);
    }
    Ok(image)
}

/// Adds a shell, for manifests that start the executable by a script (`command: [/bin/bash, -c]`).
/// Its package is downloaded to this folder.
///
/// # Errors
/// If it cannot be downloaded.
pub fn with_shell(image: Image, downloads: &Path) -> Result<Image> {
    let busybox = busybox(image.architecture(), downloads)?;
    Ok(with_busybox(image, busybox))
}

fn with_busybox(image: Image, busybox: Vec<u8>) -> Image {
    let mut image = image
        .file(BUSYBOX, 0o755, busybox)
        .file("/bin/bash", 0o755, BASH)
        .label(
            LICENSES,
            concat!(env!("CARGO_PKG_LICENSE"), " AND GPL-2.0-only"),
        );
    for command in COMMANDS {
        image = image.link(&format!("/bin/{command}"), BUSYBOX);
    }
    image
}

/// Returns the certificate authorities that Mozilla trusts, in the version that `Cargo.lock` names.
fn certificates() -> String {
    let mut pem = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        pem += "-----BEGIN CERTIFICATE-----\n";
        let mut text = &*STANDARD.encode(certificate);
        while !text.is_empty() {
            // Base64 is ASCII.
            let (line, rest) = text.split_at(text.len().min(PEM_LINE));
            pem += line;
            pem += "\n";
            text = rest;
        }
        pem += "-----END CERTIFICATE-----\n";
    }
    pem
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::tests::program;

    #[test]
    fn it_has_the_program_the_providers_and_the_links() {
        let folder = tempfile::tempdir().unwrap();
        let host = folder.path().join("skydock");
        fs::write(&host, program(62)).unwrap();
        let error = skydock(&host, folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("aws.wasm"), "{error}");
        for name in PROVIDERS {
            fs::write(folder.path().join(format!("{name}.wasm")), name).unwrap();
        }
        let image = skydock(&host, folder.path()).unwrap();
        assert!(image.has_file("/skydock") && image.has_file("/plugins/openstack.wasm"));
        let mut expected: Vec<_> = links().map(str::to_owned).collect();
        expected.sort();
        assert_eq!(image.links_to(PROGRAM).collect::<Vec<_>>(), expected);
        assert!(expected.contains(&"/usr/local/bin/cloud-controller-manager".to_owned()));
    }

    #[test]
    fn a_shell_is_added_to_the_image() {
        let image = Image::of_program(PROGRAM, program(62)).unwrap();
        let image = with_busybox(image, program(62));
        assert!(image.has_file("/bin/busybox") && image.has_file("/bin/bash"));
        let commands: Vec<_> = image.links_to(BUSYBOX).collect();
        assert_eq!(commands.len(), COMMANDS.len());
        assert!(commands.contains(&"/bin/sh".to_owned()));
        assert!(links().all(|link| !commands.contains(&link.to_owned())));
        let configuration = image.configuration("sha256:0");
        assert_eq!(configuration["config"]["Entrypoint"][0], PROGRAM);
        assert_eq!(
            configuration["config"]["Labels"][LICENSES],
            "Apache-2.0 AND GPL-2.0-only"
        );
    }

    #[test]
    fn the_certificates_are_a_pem_file() {
        let pem = certificates();
        let count = webpki_root_certs::TLS_SERVER_ROOT_CERTS.len();
        assert!(count > 100);
        assert_eq!(pem.matches("-----BEGIN CERTIFICATE-----\n").count(), count);
        assert_eq!(pem.matches("-----END CERTIFICATE-----\n").count(), count);
        assert!(pem.lines().all(|line| line.len() <= PEM_LINE));
    }
}
