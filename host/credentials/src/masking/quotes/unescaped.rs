//! A text without its escapes. Servers may escape any character of what they quote.

use std::ops::Range;

use memchr::{memchr, memchr3};

use super::parts::Alphabet;

/// The bytes with which escapes start.
const ESCAPES: &[u8] = b"\\%&";

/// Minimum length of a line of Base64 that continues on the next line. Usual are 60 to 76; most
/// lines of other texts have something else within so many bytes.
const LINE: usize = 48;

/// A text in which escapes are replaced by what they mean: those of URLs, JSON and programming
/// languages, XML and HTML. Zero bytes are removed, which turns UTF-16 and UTF-32 into ASCII, and
/// line breaks in Base64.
///
/// Escapes that mean what no secret has, such as a line break, are not replaced: most texts have
/// only those, and need not be searched again.
#[derive(Debug)]
pub(super) struct Unescaped {
    pub(super) text: Vec<u8>,
    /// The pieces of the text, and one for its end.
    pieces: Vec<Piece>,
}

/// A piece of the text, up to the next one.
#[derive(Debug)]
struct Piece {
    start: usize,
    /// Where it starts in the original.
    original: usize,
    /// True if it is the same in the original; false for an escape.
    is_literal: bool,
}

impl Unescaped {
    /// Returns the text without escapes, or `None` if it has none.
    pub(super) fn of(original: &[u8], alphabet: &Alphabet) -> Option<Self> {
        let mut reader = Reader {
            original,
            alphabet,
            all: Self {
                text: Vec::new(),
                pieces: Vec::new(),
            },
            done: 0,
            broken: None,
        };

        let mut marks = Marks::of(original);
        while let Some(at) = marks.first() {
            let from = reader.read(at);
            marks.skip_to(from);
        }

        reader.finish()
    }

    fn literal(&mut self, original: &[u8], range: Range<usize>) {
        if !range.is_empty() {
            self.piece(range.start, true);
            self.text
                .extend_from_slice(original.get(range).unwrap_or_default());
        }
    }

    fn piece(&mut self, original: usize, is_literal: bool) {
        self.pieces.push(Piece {
            start: self.text.len(),
            original,
            is_literal,
        });
    }

    /// Returns where a range of the text is in the original. An escape is included as a whole.
    pub(super) fn original(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.piece_at(range.start);
        let start = start.map_or(0, |(piece, _)| piece.at(range.start));

        let last = range.end.saturating_sub(1);
        let end = match self.piece_at(last) {
            Some((piece, _)) if piece.is_literal => piece.at(last) + 1,
            Some((_, next)) => self.pieces.get(next).map_or(start, |next| next.original),
            None => start,
        };

        start..end.max(start)
    }

    /// Returns the piece with this position, and the number of the next one.
    fn piece_at(&self, position: usize) -> Option<(&Piece, usize)> {
        let next = self.pieces.partition_point(|it| it.start <= position);
        Some((self.pieces.get(next.checked_sub(1)?)?, next))
    }
}

/// Where the next escape, zero byte and line of Base64 are. Each is searched for only after it was
/// reached: the text is read once.
struct Marks<'a> {
    original: &'a [u8],
    escape: Option<usize>,
    zero: Option<usize>,
    /// The break at the end of the line.
    line: Option<usize>,
}

impl<'a> Marks<'a> {
    fn of(original: &'a [u8]) -> Self {
        Self {
            original,
            escape: next_escape(original, 0),
            zero: next_zero(original, 0),
            line: next_line(original, 0),
        }
    }

    fn first(&self) -> Option<usize> {
        [self.escape, self.zero, self.line]
            .into_iter()
            .flatten()
            .min()
    }

    fn skip_to(&mut self, from: usize) {
        let is_over = |mark: Option<usize>| mark.is_some_and(|at| at < from);
        if is_over(self.escape) {
            self.escape = next_escape(self.original, from);
        }
        if is_over(self.zero) {
            self.zero = next_zero(self.original, from);
        }
        if is_over(self.line) {
            self.line = next_line(self.original, from);
        }
    }
}

fn next_escape(text: &[u8], from: usize) -> Option<usize> {
    let rest = text.get(from..).unwrap_or_default();
    Some(from + memchr3(b'\\', b'%', b'&', rest)?)
}

fn next_zero(text: &[u8], from: usize) -> Option<usize> {
    Some(from + memchr(0, text.get(from..).unwrap_or_default())?)
}

fn next_line(text: &[u8], mut from: usize) -> Option<usize> {
    loop {
        // A break that is nearer cannot end a line of Base64.
        from += LINE;
        from += memchr(b'\n', text.get(from..)?)?;
        if end_of_line(text, 0, from).is_some() {
            return Some(from);
        }
        from += 1;
    }
}

/// Replaces escapes one by one.
struct Reader<'a> {
    original: &'a [u8],
    alphabet: &'a Alphabet,
    all: Unescaped,
    /// Up to here, the original is in the text.
    done: usize,
    /// Where a line break ends that is not in the text.
    broken: Option<usize>,
}

impl Reader<'_> {
    /// Reads what is at a mark, and returns where to search on.
    fn read(&mut self, at: usize) -> usize {
        let Some((length, meaning)) = self.original.get(at..).and_then(escape_at) else {
            return at + 1;
        };
        let from = at + length;

        if let Some(end) = self.end_of_line(meaning, at) {
            self.replace(end, &[]);
            let from = from + blanks(self.original, from);
            self.done = from;
            self.broken = Some(from);
            return from;
        }

        if self.is_relevant(meaning) {
            self.replace(at, meaning.as_bytes());
            self.done = from;
        }
        from
    }

    /// Returns where the line of Base64 ends that this escape breaks.
    fn end_of_line(&self, meaning: Meaning, at: usize) -> Option<usize> {
        if !meaning.is_break() {
            return None;
        }
        match self.broken {
            // Two characters, or two escapes, can be one line break.
            Some(from) if from == at => Some(at),
            _ => end_of_line(self.original, self.done, at),
        }
    }

    fn is_relevant(&self, meaning: Meaning) -> bool {
        let mut bytes = meaning.as_bytes().iter();
        meaning.length == 0 || bytes.any(|byte| self.alphabet.has(*byte) || ESCAPES.contains(byte))
    }

    /// Appends the original up to this position, and what an escape there means.
    fn replace(&mut self, at: usize, meaning: &[u8]) {
        self.all.literal(self.original, self.done..at);
        self.all.piece(at, false);
        self.all.text.extend_from_slice(meaning);
    }

    fn finish(mut self) -> Option<Unescaped> {
        if self.done == 0 {
            return None;
        }

        let end = self.original.len();
        self.all.literal(self.original, self.done..end);
        self.all.piece(end, true);
        Some(self.all)
    }
}

impl Piece {
    fn at(&self, position: usize) -> usize {
        if self.is_literal {
            self.original + (position - self.start)
        } else {
            self.original
        }
    }
}

/// The bytes that an escape stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Meaning {
    bytes: [u8; 4],
    length: usize,
}

impl Meaning {
    fn byte(byte: u8) -> Self {
        Self {
            bytes: [byte, 0, 0, 0],
            length: 1,
        }
    }

    fn letter(code: u32) -> Option<Self> {
        let mut bytes = [0; 4];
        let length = char::from_u32(code)?.encode_utf8(&mut bytes).len();
        Some(Self { bytes, length })
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    fn is_break(self) -> bool {
        matches!(self.as_bytes(), b"\n" | b"\r")
    }
}

/// Returns where a line of Base64 ends, if it does so with the line break at this position. What is
/// before `done` was replaced.
fn end_of_line(text: &[u8], done: usize, at: usize) -> Option<usize> {
    let before = text.get(done..at)?;
    let end = at - usize::from(before.ends_with(b"\r"));
    let line = text.get(end.checked_sub(LINE)?..end)?;
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte);
    line.iter().rev().all(is_base64).then_some(end)
}

/// Returns the number of blanks with which a line continues another one, as YAML and LDIF do.
fn blanks(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    rest.iter().take_while(|byte| b" \t".contains(byte)).count()
}

/// Returns the length of the escape at the start of this text, and what it means.
fn escape_at(text: &[u8]) -> Option<(usize, Meaning)> {
    match text.first()? {
        0 => Some((1, Meaning::default())),
        b'\n' => Some((1, Meaning::byte(b'\n'))),
        b'%' if text.get(1) == Some(&b'u') => {
            Some((6, Meaning::letter(number(text.get(2..6)?, 16)?)?))
        }
        b'%' => Some((3, Meaning::byte(octet(text.get(1..3)?, 16)?))),
        b'\\' => backslash(text),
        b'&' => entity(text),
        _ => None,
    }
}

/// Reads an escape of JSON, C, Go, Python or JavaScript. A backslash before any other character
/// stands for that character.
fn backslash(text: &[u8]) -> Option<(usize, Meaning)> {
    let next = *text.get(1)?;
    match next {
        b'u' if text.get(2) == Some(&b'{') => {
            let digits = text.get(3..)?.iter().take(7).position(|it| *it == b'}')?;
            let code = number(text.get(3..3 + digits)?, 16)?;
            Some((4 + digits, Meaning::letter(code)?))
        }
        b'u' => {
            let unit = number(text.get(2..6)?, 16)?;
            let low = || {
                let low = text.get(6..12)?.strip_prefix(b"\\u")?;
                number(low, 16).filter(|low| (0xDC00..0xE000).contains(low))
            };

            // In JSON, a character beyond U+FFFF is two escapes.
            if (0xD800..0xDC00).contains(&unit)
                && let Some(low) = low()
            {
                let code = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                return Some((12, Meaning::letter(code)?));
            }
            Some((6, Meaning::letter(unit)?))
        }
        b'U' => Some((10, Meaning::letter(number(text.get(2..10)?, 16)?)?)),
        b'x' => Some((4, Meaning::byte(octet(text.get(2..4)?, 16)?))),
        b'0'..=b'3' => {
            let octal = text.get(1..4).and_then(|digits| octet(digits, 8));
            Some(octal.map_or((2, Meaning::byte(next)), |byte| (4, Meaning::byte(byte))))
        }
        b'n' => Some((2, Meaning::byte(b'\n'))),
        b'r' => Some((2, Meaning::byte(b'\r'))),
        b't' => Some((2, Meaning::byte(b'\t'))),
        _ => Some((2, Meaning::byte(next))),
    }
}

/// Reads an entity of XML or HTML.
fn entity(text: &[u8]) -> Option<(usize, Meaning)> {
    const NAMED: [(&[u8], u8); 5] = [
        (b"&amp;", b'&'),
        (b"&lt;", b'<'),
        (b"&gt;", b'>'),
        (b"&quot;", b'"'),
        (b"&apos;", b'\''),
    ];

    if text.get(1) != Some(&b'#') {
        let named = NAMED.iter().find(|(name, _)| text.starts_with(name));
        return named.map(|(name, byte)| (name.len(), Meaning::byte(*byte)));
    }

    let (prefix, base) = match text.get(2)? {
        b'x' | b'X' => (3, 16),
        _ => (2, 10),
    };

    let is_digit = |byte: &u8| char::from(*byte).is_digit(base);
    // Zeros at the start are allowed.
    let digits = text.get(prefix..)?.iter().take(12);
    let digits = digits.take_while(|byte| is_digit(byte)).count();
    let end = prefix + digits;

    let meaning = Meaning::letter(number(text.get(prefix..end)?, base)?)?;
    // HTML parsers accept a number without a semicolon.
    let semicolon = usize::from(text.get(end) == Some(&b';'));
    Some((end + semicolon, meaning))
}

/// Parses digits; unlike `from_str_radix`, without a sign.
fn number(digits: &[u8], base: u32) -> Option<u32> {
    let mut number = 0_u32;
    for digit in digits {
        let digit = char::from(*digit).to_digit(base)?;
        number = number.checked_mul(base)?.checked_add(digit)?;
    }

    (!digits.is_empty()).then_some(number)
}

fn octet(digits: &[u8], base: u32) -> Option<u8> {
    u8::try_from(number(digits, base)?).ok()
}

#[cfg(test)]
mod tests {
    use super::{super::Quotes, *};

    fn view(text: &[u8], secret: &str) -> Option<Unescaped> {
        Unescaped::of(text, &Quotes::of(secret.as_bytes()).unwrap().alphabet)
    }

    /// Has every character of the cases.
    const SECRET: &str = "a b\"<>'\t\n/é😀-0123456789";

    #[test]
    fn escapes_are_replaced_by_what_they_mean() {
        for (text, expected) in [
            ("a%41%6a%2Fb", "aAj/b"),
            ("%u0041%25", "A%"),
            (
                r"\u0041\u00e9\ud83d\ude00\x42\103\U00000044\u{45}",
                "Aé😀BCDE",
            ),
            (r#"\"\\\/\n\t\-\0"#, "\"\\/\n\t-0"),
            (
                "&#65;&#x42;&#X043;&#68 &amp;&lt;&gt;&quot;&apos;",
                "ABCD &<>\"'",
            ),
            ("a\0b\0", "ab"),
        ] {
            let view = view(text.as_bytes(), SECRET).unwrap();
            assert_eq!(String::from_utf8_lossy(&view.text), expected, "{text}");
        }
    }

    #[test]
    fn a_text_without_escapes_has_no_other_view() {
        for text in [
            "",
            "plain",
            "100% & more",
            "%zz%4",
            "&nothing; &#; &#x;",
            "\\",
        ] {
            assert!(view(text.as_bytes(), SECRET).is_none(), "{text}");
        }
    }

    #[test]
    fn only_lines_of_base64_are_joined() {
        let line = "QUJD".repeat(12);
        for (end, expected) in [
            ("\n", true),
            ("\r\n", true),
            ("\\n", true),
            ("\\r\\n", true),
            ("%0D%0A", true),
            ("&#10;", true),
            ("\\u000a  ", true),
            ("\n  ", true),
            (" \n", false),
            (",\n", false),
        ] {
            for (before, expected) in [("", expected), ("data: ", expected), (" ", expected)] {
                let text = format!("{before}{line}{end}{line}{end}RUY=\n");
                let view = view(text.as_bytes(), "xK9vQ2mB7tR4wZ8nL3pC");
                let joined = view.is_some_and(|it| {
                    it.text
                        .starts_with(format!("{before}{line}{line}RUY=").as_bytes())
                });
                assert_eq!(joined, expected, "{text}");
            }
        }

        assert!(view(b"{\n  a\n}\nabc\ndef\n", "xK9vQ2mB7tR4wZ8nL3pC").is_none());
    }

    #[test]
    fn a_range_is_found_in_the_original() {
        let text = b"ab\\u0063d%65f\0g";
        let view = view(text, SECRET).unwrap();
        assert_eq!(view.text, b"abcdefg");
        for (range, expected) in [
            (0..1, 0..1),
            (1..3, 1..8),
            (2..3, 2..8),
            (3..5, 8..12),
            (5..7, 12..15),
            (0..7, 0..15),
        ] {
            assert_eq!(view.original(&range), expected, "{range:?}");
        }
    }

    #[test]
    fn escapes_of_what_no_secret_has_are_kept() {
        let token = "xK9vQ2mB7tR4wZ8nL3pC";
        for text in [r#"a\n\"b\"%20%3d&lt;"#, "&quot;"] {
            assert!(view(text.as_bytes(), token).is_none(), "{text}");
        }
        let view = view(br#"\"\u0041\""#, token).unwrap();
        assert_eq!(view.text, br#"\"A\""#);
    }
}
