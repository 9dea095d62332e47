//! Credentials that are replaced while Services change.

mod files;
mod front;

pub use self::{
    files::Projected,
    front::{Authority, Front, Leaf},
};
