//! Adds what a plugin says about itself to its component, for languages whose tools cannot.

use std::{fs, io, path::Path};

use anyhow::Context as _;
use skydock_sandbox::metadata::{Metadata, SECTION};

/// The file in the folder of a project.
const FILE: &str = "plugin.json";

/// Appends the content of the file to a component as a custom section, if there is one.
///
/// # Errors
/// If the file cannot be read, or its content is not valid.
pub(crate) fn add(component: &mut Vec<u8>, dir: &Path) -> anyhow::Result<()> {
    let file = dir.join(FILE);
    let text = match fs::read(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read.with_context(|| format!("cannot read {}", file.display()))?,
    };

    let metadata = Metadata::parse(&text)
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("{} is not valid", file.display()))?;

    // Without white space and comments of later versions.
    let json = serde_json::to_vec(&metadata)?;
    let mut section = Vec::new();
    length(&mut section, SECTION.len());
    section.extend(SECTION.bytes());
    section.extend(json);

    // A custom section, which may be anywhere (core specification, 5.5.3).
    component.push(0);
    length(component, section.len());
    component.extend(section);
    Ok(())
}

/// Appends a number in LEB128.
fn length(bytes: &mut Vec<u8>, mut number: usize) {
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use skydock_sandbox::{ComponentType, Limits};

    use super::*;

    #[test]
    fn the_file_becomes_a_section_of_the_component() {
        let dir = tempfile::tempdir().unwrap();
        let plain = wat::parse_str("(component)").unwrap();
        let mut component = plain.clone();
        add(&mut component, dir.path()).unwrap();
        assert_eq!(component, plain, "without a file");

        let version = "1".repeat(300);
        let text = format!(r#"{{"name": "a", "version": "{version}"}}"#);
        fs::write(dir.path().join(FILE), text).unwrap();
        add(&mut component, dir.path()).unwrap();
        let read = ComponentType::read(&component, &Limits::default()).unwrap();
        assert_eq!(read.metadata.unwrap().version, version);

        fs::write(dir.path().join(FILE), "{}").unwrap();
        let error = add(&mut component, dir.path()).unwrap_err();
        assert!(
            format!("{error:#}").contains("plugin.json is not valid: its name is missing"),
            "{error:#}"
        );
    }
}
