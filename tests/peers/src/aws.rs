//! The settings for the peer of AWS.

use skydock_clouds::{Keys, Network};

/// The APIs that it uses, by their names in Go's SDK, with the names in signatures.
const SERVICES: [(&str, &str); 4] = [
    ("EC2", "ec2"),
    ("Elastic Load Balancing", "elasticloadbalancing"),
    ("Elastic Load Balancing v2", "elasticloadbalancing"),
    ("KMS", "kms"),
];
/// The metadata service, whose requests are not signed.
const METADATA: &str = "ec2imds";

/// Returns a `cloud.conf` for the cluster with this name in this network. All APIs are at `url`,
/// which is that of an AWS or of a proxy. The manager is configured to run elsewhere, so that it
/// does not look for its own instance.
#[must_use]
pub fn cloud_conf(network: &Network, cluster: &str, url: &str, region: &str) -> String {
    let subnet = network
        .zones
        .first()
        .map(|zone| zone.subnet_id.as_str())
        .unwrap_or_default();
    let mut conf = format!(
        "[Global]\nRegion={region}\nVPC={}\nSubnetID={subnet}\nRouteTableID={}\nKubernetesClusterID={cluster}\n",
        network.vpc_id, network.route_table_id,
    );
    let overrides = SERVICES.into_iter().chain([(METADATA, METADATA)]);
    for (number, (service, signed)) in overrides.enumerate() {
        conf.push_str(&format!(
            "[ServiceOverride \"{}\"]\nService={service}\nRegion={region}\nURL={url}\nSigningRegion={region}\n\
             SigningMethod=v4\nSigningName={signed}\n",
            number + 1,
        ));
    }
    conf
}

/// Returns the environment variables: these keys, and settings that prevent all access to the real
/// AWS.
#[must_use]
pub fn environment(keys: &Keys, url: &str, region: &str) -> Vec<(String, String)> {
    let variables = [
        ("AWS_ACCESS_KEY_ID", keys.id.as_str()),
        ("AWS_SECRET_ACCESS_KEY", keys.secret.as_str()),
        ("AWS_REGION", region),
        ("AWS_ENDPOINT_URL", url),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", url),
    ];
    variables
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_endpoint_leads_to_the_real_aws() {
        let keys = Keys {
            id: "id".to_owned(),
            secret: "secret".to_owned(),
        };
        let variables = environment(&keys, "http://127.0.0.1:1", "us-east-1");
        let to_proxy: Vec<_> = variables
            .iter()
            .filter(|(_, value)| value == "http://127.0.0.1:1")
            .collect();
        assert_eq!(to_proxy.len(), 2, "{to_proxy:?}");
    }
}
