//! Copies of the plugin's files, so that it can be replaced by a new generation of itself.

use std::{fs, io, path::PathBuf};

use skydock_sandbox::PluginSource;

/// The copies. They are deleted when this is dropped.
pub(super) struct Files {
    _dir: tempfile::TempDir,
    component: PathBuf,
    cloud_config: Option<PathBuf>,
    replaced: u8,
}

impl Files {
    /// Copies the files. Returns the source that uses the copies, too.
    pub(super) fn copy(source: &PluginSource) -> io::Result<(Self, PluginSource)> {
        let dir = tempfile::tempdir()?;
        let copied = |file: &PathBuf| {
            let to = dir.path().join(file.file_name().unwrap_or_default());
            fs::copy(file, &to).map(|_| to)
        };

        let component = copied(&source.component)?;
        let cloud_config = source.cloud_config.as_ref().map(copied).transpose()?;

        let copies = PluginSource {
            component: component.clone(),
            cloud_config: cloud_config.clone(),
            ..source.clone()
        };

        Ok((
            Self {
                _dir: dir,
                component,
                cloud_config,
                replaced: 0,
            },
            copies,
        ))
    }

    /// Changes what makes a new generation, and nothing that means something: an empty line at the
    /// end of the configuration, or else a custom section at the end of the component.
    pub(super) fn change(&mut self) -> io::Result<()> {
        let (file, more) = match &self.cloud_config {
            Some(file) => (file, vec![b'\n']),
            None => (&self.component, section(self.replaced)),
        };

        self.replaced = self.replaced.wrapping_add(1);
        let mut bytes = fs::read(file)?;
        bytes.extend(more);
        fs::write(file, bytes)
    }
}

/// Returns a custom section of WebAssembly: its ID, its size, its name after the length of that,
/// and a byte.
fn section(content: u8) -> Vec<u8> {
    const NAME: &[u8; 12] = b"skydock-test";
    [[0, 14, 12].as_slice(), NAME, &[content]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_copies_are_changed() {
        let dir = tempfile::tempdir().unwrap();
        let (wasm, conf) = (dir.path().join("p.wasm"), dir.path().join("cloud.json"));
        fs::write(&wasm, b"\0asm").unwrap();
        fs::write(&conf, "{}").unwrap();
        let source = PluginSource {
            component: wasm.clone(),
            cloud_config: Some(conf.clone()),
            ..PluginSource::default()
        };

        let (mut files, copies) = Files::copy(&source).unwrap();
        files.change().unwrap();
        assert_eq!(
            fs::read_to_string(copies.cloud_config.unwrap()).unwrap(),
            "{}\n"
        );

        let (mut files, copies) = Files::copy(&PluginSource {
            cloud_config: None,
            ..source
        })
        .unwrap();
        files.change().unwrap();
        files.change().unwrap();
        let changed = fs::read(copies.component).unwrap();
        assert_eq!(changed.len(), 4 + 2 * 16);
        assert!(changed.ends_with(b"\0\x0e\x0cskydock-test\x01"));

        assert_eq!(
            (
                fs::read(wasm).unwrap().len(),
                fs::read_to_string(conf).unwrap().len()
            ),
            (4, 2)
        );
    }
}
