//! A proxy that authenticates users, and says in headers who they are.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;

use super::{Opinion, User};
use crate::tls::Authorities;

/// Which proxies are believed, and how they name users.
#[derive(Clone, Debug)]
pub(crate) struct FrontProxy {
    /// Issue the certificates of proxies.
    pub(crate) authorities: Authorities,
    pub(crate) headers: RequestHeaders,
}

/// The names of the headers, and who may send them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestHeaders {
    /// Common names of the proxies; if there are none, any certificate of the authorities is that
    /// of a proxy.
    pub(crate) allowed_names: Vec<String>,
    pub(crate) usernames: Vec<String>,
    pub(crate) uids: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) extra_prefixes: Vec<String>,
}

impl RequestHeaders {
    /// Returns who the user is, according to a client with this common name.
    pub(super) fn opinion(&self, common_name: &str, headers: &HeaderMap) -> Opinion {
        let is_proxy = self.allowed_names.is_empty()
            || self.allowed_names.iter().any(|name| name == common_name);
        if !is_proxy {
            return Opinion::Rejected;
        }

        match self.user(headers) {
            Some(user) if user.name.is_empty() => Opinion::Nothing,
            Some(user) => Opinion::User(user),
            None => Opinion::Rejected,
        }
    }

    /// Returns the user in the headers, with an empty name if they name none; `None` if a header is
    /// not a text.
    fn user(&self, headers: &HeaderMap) -> Option<User> {
        let first = |names: &[String]| -> Option<String> {
            let mut values = names.iter().filter_map(|name| headers.get(name));
            let value = values.find(|value| !value.is_empty());
            value.map_or(Some(String::new()), text)
        };

        let groups = self.groups.iter().flat_map(|name| headers.get_all(name));
        let groups = groups.filter(|value| !value.is_empty()).map(text);
        Some(User {
            name: first(&self.usernames)?,
            uid: first(&self.uids)?,
            groups: groups.collect::<Option<_>>()?,
            extra: self.extra(headers)?,
        })
    }

    fn extra(&self, headers: &HeaderMap) -> Option<BTreeMap<String, Vec<String>>> {
        let mut extra = BTreeMap::<String, Vec<String>>::new();
        for prefix in &self.extra_prefixes {
            let prefix = prefix.to_ascii_lowercase();
            for (name, value) in headers {
                // Names of headers are in lower case.
                if let Some(key) = name.as_str().strip_prefix(&prefix) {
                    let decoded = percent_decode_str(key).decode_utf8();
                    let key = decoded.map_or_else(|_| key.to_owned(), Into::into);
                    extra.entry(key).or_default().push(text(value)?);
                }
            }
        }
        Some(extra)
    }
}

fn text(value: &HeaderValue) -> Option<String> {
    std::str::from_utf8(value.as_bytes())
        .ok()
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn rules(allowed_names: &[&str]) -> RequestHeaders {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        RequestHeaders {
            allowed_names: list(allowed_names),
            usernames: list(&["X-Remote-User", "X-User"]),
            uids: list(&["X-Remote-Uid"]),
            groups: list(&["X-Remote-Group"]),
            extra_prefixes: list(&["X-Remote-Extra-"]),
        }
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[test]
    fn a_proxy_names_the_user_in_headers() {
        let given = headers(&[
            ("x-remote-user", ""),
            ("x-user", "jane"),
            ("x-remote-uid", "7"),
            ("X-Remote-Group", "a"),
            ("X-Remote-Group", ""),
            ("x-remote-group", "b"),
            ("X-Remote-Extra-Example.com%2FScopes", "one"),
            ("X-Remote-Extra-example.com%2fscopes", "two"),
        ]);
        let Opinion::User(user) = rules(&["proxy"]).opinion("proxy", &given) else {
            panic!("no user")
        };
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane", "7"));
        assert_eq!(user.groups, ["a", "b"]);
        assert_eq!(user.extra["example.com/scopes"], ["one", "two"]);
    }

    #[test]
    fn only_a_proxy_may_name_the_user() {
        let named = headers(&[
            ("x-remote-user", "admin"),
            ("x-remote-group", "system:masters"),
        ]);
        for (allowed, common_name, is_believed) in [
            (&["proxy"][..], "proxy", true),
            (&["proxy"], "jane", false),
            (&["proxy"], "", false),
            (&[], "anybody", true),
        ] {
            let opinion = rules(allowed).opinion(common_name, &named);
            let is_user = matches!(opinion, Opinion::User(_));
            assert_eq!(is_user, is_believed, "{common_name}: {opinion:?}");
            assert_eq!(opinion == Opinion::Rejected, !is_believed);
        }

        // Without a name, the certificate may be that of a user.
        let unnamed = headers(&[("x-remote-group", "system:masters")]);
        assert_eq!(rules(&[]).opinion("proxy", &unnamed), Opinion::Nothing);
        let mut broken = unnamed;
        broken.insert("x-remote-user", HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(rules(&[]).opinion("proxy", &broken), Opinion::Rejected);
    }
}
