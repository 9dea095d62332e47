//! The operator's configuration. An option is a field of `Config`, which `parse` checks.

use serde::Deserialize;
use skydock_sdk::{Result, plugin::Settings, types::CloudError};

/// The file of `cloudConfig`. There is no token in it: the host adds that to each request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// URL of the cloud with its port, without a path.
    pub(crate) url: String,
    /// The cluster's region. Servers of other regions are not its nodes.
    pub(crate) region: String,
}

impl Config {
    /// Reads and checks the configuration.
    pub(crate) fn parse(settings: &Settings) -> Result<Self> {
        let path = settings
            .cloud_config_path
            .as_deref()
            .unwrap_or("the cloud configuration");

        let text = settings.cloud_config.as_deref().unwrap_or_default();
        let invalid = |what: String| CloudError::invalid(format!("{path}: {what}"));

        let config: Self =
            serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;

        let authority = config
            .url
            .strip_prefix("http://")
            .or_else(|| config.url.strip_prefix("https://"));

        let is_host = |host: &str| !host.is_empty() && !host.contains(['/', '?', '#', '@']);
        let parts = authority.and_then(|it| it.rsplit_once(':'));
        if !parts.is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok()) {
            return Err(invalid(
                "`url`: expected a URL with a port and no path, as in `https://cloud.example:443`"
                    .into(),
            ));
        }

        if config.region.is_empty() {
            return Err(invalid("`region` is empty".into()));
        }

        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_configuration_is_rejected() {
        let parse = |text: &str| {
            Config::parse(&Settings {
                cloud_config: Some(text.into()),
                ..Settings::default()
            })
        };
        assert_eq!(
            parse(r#"{"url": "http://c:80", "region": "r"}"#)
                .unwrap()
                .url,
            "http://c:80"
        );

        for text in [
            "",
            r#"{"url": "http://c:80"}"#,
            r#"{"url": "http://c:80", "region": ""}"#,
            r#"{"url": "http://c:80", "region": "r", "token": "secret"}"#,
            r#"{"url": "http://c", "region": "r"}"#,
            r#"{"url": "http://c:80/", "region": "r"}"#,
            r#"{"url": "http://c/x:80", "region": "r"}"#,
            r#"{"url": "http://:80", "region": "r"}"#,
            r#"{"url": "ftp://c:80", "region": "r"}"#,
        ] {
            assert!(matches!(parse(text), Err(CloudError::Invalid(_))), "{text}");
        }
    }
}
