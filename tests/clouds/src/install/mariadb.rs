//! MariaDB from Debian's packages, unpacked into the cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use skydock_support::debian;

use crate::{Error, cache};

/// The package with the server and its initial tables.
const SERVER: &str = "mariadb-server-core";
/// Dependencies that are not required: MariaDB's configuration, which is not read.
const UNNEEDED: [&str; 1] = ["mariadb-common"];
/// Changes whenever the way of unpacking changes.
const REVISION: &str = "mariadb-1";

/// Returns the folder that contains `usr/sbin/mariadbd`: a folder in the cache, or `/` if MariaDB
/// is installed and apt is missing.
pub(crate) fn mariadb() -> Result<PathBuf, Error> {
    let apt = Command::new("apt-get")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success());
    if !apt {
        if Path::new("/usr/sbin/mariadbd").exists() {
            return Ok(PathBuf::from("/"));
        }
        let hint =
            "neither apt-get, to fetch it, nor /usr/sbin/mariadbd is there; install mariadb-server"
                .to_owned();
        return Err(Error::Missing {
            what: "MariaDB",
            hint,
        });
    }
    cache::made_once(&cache::folder()?.join(REVISION), |folder| {
        tracing::info!("fetching MariaDB, once");
        debian::unpack(&[SERVER], &UNNEEDED, folder)
            .map_err(|error| Error::setup("unpack MariaDB")(format!("{error:#}")))
    })
}
