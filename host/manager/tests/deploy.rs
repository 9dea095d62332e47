//! The files in `deploy/` match the binary: flags are valid, files are where the flags expect them, and RBAC contains what the
//! binary requires. That its permissions are sufficient, and not excessive, is tested on a real cluster
//! (`tests/story/tests/real_rbac.rs`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{
    collections::BTreeSet,
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
use skydock::{
    cli::{self, BindAddress, CcmArgs, plugin_limits},
    configuration::{PluginConfiguration, SkydockConfiguration},
};
use skydock_controllers::{CONTROLLERS, route};

/// The examples in `deploy/` that operators copy.
const EXAMPLES: [&str; 4] = ["example", "example-aws", "example-metal", "example-openstack"];

/// The fields of a `kustomization.yaml` that are used here.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Kustomization {
    components: Vec<String>,
    patches: Option<Vec<Patch>>,
    secret_generator: Vec<Generator>,
    config_map_generator: Vec<Generator>,
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

/// A generator of a Secret or ConfigMap.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Generator {
    name: String,
    files: Vec<String>,
    literals: Vec<String>,
}

impl Generator {
    /// Returns the keys that the generator with this name generates; none if there is no such generator.
    fn keys(all: &[Self], name: &str) -> Vec<String> {
        let made = all.iter().filter(|generator| generator.name == name);
        let keys = made.flat_map(|it| it.files.iter().chain(&it.literals));
        keys.map(|key| key.split('=').next().unwrap().to_owned()).collect()
    }
}

/// The Deployment and the configuration that a kustomization generates.
struct Deployed {
    folder: String,
    pod: PodSpec,
    args: CcmArgs,
    secrets: Vec<Generator>,
    config_maps: Vec<Generator>,
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn read(file: impl AsRef<Path>) -> String {
    let path = deploy().join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Parses YAML like Kubernetes, which treats 0440 as octal.
fn yaml<T: for<'de> Deserialize<'de>>(text: &str) -> T {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_str_with_options(text, options).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn kustomization(folder: &str) -> Kustomization {
    yaml(&read(format!("{folder}/kustomization.yaml")))
}

/// Returns the commented examples in a text, each parsed separately. An example starts with a line `  # - target` and ends with
/// an empty line.
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

/// Returns the Deployment of the base with these patches. It is parsed as strictly as by kubectl: an unknown field is an error.
fn deployed(folder: &str, patches: &[Patch], made: Kustomization) -> Deployed {
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
    let Kustomization { secret_generator: secrets, config_map_generator: config_maps, .. } = made;
    Deployed { folder: folder.to_owned(), pod, args: parsed.ccm, secrets, config_maps }
}

fn base() -> Deployed {
    deployed("base", &[], kustomization("base"))
}

/// Returns an example with its components and these additional patches.
fn example(folder: &str, more: Vec<Patch>) -> Deployed {
    let mut example = kustomization(folder);
    let mut patches = Vec::new();
    add_components(folder, &example, &mut patches);
    patches.extend(example.patches.take().into_iter().flatten().chain(more));
    deployed(folder, &patches, example)
}

/// Adds the patches of components, starting with those of nested components.
fn add_components(folder: &str, kustomization: &Kustomization, patches: &mut Vec<Patch>) {
    for path in &kustomization.components {
        let folder = format!("{folder}/{path}");
        let mut component = self::kustomization(&folder);
        // A generator in a component runs too late to replace what it generates.
        assert!(component.secret_generator.is_empty() && component.config_map_generator.is_empty(), "{folder}");
        add_components(&folder, &component, patches);
        patches.extend(component.patches.take().into_iter().flatten());
    }
}

/// Returns all variants that `deploy/` describes.
fn all() -> Vec<Deployed> {
    let mut all = vec![base()];
    for folder in EXAMPLES {
        let commented = commented_examples(&read(format!("{folder}/kustomization.yaml")));
        all.extend([Vec::new()].into_iter().chain(commented).map(|patches| example(folder, patches)));
    }
    all
}

fn container(pod: &PodSpec) -> &Container {
    assert_eq!(pod.containers.len(), 1);
    &pod.containers[0]
}

impl Deployed {
    /// Returns the mount that contains a path, and its volume.
    fn mount(&self, path: &Path) -> Option<(&VolumeMount, &Volume)> {
        let mounts = container(&self.pod).volume_mounts.iter().flatten();
        let mount = mounts.into_iter().find(|mount| path.starts_with(&mount.mount_path))?;
        let volume = self.pod.volumes.iter().flatten().find(|volume| volume.name == mount.name);
        Some((mount, volume.unwrap_or_else(|| panic!("no volume {}", mount.name))))
    }

    /// Returns the files in a volume, as far as they are known.
    fn files(&self, volume: &Volume) -> Vec<String> {
        let mut files = Vec::new();
        if let Some(secret) = &volume.secret {
            files.extend(Generator::keys(&self.secrets, secret.secret_name.as_deref().unwrap()));
        }
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            if let Some(secret) = &source.secret {
                let named = secret.items.iter().flatten().map(|item| item.path.clone());
                files.extend(named.chain(Generator::keys(&self.secrets, &secret.name)));
            }
            files.extend(source.config_map.iter().flat_map(|map| Generator::keys(&self.config_maps, &map.name)));
            files.extend(source.service_account_token.iter().map(|token| token.path.clone()));
        }
        files
    }

    /// Returns the plugin in the configuration file, and the text of the file.
    fn configured(&self) -> Option<(PluginConfiguration, String)> {
        let path = self.args.config.as_ref()?;
        let text = read(Path::new(&self.folder).join(path.file_name().unwrap()));
        let mut configuration = SkydockConfiguration::parse(&text, path).unwrap();
        Some((configuration.plugins.remove(0), text))
    }

    /// Returns the file of the plugin.
    fn plugin(&self) -> PathBuf {
        let in_dir = || self.args.plugin_dir.as_ref().unwrap().join(format!("{}.wasm", self.args.cloud_provider));
        self.configured().map_or_else(in_dir, |(plugin, _)| plugin.file)
    }

    /// Returns the configuration and credential files that the process reads.
    fn read_files(&self) -> Vec<PathBuf> {
        let flags = self.args.cloud_config.iter().chain(&self.args.config).cloned();
        let text = self.configured().map(|(_, text)| yaml(&text)).unwrap_or_default();
        let mut files: Vec<_> = flags.collect();
        named_files(&text, &mut files);
        files
    }
}

/// Collects the files that a configuration refers to, except plugins.
fn named_files(value: &Value, files: &mut Vec<PathBuf>) {
    let Value::Object(fields) = value else {
        return value.as_array().into_iter().flatten().for_each(|item| named_files(item, files));
    };
    for (key, value) in fields {
        match value {
            Value::String(path) if key.ends_with("File") || key.starts_with("cloudConf") => files.push(path.into()),
            value => named_files(value, files),
        }
    }
}

#[test]
fn every_example_is_tested() {
    let names = fs::read_dir(deploy()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let examples: BTreeSet<_> = names.filter(|name| name.starts_with("example")).collect();
    assert_eq!(examples, EXAMPLES.map(str::to_owned).into());
}

#[test]
fn the_flags_of_every_variant_are_valid() {
    let (base, example) = (base(), example("example", Vec::new()));
    assert!(base.args.leader_elect && !base.args.use_service_account_credentials);
    assert!(example.args.leader_elect && example.args.use_service_account_credentials);
    assert_eq!(base.args.controllers, ["*"]);
    let variants = all();
    assert_eq!(variants.len(), 7, "base, examples, and two in the examples' comments");
    assert!(variants.iter().any(|variant| variant.args.master.is_some()));
    for variant in variants {
        assert!(variant.args.config.is_some() != variant.args.cloud_config.is_some(), "one of both tells all");
        assert_eq!(variant.args.config.is_some(), variant.args.cloud_provider.is_empty(), "flags win over the file");
    }
}

#[test]
fn the_plugin_is_either_in_the_image_or_mounted() {
    let dockerfile = read("Dockerfile");
    assert!(dockerfile.contains("COPY --from=build /out/ /\n"));
    let installed = dockerfile.lines().find_map(|line| line.split_once("install -D -m 0644 -t /out/plugins "));
    let (_, installed) = installed.expect("plugins are installed");
    for variant in all() {
        let file = variant.plugin();
        let name = file.strip_prefix("/plugins").expect("a directory of plugins").display().to_string();
        let in_image = installed.split_whitespace().any(|path| path == format!("target/plugins/{name}"));
        assert!(in_image != variant.mount(&file).is_some(), "{name} is nowhere, or hidden by what is mounted");
        assert!(variant.args.plugins.is_empty());
    }
}

// Holds: OPS-133
#[test]
fn every_configured_file_is_in_a_mounted_directory() {
    for variant in all() {
        for file in variant.read_files() {
            let (mount, volume) = variant.mount(&file).unwrap_or_else(|| panic!("{} is nowhere", file.display()));
            assert!(mount.sub_path.is_none(), "a file that is mounted by subPath never changes");
            let key = file.strip_prefix(&mount.mount_path).unwrap().display().to_string();
            let files = variant.files(volume);
            assert!(files.contains(&key), "{}: no {key} among {files:?}", variant.folder);
        }
    }
}

// Holds: SEC-24
#[test]
fn only_the_group_of_the_pod_can_read_the_configuration() {
    for variant in all() {
        let context = variant.pod.security_context.as_ref().unwrap();
        assert!(context.fs_group.is_some() && context.fs_group == context.run_as_group);
        for file in variant.read_files() {
            let (mount, volume) = variant.mount(&file).unwrap();
            let secret = volume.secret.as_ref().and_then(|secret| secret.default_mode);
            let mode = secret.or(volume.projected.as_ref().and_then(|projected| projected.default_mode));
            assert_eq!((mode, mount.read_only), (Some(0o440), Some(true)), "{}", variant.folder);
        }
    }
}

#[test]
fn cloud_examples_bind_each_egress_rule_to_a_credential() {
    for (folder, rules) in [("example-aws", 2), ("example-metal", 1), ("example-openstack", 4)] {
        let (plugin, _) = example(folder, Vec::new()).configured().unwrap();
        assert_eq!(plugin.egress.len(), rules, "{folder}");
        assert_eq!(folder.split_once('-').unwrap().1, plugin.name);
        for rule in plugin.egress {
            assert!(rule.to.starts_with("https://") && rule.credential.is_some(), "{}", rule.name);
        }
    }
}

// Holds: OPS-134
#[test]
fn the_memory_limit_covers_plugin_compiler_and_host() {
    for variant in all() {
        let configured = variant.configured().map(|(plugin, _)| plugin.limits().unwrap()).unwrap_or_default();
        let settings = [configured, variant.args.plugin_limits.clone()].concat();
        let limits = plugin_limits::limits(1, &settings).unwrap();
        let needed = (limits.memory_total + limits.compile_memory + (256 << 20)) >> 20;
        let resources = container(&variant.pod).resources.as_ref().unwrap();
        assert_eq!(resources.limits.as_ref().unwrap()["memory"].0, format!("{needed}Mi"), "{}", variant.folder);
    }
}

#[test]
fn the_plugin_cache_is_below_a_writable_mount() {
    for variant in all() {
        let dir = variant.args.plugin_cache_dir.clone().expect("the root file system is read-only");
        let (mount, volume) = variant.mount(&dir).expect("it is mounted");
        assert_ne!(mount.read_only, Some(true));
        assert!(volume.empty_dir.is_some());
        // The root directory of a volume is writable by its group, and is therefore rejected as a directory for machine code.
        assert_ne!(Path::new(&mount.mount_path), dir);
    }
}

#[test]
fn every_mount_is_used_by_a_flag() {
    for variant in all() {
        assert!(variant.args.kubeconfig.is_none(), "a Pod has its service account");
        let mut asked = variant.read_files();
        asked.push(variant.plugin());
        asked.extend(variant.args.plugin_cache_dir.clone());
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
fn probes_use_the_loopback_health_address() {
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

/// Returns the documents of this kind in a file.
fn documents(file: &str, kind: &str) -> Vec<Value> {
    read(file).split("\n---\n").map(yaml::<Value>).filter(|document| document["kind"] == kind).collect()
}

/// Returns the names to which the roles in a file are limited for a resource.
fn names(file: &str, resource: &str) -> Vec<String> {
    let roles = documents(file, "Role");
    let rules = roles.iter().flat_map(|role| role["rules"].as_array().unwrap());
    let matching = rules.filter(|rule| rule["resources"] == serde_json::json!([resource]));
    let names = matching.filter_map(|rule| rule["resourceNames"].as_array()).flatten();
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_role_grants_access_to_the_configured_lease() {
    for variant in all() {
        assert_eq!(names("base/rbac.yaml", "leases"), [variant.args.leader_elect_resource_name.as_str()]);
        assert_eq!(kustomization_namespace(), variant.args.leader_elect_resource_namespace);
    }
}

fn kustomization_namespace() -> String {
    let base: Value = yaml(&read("base/kustomization.yaml"));
    base["namespace"].as_str().unwrap().to_owned()
}

// Holds: P-45
#[test]
fn the_role_grants_tokens_of_exactly_the_controller_accounts() {
    let mut wanted: Vec<_> = CONTROLLERS.iter().map(|controller| controller.client.as_str().to_owned()).collect();
    wanted.sort();
    wanted.dedup();
    let mut granted = names("components/service-account-credentials/rbac.yaml", "serviceaccounts/token");
    granted.sort();
    assert_eq!(granted, wanted);
}

#[test]
fn pods_use_the_service_account_of_the_role_binding() {
    let accounts = documents("base/rbac.yaml", "ServiceAccount");
    let [account] = accounts.as_slice() else { panic!("one account") };
    for variant in all() {
        assert_eq!(variant.pod.service_account_name.as_deref(), account["metadata"]["name"].as_str());
    }
}

// Holds: OPS-34
#[test]
fn the_route_controller_account_may_patch_node_status() {
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
    assert_eq!(bindings[0]["subjects"][0]["name"], route::CONTROLLER.client.as_str());
}
