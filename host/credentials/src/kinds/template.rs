//! Texts in which `{{FILE}}` is replaced by the content of a file.

use zeroize::Zeroizing;

use crate::request::encode;
use crate::{
    config::Escape,
    sources::{failure::Failure, file::SecretFile, issuer_client::IssuerClient},
};

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    File(SecretFile),
}

/// A text with placeholders.
#[derive(Clone, Debug)]
pub(crate) struct Filled {
    pieces: Vec<Piece>,
    escape: Escape,
}

impl Filled {
    pub(crate) fn parse(text: &str, escape: Escape) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (path, after) = after.split_once("}}").ok_or("`}}` is missing after `{{`")?;
            if !path.starts_with('/') {
                return Err("expected the absolute path of a file between `{{` and `}}`".to_owned());
            }
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(Piece::File(SecretFile::new(path)));
            rest = after;
        }

        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self { pieces, escape })
    }

    /// Returns the files that the text refers to.
    pub(crate) fn files(&self) -> impl Iterator<Item = &SecretFile> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::File(file) => Some(file),
            Piece::Text(_) => None,
        })
    }

    /// Returns the text with the current content of the files.
    pub(crate) async fn fill(&self, issuer: &IssuerClient) -> Result<Zeroizing<String>, Failure> {
        let mut out = Zeroizing::new(String::new());
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::File(file) => {
                    let secret = issuer.read(file).await?;
                    let text = secret.expose_str().unwrap_or_default();
                    out.push_str(&Zeroizing::new(match self.escape {
                        Escape::Json => encode::json(text),
                        Escape::Xml => encode::xml(text),
                        Escape::Form => encode::form(text),
                        Escape::None => text.to_owned(),
                    }));
                }
            }
        }

        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_must_be_absolute_paths() {
        let filled = Filled::parse("a={{/run/a}}&b={{/run/b}}!", Escape::Form).unwrap();
        assert_eq!(filled.files().count(), 2);
        assert!(
            Filled::parse("{{a}}", Escape::Form)
                .unwrap_err()
                .contains("absolute path")
        );
        assert!(
            Filled::parse("{{/a", Escape::Form)
                .unwrap_err()
                .contains("is missing")
        );
        assert_eq!(
            Filled::parse("{\"a\": {}}", Escape::Json)
                .unwrap()
                .files()
                .count(),
            0
        );
    }
}
