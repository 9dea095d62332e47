//! Every variant of the Deployment that `deploy/` describes, parsed like by kubectl and by the
//! binary.

use std::path::{Path, PathBuf};

use crate::{deploy, read};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, PodSpec, Volume, VolumeMount},
};
use serde::Deserialize;
use serde_json::Value;
use skydock::{
    cli::{self, CcmArgs},
    file::{PluginConfiguration, SkydockConfiguration},
};

/// The examples in `deploy/` that operators copy.
pub(crate) const EXAMPLES: [&str; 4] = [
    "example",
    "example-aws",
    "example-metal",
    "example-openstack",
];

/// The fields of a `kustomization.yaml` that are used here.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Kustomization {
    components: Vec<String>,
    pub(crate) patches: Option<Vec<Patch>>,
    secret_generator: Vec<Generator>,
    config_map_generator: Vec<Generator>,
}

#[derive(Deserialize)]
pub(crate) struct Patch {
    pub(crate) target: Target,
    /// The text, also if it is in a file.
    #[serde(default)]
    pub(crate) patch: String,
    path: Option<PathBuf>,
}

#[derive(Deserialize)]
pub(crate) struct Target {
    pub(crate) kind: String,
    pub(crate) name: String,
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
    /// Returns the keys that the generator with this name generates; none if there is no such
    /// generator.
    fn keys(all: &[Self], name: &str) -> Vec<String> {
        let made = all.iter().filter(|generator| generator.name == name);
        let keys = made.flat_map(|it| it.files.iter().chain(&it.literals));
        keys.map(|key| key.split('=').next().unwrap().to_owned())
            .collect()
    }
}

/// The Deployment and the configuration that a kustomization generates.
pub(crate) struct Deployed {
    pub(crate) folder: String,
    pub(crate) pod: PodSpec,
    pub(crate) args: CcmArgs,
    secrets: Vec<Generator>,
    config_maps: Vec<Generator>,
}

/// Returns the text of a file in `deploy/`.
pub(crate) fn text(file: impl AsRef<Path>) -> String {
    read(deploy().join(file))
}

/// Parses YAML like Kubernetes, which treats 0440 as octal.
pub(crate) fn yaml<T: for<'de> Deserialize<'de>>(text: &str) -> T {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_str_with_options(text, options)
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub(crate) fn kustomization(folder: &str) -> Kustomization {
    let mut kustomization: Kustomization = yaml(&text(format!("{folder}/kustomization.yaml")));
    for patch in kustomization.patches.iter_mut().flatten() {
        if let Some(file) = &patch.path {
            patch.patch = text(Path::new(folder).join(file));
        }
    }
    kustomization
}

/// Returns the commented examples in a text, each parsed separately. An example starts with a line
/// ` # - target` and ends with an empty line.
fn commented_examples(text: &str) -> Vec<Vec<Patch>> {
    let begins = text
        .match_indices("  # - target")
        .map(|(at, _)| text.split_at(at).1);
    begins
        .map(|example| {
            let lines = example.lines().take_while(|line| !line.is_empty());
            let plain: Vec<_> = lines
                .map(|line| line.strip_prefix("  # ").expect("a comment"))
                .collect();
            yaml(&plain.join("\n"))
        })
        .collect()
}

/// Returns the Deployment of the base with these patches. It is parsed as strictly as by kubectl:
/// an unknown field is an error.
fn deployed(folder: &str, patches: &[Patch], made: Kustomization) -> Deployed {
    let mut value: Value = yaml(&text("base/deployment.yaml"));
    for patch in patches
        .iter()
        .filter(|patch| patch.target.kind == "Deployment")
    {
        assert_eq!(
            value.pointer("/metadata/name"),
            Some(&Value::from(patch.target.name.as_str()))
        );
        let operations: json_patch::Patch = yaml(&patch.patch);
        json_patch::patch(&mut value, &operations).unwrap();
    }
    let deployment: Deployment = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(
        serde_json::to_value(&deployment).unwrap().pointer("/spec"),
        value.pointer("/spec"),
        "an unknown field"
    );
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let given = container(&pod).args.clone().unwrap();
    let parsed = cli::parse(["skydock".to_owned()].into_iter().chain(given))
        .expect("the flags are understood");
    assert!(parsed.command.is_none());
    let Kustomization {
        secret_generator: secrets,
        config_map_generator: config_maps,
        ..
    } = made;
    Deployed {
        folder: folder.to_owned(),
        pod,
        args: parsed.ccm,
        secrets,
        config_maps,
    }
}

pub(crate) fn base() -> Deployed {
    deployed("base", &[], kustomization("base"))
}

/// Returns an example with its components and these additional patches.
pub(crate) fn example(folder: &str, more: Vec<Patch>) -> Deployed {
    of_example(folder, kustomization(folder), more)
}

/// Returns the example of an own provider, with the plugin from an init container.
pub(crate) fn with_init_container() -> Deployed {
    let folder = "example-metal";
    let mut example = kustomization(folder);
    let mut patches = example.patches.iter_mut().flatten();
    let volume = patches.find(|it| it.path.as_deref() == Some(Path::new("image-volume.yaml")));
    volume.expect("a patch").patch = text("example-metal/init-container.yaml");
    of_example(folder, example, Vec::new())
}

fn of_example(folder: &str, mut example: Kustomization, more: Vec<Patch>) -> Deployed {
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
        assert!(
            component.secret_generator.is_empty() && component.config_map_generator.is_empty(),
            "{folder}"
        );
        add_components(&folder, &component, patches);
        patches.extend(component.patches.take().into_iter().flatten());
    }
}

/// Returns all variants that `deploy/` describes.
pub(crate) fn all() -> Vec<Deployed> {
    let mut all = vec![base(), with_init_container()];
    for folder in EXAMPLES {
        let commented = commented_examples(&text(format!("{folder}/kustomization.yaml")));
        all.extend(
            [Vec::new()]
                .into_iter()
                .chain(commented)
                .map(|patches| example(folder, patches)),
        );
    }
    all
}

/// Returns Skydock's container. The others are sidecars of CSI.
pub(crate) fn container(pod: &PodSpec) -> &Container {
    let (first, sidecars) = pod.containers.split_first().unwrap();
    assert_eq!(first.name, "skydock");
    assert!(sidecars.iter().all(|it| it.name.starts_with("csi-")));
    first
}

impl Deployed {
    /// Returns the mount that contains a path, and its volume.
    pub(crate) fn mount(&self, path: &Path) -> Option<(&VolumeMount, &Volume)> {
        let mounts = container(&self.pod).volume_mounts.iter().flatten();
        let mount = mounts
            .into_iter()
            .find(|mount| path.starts_with(&mount.mount_path))?;
        let volume = self
            .pod
            .volumes
            .iter()
            .flatten()
            .find(|volume| volume.name == mount.name);
        Some((
            mount,
            volume.unwrap_or_else(|| panic!("no volume {}", mount.name)),
        ))
    }

    /// Returns the files in a volume, as far as they are known.
    pub(crate) fn files(&self, volume: &Volume) -> Vec<String> {
        let mut files = Vec::new();
        if let Some(secret) = &volume.secret {
            files.extend(Generator::keys(
                &self.secrets,
                secret.secret_name.as_deref().unwrap(),
            ));
        }
        for source in volume
            .projected
            .iter()
            .flat_map(|projected| projected.sources.iter().flatten())
        {
            if let Some(secret) = &source.secret {
                let named = secret.items.iter().flatten().map(|item| item.path.clone());
                files.extend(named.chain(Generator::keys(&self.secrets, &secret.name)));
            }
            files.extend(
                source
                    .config_map
                    .iter()
                    .flat_map(|map| Generator::keys(&self.config_maps, &map.name)),
            );
            files.extend(
                source
                    .service_account_token
                    .iter()
                    .map(|token| token.path.clone()),
            );
        }
        files
    }

    /// Returns the plugin in the configuration file, and the text of the file.
    pub(crate) fn configured(&self) -> Option<(PluginConfiguration, String)> {
        let path = self.args.config.as_ref()?;
        let text = text(Path::new(&self.folder).join(path.file_name().unwrap()));
        let mut configuration = SkydockConfiguration::parse(&text, path).unwrap();
        Some((configuration.plugins.remove(0), text))
    }

    /// Returns the file of the plugin.
    pub(crate) fn plugin(&self) -> PathBuf {
        let in_dir = || {
            self.args
                .plugin_dir
                .as_ref()
                .unwrap()
                .join(format!("{}.wasm", self.args.cloud_provider))
        };
        self.configured()
            .map_or_else(in_dir, |(plugin, _)| plugin.file)
    }

    /// Returns the configuration and credential files that the process reads.
    pub(crate) fn read_files(&self) -> Vec<PathBuf> {
        let flags = self
            .args
            .cloud_config
            .iter()
            .chain(&self.args.config)
            .cloned();
        let text = self
            .configured()
            .map(|(_, text)| yaml(&text))
            .unwrap_or_default();
        let mut files: Vec<_> = flags.collect();
        named_files(&text, &mut files);
        files
    }
}

/// Collects the files that a configuration refers to, except plugins.
fn named_files(value: &Value, files: &mut Vec<PathBuf>) {
    let Value::Object(fields) = value else {
        return value
            .as_array()
            .into_iter()
            .flatten()
            .for_each(|item| named_files(item, files));
    };
    for (key, value) in fields {
        match value {
            Value::String(path) if key.ends_with("File") || key.starts_with("cloudConf") => {
                files.push(path.into());
            }
            value => named_files(value, files),
        }
    }
}
