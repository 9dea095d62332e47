//! The observed state of a classic load balancer.

use skydock_sdk::Result;

use super::ask;
use crate::{
    client::api::{
        call::Call,
        elb::{self, Attributes, Description, Found},
        failure::{Answer, Failure},
    },
    cloud::Cloud,
    load_balancing::common::warning,
    tags::Tags,
};

/// The observed state of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObservedLoadBalancer {
    pub(crate) balancer: Description,
    pub(crate) attributes: Attributes,
    /// The tags, or `None` if the credentials do not allow reading them.
    pub(crate) tags: Option<Tags>,
}

impl ObservedLoadBalancer {
    /// Reads the state of a load balancer.
    ///
    /// # Errors
    /// Fails if a request to AWS fails.
    pub(super) fn read(cloud: &Cloud<'_>, balancer: Description) -> Result<Self> {
        let name = &balancer.load_balancer_name;
        let calls = [
            elb::on("DescribeLoadBalancerAttributes", name),
            elb::tags(name),
        ];
        let mut answers = cloud.wire.send(&calls).into_iter();
        let mut read = |call: &Call| {
            let body = answers.next().unwrap_or_else(|| {
                Err(Failure::Unreadable {
                    action: call.action,
                    reason: "no answer".into(),
                })
            });
            elb::read(call, &body?)
        };

        let [attributes, tags] = &calls;
        let attributes = read(attributes)?.attributes;
        let tags = tags_of(read(tags))?;

        Ok(Self {
            balancer,
            attributes,
            tags,
        })
    }
}

/// Reads the tags of a load balancer, or returns `None` if the credentials do not allow reading them.
///
/// # Errors
/// Fails if the request to AWS fails.
pub(super) fn read_tags(cloud: &Cloud<'_>, name: &str) -> Result<Option<Tags>> {
    Ok(tags_of(ask(cloud, &elb::tags(name)))?)
}

/// Returns the tags in an answer. The IAM policy of the official provider does not include the
/// permission to read them.
fn tags_of(answer: Answer<Found>) -> Answer<Option<Tags>> {
    match answer {
        Ok(found) => Ok(Some(found.tags)),
        Err(failure) if failure.is_of_policy() => {
            warning::tags_not_checked();
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Memory, Scripted, rejection, setup};

    #[test]
    fn tags_without_permission_are_unknown() {
        for (code, is_unknown) in [
            ("AccessDenied", true),
            ("UnauthorizedOperation", true),
            ("InvalidClientTokenId", false),
            ("Throttling", false),
        ] {
            let (setup, store, none) = (setup(), Memory::default(), Vec::new);
            let wire = Scripted::new(|call: &Call| rejection(call, code));
            let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
            assert_eq!(read_tags(&cloud, "lb") == Ok(None), is_unknown, "{code}");
        }
    }
}
