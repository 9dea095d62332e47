//! Content negotiation: always JSON, in one of three forms.

use crate::{
    formats::render::{Form, Include},
    status::{Reason, StatusError},
};

/// Returns the first form in `Accept` that is available.
pub(super) fn form(accept: &str, include: Include) -> Result<Form, StatusError> {
    if accept.trim().is_empty() {
        return Ok(Form::Whole);
    }
    accept
        .split(',')
        .find_map(|media| offered(media, include))
        .ok_or_else(|| {
            let message = format!(
                "only application/json is offered, and the client accepts none of it: {accept}"
            );
            // If the media type is known, but not the form, an API server processes more of the
            // request before it rejects it.
            let known = accept
                .split(',')
                .any(|media| is_json(Media::parse(media).name));
            if known {
                StatusError::new(Reason::NotAcceptable, message)
            } else {
                StatusError::of_server(Reason::NotAcceptable, message)
            }
        })
}

/// Returns whether aggregated discovery is requested.
pub(super) fn aggregated(accept: &str) -> bool {
    accept.split(',').any(|media| {
        let media = Media::parse(media);
        media.name == "application/json"
            && media.parameter("g") == Some("apidiscovery.k8s.io")
            && media.parameter("v") == Some("v2")
            && media.parameter("as") == Some("APIGroupDiscoveryList")
    })
}

fn is_json(name: &str) -> bool {
    matches!(name, "application/json" | "application/*" | "*/*")
}

fn offered(media: &str, include: Include) -> Option<Form> {
    let media = Media::parse(media);
    if !is_json(media.name) {
        return None;
    }

    match (
        media.parameter("as"),
        media.parameter("g"),
        media.parameter("v"),
    ) {
        (None, ..) => Some(Form::Whole),
        (Some("Table"), Some("meta.k8s.io"), Some("v1")) => Some(Form::Table(include)),
        (Some("PartialObjectMetadata"), Some("meta.k8s.io"), Some("v1")) => Some(Form::Metadata),
        (Some("PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1")) => {
            Some(Form::MetadataList)
        }
        _ => None,
    }
}

/// A media type: its name, and its parameters.
struct Media<'a> {
    name: &'a str,
    rest: &'a str,
}

impl<'a> Media<'a> {
    fn parse(text: &'a str) -> Self {
        let (name, rest) = text.split_once(';').unwrap_or((text, ""));
        Self {
            name: name.trim(),
            rest,
        }
    }

    fn parameter(&self, wanted: &str) -> Option<&'a str> {
        let mut pairs = self
            .rest
            .split(';')
            .filter_map(|pair| pair.trim().split_once('='));
        pairs
            .find(|(key, _)| *key == wanted)
            .map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_supported_accept_form_is_used() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        for (accept, expected) in [
            ("", Some(Form::Whole)),
            ("*/*", Some(Form::Whole)),
            (
                "application/vnd.kubernetes.protobuf, application/json",
                Some(Form::Whole),
            ),
            (table, Some(Form::Table(Include::Metadata))),
            (
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                Some(Form::Metadata),
            ),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json",
                Some(Form::MetadataList),
            ),
            (
                "application/json;as=Odd;g=meta.k8s.io;v=v1, application/json;q=0.5",
                Some(Form::Whole),
            ),
            ("application/vnd.kubernetes.protobuf", None),
        ] {
            assert_eq!(form(accept, Include::Metadata).ok(), expected, "{accept}");
        }
    }

    #[test]
    fn aggregated_discovery_is_requested_by_media_type() {
        assert!(aggregated(
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
        ));
        assert!(!aggregated("application/json"));
    }
}
