//! Classic load balancers.
use skydock_sdk::{Result, types::{CloudError, LoadBalancerStatus, Service}};
use crate::{balancer::machine::Members, cloud::Cloud};
pub(crate) struct Description;
pub(crate) fn find(_: &Cloud<'_>, _: &str) -> Result<Option<Description>> { Ok(None) }
pub(crate) fn status(_: &Description) -> LoadBalancerStatus { LoadBalancerStatus::default() }
pub(crate) fn ensure(_: &Cloud<'_>, _: &Service, _: &Members) -> Result<LoadBalancerStatus> { Err(CloudError::internal("none")) }
pub(crate) fn update(_: &Cloud<'_>, _: &Service, _: &Members) -> Result<()> { Err(CloudError::internal("none")) }
pub(crate) fn delete(_: &Cloud<'_>, _: &Service) -> Result<()> { Ok(()) }
