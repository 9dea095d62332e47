//! The object that runs a cloud-controller-manager.

use serde_json::{Map, Value, json};

use super::{
    configuration::{self, Cloud, PluginFile},
    container::{self, Arguments},
    handlers,
};

/// Name of the ConfigMap with the configuration file.
pub(super) const CONFIG_MAP: &str = "skydock-configuration";
/// Directory of each node for static Pods, which cannot use ConfigMaps.
pub(super) const HOST_DIRECTORY: &str = "/etc/kubernetes/skydock";

/// Where the configuration file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a ConfigMap.
    Cluster {
        /// Its namespace.
        namespace: Option<String>,
    },
    /// In a directory of each node.
    Node,
}

/// What was found in an object that was migrated.
#[derive(Debug)]
pub(super) struct Migrated {
    /// Kind and name of the object.
    pub(super) name: String,
    /// Where the configuration file is.
    pub(super) place: Place,
    /// Its text; `None` if the container has such a file already.
    pub(super) configuration: Option<String>,
    /// What was dropped or has to be done, each with the reason.
    pub(super) notes: Vec<String>,
}

/// Returns where the Pod is in an object that runs Pods.
fn pod_at(object: &Value) -> Option<&'static str> {
    match object.get("kind")?.as_str()? {
        "Pod" => Some("/spec"),
        "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet" => Some("/spec/template/spec"),
        _ => None,
    }
}

/// Returns true if the object runs a cloud-controller-manager and has text that a program for
/// templates replaces, so that it cannot be understood.
pub(super) fn is_template(object: &Value) -> bool {
    let pod = pod_at(object).and_then(|path| object.pointer(path));
    let containers = pod.and_then(|pod| pod.get("containers")?.as_array());
    let containers = containers.into_iter().flatten();
    let mut ccms = containers.filter(|it| is_ccm(it)).peekable();

    let names = ["/metadata/name", "/metadata/namespace"];
    let mut names = names
        .iter()
        .filter_map(|pointer| object.pointer(pointer)?.as_str());
    let is_named = names.any(|name| name.contains("{{") || name.contains("${"));
    (is_named && ccms.peek().is_some()) || ccms.any(has_template)
}

fn has_template(container: &Value) -> bool {
    let words = container::words(container);
    let image = container.get("image").and_then(Value::as_str);
    // In a script, it is the shell that replaces variables.
    let plain = words.iter().filter(|_| !container::is_script(&words));
    let mut texts = plain.map(String::as_str).chain(image);
    container.to_string().contains("{{") || texts.any(|text| text.contains("${"))
}

/// Migrates an object, if it runs a cloud-controller-manager.
pub(super) fn migrate(
    object: &mut Value,
    image: &str,
    plugin: Option<&PluginFile>,
) -> Option<Migrated> {
    let path = pod_at(object)?;
    let kind = text(object, "/kind")?;
    let name = text(object, "/metadata/name").unwrap_or_default();
    let name = format!("{kind} {name}").trim_end().to_owned();
    let place = match kind.as_str() {
        "Pod" => Place::Node,
        _ => Place::Cluster {
            namespace: text(object, "/metadata/namespace"),
        },
    };

    let pod = object.pointer_mut(path)?.as_object_mut()?;
    let (configuration, notes) = match of_pod(pod, image, plugin, &place)? {
        Ok(done) => (done.configuration, done.notes),
        Err(told) => (None, vec![told]),
    };
    let notes = notes.iter().map(|note| format!("{name}: {note}"));
    Some(Migrated {
        notes: notes.collect(),
        name,
        place,
        configuration,
    })
}

/// Migrates a Pod, if it runs a cloud-controller-manager.
///
/// # Errors
/// Why it was not changed.
fn of_pod(
    pod: &mut Map<String, Value>,
    image: &str,
    plugin: Option<&PluginFile>,
    place: &Place,
) -> Option<Result<Done, String>> {
    let on_host = pod.get("hostNetwork") == Some(&Value::Bool(true));
    let inits = names_and_images(pod.get("initContainers"));
    let mut unclear = taken_volumes(pod);

    let containers = pod.get_mut("containers")?.as_array_mut()?;
    let mut ccms: Vec<_> = containers.iter_mut().filter(|it| is_ccm(it)).collect();
    let names: Vec<_> = ccms.iter().map(|it| container_name(it)).collect();
    let names = names.join(", ");
    let container = match &mut *ccms {
        [] => return None,
        [container] => container,
        _ => {
            return Some(Err(format!(
                "no container was changed, as several may be a cloud-controller-manager: {names}; migrate it by hand"
            )));
        }
    };
    let old_image = text(container, "/image");
    let container = container.as_object_mut()?;

    unclear.extend(wrong_lists(container));
    let done = if unclear.is_empty() {
        of_container(container, image, plugin, on_host, place)
    } else {
        Err(unclear)
    };
    let mut done = match done {
        Ok(done) => done,
        Err(unclear) => {
            return Some(Err(format!(
                "{names} was not changed, so migrate it by hand: {}",
                unclear.join("; ")
            )));
        }
    };

    let inits = inits.iter().filter(|(_, image)| *image == old_image);
    done.notes.extend(inits.map(|(name, _)| {
        format!(
            "the init container {name} still has the image of the old cloud-controller-manager: remove it, or make sure that Skydock \
             needs what it does"
        )
    }));
    let volumes = done.mounts.iter().map(|mount| mount.volume(place));
    push(pod, "volumes", "name", volumes);
    done.notes.extend(user_note(pod));
    Some(Ok(done))
}

/// Returns what is said about volumes of the Pod in the place of those that Skydock needs.
fn taken_volumes(pod: &Map<String, Value>) -> Vec<String> {
    let volumes = match pod.get("volumes") {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(volumes)) => volumes,
        Some(_) => return vec!["volumes is not a list".to_owned()],
    };
    let names = volumes
        .iter()
        .filter_map(|volume| volume.get("name")?.as_str());
    let own = [Mount::Configuration, Mount::Cache, Mount::Plugins].map(Mount::name);
    names
        .filter(|name| own.contains(name))
        .map(|name| format!("a volume has the name {name}, which Skydock needs"))
        .collect()
}

/// Returns what is said about fields of a container that should have lists.
fn wrong_lists(container: &Map<String, Value>) -> Vec<String> {
    let fields = ["command", "args", "env", "envFrom", "volumeMounts"];
    let is_wrong = |field: &&str| {
        let value = container.get(*field);
        value.is_some_and(|value| !value.is_array() && !value.is_null())
    };
    let wrong = fields.into_iter().filter(is_wrong);
    wrong
        .map(|field| format!("{field} is not a list"))
        .collect()
}

fn container_name(container: &Value) -> String {
    text(container, "/name").unwrap_or_else(|| "without a name".to_owned())
}

fn names_and_images(containers: Option<&Value>) -> Vec<(String, Option<String>)> {
    let containers = containers.and_then(Value::as_array).into_iter().flatten();
    containers
        .map(|it| (container_name(it), text(it, "/image")))
        .collect()
}

/// Returns what is said about files of nodes, which other images can often read.
fn user_note(pod: &Map<String, Value>) -> Option<String> {
    let list = |field: &str| {
        pod.get(field)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let has_user =
        |context: Option<&Value>| context.is_some_and(|it| it.get("runAsUser").is_some());

    let reads_node = list("volumes").any(|volume| volume.get("hostPath").is_some());
    let is_set = has_user(pod.get("securityContext"))
        || list("containers").any(|container| has_user(container.get("securityContext")));
    (reads_node && !is_set).then(|| {
        "Skydock's image runs as user 65532, others often as root: that user must be able to read the files of hostPath volumes, or set \
         securityContext.runAsUser"
            .to_owned()
    })
}

fn text(object: &Value, pointer: &str) -> Option<String> {
    Some(object.pointer(pointer)?.as_str()?.to_owned())
}

/// Parts of the names of other programs that have to do with a cloud.
const OTHERS: &[&str] = &[
    "kube-controller-manager",
    "kube-apiserver",
    "kubelet",
    "autoscaler",
    "csi",
    "rbac-proxy",
    "etcd",
];

/// Returns true for a container that runs a cloud-controller-manager, as far as its program and its
/// image show.
pub(in crate::commands) fn is_ccm(container: &Value) -> bool {
    let image = container.get("image").and_then(Value::as_str);
    // Flags and their values do not show it: other programs have `--cloud-provider`, or wait for one.
    let programs = container::programs(&container::words(container));
    let all = || programs.iter().map(String::as_str).chain(image);

    let is_other = all().any(|word| OTHERS.iter().any(|other| word.contains(other)));
    let is_named = all().any(|word| {
        word.contains("cloud-controller")
            || word.contains("cloud-provider")
            || word.ends_with("/ccm")
    });
    let image_is_ccm =
        image.is_some_and(|it| it.split([':', '-', '@', '/']).any(|part| part == "ccm"));
    (is_named || image_is_ccm) && !is_other
}

/// What became of a container.
struct Done {
    /// What has to be mounted.
    mounts: Vec<Mount>,
    /// The text of the configuration file; `None` if the container has one already.
    configuration: Option<String>,
    /// What was dropped or has to be done, each with the reason.
    notes: Vec<String>,
}

/// A directory that Skydock needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mount {
    Configuration,
    Cache,
    Plugins,
}

impl Mount {
    fn name(self) -> &'static str {
        match self {
            Self::Configuration => "skydock-configuration",
            Self::Cache => "skydock-cache",
            Self::Plugins => "skydock-plugins",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Configuration => "/etc/skydock",
            Self::Cache => "/var/cache/skydock",
            Self::Plugins => "/plugins",
        }
    }

    /// Returns the entry in the container.
    fn mount(self) -> Value {
        let (name, path) = (self.name(), self.path());
        match self {
            Self::Cache => json!({"name": name, "mountPath": path}),
            _ => json!({"name": name, "mountPath": path, "readOnly": true}),
        }
    }

    /// Returns the entry in the Pod.
    fn volume(self, place: &Place) -> Value {
        let source = match (self, place) {
            (Self::Cache, _) => json!({"emptyDir": {}}),
            (Self::Configuration, Place::Node) => {
                json!({"hostPath": {"path": HOST_DIRECTORY, "type": "Directory"}})
            }
            (Self::Configuration, Place::Cluster { .. }) => {
                json!({"configMap": {"name": CONFIG_MAP}})
            }
            (Self::Plugins, Place::Node) => {
                json!({"hostPath": {"path": format!("{HOST_DIRECTORY}/plugins"), "type": "Directory"}})
            }
            (Self::Plugins, Place::Cluster { .. }) => {
                json!({"image": {"reference": configuration::PLUGIN_IMAGE}})
            }
        };

        let mut volume = json!({"name": self.name()});
        if let (Some(volume), Value::Object(source)) = (volume.as_object_mut(), source) {
            volume.extend(source);
        }
        volume
    }
}

/// Migrates a container.
///
/// # Errors
/// What of it is not understood. It is not changed.
fn of_container(
    container: &mut Map<String, Value>,
    image: &str,
    plugin: Option<&PluginFile>,
    on_host: bool,
    place: &Place,
) -> Result<Done, Vec<String>> {
    let words = container::words(&Value::Object(container.clone()));
    let mut arguments = container::sort(&words, |name| sets(container, name))?;
    let provider = arguments.value("cloud-provider").map(str::to_owned);

    if let (Some(plugin), Some(provider)) = (plugin, &provider)
        && plugin.name != *provider
    {
        let why = format!("the plugin in config.yaml is {}", plugin.name);
        arguments.drop("cloud-provider", &why);
    }
    handlers::move_probes(container, &mut arguments, on_host);
    if arguments.value("plugin-cache-dir").is_none() {
        let cache = "--plugin-cache-dir=/var/cache/skydock/compiled";
        arguments.kept.push(cache.to_owned());
    }
    let mut notes = std::mem::take(&mut arguments.notes);

    let name = plugin.map(|plugin| plugin.name.as_str());
    let name = name.or(provider.as_deref()).unwrap_or_default();
    let mounts = add_mounts(container, name, &mut notes);
    notes.extend(about_resources(container, &mounts, place));
    notes.extend(handlers::unanswered(container, &arguments));

    let cloud = Cloud {
        plugin,
        provider: provider.as_deref(),
        cloud_config: None,
        secrets: &configuration::secrets(container),
    };
    let text = configuration_text(container, &arguments, cloud, &mut notes);
    let configuration = mounts.contains(&Mount::Configuration).then_some(text);
    if configuration.is_some() {
        notes.extend(plugin.map(PluginFile::wishes).unwrap_or_default());
        notes.extend(cloud.other_login());
    }
    notes.extend(configuration.as_deref().and_then(configuration::to_mount));

    container.remove("command");
    container.insert("args".to_owned(), arguments.kept.into());
    container.insert("image".to_owned(), image.into());

    Ok(Done {
        mounts,
        configuration,
        notes,
    })
}

/// Variables that each container has.
const OF_EACH: [&str; 2] = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];

/// Returns true if the container has a variable, as far as its manifest shows.
fn sets(container: &Map<String, Value>, name: &str) -> bool {
    let list = |field: &str| {
        let list = container.get(field).and_then(Value::as_array);
        list.into_iter().flatten()
    };
    let is_named = |it: &Value| it.get("name").is_some_and(|it| it == name);
    // In small letters, it may be a command of the shell.
    let is_from = list("envFrom").next().is_some() && !name.contains(char::is_lowercase);
    OF_EACH.contains(&name) || is_from || list("env").any(is_named)
}

/// Mounts what a container needs for the plugin with this name, except where it has a volume
/// already. Returns what was mounted.
fn add_mounts(
    container: &mut Map<String, Value>,
    name: &str,
    notes: &mut Vec<String>,
) -> Vec<Mount> {
    let mut mounts = vec![Mount::Configuration, Mount::Cache];
    if !configuration::is_in_image(name) {
        mounts.push(Mount::Plugins);
    }

    mounts.retain(|mount| {
        let is_taken = mounts_at(container, mount.path());
        if is_taken && *mount != Mount::Cache {
            let content = match mount {
                Mount::Plugins => "the plugin",
                _ => "config.yaml",
            };
            notes.push(format!(
                "the volume at {} was not changed: {content} must be in it",
                mount.path()
            ));
        }
        !is_taken
    });

    push(
        container,
        "volumeMounts",
        "mountPath",
        mounts.iter().map(|mount| mount.mount()),
    );
    mounts
}

/// Returns what is said about the memory limit and the plugin's image.
fn about_resources(
    container: &Map<String, Value>,
    mounts: &[Mount],
    place: &Place,
) -> impl Iterator<Item = String> + use<> {
    let limit = container
        .get("resources")
        .and_then(|it| it.pointer("/limits/memory"));
    let memory = limit.map(|limit| {
        format!(
            "the memory limit {limit} was not changed: Skydock needs more than other cloud-controller-managers, see deploy/base"
        )
    });

    let has_image = mounts.contains(&Mount::Plugins) && *place != Place::Node;
    let image = has_image.then(|| {
        format!(
            "the plugin is mounted from its image, which needs Kubernetes 1.35: replace {}, or mount the plugin in another way",
            configuration::PLUGIN_IMAGE
        )
    });

    memory.into_iter().chain(image)
}

/// Returns the configuration file of a container, for this cloud and the file of `--cloud-config`.
fn configuration_text(
    container: &Map<String, Value>,
    arguments: &Arguments,
    cloud: Cloud<'_>,
    notes: &mut Vec<String>,
) -> String {
    notes.extend(configuration::unread(
        container,
        cloud.variable(),
        &arguments.kept,
    ));

    let path = arguments.value("cloud-config");
    let expanded = path.and_then(|path| configuration::expand(path, container));
    if let (Some(path), None) = (path, &expanded) {
        notes.push(format!(
            "--cloud-config={path}: the manifest does not set the variable; if a credential reads that file, write its path as `cloudConf`"
        ));
    }

    configuration::text(&Cloud {
        cloud_config: expanded.as_deref(),
        ..cloud
    })
}

/// Returns true if the container has a volume at this path.
fn mounts_at(container: &Map<String, Value>, path: &str) -> bool {
    let mounts = container.get("volumeMounts").and_then(Value::as_array);
    let mut mounts = mounts.into_iter().flatten();
    mounts.any(|mount| {
        let mounted = mount.get("mountPath").and_then(Value::as_str);
        mounted.is_some_and(|mounted| mounted.trim_end_matches('/') == path)
    })
}

/// Adds items to a list, except those whose `key` an item has already.
fn push(
    object: &mut Map<String, Value>,
    list: &str,
    key: &str,
    items: impl Iterator<Item = Value>,
) {
    let entry = object.entry(list).or_insert_with(|| json!([]));
    if !entry.is_array() {
        *entry = json!([]);
    }
    let Some(array) = entry.as_array_mut() else {
        return;
    };
    for item in items {
        if !array.iter().any(|there| there.get(key) == item.get(key)) {
            array.push(item);
        }
    }
}
