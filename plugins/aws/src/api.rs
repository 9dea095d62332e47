//! Requests to the AWS query APIs: a request is a posted form, an answer is XML.

pub(crate) mod answer;
pub mod call;
pub(crate) mod ec2;
pub(crate) mod elb;
pub(crate) mod elbv2;
pub mod failure;
pub(crate) mod partly;
pub mod wire;

use serde::de::DeserializeOwned;

use call::Call;
use failure::Failure;
use wire::Wire;

/// Maximum number of pages of one list. More pages mean that the cloud repeats itself.
const MOST_PAGES: usize = 200;

/// Parses an answer.
///
/// # Errors
/// Fails if the answer does not have the expected structure.
pub(crate) fn read<T: DeserializeOwned>(call: &Call, body: &str) -> Result<T, Failure> {
    quick_xml::de::from_str(body).map_err(|error| Failure::Unreadable {
        action: call.action,
        reason: error.to_string(),
    })
}

/// Sends one call and parses its answer.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn ask<T: DeserializeOwned>(wire: &dyn Wire, call: &Call) -> Result<T, Failure> {
    read(call, &one(wire, call)?)
}

/// Sends one call.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn one(wire: &dyn Wire, call: &Call) -> Result<String, Failure> {
    let mut answers = wire.send(std::slice::from_ref(call));
    answers.pop().unwrap_or(Err(Failure::Unreadable {
        action: call.action,
        reason: "no answer".into(),
    }))
}

/// Sends a call repeatedly until there is no next page.
///
/// # Errors
/// See [`Failure`]; the pages received before are dropped.
pub(crate) fn pages<T: DeserializeOwned>(
    wire: &dyn Wire,
    call: &Call,
    next: impl Fn(&T) -> Option<String>,
) -> Result<Vec<T>, Failure> {
    let mut pages = Vec::new();
    let mut following = call.clone();
    while pages.len() < MOST_PAGES {
        let page: T = ask(wire, &following)?;
        let token = next(&page).filter(|token| !token.is_empty());
        pages.push(page);
        match token {
            Some(token) => following = call.clone().with(call.api.page_parameter(), token),
            None => return Ok(pages),
        }
    }

    Err(Failure::Unreadable {
        action: call.action,
        reason: format!("more than {MOST_PAGES} pages"),
    })
}
