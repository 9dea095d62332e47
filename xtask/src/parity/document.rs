//! The words of a document: its prose, its lists and the rows of its tables.

/// The words of a document, in order.
pub(crate) struct Document {
    words: Vec<Word>,
}

struct Word {
    text: String,
    /// Line number.
    line: usize,
    /// Whether a quotation contains it.
    quoted: bool,
}

impl Document {
    /// Returns the words below a headline, or of the whole document, without headlines, code and
    /// the header rows of tables.
    pub(crate) fn new(text: &str, section: Option<&str>) -> Self {
        let mut words = Vec::new();
        let (mut wanted, mut fenced) = (section.is_none(), false);
        let mut lines = text.lines().zip(1..).peekable();
        while let Some((line, number)) = lines.next() {
            let is_rule = |line: &str| line.starts_with("| ---");
            let is_head = lines.peek().is_some_and(|(next, _)| is_rule(next));
            if line.starts_with("```") {
                fenced = !fenced;
            } else if let (Some(headline), false) = (line.strip_prefix("## "), fenced) {
                wanted = section.is_none_or(|section| section == headline);
            } else if wanted
                && !fenced
                && !is_head
                && !is_rule(line)
                && !line.starts_with('#')
                && !line.starts_with("    ")
            {
                let word = |text: &str| Word {
                    text: text.to_owned(),
                    line: number,
                    quoted: false,
                };
                words.extend(line.split_whitespace().map(word));
            }
        }
        Self { words }
    }

    /// Marks these words as quoted. Returns false if the document does not contain them in this
    /// order.
    pub(crate) fn quote(&mut self, sentence: &str) -> bool {
        let wanted: Vec<_> = sentence.split_whitespace().collect();
        let is_it = |words: &[Word]| {
            words
                .iter()
                .map(|word| word.text.as_str())
                .eq(wanted.iter().copied())
        };
        let Some(at) = self.words.windows(wanted.len().max(1)).position(is_it) else {
            return false;
        };
        self.words
            .iter_mut()
            .skip(at)
            .take(wanted.len())
            .for_each(|word| word.quoted = true);
        true
    }

    /// Returns the text that is not quoted, with its line numbers.
    pub(crate) fn rest(&self) -> Vec<(usize, String)> {
        let is_rest = |word: &Word| !word.quoted && word.text.contains(char::is_alphanumeric);
        let runs = self.words.chunk_by(|a, b| a.quoted == b.quoted);
        let runs = runs.filter_map(|run| Some((run.iter().find(|word| is_rest(word))?.line, run)));
        runs.map(|(line, run)| {
            (
                line,
                run.iter()
                    .map(|word| word.text.as_str())
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Title\n\nFirst words.\n\n## One\n\n- It has\n  no files.\n- Nothing else.\n\n    code here\n\n\
        | Head | Of |\n| --- | --- |\n| a row | of cells |\n\n```\n## fenced\n```\n\n### Deeper\n\nDeep words.\n\n## Two\n\nLast words.\n";

    fn rest(section: Option<&str>, quotes: &[&str]) -> Vec<String> {
        let mut document = Document::new(TEXT, section);
        for quote in quotes {
            assert!(document.quote(quote), "{quote}");
        }
        document
            .rest()
            .iter()
            .map(|(line, text)| format!("{line}: {text}"))
            .collect()
    }

    #[test]
    fn a_quote_can_span_lines_but_must_match_every_word() {
        let mut document = Document::new(TEXT, None);
        for said in [
            "It has no files.",
            "  It\nhas no   files.",
            "| a row | of cells |",
            "First words.",
        ] {
            assert!(document.quote(said), "{said}");
        }
        for unsaid in [
            "It has no file.",
            "It has files.",
            "files no has It",
            "Title",
            "code here",
            "",
            "Head",
        ] {
            assert!(!document.quote(unsaid), "{unsaid}");
        }
    }

    #[test]
    fn unquoted_text_is_reported_with_its_line() {
        let quotes = [
            "First words.",
            "It has no files.",
            "| a row | of cells |",
            "Last words.",
        ];
        assert_eq!(
            rest(None, &quotes),
            ["9: - Nothing else.", "23: Deep words."]
        );
    }

    #[test]
    fn a_section_ends_at_the_next_heading_of_its_level() {
        assert_eq!(rest(Some("Two"), &[]), ["27: Last words."]);
        assert_eq!(
            rest(
                Some("One"),
                &["It has no files.", "Nothing else.", "| a row | of cells |"]
            ),
            ["23: Deep words."]
        );
    }
}
