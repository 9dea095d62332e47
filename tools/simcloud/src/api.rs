//! Requests and answers.

pub(crate) mod answer;
pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod error;
pub(crate) mod page;
pub(crate) mod parse;
pub(crate) mod path;
