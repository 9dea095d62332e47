//! The page of figures, of which each benchmark writes a section of its own.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

fn markers(name: &str) -> (String, String) {
    (format!("<!-- {name}: written by `cargo xtask bench {name}` -->"), format!("<!-- {name}: end -->"))
}

/// Puts a section into the page, between its markers.
///
/// # Errors
/// If the page has none, or cannot be written.
pub fn update(page: &Path, name: &str, section: &str) -> Result<()> {
    let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let (begin, end) = markers(name);
    let text = replaced(&text, name, section)
        .with_context(|| format!("{} has no {begin} followed by {end}", page.display()))?;
    fs::write(page, text).with_context(|| format!("cannot write {}", page.display()))
}

/// The text with another section between the markers.
#[must_use]
pub fn replaced(text: &str, name: &str, section: &str) -> Option<String> {
    let (begin, end) = markers(name);
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n\n{section}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_between_its_markers_and_nothing_else_is() {
        let (begin, end) = markers("x");
        let text = format!("# Figures\n{begin}\nold\n{end}\nrest\n");
        let expected = format!("# Figures\n{begin}\n\nnew\n{end}\nrest\n");
        assert_eq!(replaced(&text, "x", "new").unwrap(), expected);
        assert_eq!(replaced("no markers", "x", "new"), None);
        assert_eq!(replaced(&format!("{end}{begin}"), "x", "new"), None);
        assert_eq!(replaced(&text, "y", "new"), None);
    }
}
