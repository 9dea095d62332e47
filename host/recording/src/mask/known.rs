//! Secrets that have been seen, and are masked wherever they occur later.

use std::collections::HashMap;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};

/// Minimum bytes of a secret that is masked wherever it occurs. Shorter ones are ordinary words.
pub(super) const SHORTEST: usize = 8;

/// Maximum number of texts. Plugins may use another token for each request, and those of long ago
/// do not come back.
const MOST: usize = 16384;

/// The first bytes of a secret.
type Start = [u8; SHORTEST];

/// What is masked. The instances of a process share it: what one of them is told by name, another
/// one finds in the cache.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// By their first bytes; the longest first, because others may be its beginning.
    secrets: HashMap<Start, Vec<Secret>>,
    /// Whether a secret begins with two bytes.
    begins: Vec<bool>,
    count: usize,
    /// Grows with each use of a secret.
    clock: u64,
}

#[derive(Debug)]
struct Secret {
    text: String,
    mask: String,
    used: u64,
}

impl Known {
    /// Remembers a secret, as it is and as other formats write it.
    pub(super) fn learn(&mut self, secret: &str) {
        let blank = "x".repeat(secret.len());
        if secret.len() < SHORTEST || secret == blank {
            return;
        }

        for form in [percent_encoded(secret), json_escaped(secret)] {
            let mask = "x".repeat(form.len());
            self.add(form, mask);
        }

        for engine in [STANDARD, URL_SAFE] {
            self.add(engine.encode(secret), engine.encode(&blank));
            // In a longer text, a secret has one of three alignments.
            for shift in 0..3 {
                let part = |text: &str| part_of_base64(&engine, text, shift);
                self.add(part(secret), part(&blank));
            }
        }

        self.add(secret.to_owned(), blank);
    }

    /// Remembers a text and its mask, which has the same length.
    pub(super) fn add(&mut self, text: String, mask: String) {
        let Some(start) = text.as_bytes().first_chunk().copied() else {
            return;
        };

        // Lengths stay the same, so that a replayed plugin does the same.
        if text == mask || text.len() != mask.len() {
            return;
        }

        self.clock += 1;
        let used = self.clock;
        let same = self.secrets.entry(start).or_default();
        if let Some(secret) = same.iter_mut().find(|it| it.text == text) {
            secret.used = used;
            return;
        }

        let at = same.partition_point(|it| it.text.len() >= text.len());
        same.insert(at, Secret { text, mask, used });
        self.count += 1;
        self.mark(start);

        if self.count > MOST {
            self.forget();
        }
    }

    fn mark(&mut self, start: Start) {
        self.begins.resize(1 << 16, false);
        if let Some(begins) = self.begins.get_mut(pair(start)) {
            *begins = true;
        }
    }

    /// Forgets the half that was not used for the longest time.
    fn forget(&mut self) {
        let mut used: Vec<_> = self.secrets.values().flatten().map(|it| it.used).collect();
        used.sort_unstable();
        let oldest = used.get(used.len() / 2).copied().unwrap_or_default();

        self.secrets
            .values_mut()
            .for_each(|same| same.retain(|it| it.used >= oldest));
        self.secrets.retain(|_, same| !same.is_empty());
        self.count = self.secrets.values().map(Vec::len).sum();

        self.begins.clear();
        let starts: Vec<_> = self.secrets.keys().copied().collect();
        starts.into_iter().for_each(|start| self.mark(start));
    }

    /// Masks all secrets in a text. The length stays the same.
    pub(super) fn hide(&mut self, text: &str) -> String {
        let mut hidden = text.as_bytes().to_vec();
        let mut at = 0;

        while let Some(start) = text
            .as_bytes()
            .get(at..)
            .and_then(|rest| rest.first_chunk().copied())
        {
            at += self.found(start, text, at).map_or(1, |mask| {
                let place = hidden.iter_mut().skip(at);
                place
                    .zip(mask.bytes())
                    .for_each(|(byte, masked)| *byte = masked);
                mask.len()
            });
        }

        // Secrets are replaced completely, and by ASCII.
        String::from_utf8(hidden).unwrap_or_else(|_| "x".repeat(text.len()))
    }

    /// Returns the mask of the longest secret at this place.
    fn found(&mut self, start: Start, text: &str, at: usize) -> Option<&str> {
        // Most places in a text begin no secret, so this comes first.
        self.begins
            .get(pair(start))
            .copied()
            .filter(|begins| *begins)?;

        let rest = text.as_bytes().get(at..)?;
        let secret = self
            .secrets
            .get_mut(&start)?
            .iter_mut()
            .find(|it| rest.starts_with(it.text.as_bytes()))?;

        self.clock += 1;
        secret.used = self.clock;
        Some(&secret.mask)
    }
}

fn pair(start: Start) -> usize {
    let [first, second, ..] = start;
    usize::from(u16::from_be_bytes([first, second]))
}

/// Returns what the text is in the Base64 of a longer one, in which so many bytes are before it,
/// modulo 3. Characters that other bytes determine in part are omitted.
fn part_of_base64(engine: &impl Engine, text: &str, shift: usize) -> String {
    let longer = [vec![0; shift].as_slice(), text.as_bytes()].concat();
    let from = (shift * 8).div_ceil(6);
    let to = longer.len() * 8 / 6;
    let encoded = engine.encode(longer);
    encoded.get(from..to).unwrap_or_default().to_owned()
}

/// Returns the text as it is in a URL or a form.
fn percent_encoded(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encoded).collect()
}

/// Returns the text as it is in JSON.
fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted
        .trim_start_matches('"')
        .strip_suffix('"')
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knows(secrets: &[&str]) -> Known {
        let mut known = Known::default();
        secrets.iter().for_each(|it| known.learn(it));
        known
    }

    #[test]
    fn secrets_are_masked_in_every_usual_form() {
        let mut known = knows(&["p\"ss wörd/1"]);
        for form in ["p\"ss wörd/1", "p%22ss%20w%C3%B6rd%2F1", "p\\\"ss wörd/1"] {
            assert_eq!(
                known.hide(&format!("a {form} b")),
                format!("a {} b", "x".repeat(form.len()))
            );
        }
        let encoded = STANDARD.encode("p\"ss wörd/1");
        assert_eq!(known.hide(&encoded), STANDARD.encode("x".repeat(12)));
    }

    // Holds: SEC-26
    #[test]
    fn a_secret_in_a_longer_text_in_base64_is_masked() {
        let secret = "hunter2-of-the-cloud";
        let mut known = knows(&[secret]);
        for before in ["", "a", "me", "me:", "user"] {
            for after in ["", "\n", ", and so on"] {
                let hidden = known.hide(&STANDARD.encode(format!("{before}{secret}{after}")));
                let decoded = STANDARD.decode(hidden).unwrap();
                let decoded = String::from_utf8_lossy(&decoded).into_owned();
                assert!(
                    decoded.contains(&"x".repeat(secret.len() - 2)) && !decoded.contains("unter"),
                    "{decoded}"
                );
            }
        }
    }

    #[test]
    fn a_secret_that_begins_like_another_is_masked_whole() {
        for secrets in [
            ["hunter2-hunter2", "hunter2-"],
            ["hunter2-", "hunter2-hunter2"],
        ] {
            assert_eq!(
                knows(&secrets).hide("hunter2-hunter2 hunter2-h"),
                "xxxxxxxxxxxxxxx xxxxxxxxh"
            );
        }
    }

    #[test]
    fn secrets_that_are_used_are_kept() {
        let mut known = knows(&["hunter2-hunter2"]);
        for number in 0..MOST {
            known.learn(&format!("{number:08}"));
            assert_eq!(known.hide("hunter2-hunter2"), "xxxxxxxxxxxxxxx");
        }
        assert!(
            known.count <= MOST && known.hide("00000000") == "00000000",
            "{}",
            known.count
        );
    }
}
