//! The programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use skydock_clusters::{Error, go_tool};

use crate::arguments::Settings;
use crate::watched;

/// A Go module of this crate, and the program of another module that it builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Program {
    /// The name of the binary in the cache.
    name: &'static str,
    /// `--cloud-provider`.
    provider: &'static str,
    /// The folder of its go.mod.
    module: &'static str,
    package: &'static str,
    version: &'static str,
}

const OPENSTACK: Program = Program {
    name: "openstack-cloud-controller-manager",
    provider: "openstack",
    module: concat!(env!("CARGO_MANIFEST_DIR"), "/openstack"),
    package: "k8s.io/cloud-provider-openstack/cmd/openstack-cloud-controller-manager",
    version: "v1.36.0",
};

const AWS: Program = Program {
    name: "aws-cloud-controller-manager",
    provider: "aws",
    module: concat!(env!("CARGO_MANIFEST_DIR"), "/aws"),
    package: "k8s.io/cloud-provider-aws/cmd/aws-cloud-controller-manager",
    version: "v1.37.0",
};

/// An official cloud controller manager that has been built.
#[derive(Debug, Clone)]
pub struct Peer {
    program: Program,
    binary: PathBuf,
}

impl Peer {
    /// Returns the manager for OpenStack. It is built if it is not in the cache of
    /// [`skydock_clusters::go_binary`], which takes some minutes.
    ///
    /// # Errors
    /// Fails if the cache cannot be written, if Go is not available, or if the build fails.
    pub async fn openstack() -> Result<Self, Error> {
        Self::build(OPENSTACK).await
    }

    /// Returns the manager for AWS. It is built if it is not in the cache of
    /// [`skydock_clusters::go_binary`], which takes some minutes.
    ///
    /// # Errors
    /// Fails if the cache cannot be written, if Go is not available, or if the build fails.
    pub async fn aws() -> Result<Self, Error> {
        Self::build(AWS).await
    }

    async fn build(program: Program) -> Result<Self, Error> {
        let binary = go_tool(Path::new(program.module), program.package, program.name).await?;
        Ok(Self { program, binary })
    }

    /// Returns the name: `openstack-cloud-controller-manager` or `aws-cloud-controller-manager`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.program.name
    }

    /// Returns the version of the module, for example `v1.36.0`.
    #[must_use]
    pub fn version(&self) -> &'static str {
        self.program.version
    }

    /// Returns the path of the program.
    #[must_use]
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Returns the command that runs it with these settings. Of the environment, only `PATH` is
    /// inherited. Its standard input must be a pipe that is kept open: the program is killed when
    /// the pipe is closed, so that it never outlives the process that started it. The ID of the
    /// process is that of the program. Arguments can be added.
    #[must_use]
    pub fn command(&self, settings: &Settings) -> Command {
        let mut command = watched::command(&self.binary);
        command
            .arg(format!("--cloud-provider={}", self.program.provider))
            .args(settings.arguments())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &settings.folder)
            .env("TMPDIR", &settings.folder)
            .envs(settings.environment.iter().map(|(key, value)| (key, value)))
            .current_dir(&settings.folder);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go_mod(program: &Program) -> String {
        std::fs::read_to_string(Path::new(program.module).join("go.mod")).unwrap()
    }

    #[test]
    fn each_go_module_requires_the_stated_version() {
        for program in [OPENSTACK, AWS] {
            let (module, _) = program.package.split_once("/cmd/").unwrap();
            let required = format!("{module} {}", program.version);
            let go_mod = go_mod(&program);
            assert!(
                go_mod.lines().any(|line| line.trim().contains(&required)),
                "no {required} in {go_mod}"
            );
        }
    }

    #[test]
    fn each_go_module_names_its_program_as_a_tool() {
        for program in [OPENSTACK, AWS] {
            assert!(
                go_mod(&program)
                    .lines()
                    .any(|line| line == format!("tool {}", program.package))
            );
        }
    }

    #[test]
    fn a_peer_does_not_inherit_the_environment() {
        let peer = Peer {
            program: AWS,
            binary: "/cache/aws".into(),
        };
        let mut settings = Settings::new("/run", "/run/kubeconfig", "/run/cloud.conf");
        settings.environment = vec![("AWS_REGION".to_owned(), "us-east-1".to_owned())];
        let command = peer.command(&settings);
        let names: Vec<_> = command
            .get_envs()
            .map(|(name, _)| name.to_str().unwrap())
            .collect();
        assert_eq!(names, ["AWS_REGION", "HOME", "PATH", "TMPDIR"]);
        assert!(
            command
                .get_args()
                .any(|argument| argument == "--cloud-provider=aws")
        );
    }
}
