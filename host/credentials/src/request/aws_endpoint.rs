//! Service and region in host names of AWS.

/// Suffixes of host names, for each partition without and with dual stack.
const SUFFIXES: &[&str] = &[
    ".amazonaws.com.cn",
    ".api.amazonwebservices.com.cn",
    ".amazonaws.com",
    ".api.aws",
    // US secret regions, with their dual-stack names.
    ".c2s.ic.gov",
    ".api.aws.ic.gov",
    ".sc2s.sgov.gov",
    ".api.aws.scloud",
    // ISOE and ISOF.
    ".cloud.adc-e.uk",
    ".api.cloud-aws.adc-e.uk",
    ".csp.hci.ic.gov",
    ".api.aws.hci.ic.gov",
    // European Sovereign Cloud.
    ".amazonaws.eu",
    ".api.amazonwebservices.eu",
];

/// The service and the region of a host name. Endpoints of global services have no region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) service: String,
    pub(crate) region: Option<String>,
}

/// Parses a host name, in any case. Returns `None` if it is not an AWS endpoint, or does not
/// contain the service.
pub(crate) fn read(host: &str) -> Option<Endpoint> {
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    let stem = SUFFIXES
        .iter()
        .find_map(|suffix| host.strip_suffix(suffix))?;

    // A VPC endpoint: `vpce-….ec2.eu-west-1.vpce`.
    let stem = stem.strip_suffix(".vpce").unwrap_or(stem);

    let mut labels: Vec<&str> = stem.split('.').collect();
    let last = labels.pop()?;
    let (service, region) = match labels.pop() {
        Some(service) if is_region(last) => (service, Some(last.to_owned())),
        None if !is_region(last) => (last, None),
        _ => return None,
    };

    let service = service.strip_suffix("-fips").unwrap_or(service);
    Some(Endpoint {
        service: service.to_owned(),
        region,
    })
}

/// Returns the host name of STS in a region.
pub(crate) fn sts_host(region: &str) -> String {
    let suffix = match region.split('-').collect::<Vec<_>>().as_slice() {
        ["cn", ..] => "amazonaws.com.cn",
        ["us", "iso", ..] => "c2s.ic.gov",
        ["us", "isob", ..] => "sc2s.sgov.gov",
        ["us", "isof", ..] => "csp.hci.ic.gov",
        ["eu", "isoe", ..] => "cloud.adc-e.uk",
        ["eusc", ..] => "amazonaws.eu",
        _ => "amazonaws.com",
    };
    format!("sts.{region}.{suffix}")
}

/// Returns true for names of regions, for example `eu-west-1`, `us-gov-east-1` and
/// `eusc-de-east-1`.
pub(crate) fn is_region(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let word = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase());
    let number =
        |part: &str| (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());

    match parts.split_last() {
        Some((last, words)) => {
            (2..=4).contains(&words.len()) && words.iter().all(word) && number(last)
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_service_and_region_from_host_names() {
        let table = [
            ("ec2.eu-central-1.amazonaws.com", "ec2", "eu-central-1"),
            ("EC2.eu-central-1.amazonaws.com.", "ec2", "eu-central-1"),
            (
                "elasticloadbalancing.us-east-1.amazonaws.com",
                "elasticloadbalancing",
                "us-east-1",
            ),
            ("ec2.eu-west-1.api.aws", "ec2", "eu-west-1"),
            ("ec2-fips.us-east-2.amazonaws.com", "ec2", "us-east-2"),
            ("ec2.us-gov-west-1.amazonaws.com", "ec2", "us-gov-west-1"),
            ("ec2.cn-north-1.amazonaws.com.cn", "ec2", "cn-north-1"),
            (
                "ec2.cn-north-1.api.amazonwebservices.com.cn",
                "ec2",
                "cn-north-1",
            ),
            ("ec2.us-iso-east-1.c2s.ic.gov", "ec2", "us-iso-east-1"),
            ("ec2.us-isob-east-1.sc2s.sgov.gov", "ec2", "us-isob-east-1"),
            (
                "ec2.us-isof-south-1.csp.hci.ic.gov",
                "ec2",
                "us-isof-south-1",
            ),
            ("ec2.eu-isoe-west-1.cloud.adc-e.uk", "ec2", "eu-isoe-west-1"),
            ("ec2.eusc-de-east-1.amazonaws.eu", "ec2", "eusc-de-east-1"),
            (
                "vpce-0a1b-x2.ec2.us-east-1.vpce.amazonaws.com",
                "ec2",
                "us-east-1",
            ),
            ("api.ecr.eu-west-1.amazonaws.com", "ecr", "eu-west-1"),
            ("ec2.amazonaws.com", "ec2", ""),
            ("iam.amazonaws.com", "iam", ""),
            ("sts.amazonaws.com", "sts", ""),
        ];
        for (host, service, region) in table {
            let region = (!region.is_empty()).then(|| region.to_owned());
            assert_eq!(
                read(host),
                Some(Endpoint {
                    service: service.to_owned(),
                    region
                }),
                "{host}"
            );
        }

        for host in [
            "example.com",
            "amazonaws.com",
            "ec2.eu-central-1.amazonaws.com.evil.example",
            "eu-central-1.amazonaws.com",
            "ec2.nowhere.amazonaws.com",
            "127.0.0.1",
        ] {
            assert_eq!(read(host), None, "{host}");
        }
    }

    #[test]
    fn each_partition_has_its_own_sts_host() {
        for (region, host) in [
            ("eu-west-1", "sts.eu-west-1.amazonaws.com"),
            ("us-gov-west-1", "sts.us-gov-west-1.amazonaws.com"),
            ("cn-north-1", "sts.cn-north-1.amazonaws.com.cn"),
            ("us-iso-east-1", "sts.us-iso-east-1.c2s.ic.gov"),
            ("us-isob-east-1", "sts.us-isob-east-1.sc2s.sgov.gov"),
            ("us-isof-east-1", "sts.us-isof-east-1.csp.hci.ic.gov"),
            ("eu-isoe-west-1", "sts.eu-isoe-west-1.cloud.adc-e.uk"),
            ("eusc-de-east-1", "sts.eusc-de-east-1.amazonaws.eu"),
        ] {
            assert_eq!(sts_host(region), host);
            assert_eq!(
                read(host),
                Some(Endpoint {
                    service: "sts".to_owned(),
                    region: Some(region.to_owned())
                })
            );
        }
    }

    #[test]
    fn recognizes_region_names() {
        for region in [
            "eu-west-1",
            "us-gov-east-1",
            "ap-southeast-12",
            "eusc-de-east-1",
        ] {
            assert!(is_region(region), "{region}");
        }

        for other in [
            "",
            "eu",
            "eu-west",
            "west-1",
            "eu-west-",
            "eu-west-123",
            "EU-west-1",
            "eu--1",
            "a-b-c-d-e-1",
        ] {
            assert!(!is_region(other), "{other}");
        }
    }
}
