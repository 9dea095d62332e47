//! A page in Markdown: its code spans and links.

use std::mem;

/// Something that a page names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mention<'a> {
    /// Line number.
    pub(super) line: usize,
    pub(super) text: &'a str,
}

/// A page, without its fenced code.
pub(super) struct Page<'a> {
    lines: Vec<(usize, &'a str)>,
}

impl<'a> Page<'a> {
    /// Reads a page.
    pub(super) fn new(text: &'a str) -> Self {
        let mut fenced = false;
        let prose = |line: &&(usize, &str)| {
            let is_fence = line.1.trim_start().starts_with("```");
            fenced ^= is_fence;
            !fenced && !is_fence
        };
        let lines: Vec<_> = (1..).zip(text.lines()).collect();
        Self {
            lines: lines.iter().filter(prose).copied().collect(),
        }
    }

    /// Returns the code spans of each block: a paragraph, an item of a list, or a row of a table.
    pub(super) fn blocks(&self) -> Vec<Vec<Mention<'a>>> {
        let mut blocks = Vec::new();
        let (mut block, mut open) = (Vec::new(), false);
        for &(line, text) in &self.lines {
            if starts_block(text) {
                blocks.push(mem::take(&mut block));
                open = false;
            }
            // What is between an odd number of backticks and the next one is code. A span in two
            // lines has a space in it.
            let mut pieces = text.split('`').peekable();
            while let Some(text) = pieces.next() {
                let closes = pieces.peek().is_some();
                block.extend((open && closes).then_some(Mention { line, text }));
                open ^= closes;
            }
        }
        blocks.push(block);
        blocks
    }

    /// Returns the targets of all links.
    pub(super) fn links(&self) -> impl Iterator<Item = Mention<'a>> {
        self.lines.iter().flat_map(|&(line, text)| {
            let targets = text
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split_once(')')?.0.split(' ').next());
            targets.map(move |text| Mention { line, text })
        })
    }

    /// Returns true if a link to this section finds a headline, as GitHub names them.
    pub(super) fn has_section(&self, section: &str) -> bool {
        let headlines = self.lines.iter().filter(|(_, line)| line.starts_with('#'));
        headlines
            .map(|(_, line)| anchor(line.trim_start_matches('#').trim()))
            .any(|anchor| anchor == section)
    }
}

/// Returns the name of a headline in links.
fn anchor(headline: &str) -> String {
    let kept = headline
        .chars()
        .filter(|&it| it.is_alphanumeric() || " -_".contains(it));
    kept.map(|it| if it == ' ' { '-' } else { it })
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns true if a line does not continue the block of the line before.
fn starts_block(line: &str) -> bool {
    let item = line.trim_start();
    let numbered = item.trim_start_matches(|it: char| it.is_ascii_digit());
    let is_numbered = numbered.len() < item.len() && numbered.starts_with(". ");
    item.is_empty()
        || item.starts_with("- ")
        || item.starts_with("* ")
        || is_numbered
        || line.starts_with(['|', '#'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &str) -> Vec<String> {
        let blocks = Page::new(text).blocks();
        let blocks = blocks.iter().filter(|block| !block.is_empty());
        blocks
            .map(|block| {
                block
                    .iter()
                    .map(|it| format!("{}{}", it.line, it.text))
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect()
    }

    #[test]
    fn paragraphs_items_and_rows_are_blocks() {
        let text = "`a`\nand `b`\n\n`c`\n- `d`\n  `e`\n- `f`\n9. `g`\n   * `h`\n| `i` | `j` |\n| `k` |\n# `l`\n";
        assert_eq!(
            blocks(text),
            [
                "1a 2b", "4c", "5d 6e", "7f", "8g", "9h", "10i 10j", "11k", "12l"
            ]
        );
    }

    #[test]
    fn a_code_span_can_end_in_the_next_line() {
        assert_eq!(blocks("`a` `b\nc` `d` `\ne`\n\n`f`"), ["1a 2c 2d 3e", "5f"]);
        // Without an end, it ends with its block.
        assert_eq!(blocks("`a` ` b\n- `c`"), ["1a", "2c"]);
    }

    #[test]
    fn fenced_code_is_no_part_of_a_page() {
        let text = "`a` [b](c)\n```yaml\n`d` [e](f)\n# g\n```\n`h` [i](j \"title\")[k](l#m)\n";
        assert_eq!(blocks(text), ["1a 6h"]);
        let page = Page::new(text);
        assert_eq!(
            page.links()
                .map(|it| (it.line, it.text))
                .collect::<Vec<_>>(),
            [(1, "c"), (6, "j"), (6, "l#m")]
        );
        assert!(!page.has_section("g"));
    }

    #[test]
    fn sections_have_the_names_that_github_gives() {
        let page = Page::new(
            "# What a test verifies\n### Tests of `deploy/`\n## A change, for example `--a-b`\ntext\n",
        );
        for section in [
            "what-a-test-verifies",
            "tests-of-deploy",
            "a-change-for-example---a-b",
        ] {
            assert!(page.has_section(section), "{section}");
        }
        for section in ["What a test verifies", "a-test", "text", ""] {
            assert!(!page.has_section(section), "{section}");
        }
    }
}
