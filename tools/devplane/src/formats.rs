//! What clients send and read: patches, protobuf, tables, and descriptions of the API.

pub(crate) mod discovery;
pub(crate) mod openapi;
pub(crate) mod patch;
pub(crate) mod protobuf;
pub(crate) mod render;
pub(crate) mod table;
