//! The tag and the digest of Skydock's image in a kustomization.

use anyhow::{Result, bail};

use crate::archive::tag;

/// The line in which Skydock's image begins in the list `images`.
const ENTRY: &str = "  - name: skydock";
const TAG: &str = "    newTag:";
const DIGEST: &str = "    digest:";

/// Returns the text of a `kustomization.yaml` with the tag of this name and this digest, instead of
/// those that Skydock's image has in it.
///
/// # Errors
/// If the name has no tag, or the text does not name the image.
pub fn pin(kustomization: &str, name: &str, digest: &str) -> Result<String> {
    let tag = tag(name)?;
    let (mut text, mut is_found, mut is_inside) = (String::new(), false, false);
    for line in kustomization.lines() {
        is_inside &= line.starts_with("    ");
        let is_replaced = line.starts_with(TAG) || line.starts_with(DIGEST);
        if is_inside && is_replaced {
            continue;
        }
        text += line;
        text += "\n";
        if line == ENTRY {
            (is_found, is_inside) = (true, true);
            // In quotes: `1.10` is a number.
            text += &format!("{TAG} \"{tag}\"\n{DIGEST} {digest}\n");
        }
    }
    if !is_found {
        bail!("the kustomization has no line {ENTRY:?}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "registry.example.com:5000/skydock:1.10";

    #[test]
    fn tag_and_digest_are_replaced_for_this_image_only() {
        let rest =
            "  - name: skydock-other\n    newTag: 2\nlabels:\n  - pairs: {}\n    newTag: 3\n";
        let text = |fields: &str| format!("images:\n{ENTRY}\n{fields}    newName: skydock\n{rest}");
        let expected = text("    newTag: \"1.10\"\n    digest: sha256:1\n");
        for fields in [
            "",
            "    newTag: 0.1.0\n",
            "    digest: sha256:0\n",
            "    newTag: 0.1.0\n    digest: sha256:0\n",
        ] {
            assert_eq!(pin(&text(fields), NAME, "sha256:1").unwrap(), expected);
        }
        assert_eq!(pin(&expected, NAME, "sha256:1").unwrap(), expected);
    }

    #[test]
    fn an_image_that_is_not_named_is_an_error() {
        let text = "images:\n  - name: other\n    newTag: 0.1.0\n";
        let error = pin(text, NAME, "sha256:1").unwrap_err().to_string();
        assert!(error.contains("  - name: skydock"), "{error}");
        assert!(pin(ENTRY, "skydock", "sha256:1").is_err());
    }
}
