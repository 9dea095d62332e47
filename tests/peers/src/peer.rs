//! The programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use skydock_planes::{Error, go_tool};

use crate::arguments::Settings;
use crate::watched;

/// A Go module of this crate, and the program of another module that it builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Program {
    /// Name of the binary in the cache.
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

/// An official cloud controller manager, built.
#[derive(Debug, Clone)]
pub struct Peer {
    program: Program,
    binary: PathBuf,
}

impl Peer {
    /// That of OpenStack. Built when the cache of [`skydock_planes::go_binary`] has none, which takes some minutes.
    ///
    /// # Errors
    /// When the cache cannot be written, no Go is to be had, or the build fails.
    pub async fn openstack() -> Result<Self, Error> {
        Self::build(OPENSTACK).await
    }

    /// That of AWS. Built when the cache of [`skydock_planes::go_binary`] has none, which takes some minutes.
    ///
    /// # Errors
    /// When the cache cannot be written, no Go is to be had, or the build fails.
    pub async fn aws() -> Result<Self, Error> {
        Self::build(AWS).await
    }

    async fn build(program: Program) -> Result<Self, Error> {
        let binary = go_tool(Path::new(program.module), program.package, program.name).await?;
        Ok(Self { program, binary })
    }

    /// What it is called: `openstack-cloud-controller-manager`, `aws-cloud-controller-manager`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.program.name
    }

    /// The version of its module, such as `v1.36.0`.
    #[must_use]
    pub fn version(&self) -> &'static str {
        self.program.version
    }

    /// The program.
    #[must_use]
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// How it is run with these settings. Nothing is inherited but `PATH`. Its standard input has to be a pipe that is held open:
    /// it is killed when that is closed, so that it never outlives whoever started it. The process's ID is the program's own. More
    /// arguments of its command line may be added.
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
    fn each_go_module_requires_the_version_that_is_told() {
        for program in [OPENSTACK, AWS] {
            let (module, _) = program.package.split_once("/cmd/").unwrap();
            let required = format!("{module} {}", program.version);
            let go_mod = go_mod(&program);
            assert!(go_mod.lines().any(|line| line.trim().contains(&required)), "no {required} in {go_mod}");
        }
    }

    #[test]
    fn each_go_module_names_its_program_as_a_tool() {
        for program in [OPENSTACK, AWS] {
            assert!(go_mod(&program).lines().any(|line| line == format!("tool {}", program.package)));
        }
    }

    #[test]
    fn a_peer_inherits_nothing_but_where_programs_are() {
        let peer = Peer { program: AWS, binary: "/cache/aws".into() };
        let mut settings = Settings::new("/run", "/run/kubeconfig", "/run/cloud.conf");
        settings.environment = vec![("AWS_REGION".to_owned(), "us-east-1".to_owned())];
        let command = peer.command(&settings);
        let names: Vec<_> = command.get_envs().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(names, ["AWS_REGION", "HOME", "PATH", "TMPDIR"]);
        assert!(command.get_args().any(|argument| argument == "--cloud-provider=aws"));
    }
}
