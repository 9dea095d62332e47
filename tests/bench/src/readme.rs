//! The page with the figures, to which each benchmark writes its own section.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

fn markers(name: &str) -> (String, String) {
    (
        format!("<!-- {name}: written by `cargo xtask bench {name}` -->"),
        format!("<!-- {name}: end -->"),
    )
}

/// Writes a section to the page, between its markers.
///
/// # Errors
/// Fails if the page has no such markers, or cannot be written.
pub fn update(page: &Path, name: &str, section: &str) -> Result<()> {
    let text =
        fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let (begin, end) = markers(name);
    let text = replaced(&text, name, section)
        .with_context(|| format!("{} has no {begin} followed by {end}", page.display()))?;
    fs::write(page, text).with_context(|| format!("cannot write {}", page.display()))
}

/// Returns the text with the section between the markers replaced.
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
    fn only_the_section_between_markers_is_replaced() {
        let (begin, end) = markers("x");
        let text = format!("# Figures\n{begin}\nold\n{end}\nrest\n");
        let expected = format!("# Figures\n{begin}\n\nnew\n{end}\nrest\n");
        assert_eq!(replaced(&text, "x", "new").unwrap(), expected);
        assert_eq!(replaced("no markers", "x", "new"), None);
        assert_eq!(replaced(&format!("{end}{begin}"), "x", "new"), None);
        assert_eq!(replaced(&text, "y", "new"), None);
    }
}
