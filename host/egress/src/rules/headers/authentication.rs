//! Authentication that a plugin sets itself.

use http::{HeaderMap, HeaderName, HeaderValue, request::Parts};

use super::names::{self, Listed};

/// Authentication in a head: headers with their values, and names of query parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Authentication {
    headers: Vec<(HeaderName, HeaderValue)>,
    parameters: Vec<String>,
}

impl Authentication {
    pub(crate) fn of(head: &Parts) -> Self {
        let headers = head.headers.iter();
        let query = head.uri.query().into_iter();
        let pairs = query.flat_map(|query| query.split(['&', ';']));
        let parameters = pairs.map(names::parameter);

        Self {
            headers: headers
                .filter(|(name, _)| names::authenticates(name.as_str()))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            parameters: parameters
                .filter(|name| names::is_authentication(name))
                .collect(),
        }
    }

    /// Returns what of it the rule does not list, for an error message.
    pub(crate) fn unlisted(&self, listed: &Listed) -> Option<String> {
        let mut headers = self.headers.iter().map(|(name, _)| name.as_str());
        let header = headers.find(|name| !listed.has_header(name));
        header
            .map(|name| format!("header {name}"))
            .or_else(|| self.unlisted_parameter(listed))
    }

    /// Returns the query parameter that the rule does not list, for an error message.
    pub(crate) fn unlisted_parameter(&self, listed: &Listed) -> Option<String> {
        let mut parameters = self.parameters.iter();
        let parameter = parameters.find(|name| !listed.has_parameter(name))?;
        Some(format!("query parameter {parameter}"))
    }

    /// Removes headers that still have the plugin's value, and so were not replaced, unless the
    /// rule lists them.
    pub(crate) fn strip(&self, headers: &mut HeaderMap, listed: &Listed) {
        for (name, guest) in &self.headers {
            if listed.has_header(name.as_str()) {
                continue;
            }

            if headers.get_all(name).iter().any(|value| value == guest) {
                // A credential may have added its own value to that of the plugin, for example a
                // cookie.
                let kept: Vec<_> = headers
                    .get_all(name)
                    .iter()
                    .filter(|value| *value != guest)
                    .cloned()
                    .collect();

                headers.remove(name);
                for value in kept {
                    headers.append(name, value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skydock_credentials::request::glob::Glob;

    fn head(query: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().uri(format!("https://a.example/?{query}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn authentication_is_recognized_by_name() {
        let none = Listed::default();
        for name in [
            "authorization",
            "Cookie",
            "X-Auth-Token",
            "Token",
            "DD-API-KEY",
        ] {
            let found = Authentication::of(&head("", &[(name, "v")]));
            let expected = format!("header {}", name.to_ascii_lowercase());
            assert_eq!(found.unlisted(&none), Some(expected));
        }

        for (query, expected) in [
            (
                "x=1&X-Amz-Signature=ab&sig=c",
                Some("query parameter x-amz-signature"),
            ),
            ("a=1;sig=c", Some("query parameter sig")),
            ("a=1&Token=b", Some("query parameter token")),
            ("a=1&limit=2", None),
        ] {
            let found = Authentication::of(&head(query, &[("x-request-id", "v")]));
            assert_eq!(found.unlisted(&none).as_deref(), expected, "{query}");
        }

        let listed = Listed {
            headers: vec![Glob::parse("dd-api-key").unwrap()],
            parameters: vec![Glob::parse("key").unwrap()],
        };

        let found = |query| Authentication::of(&head(query, &[("dd-api-key", "v")]));
        assert_eq!(found("key=1").unlisted(&listed), None);
        assert!(found("key=1&token=2").unlisted(&listed).is_some());
    }

    #[test]
    fn authentication_that_was_not_replaced_is_removed() {
        let guest = head(
            "",
            &[
                ("authorization", "guest"),
                ("cookie", "guest"),
                ("x-api-key", "guest"),
                ("token", "guest"),
            ],
        );

        let found = Authentication::of(&guest);
        let mut headers = guest.headers;
        headers.insert("authorization", HeaderValue::from_static("real"));
        headers.append("cookie", HeaderValue::from_static("real"));
        let listed = Listed {
            headers: vec![Glob::parse("token").unwrap()],
            parameters: Vec::new(),
        };

        found.strip(&mut headers, &listed);
        assert_eq!(headers["authorization"], "real");
        assert!(!headers.contains_key("x-api-key") && headers.contains_key("token"));
        assert_eq!(
            headers.get_all("cookie").iter().collect::<Vec<_>>(),
            ["real"]
        );
    }
}
