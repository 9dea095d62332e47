//! Limits of the annotations that a provider may have on one object.

use crate::Pairs;

/// Maximum number of a provider's annotations on one object.
pub const MAX_ANNOTATIONS: usize = 64;

/// Maximum bytes of a provider's annotations on one object, with their keys.
pub const MAX_ANNOTATION_BYTES: usize = 64 << 10;

/// Maximum bytes of all annotations of an object if a provider adds one. The API server allows
/// 256 KiB; the rest is for the keys that Skydock records, and for users.
const MAX_ALL_BYTES: usize = 224 << 10;

/// Returns true if a provider may set this annotation on an object that has these. `is_owned` tells
/// which of these it may write. One that does not become longer can always be set.
#[must_use]
pub fn has_room(
    present: &Pairs,
    is_owned: impl Fn(&str) -> bool,
    (key, value): (&str, &str),
) -> bool {
    if present.get(key).is_some_and(|it| value.len() <= it.len()) {
        return true;
    }

    let size = |key: &str, value: &str| key.len().saturating_add(value.len());
    let new = size(key, value);
    let mut count = 1_usize;
    let mut own = new;
    let mut all = new;

    for (other, text) in present.iter().filter(|(other, _)| *other != key) {
        all = all.saturating_add(size(other, text));
        if is_owned(other) {
            count = count.saturating_add(1);
            own = own.saturating_add(size(other, text));
        }
    }

    count <= MAX_ANNOTATIONS && own <= MAX_ANNOTATION_BYTES && all <= MAX_ALL_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds: SEC-62
    #[test]
    fn users_have_room_beside_a_provider() {
        let filled = |owner: &str, count: usize, bytes: usize| -> Pairs {
            let one = |number| (format!("{owner}/{number:03}"), "v".repeat(bytes));
            (0..count).map(one).collect()
        };
        let both = |one: Pairs, other: Pairs| one.into_iter().chain(other).collect::<Pairs>();
        for (present, key, bytes, expected) in [
            (Pairs::new(), "a/x", 4096, true),
            (filled("a", 63, 1), "a/x", 1, true),
            (filled("a", 64, 1), "a/x", 1, false),
            (filled("a", 64, 1), "a/000", 4096, true),
            (filled("a", 65, 1), "a/000", 1, true),
            (filled("a", 65, 1), "a/000", 2, false),
            (filled("a", 15, 4096), "a/x", 4000, true),
            (filled("a", 15, 4096), "a/x", 4096, false),
            (filled("user", 64, 1), "a/x", 4096, true),
            (filled("user", 54, 4096), "a/x", 4096, true),
            (filled("user", 56, 4096), "a/x", 1, false),
            (
                both(filled("user", 64, 3000), filled("a", 15, 4000)),
                "a/x",
                4000,
                false,
            ),
        ] {
            let value = "v".repeat(bytes);
            let fits = has_room(&present, |key| key.starts_with("a/"), (key, &value));
            assert_eq!(fits, expected, "{} and {key} of {bytes}", present.len());
        }
    }
}
