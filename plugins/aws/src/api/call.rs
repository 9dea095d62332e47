//! One request to a query API.

use std::fmt::{Display, Write as _};

use crate::endpoint::Api;
use crate::tags::Tags;

/// One request to one API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The API that the request is sent to.
    pub api: Api,
    /// The parameter `Action`, for example `DescribeInstances`.
    pub action: &'static str,
    /// All other parameters, in order.
    pub params: Vec<(String, String)>,
}

impl Call {
    /// Creates a call without parameters.
    pub(crate) fn new(api: Api, action: &'static str) -> Self {
        Self {
            api,
            action,
            params: Vec::new(),
        }
    }

    /// Adds a parameter.
    #[must_use]
    pub(crate) fn with(mut self, key: impl Into<String>, value: impl Display) -> Self {
        self.params.push((key.into(), value.to_string()));
        self
    }

    /// Adds a parameter if there is a value.
    #[must_use]
    pub(crate) fn with_some(self, key: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds a list: `KEY.1`, `KEY.2` for EC2, `KEY.member.1` for the others.
    #[must_use]
    pub(crate) fn list<T: Display>(
        mut self,
        key: &str,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        for (index, value) in values.into_iter().enumerate() {
            let key = self.api.item(key, index + 1);
            self = self.with(key, value);
        }
        self
    }

    /// Adds an EC2 filter.
    #[must_use]
    pub(crate) fn filter<T: Display>(
        mut self,
        name: &str,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        let filters = self
            .params
            .iter()
            .filter(|(key, _)| key.starts_with("Filter.") && key.ends_with(".Name"));
        let number = filters.count() + 1;

        self = self.with(format!("Filter.{number}.Name"), name);
        for (index, value) in values.into_iter().enumerate() {
            self = self.with(format!("Filter.{number}.Value.{}", index + 1), value);
        }
        self
    }

    /// Adds tags below this key: `Tags` for load balancers, `TagSpecification.1.Tag` and similar
    /// for EC2.
    #[must_use]
    pub(crate) fn tags(mut self, key: &str, tags: &Tags) -> Self {
        for (index, (name, value)) in tags.iter().enumerate() {
            let item = self.api.item(key, index + 1);
            self = self
                .with(format!("{item}.Key"), name)
                .with(format!("{item}.Value"), value);
        }
        self
    }

    /// Returns the form to post.
    #[must_use]
    pub fn form(&self) -> String {
        let mut form = format!("Action={}&Version={}", self.action, self.api.version());
        for (key, value) in &self.params {
            form.push('&');
            escape(key, &mut form);
            form.push('=');
            escape(value, &mut form);
        }
        form
    }
}

impl Api {
    /// Returns the key of an element of a list.
    fn item(self, key: &str, number: usize) -> String {
        match self {
            Self::Ec2 => format!("{key}.{number}"),
            Self::Elb | Self::Elbv2 => format!("{key}.member.{number}"),
        }
    }

    /// Returns the name of the parameter that requests the next page.
    pub(crate) fn page_parameter(self) -> &'static str {
        match self {
            Self::Ec2 => "NextToken",
            Self::Elb | Self::Elbv2 => "Marker",
        }
    }
}

/// Percent-encodes everything except RFC 3986's unreserved characters, as SigV4 requires.
fn escape(text: &str, into: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                into.push(char::from(byte));
            }
            byte => _ = write!(into, "%{byte:02X}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_filters_and_tags_are_numbered_per_api() {
        let tags = Tags::from([("k".into(), "v".into())]);
        let call = Call::new(Api::Ec2, "A")
            .list("Id", ["a", "b"])
            .filter("f", ["1", "2"])
            .filter("g", ["3"]);

        assert_eq!(
            call.tags("Tag", &tags).form(),
            "Action=A&Version=2016-11-15&Id.1=a&Id.2=b&Filter.1.Name=f&Filter.1.Value.1=1&Filter.1.Value.2=2\
             &Filter.2.Name=g&Filter.2.Value.1=3&Tag.1.Key=k&Tag.1.Value=v"
        );
        assert_eq!(
            Call::new(Api::Elbv2, "B")
                .list("Id", ["a"])
                .tags("Tags", &tags)
                .with_some("X", None::<u8>)
                .form(),
            "Action=B&Version=2015-12-01&Id.member.1=a&Tags.member.1.Key=k&Tags.member.1.Value=v"
        );
    }

    #[test]
    fn special_characters_are_percent_encoded() {
        let call = Call::new(Api::Elb, "C").with("k", "a b&c=d/é~");
        assert_eq!(
            call.form(),
            "Action=C&Version=2012-06-01&k=a%20b%26c%3Dd%2F%C3%A9~"
        );
    }
}
