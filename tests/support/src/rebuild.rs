//! Simulates another build of a plugin: the same component with a note in a custom section, like
//! the version string of a compiler.

/// Returns the component with one more custom section (binary format: ID 0, size, name, content).
#[must_use]
pub fn rebuilt(component: &[u8], note: &str) -> Vec<u8> {
    const NAME: &[u8] = b"build";
    let mut section = leb128(NAME.len());
    section.extend_from_slice(NAME);
    section.extend_from_slice(note.as_bytes());
    let mut bytes = component.to_vec();
    bytes.push(0);
    bytes.extend(leb128(section.len()));
    bytes.extend(section);
    bytes
}

fn leb128(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or_default();
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}
