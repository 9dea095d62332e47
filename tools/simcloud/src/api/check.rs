//! Rules for values of clients.
use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use crate::api::error::{Error, Result};

/// The user's pairs of an object.
pub(crate) type Labels = BTreeMap<String, String>;

/// Maximum number of labels of an object.
const LABELS: usize = 32;

/// Checks a name of at most `most` bytes.
pub(crate) fn name(name: &str, most: usize) -> Result<()> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte);
    if name.is_empty() || name.len() > most || !name.bytes().all(fits) {
        return Err(Error::field(
            "name",
            format!("a name has 1 to {most} letters, digits, `.`, `_`, `-`, `+`"),
        ));
    }
    Ok(())
}

pub(crate) fn labels(labels: &Labels) -> Result<()> {
    if labels.len() > LABELS {
        return Err(Error::field("labels", format!("at most {LABELS} labels")));
    }

    for (key, value) in labels {
        let is_key = (1..=63).contains(&key.len())
            && key
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'=');
        if !is_key {
            return Err(Error::field(
                "labels",
                "a key has 1 to 63 visible ASCII characters without `=`",
            ));
        }

        if value.len() > 255 || value.chars().any(char::is_control) {
            return Err(Error::field(
                format!("labels.{key}"),
                "a value has at most 255 bytes, none of control",
            ));
        }
    }
    Ok(())
}

/// Checks a CIDR, which must be canonical so that it can be compared as text.
pub(crate) fn cidr(field: &str, text: &str) -> Result<()> {
    let canonical = text
        .parse::<IpNet>()
        .is_ok_and(|net| net.trunc().to_string() == text);
    if canonical {
        Ok(())
    } else {
        Err(Error::field(
            field,
            "expected a canonical CIDR, for example 10.0.0.0/24",
        ))
    }
}

/// Checks that a list has a number of elements within limits, and none twice.
pub(crate) fn list<T: Ord>(field: &str, list: &[T], least: usize, most: usize) -> Result<()> {
    if !(least..=most).contains(&list.len()) {
        return Err(Error::field(
            field,
            format!("expected {least} to {most} elements"),
        ));
    }

    let mut seen = BTreeSet::new();
    match list.iter().position(|element| !seen.insert(element)) {
        Some(index) => Err(Error::field(
            format!("{field}[{index}]"),
            "this element is there twice",
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_length_and_an_alphabet() {
        for good in ["a", "A.b_c-9+1", &"x".repeat(128)] {
            assert!(name(good, 128).is_ok(), "{good}");
        }
        for bad in ["", "a b", "a/b", "é", &"x".repeat(129)] {
            assert!(name(bad, 128).is_err(), "{bad}");
        }
    }

    #[test]
    fn labels_have_limits() {
        let one =
            |key: &str, value: &str| labels(&Labels::from([(key.to_owned(), value.to_owned())]));
        assert!(one("a.b/c", "").is_ok() && one(&"k".repeat(63), &"v".repeat(255)).is_ok());
        assert!(
            one("", "").is_err() && one("a=b", "").is_err() && one(&"k".repeat(64), "").is_err()
        );
        assert!(one("a", &"v".repeat(256)).is_err() && one("a", "\n").is_err());

        let many = |count: usize| {
            labels(
                &(0..count)
                    .map(|index| (index.to_string(), String::new()))
                    .collect(),
            )
        };
        assert!(many(32).is_ok() && many(33).is_err());
    }

    #[test]
    fn a_cidr_is_canonical() {
        for good in ["10.0.0.0/24", "2001:db8::/64", "0.0.0.0/0", "192.0.2.1/32"] {
            assert!(cidr("c", good).is_ok(), "{good}");
        }
        for bad in [
            "10.0.0.1/24",
            "10.0.0.0",
            "10.0.0.0/33",
            "2001:db8:0::/64",
            "x",
        ] {
            assert!(cidr("c", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_list_has_limits_and_no_duplicates() {
        assert!(list("l", &[1, 2], 0, 2).is_ok());
        assert!(list("l", &[1, 2], 0, 1).is_err() && list::<u8>("l", &[], 1, 2).is_err());
        assert_eq!(
            list("l", &[1, 2, 1], 0, 9),
            Err(Error::field("l[2]", "this element is there twice"))
        );
    }
}
