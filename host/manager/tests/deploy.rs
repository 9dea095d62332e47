//! What is under `deploy/` fits the binary: its flags are understood, its files are where the flags look, and its RBAC
//! names what the binary asks for. That its rights are enough, and none too many, is seen on a real cluster
//! (`tests/story/tests/real_rbac.rs`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, PodSpec, Volume, VolumeMount},
};
use serde::Deserialize;
use serde_json::Value;
use skydock::cli::{self, BindAddress, CcmArgs};
use skydock_controllers::Controller;

/// As much of a `kustomization.yaml` as is used here.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Kustomization {
    components: Vec<String>,
    patches: Option<Vec<Patch>>,
    secret_generator: Vec<SecretGenerator>,
}

#[derive(Deserialize)]
struct Patch {
    target: Target,
    patch: String,
}

#[derive(Deserialize)]
struct Target {
    kind: String,
    name: String,
}

#[derive(Deserialize)]
struct SecretGenerator {
    name: String,
    files: Vec<String>,
}

/// What a kustomization makes of the Deployment and its configuration.
struct Deployed {
    pod: PodSpec,
    args: CcmArgs,
    secrets: Vec<SecretGenerator>,
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn read(file: impl AsRef<Path>) -> String {
    let path = deploy().join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads YAML as Kubernetes does, for which 0440 is octal.
fn yaml<T: for<'de> Deserialize<'de>>(text: &str) -> T {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_str_with_options(text, options).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn kustomization(folder: &str) -> Kustomization {
    yaml(&read(format!("{folder}/kustomization.yaml")))
}

/// Each example that the text has in comments, one at a time taken out of them. An example goes from a line
/// `  # - target` to an empty line.
fn commented_examples(text: &str) -> Vec<Vec<Patch>> {
    let begins = text.match_indices("  # - target").map(|(at, _)| text.split_at(at).1);
    begins
        .map(|example| {
            let lines = example.lines().take_while(|line| !line.is_empty());
            let plain: Vec<_> = lines.map(|line| line.strip_prefix("  # ").expect("a comment")).collect();
            yaml(&plain.join("\n"))
        })
        .collect()
}

/// The Deployment of the base with these patches, read as strictly as kubectl does: an unknown field is a mistake.
fn deployed(patches: &[Patch], secrets: Vec<SecretGenerator>) -> Deployed {
    let mut value: Value = yaml(&read("base/deployment.yaml"));
    for patch in patches.iter().filter(|patch| patch.target.kind == "Deployment") {
        assert_eq!(value.pointer("/metadata/name"), Some(&Value::from(patch.target.name.as_str())));
        let operations: json_patch::Patch = yaml(&patch.patch);
        json_patch::patch(&mut value, &operations).unwrap();
    }
    let deployment: Deployment = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&deployment).unwrap().pointer("/spec"), value.pointer("/spec"), "an unknown field");
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let given = container(&pod).args.clone().unwrap();
    let parsed = cli::parse(["skydock".to_owned()].into_iter().chain(given)).expect("the flags are understood");
    assert!(parsed.command.is_none());
    Deployed { pod, args: parsed.ccm, secrets }
}

fn base() -> Deployed {
    deployed(&[], kustomization("base").secret_generator)
}

/// With the components of the example.
fn example(mut patches: Vec<Patch>) -> Deployed {
    let example = kustomization("example");
    let components = example.components.iter().map(|path| kustomization(&format!("example/{path}")));
    patches.splice(0..0, components.flat_map(|component| component.patches.unwrap_or_default()));
    deployed(&patches, example.secret_generator)
}

/// All that `deploy/` shows how to make.
fn all() -> Vec<Deployed> {
    let examples = commented_examples(&read("example/kustomization.yaml"));
    [base(), example(Vec::new())].into_iter().chain(examples.into_iter().map(example)).collect()
}

fn container(pod: &PodSpec) -> &Container {
    assert_eq!(pod.containers.len(), 1);
    &pod.containers[0]
}

impl Deployed {
    /// The mount that a path is in, and what is mounted.
    fn mount(&self, path: &Path) -> Option<(&VolumeMount, &Volume)> {
        let mounts = container(&self.pod).volume_mounts.iter().flatten();
        let mount = mounts.into_iter().find(|mount| path.starts_with(&mount.mount_path))?;
        let volume = self.pod.volumes.iter().flatten().find(|volume| volume.name == mount.name);
        Some((mount, volume.unwrap_or_else(|| panic!("no volume {}", mount.name))))
    }
}

#[test]
fn the_flags_of_every_variant_are_understood_and_start_what_they_should() {
    let (base, example) = (base(), example(Vec::new()));
    assert!(base.args.leader_elect && !base.args.use_service_account_credentials);
    assert!(example.args.leader_elect && example.args.use_service_account_credentials);
    assert_eq!(base.args.controllers, ["*"]);
    let variants = all();
    assert_eq!(variants.len(), 4, "base, example, and two in the example's comments");
    assert!(variants.iter().any(|variant| variant.args.cloud_provider != "static"));
    assert!(variants.iter().any(|variant| variant.args.master.is_some()));
}

#[test]
fn the_plugin_is_in_the_image_or_mounted() {
    let dockerfile = read("Dockerfile");
    assert!(dockerfile.contains("COPY --from=build /out/ /\n"));
    for variant in all() {
        let dir = variant.args.plugin_dir.as_ref().expect("a directory of plugins");
        let file = dir.join(format!("{}.wasm", variant.args.cloud_provider));
        let in_image = dockerfile.contains(&format!(" /out{}", file.display()));
        assert!(in_image || variant.mount(&file).is_some(), "{} is nowhere", file.display());
        assert!(variant.args.plugins.is_empty());
    }
}

#[test]
fn the_configuration_is_a_key_of_the_secret_that_is_mounted_as_a_directory() {
    for variant in all() {
        let file = variant.args.cloud_config.clone().expect("a configuration");
        let (mount, volume) = variant.mount(&file).expect("it is mounted");
        assert!(mount.sub_path.is_none(), "a file that is mounted by subPath never changes");
        let secret = volume.secret.as_ref().expect("a Secret");
        let made = variant.secrets.iter().find(|made| Some(&made.name) == secret.secret_name.as_ref());
        let key = file.strip_prefix(&mount.mount_path).unwrap().display().to_string();
        assert!(made.expect("the Secret is made").files.contains(&key), "no key {key}");
    }
}

#[test]
fn the_directory_of_compiled_plugins_is_made_below_a_mount_that_can_be_written() {
    for variant in all() {
        let dir = variant.args.plugin_cache_dir.clone().expect("the root file system is read-only");
        let (mount, volume) = variant.mount(&dir).expect("it is mounted");
        assert_ne!(mount.read_only, Some(true));
        assert!(volume.empty_dir.is_some());
        // A volume's own directory can be written by its group, and is refused as a place for machine code.
        assert_ne!(Path::new(&mount.mount_path), dir);
    }
}

#[test]
fn nothing_is_mounted_that_no_flag_asks_for_and_no_file_is_asked_for_that_a_pod_has_not() {
    for variant in all() {
        let CcmArgs { plugin_dir, plugin_cache_dir, cloud_config, kubeconfig, .. } = &variant.args;
        assert!(kubeconfig.is_none(), "a Pod has its service account");
        let asked: Vec<_> = [plugin_dir, plugin_cache_dir, cloud_config].into_iter().flatten().collect();
        for mount in container(&variant.pod).volume_mounts.iter().flatten() {
            assert!(
                asked.iter().any(|path| path.starts_with(&mount.mount_path)),
                "{} is for nothing",
                mount.mount_path
            );
        }
    }
}

// Holds: OPS-10
#[test]
fn probes_ask_where_health_is_served_and_nobody_outside_can() {
    for variant in all() {
        let BindAddress::At(address) = variant.args.metrics_bind_address else { panic!("nothing is served") };
        assert!(address.ip().is_loopback());
        let container = container(&variant.pod);
        let probes = [&container.startup_probe, &container.liveness_probe, &container.readiness_probe];
        for probe in probes {
            let asks = probe.as_ref().and_then(|probe| probe.http_get.as_ref()).expect("a probe by HTTP");
            let port = serde_json::to_value(&asks.port).unwrap();
            let asked: SocketAddr = format!("{}:{port}", asks.host.as_deref().unwrap()).parse().unwrap();
            assert_eq!(asked, address);
        }
        let port = &container.ports.as_ref().expect("a port")[0];
        assert_eq!((port.container_port, port.host_port), (i32::from(address.port()), Some(port.container_port)));
    }
}

/// The documents of a file with this kind.
fn documents(file: &str, kind: &str) -> Vec<Value> {
    read(file).split("\n---\n").map(yaml::<Value>).filter(|document| document["kind"] == kind).collect()
}

/// The names that the roles of a file are limited to for a resource.
fn names(file: &str, resource: &str) -> Vec<String> {
    let roles = documents(file, "Role");
    let rules = roles.iter().flat_map(|role| role["rules"].as_array().unwrap());
    let matching = rules.filter(|rule| rule["resources"] == serde_json::json!([resource]));
    let names = matching.filter_map(|rule| rule["resourceNames"].as_array()).flatten();
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_right_to_the_lease_is_to_the_one_that_the_flags_name() {
    for variant in all() {
        assert_eq!(names("base/rbac.yaml", "leases"), [variant.args.leader_elect_resource_name.as_str()]);
        assert_eq!(kustomization_namespace(), variant.args.leader_elect_resource_namespace);
    }
}

fn kustomization_namespace() -> String {
    let base: Value = yaml(&read("base/kustomization.yaml"));
    base["namespace"].as_str().unwrap().to_owned()
}

#[test]
fn p45_the_right_to_tokens_is_to_those_of_the_accounts_that_controllers_have() {
    let mut wanted: Vec<_> = Controller::ALL.iter().map(|controller| controller.client_name().to_owned()).collect();
    wanted.sort();
    wanted.dedup();
    let mut granted = names("components/service-account-credentials/rbac.yaml", "serviceaccounts/token");
    granted.sort();
    assert_eq!(granted, wanted);
}

#[test]
fn the_pods_run_under_the_account_that_has_the_rights() {
    let accounts = documents("base/rbac.yaml", "ServiceAccount");
    let [account] = accounts.as_slice() else { panic!("one account") };
    for variant in all() {
        assert_eq!(variant.pod.service_account_name.as_deref(), account["metadata"]["name"].as_str());
    }
}

// Holds: OPS-34
#[test]
fn the_account_of_the_route_controller_gets_its_right() {
    let roles = documents("components/routes/rbac.yaml", "ClusterRole");
    let expected = serde_json::json!([{ "apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"] }]);
    assert_eq!((roles.len(), &roles[0]["rules"]), (1, &expected));
    let mut bindings = documents("components/routes/rbac.yaml", "ClusterRoleBinding");
    assert_eq!(bindings[0]["roleRef"]["name"], roles[0]["metadata"]["name"]);
    assert_eq!(bindings[0]["subjects"][0]["name"], "skydock");
    let patches = kustomization("components/service-account-credentials").patches.unwrap();
    let name = bindings[0]["metadata"]["name"].as_str().unwrap();
    let moved = patches.iter().find(|patch| patch.target.kind == "ClusterRoleBinding" && patch.target.name == name);
    let operations: json_patch::Patch = yaml(&moved.expect("it is moved").patch);
    json_patch::patch(&mut bindings[0], &operations).unwrap();
    assert_eq!(bindings[0]["subjects"][0]["name"], Controller::Route.client_name());
}
