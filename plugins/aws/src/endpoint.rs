//! The endpoints of the APIs, and the scope of request signatures.

/// One of the APIs that the plugin uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// EC2: instances, networks, security groups, routes.
    Ec2,
    /// Elastic Load Balancing, version 2012: classic load balancers.
    Elb,
    /// Elastic Load Balancing, version 2015: network load balancers.
    Elbv2,
}

impl Api {
    /// Returns the parameter `Version` of every request.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::Ec2 => "2016-11-15",
            Self::Elb => "2012-06-01",
            Self::Elbv2 => "2015-12-01",
        }
    }
}

/// The endpoint of one API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The URL that requests are posted to.
    pub(crate) url: String,
    /// The region in the scope of the signature.
    pub(crate) signing_region: String,
    /// The service in the scope of the signature.
    pub(crate) signing_name: String,
}

/// The endpoint of each API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoints {
    pub(crate) ec2: Endpoint,
    /// Elastic Load Balancing, version 2012.
    pub(crate) elb: Endpoint,
    /// Elastic Load Balancing, version 2015.
    pub(crate) elbv2: Endpoint,
}

/// A section `[ServiceOverride "…"]` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Override {
    /// The name of the service in AWS SDK for Go, version 1 or 2.
    pub(crate) service: String,
    /// The region that it applies to.
    pub(crate) region: String,
    /// The endpoint that replaces the default. If its signing name is empty, the default one is
    /// used.
    pub(crate) endpoint: Endpoint,
}

impl Endpoints {
    /// Returns the endpoint of this API.
    pub(crate) fn of(&self, api: Api) -> &Endpoint {
        match api {
            Api::Ec2 => &self.ec2,
            Api::Elb => &self.elb,
            Api::Elbv2 => &self.elbv2,
        }
    }

    /// Replaces the endpoints of the APIs with this name. Names of other services, for example
    /// `s3`, are accepted and ignored, as in the official provider.
    pub(crate) fn replace(&mut self, service: &str, with: &Endpoint) {
        let moved: &mut [&mut Endpoint] = match service.to_ascii_lowercase().as_str() {
            "ec2" => &mut [&mut self.ec2],
            "elastic load balancing" => &mut [&mut self.elb],
            "elastic load balancing v2" => &mut [&mut self.elbv2],
            // The name of both APIs in version 1 of the SDK.
            "elasticloadbalancing" => &mut [&mut self.elb, &mut self.elbv2],
            _ => &mut [],
        };

        for endpoint in moved {
            let name = if with.signing_name.is_empty() {
                &endpoint.signing_name
            } else {
                &with.signing_name
            };
            **endpoint = Endpoint {
                signing_name: name.clone(),
                ..with.clone()
            };
        }
    }
}

/// Returns the domain of a region's partition, from AWS' list of partitions (`partitions.json` of
/// the SDKs).
pub(crate) fn partition_suffix(region: &str) -> &'static str {
    match region.split('-').next().unwrap_or_default() {
        "cn" => "amazonaws.com.cn",
        "eusc" => "amazonaws.eu",
        _ if region.starts_with("us-isob-") => "sc2s.sgov.gov",
        _ if region.starts_with("us-isof-") => "csp.hci.ic.gov",
        _ if region.starts_with("eu-isoe-") => "cloud.adc-e.uk",
        _ if region.starts_with("us-iso-") => "c2s.ic.gov",
        _ => "amazonaws.com",
    }
}
