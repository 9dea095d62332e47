//! Rules for the form of a load balancer's ingress in an answer. Which IP addresses are allowed is
//! in `addresses.rs`.

use std::net::IpAddr;

use super::{
    AnswerError, Checked, Rejected,
    names::{self, StandsFor},
    text, value,
};
use crate::words::{keys::is_subdomain, text::Quoted};

/// Checks what an address or a name stands for.
pub(crate) type Judge<'a> = dyn Fn(StandsFor<'_>) -> Result<(), Rejected> + 'a;

pub(crate) fn address(ip: &str, judge: &Judge<'_>) -> Checked<IpAddr> {
    let what = "ingress address";
    let address = text::ip(what, ip)?;
    judge(StandsFor::Address(address)).map_err(|why| AnswerError::Address {
        what,
        address,
        why,
    })?;
    Ok(address)
}

/// Checks the host name of a load balancer of a Service in this namespace.
pub(crate) fn check_name(name: &str, namespace: &str, judge: &Judge<'_>) -> Checked<()> {
    let what = "ingress host name";
    // By its form, an IPv4 address is also a DNS name.
    let ok = is_subdomain(name) && name.parse::<IpAddr>().is_err();
    value(what, name, "a DNS name in lower case", ok.then_some(()))?;

    let rejected = |why| AnswerError::Name {
        what,
        name: Quoted::new(name),
        why,
    };
    names::check(name, Some(namespace), judge).map_err(rejected)
}
