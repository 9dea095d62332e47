use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use proptest::prelude::*;

use super::*;

/// A token with four parts.
const TOKEN: &str = "xK9vQ2mB7tR4wZ8nL3pC6hJ1dF5gS0yTcV2bN4mA8sD/+_-q";

fn masked(text: &[u8], secret: &str) -> String {
    masked_by(&Quotes::of(secret.as_bytes()).unwrap(), text)
}

fn masked_by(quotes: &Quotes, text: &[u8]) -> String {
    let mut masked = text.to_vec();
    for range in find(text, &[quotes]) {
        masked[range].fill(b'*');
    }
    String::from_utf8_lossy(&masked).into_owned()
}

fn each(secret: &str, encode: impl Fn(char) -> String) -> String {
    secret.chars().map(encode).collect()
}

/// Encodes a secret after other text, and returns what belongs to the secret.
fn base64(before: &str, secret: &str) -> String {
    let all = STANDARD.encode(format!("{before}{secret}"));
    let end = (before.len() + secret.len()) * 8;
    all[before.len() * 8 / 6..end.div_ceil(6)].to_owned()
}

fn encodings(secret: &str) -> Vec<String> {
    let basic = STANDARD.encode(format!("user:{secret}"));
    let basic = basic.trim_end_matches('=');
    vec![
        secret.to_owned(),
        secret.to_uppercase(),
        secret.to_lowercase(),
        base64("", secret),
        base64("a", secret),
        base64("Bearer ", secret),
        base64("Bearer ", secret).to_lowercase(),
        URL_SAFE_NO_PAD.encode(format!("abc{secret}"))[4..].to_owned(),
        // The end of what Basic authentication sends, in an answer that has it in Base64.
        base64("Basic ", &basic[7..]),
        hex::encode(secret),
        hex::encode(&basic[7..]),
        hex::encode_upper(secret),
        each(secret, |letter| format!("%{:02x}", u32::from(letter))),
        each(secret, |letter| match letter {
            '/' | '+' => format!("%{:02X}", u32::from(letter)),
            other => other.into(),
        }),
        each(secret, |letter| format!("%25{:02X}", u32::from(letter))),
        each(secret, |letter| format!("\\u{:04x}", u32::from(letter))),
        each(secret, |letter| format!("\\\\u{:04X}", u32::from(letter))),
        each(secret, |letter| format!("\\x{:02x}", u32::from(letter))),
        each(secret, |letter| match letter {
            'v' | 'B' | '/' => format!("\\u{:04x}", u32::from(letter)),
            other => other.into(),
        }),
        each(secret, |letter| format!("&#{};", u32::from(letter))),
        each(secret, |letter| format!("&#x{:X};", u32::from(letter))),
    ]
}

// Holds: SEC-18
#[test]
fn a_secret_is_found_in_every_common_encoding() {
    for (number, form) in encodings(TOKEN).iter().enumerate() {
        let text = format!("{{\"sent\": \"{form}\", \"other\": \"kept\"}}");
        let stars = text.replace(form, &"*".repeat(form.len()));
        assert_eq!(masked(text.as_bytes(), TOKEN), stars, "number {number}");
    }
}

// Holds: SEC-18
#[test]
fn a_secret_is_found_in_utf_16() {
    let units = |text: &str| text.encode_utf16().collect::<Vec<_>>();
    for form in [TOKEN.to_owned(), base64("Bearer ", TOKEN)] {
        let text = units(&format!("a {form} z"));
        let little: Vec<u8> = text.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = text.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        for bytes in [little, big] {
            let letters = masked(&bytes, TOKEN).replace('\0', "");
            let left = letters.replace('*', "");
            assert_eq!(left, "a  z", "{letters}");
        }
    }
}

// Holds: SEC-18
#[test]
fn a_secret_is_found_in_base64_with_line_breaks() {
    // With two parts, either of which a break may cut.
    let secret = "a4fd12aabfe228f219e9cb0eb53f1694";
    for (before, width) in (0..80).flat_map(|before| [(before, 64), (before, 76)]) {
        let all = STANDARD.encode(format!("{}{secret}ZZZ", "A".repeat(before)));
        let lines: Vec<_> = all
            .as_bytes()
            .chunks(width)
            .map(String::from_utf8_lossy)
            .collect();
        for end in ["\n", "\r\n", "\\n", "\\r\\n", "\n  "] {
            let text = masked(format!("\"{}\"", lines.join(end)).as_bytes(), secret);
            let left = text.replace(['*', '"'], "").replace(end, "");
            let kept = all.len() - secret.len() * 8 / 6;
            assert!(
                left.len() <= kept && left.starts_with(&all[..before * 8 / 6]),
                "{text}"
            );
        }
    }
}

// Holds: SEC-18
#[test]
fn a_secret_is_found_after_two_encodings() {
    let utf_16 = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    };
    for secret in [TOKEN, "a4fd12aabfe228f219e9cb0eb53f1694"] {
        for before in ["", "a", "ab"] {
            let text = format!("{before}{secret}");
            let inner = [
                text.to_uppercase().into_bytes(),
                text.to_lowercase().into_bytes(),
                utf_16(&text, u16::to_le_bytes),
                utf_16(&text, u16::to_be_bytes),
            ];
            for bytes in inner {
                for form in [STANDARD.encode(&bytes), hex::encode(&bytes)] {
                    let left = masked(form.as_bytes(), secret).replace('*', "");
                    assert!(left.len() <= before.len() * 4 + 4, "{left} of {form}");
                }
            }
        }
    }
}

// Holds: SEC-18
#[test]
fn a_cut_secret_is_found() {
    let length = TOKEN.len();
    let cuts = (12..length).map(|end| 0..end);
    let cuts = cuts.chain((0..length - 12).map(|start| start..length));
    let middle = (0..length - 23).map(|start| start..start + 23);
    for cut in cuts.chain(middle) {
        let quote = &TOKEN[cut.clone()];
        let text = format!("invalid token: {quote}... in 'request'");
        let expected = text.replace(quote, &"*".repeat(quote.len()));
        let found = masked(text.as_bytes(), TOKEN);
        // The dots may be masked, too: they are where the secret would continue.
        assert!(
            found.starts_with(&expected[..15 + quote.len()]) && found.ends_with(" in 'request'"),
            "{cut:?}: {found}"
        );
    }
}

// Holds: SEC-40
#[test]
fn a_guess_is_confirmed_only_by_a_complete_part() {
    let quotes = Quotes::of(TOKEN.as_bytes()).unwrap();
    let told = |text: &str| {
        let found = masked_by(&quotes, format!("'{text}'").as_bytes());
        found
            .match_indices('*')
            .map(|(at, _)| at)
            .collect::<Vec<_>>()
    };

    let mut confirmed = 0;
    for start in 0..TOKEN.len() {
        for end in start + 1..TOKEN.len() {
            // The plugin knows all of this but its first or its last byte, which it guesses.
            let right = &TOKEN[start..end];
            for wrong in [
                format!("!{}", &right[1..]),
                format!("{}!", &right[..right.len() - 1]),
            ] {
                let is_confirmed = told(right) != told(&wrong);
                let has_part = [0, 12, 24, 36].iter().any(|part| {
                    start <= *part && part + 12 <= end && (start == *part || end == part + 12)
                });
                assert!(has_part || !is_confirmed, "{right} instead of {wrong}");
                confirmed += usize::from(is_confirmed);
            }
        }
    }

    assert!(confirmed > 0, "complete parts are found");
}

#[test]
fn what_surrounds_a_part_is_masked_up_to_the_end_of_a_word() {
    for (text, expected) in [
        ("key=xK9vQ2mB7tR4-cut;id=7", "key=****************;id=7"),
        ("sent cV2bN4mA8sD/+_-q", "sent ****************"),
        // The rest of an escape stays, so that the text can still be read.
        ("\\u0026xwZ8nL3pC6hJ1,", "\\u0026*************,"),
        ("\\nxwZ8nL3pC6hJ1,", "\\n*************,"),
        ("%26xwZ8nL3pC6hJ1,", "%26*************,"),
    ] {
        assert_eq!(masked(text.as_bytes(), TOKEN), expected, "{text}");
    }
}

#[test]
fn other_text_is_not_changed() {
    let json = r#"{"servers": [{"id": "9b1deb4d-3b7d-4bad", "name": "node-1", "metadata": {"a": "b\n\u00e9"}}]}"#;
    let text = json.repeat(50);
    assert_eq!(masked(text.as_bytes(), TOKEN), text);
    // Names in a password are no reason to mask them elsewhere.
    let password = "openstack-admin-of-region-1";
    for text in ["openstack-admin", "region-1", "admin-of-region-2"] {
        assert_eq!(masked(text.as_bytes(), password), text);
    }
    assert_eq!(masked(password.as_bytes(), password), "*".repeat(27));
}

#[test]
fn short_secrets_are_not_searched_for() {
    assert!(Quotes::of(b"1234567").is_none());
    assert!(Quotes::of(b"12345678").is_some());
}

proptest! {
    #[test]
    fn a_quote_is_found_at_every_position(
        before in "[ -~]{0,40}", after in "[ -~]{0,20}", number in 0_usize..21,
    ) {
        let form = &encodings(TOKEN)[number];
        let found = masked(format!("{before} {form} {after}").as_bytes(), TOKEN);
        let quoted = &found[before.len() + 1..][..form.len()];
        prop_assert_eq!(quoted, "*".repeat(form.len()));
    }
}
