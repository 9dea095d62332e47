//! What cannot change after a load balancer is created: the differences between what a Service
//! requests and what it has.

use std::collections::BTreeSet;

use super::annotation::{self, Annotations};

/// A property that a Service requests and a load balancer has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImmutableProperty<'a> {
    pub(crate) name: &'a str,
    /// The requested values.
    pub(crate) wanted: &'a BTreeSet<String>,
    /// The real values.
    pub(crate) real: &'a BTreeSet<String>,
}

impl ImmutableProperty<'_> {
    /// Returns the sentence about a difference.
    pub(crate) fn difference(&self) -> Option<String> {
        (self.wanted != self.real).then(|| {
            format!(
                "annotation {} requests {}, but the load balancer has {}, which cannot change: recreate the Service",
                annotation::key(self.name),
                list(self.wanted),
                list(self.real)
            )
        })
    }
}

fn list(values: &BTreeSet<String>) -> String {
    if values.is_empty() {
        return "none".into();
    }
    values.iter().cloned().collect::<Vec<_>>().join(",")
}

/// Returns the sentence about a load balancer with this scheme, if the Service requests another one.
pub(crate) fn scheme(annotations: Annotations<'_>, internal: bool, real: &str) -> Option<String> {
    let wanted = if internal {
        "internal"
    } else {
        "internet-facing"
    };

    // An AWS emulation may leave out the default.
    let real = Some(real).filter(|real| !real.is_empty());
    let real = real.unwrap_or("internet-facing");
    if real == wanted {
        return None;
    }

    let set = [annotation::SCHEME, annotation::INTERNAL];
    let by = match set
        .into_iter()
        .find(|name| annotations.text(name).is_some())
    {
        Some(name) => format!(
            "annotation {}: {}",
            annotation::key(name),
            annotations.text(name).unwrap_or_default()
        ),
        None => format!(
            "a Service without annotation {}",
            annotation::key(annotation::INTERNAL)
        ),
    };

    Some(format!(
        "{by} requests the scheme {wanted}, but the load balancer is {real}, which cannot change: recreate the Service"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_annotation_wanted_and_real_value() {
        let set = |words: &str| words.split_whitespace().map(str::to_owned).collect();
        let shown = |wanted: &str, real: &str| {
            let fixed = ImmutableProperty {
                name: annotation::SUBNETS,
                wanted: &set(wanted),
                real: &set(real),
            };
            fixed.difference().unwrap_or_default()
        };

        assert_eq!(shown("a b", "b a"), "");

        let text = shown("a b", "c");
        assert!(
            text.contains("aws-load-balancer-subnets requests a,b, but"),
            "{text}"
        );
        assert!(text.contains("has c,"), "{text}");
        assert!(shown("a", "").contains("has none,"));
    }

    #[test]
    fn another_scheme_is_named_with_its_reason() {
        let shown = |pairs: &[(&str, &str)], real: &str| {
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(name, value)| (annotation::key(name), (*value).to_owned()))
                .collect();
            let annotations = Annotations(&pairs);
            scheme(annotations, annotations.internal().unwrap(), real).unwrap_or_default()
        };

        assert_eq!(shown(&[], "internet-facing"), "");
        assert_eq!(shown(&[], ""), "");
        assert_eq!(shown(&[("internal", "true")], "internal"), "");

        let text = shown(&[("internal", "true")], "internet-facing");
        assert!(
            text.contains("-internal: true requests the scheme internal"),
            "{text}"
        );

        let text = shown(&[("scheme", "internal")], "internet-facing");
        assert!(text.contains("-scheme: internal requests"), "{text}");
        assert!(shown(&[], "internal").contains("without annotation"));
    }
}
