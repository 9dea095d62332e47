//! Parses the URL of a request.

/// Parts of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address<'a> {
    /// True for `https`, false for `http`.
    pub(super) secure: bool,
    /// Host, and port if the URL has one.
    pub(super) authority: &'a str,
    /// Path and query as they are sent, without the `/` that is added to a URL without a path. May
    /// be empty.
    path_and_query: &'a str,
}

impl<'a> Address<'a> {
    /// Parses an absolute URL with the scheme `http` or `https`. A fragment is ignored, because it
    /// is never sent.
    ///
    /// # Errors
    ///
    /// What is wrong with the URL, as the end of a sentence.
    pub(super) fn parse(url: &'a str) -> Result<Self, &'static str> {
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("has a character that must be percent-encoded");
        }

        let (scheme, rest) = url
            .split_once("://")
            .ok_or("is not absolute, as in `https://cloud.example/path`")?;

        let secure = scheme.eq_ignore_ascii_case("https");
        if !secure && !scheme.eq_ignore_ascii_case("http") {
            return Err("uses neither https nor http");
        }

        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let (authority, path_and_query) =
            rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));

        if authority.is_empty() || authority.starts_with(':') {
            return Err("has no host");
        }
        if authority.contains('@') {
            return Err("contains a user; Skydock adds credentials");
        }

        Ok(Self {
            secure,
            authority,
            path_and_query,
        })
    }

    /// Returns path and query, with a leading `/`.
    pub(super) fn path_and_query(&self) -> String {
        let slash = if self.path_and_query.starts_with('/') {
            ""
        } else {
            "/"
        };
        format!("{slash}{}", self.path_and_query)
    }

    /// Returns the URL as the host sends it.
    #[cfg_attr(
        target_arch = "wasm32",
        allow(dead_code, reason = "wasi:http takes the parts")
    )]
    pub(super) fn url(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.path_and_query())
    }

    /// Returns the URL for messages: without its query, which may contain secrets.
    pub(super) fn shown(&self) -> String {
        let url = self.url();
        url.split_once('?')
            .map_or(url.as_str(), |(before, _)| before)
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_a_url_into_its_parts() {
        let table = [
            ("https://cloud.example", (true, "cloud.example", "/")),
            (
                "HTTP://cloud.example:8080/v1/a?b=c#d",
                (false, "cloud.example:8080", "/v1/a?b=c"),
            ),
            (
                "https://[2001:db8::1]:5000?a=http://x/",
                (true, "[2001:db8::1]:5000", "/?a=http://x/"),
            ),
        ];
        for (url, (secure, authority, path)) in table {
            let address = Address::parse(url).unwrap();
            let parts = (address.secure, address.authority, address.path_and_query());
            assert_eq!(parts, (secure, authority, path.to_owned()), "{url}");
        }
    }

    #[test]
    fn rejects_invalid_urls() {
        for url in [
            "",
            "/v1",
            "cloud.example/v1",
            "ftp://a/",
            "https://",
            "https:///a",
            "https://:80/",
            "https://é/",
        ] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
        assert!(Address::parse("https://user:password@a/").is_err());
        assert!(Address::parse("https://a/b c").is_err());
        assert!(Address::parse("https://a/b\r\nc").is_err());
    }

    #[test]
    fn a_shown_url_omits_the_query() {
        let shown = |url| Address::parse(url).unwrap().shown();
        assert_eq!(shown("https://a?token=secret"), "https://a/");
        assert_eq!(shown("https://a:1/b"), "https://a:1/b");
    }
}
