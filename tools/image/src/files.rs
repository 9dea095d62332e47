//! The files of an image, and how its program is started.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

/// An image for one architecture, with a single layer.
#[derive(Clone, Debug)]
pub struct Image {
    entrypoint: String,
    arguments: Vec<String>,
    architecture: &'static str,
    user: String,
    environment: Vec<String>,
    labels: BTreeMap<String, String>,
    /// By path, without the leading `/`, so that a directory is before its entries.
    files: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug)]
enum Entry {
    Directory { mode: u32 },
    File { mode: u32, content: Vec<u8> },
    Link { target: String },
}

impl Image {
    /// Creates an image that starts this program, an ELF file, at this path, and has nothing else.
    ///
    /// # Errors
    /// If the program cannot be run by Linux on an architecture that images have.
    pub fn of_program(path: &str, program: Vec<u8>) -> Result<Self> {
        let image = Self {
            entrypoint: path.to_owned(),
            arguments: Vec::new(),
            architecture: architecture(&program)?,
            user: "0:0".to_owned(),
            // Otherwise a container has none, and `command: [cloud-controller-manager]` is not
            // found.
            environment: vec![
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            ],
            labels: BTreeMap::new(),
            files: BTreeMap::new(),
        };
        Ok(image.file(path, 0o755, program))
    }

    /// Adds a file. Directories above it are created.
    #[must_use]
    pub fn file(self, path: &str, mode: u32, content: impl Into<Vec<u8>>) -> Self {
        let content = content.into();
        self.entry(path, Entry::File { mode, content })
    }

    /// Adds a symbolic link. Directories above it are created.
    #[must_use]
    pub fn link(self, path: &str, target: &str) -> Self {
        let target = target.to_owned();
        self.entry(path, Entry::Link { target })
    }

    /// Adds a directory.
    #[must_use]
    pub fn directory(self, path: &str, mode: u32) -> Self {
        self.entry(path, Entry::Directory { mode })
    }

    /// Sets the user and the group.
    #[must_use]
    pub fn user(mut self, id: u32) -> Self {
        self.user = format!("{id}:{id}");
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push(format!("{name}={value}"));
        self
    }

    /// Adds an argument that the program gets if a manifest has none.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Adds a label of the image.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Returns the paths of the symbolic links to this path.
    pub fn links_to<'a>(&'a self, target: &'a str) -> impl Iterator<Item = String> + 'a {
        self.files.iter().filter_map(move |(path, entry)| {
            let is_link = matches!(entry, Entry::Link { target: it } if it == target);
            is_link.then(|| format!("/{path}"))
        })
    }

    /// Returns whether it has this file.
    #[must_use]
    pub fn has_file(&self, path: &str) -> bool {
        let entry = self.files.get(path.trim_start_matches('/'));
        matches!(entry, Some(Entry::File { .. }))
    }

    /// Returns the user and the group, as `USER:GROUP`.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.user
    }

    /// Returns the architecture by the name that it has in images: `amd64`, `arm64`.
    pub(crate) fn architecture(&self) -> &'static str {
        self.architecture
    }

    fn entry(mut self, path: &str, entry: Entry) -> Self {
        let path = path.trim_matches('/');
        for (end, _) in path.match_indices('/') {
            let (parent, _) = path.split_at(end);
            let directory = Entry::Directory { mode: 0o755 };
            self.files.entry(parent.to_owned()).or_insert(directory);
        }
        self.files.insert(path.to_owned(), entry);
        self
    }

    /// Returns the layer, a tar archive without dates and owners.
    pub(crate) fn layer(&self) -> Result<Vec<u8>> {
        let mut layer = Builder::new(Vec::new());
        for (path, entry) in &self.files {
            entry
                .append(path, &mut layer)
                .with_context(|| format!("cannot add {path} to the layer"))?;
        }
        layer.into_inner().context("cannot end the layer")
    }

    /// Returns the [configuration](https://github.com/opencontainers/image-spec/blob/main/config.md).
    pub(crate) fn configuration(&self, layer: &str) -> Value {
        json!({
            "architecture": self.architecture,
            "os": "linux",
            "config": {
                "Entrypoint": [self.entrypoint],
                "Cmd": self.arguments,
                "Env": self.environment,
                "Labels": self.labels,
                "User": self.user,
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [layer]},
        })
    }
}

impl Entry {
    fn append(&self, path: &str, to: &mut Builder<Vec<u8>>) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(0);
        match self {
            Self::Directory { mode } => {
                header.set_entry_type(EntryType::Directory);
                header.set_mode(*mode);
                to.append_data(&mut header, format!("{path}/"), io::empty())
            }
            Self::File { mode, content } => {
                header.set_entry_type(EntryType::Regular);
                header.set_mode(*mode);
                header.set_size(content.len().try_into().map_err(io::Error::other)?);
                to.append_data(&mut header, path, &**content)
            }
            Self::Link { target } => {
                header.set_entry_type(EntryType::Symlink);
                header.set_mode(0o777);
                to.append_link(&mut header, path, Path::new(target))
            }
        }
    }
}

/// Returns the architecture of an ELF file, from `e_machine` in its header (elf(5)).
fn architecture(program: &[u8]) -> Result<&'static str> {
    let machine = program.strip_prefix(b"\x7fELF").and_then(|rest| {
        let bytes = rest.get(14..16)?;
        Some(u16::from_le_bytes(bytes.try_into().ok()?))
    });
    match machine {
        Some(62) => Ok("amd64"),
        Some(183) => Ok("arm64"),
        Some(other) => {
            bail!("the program is for the machine {other} of ELF, not for amd64 or arm64")
        }
        None => bail!("the program is not an ELF file"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the beginning of a program for this machine of ELF.
    pub(crate) fn program(machine: u16) -> Vec<u8> {
        let mut program = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0".to_vec();
        program.extend(machine.to_le_bytes());
        program
    }

    #[test]
    fn the_architecture_is_that_of_the_program() {
        assert_eq!(architecture(&program(62)).unwrap(), "amd64");
        assert_eq!(architecture(&program(183)).unwrap(), "arm64");
        assert!(architecture(&program(40)).is_err());
        assert!(architecture(b"#!/bin/sh\n").is_err());
        assert!(architecture(b"\x7fELF").is_err());
    }

    #[test]
    fn the_layer_has_directories_before_files_and_nobodys_dates() {
        let image = Image::of_program("/bin/app", program(62))
            .unwrap()
            .link("/usr/bin/other", "/bin/app")
            .directory("/tmp", 0o1777);
        let layer = image.layer().unwrap();
        let mut seen = Vec::new();
        for entry in tar::Archive::new(&*layer).entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!(header.mtime().unwrap(), 0);
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            let path = entry.path().unwrap().display().to_string();
            seen.push(format!("{path} {:o}", header.mode().unwrap()));
        }
        assert_eq!(
            seen,
            [
                "bin/ 755",
                "bin/app 755",
                "tmp/ 1777",
                "usr/ 755",
                "usr/bin/ 755",
                "usr/bin/other 777",
            ]
        );
        assert_eq!(
            image.links_to("/bin/app").collect::<Vec<_>>(),
            ["/usr/bin/other"]
        );
        assert!(image.has_file("/bin/app") && !image.has_file("/usr/bin/other"));
    }
}
