//! The flag of the controller part of a CSI driver, with the name that CSI drivers give it.

use std::path::{Path, PathBuf};

use clap::Args;

/// Flags of the controller part of a CSI driver.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Volumes")]
pub struct CsiArgs {
    /// Socket for the sidecars of a CSI driver, such as csi-provisioner: the plugin is its
    /// controller part. Only the leader serves them; those of a standby wait. The sidecars must run
    /// as the same user.
    #[arg(long, value_name = "unix:///PATH", value_parser = parse_endpoint)]
    pub csi_endpoint: Option<PathBuf>,
}

fn parse_endpoint(text: &str) -> Result<PathBuf, String> {
    text.strip_prefix("unix://")
        .map(Path::new)
        .filter(|path| path.is_absolute() && path.file_name().is_some())
        .map(Path::to_owned)
        .ok_or_else(|| "expected a unix socket, for example unix:///csi/csi.sock".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_the_absolute_path_of_a_socket() {
        for (text, expected) in [
            ("unix:///csi/csi.sock", Some("/csi/csi.sock")),
            ("unix:///csi.sock", Some("/csi.sock")),
            ("unix://csi.sock", None),
            ("unix:/csi/csi.sock", None),
            ("unix:///", None),
            ("/csi/csi.sock", None),
            ("tcp://127.0.0.1:10000", None),
            ("", None),
        ] {
            let found = parse_endpoint(text).ok();
            assert_eq!(found.as_deref(), expected.map(Path::new), "{text}");
        }
    }

    #[test]
    fn without_the_flag_there_is_no_socket() {
        let parse = |args: &[&str]| super::super::parse([&["skydock"], args].concat());
        let none = parse(&[]).unwrap().ccm.csi.csi_endpoint;
        assert_eq!(none, None);
        let some = parse(&["--csi-endpoint", "unix:///csi/csi.sock"]);
        let some = some.unwrap().ccm.csi.csi_endpoint;
        assert_eq!(some.as_deref(), Some(Path::new("/csi/csi.sock")));
        assert!(parse(&["--csi-endpoint=csi.sock"]).is_err());
    }
}
