//! What the cluster says about authentication: the ConfigMap
//! `kube-system/extension-apiserver-authentication`, which the API server writes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

use super::{FrontProxy, RequestHeaders, Trust};
use crate::tls::Authorities;

const NAMESPACE: &str = "kube-system";
/// Name of the ConfigMap.
pub(crate) const NAME: &str = "extension-apiserver-authentication";

/// Reads the ConfigMap. Without it, nobody's certificates are believed.
pub(crate) async fn look_up(client: &Client) -> Result<BTreeMap<String, String>, kube::Error> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
    let found = api.get_opt(NAME).await?;
    Ok(found.and_then(|found| found.data).unwrap_or_default())
}

/// Why the ConfigMap cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub(crate) struct DataError {
    key: &'static str,
    problem: &'static str,
}

/// Returns whose certificates are believed, according to the ConfigMap.
pub(crate) fn trust(data: &BTreeMap<String, String>) -> Result<Trust, DataError> {
    let proxies = authorities(data, "requestheader-client-ca-file")?;
    let front_proxy = match proxies {
        Some(authorities) => Some(FrontProxy {
            authorities,
            headers: RequestHeaders {
                allowed_names: list(data, "requestheader-allowed-names")?,
                usernames: list(data, "requestheader-username-headers")?,
                uids: list(data, "requestheader-uid-headers")?,
                groups: list(data, "requestheader-group-headers")?,
                extra_prefixes: list(data, "requestheader-extra-headers-prefix")?,
            },
        }),
        None => None,
    };
    Ok(Trust {
        clients: authorities(data, "client-ca-file")?,
        front_proxy,
    })
}

fn authorities(
    data: &BTreeMap<String, String>,
    key: &'static str,
) -> Result<Option<Authorities>, DataError> {
    let text = data.get(key).filter(|text| !text.trim().is_empty());
    let read = text.map(|text| Authorities::from_pem(text.as_bytes()));
    read.transpose().map_err(|_| DataError {
        key,
        problem: "it has no valid certificates",
    })
}

/// Reads a list in JSON.
fn list(data: &BTreeMap<String, String>, key: &'static str) -> Result<Vec<String>, DataError> {
    let text = data.get(key).filter(|text| !text.is_empty());
    let read = text.map(|text| serde_json::from_str(text));
    let read = read.transpose().map_err(|_| DataError {
        key,
        problem: "it is not a list of texts in JSON",
    })?;
    Ok(read.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::testing::Authority;

    #[test]
    fn the_config_map_of_the_api_server_is_read() {
        let (clients, proxies) = (Authority::new("clients"), Authority::new("proxies"));
        let data = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pairs = pairs.iter();
            pairs
                .map(|&(key, text)| (key.to_owned(), text.to_owned()))
                .collect()
        };
        let whole = data(&[
            ("client-ca-file", &clients.pem()),
            ("requestheader-client-ca-file", &proxies.pem()),
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            (
                "requestheader-extra-headers-prefix",
                r#"["X-Remote-Extra-"]"#,
            ),
        ]);

        let read = trust(&whole).unwrap();
        let jane = clients.client("jane").0;
        assert!(read.clients.unwrap().issued(std::slice::from_ref(&jane)));
        let proxy = read.front_proxy.unwrap();
        assert!(!proxy.authorities.issued(&[jane]));
        assert_eq!(proxy.headers.allowed_names, ["front-proxy-client"]);
        assert_eq!(proxy.headers.usernames, ["X-Remote-User"]);
        assert!(proxy.headers.uids.is_empty());

        let nothing = trust(&data(&[])).unwrap();
        assert!(nothing.clients.is_none() && nothing.front_proxy.is_none());
        assert!(trust(&data(&[("client-ca-file", "no PEM")])).is_err());
        let mut broken = whole;
        broken.insert("requestheader-allowed-names".to_owned(), "x".to_owned());
        assert_eq!(
            trust(&broken).unwrap_err().key,
            "requestheader-allowed-names"
        );
    }
}
