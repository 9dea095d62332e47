//! The file of the audit.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use super::AuditLine;

/// A file to which lines are appended, and which is renamed when it is full.
#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    max_size: u64,
    keep: u8,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    size: u64,
    /// Device and number, which change when the path leads to another file.
    identity: (u64, u64),
}

impl AuditFile {
    /// Opens or creates the file.
    pub(super) fn open(path: &Path, max_size: u64, keep: u8) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            max_size,
            keep,
            open: Some(Open::at(path)?),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line. After a failure, the file is opened again for the next one.
    pub(super) fn append(&mut self, line: &AuditLine) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');

        let mut open = match self.open.take() {
            // logrotate may have renamed the file.
            Some(open) if open.is_at(&self.path) => open,
            _ => Open::at(&self.path)?,
        };

        if open.size > 0 && open.size + text.len() as u64 > self.max_size {
            self.rotate()?;
            open = Open::at(&self.path)?;
        }

        if let Err(error) = open.file.write_all(&text) {
            // A part of a line would make the next one unreadable, too.
            let _ = open.file.set_len(open.size);
            return Err(error);
        }

        open.size += text.len() as u64;
        self.open = Some(open);
        Ok(())
    }

    /// Renames the file to `FILE.1`, and each older one to the next number.
    fn rotate(&self) -> io::Result<()> {
        for number in (1..self.keep).rev() {
            let from = self.numbered(number);
            let to = self.numbered(number + 1);
            match fs::rename(from, to) {
                // There may be fewer files than `keep` so far.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }

        fs::rename(&self.path, self.numbered(1))
    }

    fn numbered(&self, number: u8) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

impl Open {
    fn at(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            // Without it, opening a pipe that nobody reads waits.
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(path)?;

        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }

        Ok(Self {
            file,
            size: metadata.len(),
            identity: (metadata.dev(), metadata.ino()),
        })
    }

    fn is_at(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|it| (it.dev(), it.ino()) == self.identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(path: &str) -> AuditLine {
        AuditLine {
            time: jiff::Timestamp::UNIX_EPOCH,
            plugin: "p".into(),
            digest: "sha256:0".into(),
            capability: "instances",
            rule: "api".into(),
            method: "GET".to_owned(),
            host: "https://a.example:443".to_owned(),
            path: path.to_owned(),
            actions: vec!["A".to_owned()],
            credential: Some("token".to_owned()),
            status: Some(200),
            error: None,
            would_deny: None,
            sent_bytes: 0,
            received_bytes: 1,
            seconds: 0.5,
        }
    }

    #[test]
    fn lines_are_appended_and_full_files_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        let mut file = AuditFile::open(&path, 700, 2).unwrap();
        for number in 0..9 {
            file.append(&line(&format!("/{number}"))).unwrap();
        }

        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let paths = |name: &str| -> Vec<String> {
            let of = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
            read(name)
                .lines()
                .map(|line| of(line)["path"].as_str().unwrap().to_owned())
                .collect()
        };

        assert_eq!(paths("audit"), ["/8"]);
        assert_eq!(paths("audit.1"), ["/6", "/7"]);
        assert_eq!(paths("audit.2"), ["/4", "/5"]);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            3,
            "older ones are deleted"
        );
        let first = read("audit");
        assert!(
            first.starts_with(
                "{\"time\":\"1970-01-01T00:00:00Z\",\"plugin\":\"p\",\"digest\":\"sha256:0\","
            ) && first.contains(
                "\"credential\":\"token\",\"status\":200,\"error\":null,\"wouldDeny\":null"
            ),
            "{first}"
        );
    }

    #[test]
    fn a_renamed_file_is_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        let moved = folder.path().join("moved");
        let mut file = AuditFile::open(&path, 1 << 20, 1).unwrap();
        file.append(&line("/1")).unwrap();
        fs::rename(&path, &moved).unwrap();
        file.append(&line("/2")).unwrap();
        assert!(fs::read_to_string(&moved).unwrap().contains("\"/1\""));
        assert!(fs::read_to_string(&path).unwrap().contains("\"/2\""));
        drop(file);
        let mut again = AuditFile::open(&path, 1 << 20, 1).unwrap();
        again.append(&line("/3")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
        assert!(AuditFile::open(folder.path(), 1, 1).is_err());
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        assert!(AuditFile::open(&pipe, 1, 1).is_err(), "it does not wait");
    }
}
