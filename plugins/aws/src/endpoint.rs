//! Where the APIs are, and what a request to them is signed for.

/// One of the APIs spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// EC2: machines, networks, security groups, routes.
    Ec2,
    /// Elastic Load Balancing, 2012: classic load balancers.
    Elb,
    /// Elastic Load Balancing, 2015: network load balancers.
    Elbv2,
}

impl Api {
    /// `Version` of every request.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::Ec2 => "2016-11-15",
            Self::Elb => "2012-06-01",
            Self::Elbv2 => "2015-12-01",
        }
    }
}

/// Where one API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// URL requests are posted to.
    pub(crate) url: String,
    /// Region in the signature's scope.
    pub(crate) signing_region: String,
    /// Service in the signature's scope.
    pub(crate) signing_name: String,
}

/// Where each API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoints {
    /// EC2.
    pub(crate) ec2: Endpoint,
    /// Elastic Load Balancing, 2012.
    pub(crate) elb: Endpoint,
    /// Elastic Load Balancing, 2015.
    pub(crate) elbv2: Endpoint,
}

/// `[ServiceOverride "…"]` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Override {
    /// Name of the service by AWS SDK for Go, version 1 or 2.
    pub(crate) service: String,
    /// Region it is for.
    pub(crate) region: String,
    /// What comes in the place of AWS' own; an empty signing name leaves that.
    pub(crate) endpoint: Endpoint,
}

impl Endpoints {
    /// Where this API is.
    pub(crate) fn of(&self, api: Api) -> &Endpoint {
        match api {
            Api::Ec2 => &self.ec2,
            Api::Elb => &self.elb,
            Api::Elbv2 => &self.elbv2,
        }
    }

    /// Moves the APIs of this name. Names of services that are not spoken to, as `s3`, are taken and mean nothing, as in
    /// the official provider.
    pub(crate) fn replace(&mut self, service: &str, with: &Endpoint) {
        let moved: &mut [&mut Endpoint] = match service.to_ascii_lowercase().as_str() {
            "ec2" => &mut [&mut self.ec2],
            "elastic load balancing" => &mut [&mut self.elb],
            "elastic load balancing v2" => &mut [&mut self.elbv2],
            // The name of both in version 1 of the SDK.
            "elasticloadbalancing" => &mut [&mut self.elb, &mut self.elbv2],
            _ => &mut [],
        };
        for endpoint in moved {
            let name = if with.signing_name.is_empty() { &endpoint.signing_name } else { &with.signing_name };
            **endpoint = Endpoint { signing_name: name.clone(), ..with.clone() };
        }
    }
}

/// The domain of a region's partition, from AWS' list of partitions (`partitions.json` of the SDKs).
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
