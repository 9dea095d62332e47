//! Encodes protobuf messages as an API server does.

fn varint(mut value: usize, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    to.push(u8::try_from(value).unwrap());
}

/// Encodes a field that contains bytes, text or another message.
#[must_use]
pub fn field(number: usize, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(number << 3 | 2, &mut bytes);
    varint(content.len(), &mut bytes);
    bytes.extend_from_slice(content);
    bytes
}

/// Encodes a field that contains a number.
#[must_use]
pub fn number(number: usize, value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(number << 3, &mut bytes);
    varint(value, &mut bytes);
    bytes
}

/// Encodes an object.
#[must_use]
pub fn object(kind: &str, raw: &[u8]) -> Vec<u8> {
    let types = [field(1, b"v1"), field(2, kind.as_bytes())].concat();

    [
        b"k8s\0".to_vec(),
        field(1, &types),
        field(2, raw),
        field(3, b""),
        field(4, b""),
    ]
    .concat()
}

/// Encodes an event of a watch with its length.
#[must_use]
pub fn event(kind: &str, object: &[u8]) -> Vec<u8> {
    let event = [field(1, kind.as_bytes()), field(2, &field(1, object))].concat();
    [
        u32::try_from(event.len()).unwrap().to_be_bytes().to_vec(),
        event,
    ]
    .concat()
}
