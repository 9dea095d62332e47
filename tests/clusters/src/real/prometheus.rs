//! Prometheus, from Debian's package.

use std::path::PathBuf;

use super::binary::debian_tools;
use crate::Error;

/// The packages of its web pages, and what creates its account.
const UNNEEDED: [&str; 12] = [
    "adduser",
    "fonts-glyphicons-halflings",
    "libjs-bootstrap",
    "libjs-bootstrap4",
    "libjs-eonasdan-bootstrap-datetimepicker",
    "libjs-jquery",
    "libjs-jquery-hotkeys",
    "libjs-moment",
    "libjs-moment-timezone",
    "libjs-mustache",
    "libjs-popper.js",
    "libjs-rickshaw",
];

/// Returns the path of a program of Prometheus: `prometheus` or `promtool`. They are downloaded
/// once.
///
/// # Errors
/// If the package cannot be downloaded or unpacked.
pub fn prometheus_program(name: &str) -> Result<PathBuf, Error> {
    let folder = debian_tools("prometheus-1", &["prometheus"], &UNNEEDED)?;
    Ok(folder.join("usr/bin").join(name))
}
