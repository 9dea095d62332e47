//! Domains below which anybody can have a name and a certificate.

/// Domains of clouds below which customers have names, also further down, beside names of the cloud
/// itself. Most of these names are public suffixes, which are listed one by one, but not the domains
/// that they have in common.
const SHARED: &[&str] = &[
    "amazonaws.com",
    "amazonaws.com.cn",
    "amazonaws.eu",
    "api.aws",
    "on.aws",
    "awsapps.com",
    "azure.com",
    "azure.cn",
    "azure.net",
    "azure.us",
    "windows.net",
    "chinacloudapi.cn",
    "usgovcloudapi.net",
    "cloudapp.net",
    "azurewebsites.net",
    "trafficmanager.net",
    "googleapis.com",
    "google.com",
    "goog",
    "run.app",
    "appspot.com",
    "oraclecloud.com",
    "oraclecloudapps.com",
    "myhuaweicloud.com",
    "aliyuncs.com",
    "myqcloud.com",
    "tencentcloudapi.com",
    "digitaloceanspaces.com",
    "ondigitalocean.app",
    "ovh.net",
    "scw.cloud",
    "appdomain.cloud",
    "bluemix.net",
    "cloudflare.com",
    "workers.dev",
    "googleusercontent.com",
    "linodeobjects.com",
    "r2.cloudflarestorage.com",
    "vultrobjects.com",
    "your-objectstorage.com",
];

/// Domains that are not public suffixes, but below which every name exists, mostly with the address
/// that is written into it.
const ANY_ADDRESS: &[&str] = &["localtest.me", "nip.io", "sslip.io", "traefik.me", "xip.io"];

/// Whose names are below a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Below {
    /// Anybody's: it is a public suffix (<https://publicsuffix.org>), for example `co.uk`, or a
    /// domain such as `nip.io`.
    Anybody,
    /// Those of a cloud, and of its customers.
    Shared,
    /// Those of one organization, as far as is known.
    One,
}

/// Returns whose names are below this domain, which is in lower case.
pub(crate) fn below(domain: &str) -> Below {
    let is_suffix =
        psl::suffix(domain.as_bytes()).is_some_and(|suffix| suffix.is_known() && suffix == domain);
    let is_within = |shared: &&str| {
        let before = domain.strip_suffix(shared);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };

    if is_suffix || ANY_ADDRESS.iter().any(is_within) {
        Below::Anybody
    } else if SHARED.iter().any(is_within) {
        Below::Shared
    } else {
        Below::One
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_suffixes_and_clouds_have_names_of_others() {
        for (domain, expected) in [
            ("co.uk", Below::Anybody),
            ("s3.amazonaws.com", Below::Anybody),
            ("github.io", Below::Anybody),
            ("nip.io", Below::Anybody),
            ("10.0.0.1.nip.io", Below::Anybody),
            ("mynip.io", Below::One),
            ("amazonaws.com", Below::Shared),
            ("azure.com", Below::Shared),
            ("eu-west-1.amazonaws.com", Below::Shared),
            ("westeurope.cloudapp.azure.com", Below::Shared),
            ("myamazonaws.com", Below::One),
            ("example.co.uk", Below::One),
            ("cloud.example.com", Below::One),
            ("cloud.internal", Below::One),
        ] {
            assert_eq!(below(domain), expected, "{domain}");
        }
    }
}
