//! The object that runs a cloud-controller-manager.

use serde_json::{Map, Value, json};

use super::{
    configuration::{self, Cloud, PluginFile},
    container::{self, Arguments},
};

/// Name of the ConfigMap with the configuration file.
pub(super) const CONFIG_MAP: &str = "skydock-configuration";
/// Directory of each node for static Pods, which cannot use ConfigMaps.
pub(super) const HOST_DIRECTORY: &str = "/etc/kubernetes/skydock";

/// The port of Skydock's server.
const PORT: u16 = 10258;
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

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
    let on_host = pod.get("hostNetwork") == Some(&Value::Bool(true));
    let containers = pod.get_mut("containers")?.as_array_mut()?;
    let mut ccms = containers.iter_mut().filter(|it| is_ccm(it));
    let container = ccms.next()?;
    let changed = container_name(container);
    let container = container.as_object_mut()?;

    let mut done = match of_container(container, image, plugin, on_host, &place) {
        Ok(done) => done,
        Err(unclear) => {
            let note = format!(
                "{name}: {changed} was not changed, so migrate it by hand: {}",
                unclear.join("; ")
            );
            return Some(Migrated {
                name,
                place,
                configuration: None,
                notes: vec![note],
            });
        }
    };
    let others: Vec<_> = ccms.map(|other| container_name(other)).collect();
    if !others.is_empty() {
        done.notes.push(format!(
            "of several containers that may be a cloud-controller-manager, only {changed} was changed, not {}",
            others.join(", ")
        ));
    }
    let volumes = done.mounts.into_iter().map(|mount| mount.volume(&place));
    push(pod, "volumes", "name", volumes);
    done.notes.extend(user_note(pod));

    let notes = done.notes.iter().map(|note| format!("{name}: {note}"));
    Some(Migrated {
        notes: notes.collect(),
        name,
        place,
        configuration: done.configuration,
    })
}

fn container_name(container: &Value) -> String {
    text(container, "/name").unwrap_or_else(|| "without a name".to_owned())
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
    move_probes(container, &mut arguments, on_host);
    if arguments.value("plugin-cache-dir").is_none() {
        let cache = "--plugin-cache-dir=/var/cache/skydock/compiled";
        arguments.kept.push(cache.to_owned());
    }
    let mut notes = std::mem::take(&mut arguments.notes);

    let name = plugin.map(|plugin| plugin.name.as_str());
    let name = name.or(provider.as_deref()).unwrap_or_default();
    let mounts = add_mounts(container, name, &mut notes);
    notes.extend(about_resources(container, &mounts, place));
    notes.extend(programs(container));

    let cloud = Cloud {
        plugin,
        provider: provider.as_deref(),
        cloud_config: None,
        secrets: &configuration::secrets(container),
    };
    let text = configuration_text(container, &arguments, cloud, &mut notes);
    let configuration = mounts.contains(&Mount::Configuration).then_some(text);
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

/// Returns true if the container has a variable, as far as its manifest shows.
fn sets(container: &Map<String, Value>, name: &str) -> bool {
    let list = |field: &str| {
        let list = container.get(field).and_then(Value::as_array);
        list.into_iter().flatten()
    };
    let is_named = |it: &Value| it.get("name").is_some_and(|it| it == name);
    list("envFrom").next().is_some() || list("env").any(is_named)
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
        cloud.secrets,
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

/// Returns what is said about programs that run in the container.
fn programs(container: &Map<String, Value>) -> Vec<String> {
    let hooks = [("lifecycle", "postStart"), ("lifecycle", "preStop")];
    let hooks =
        hooks.map(|(lifecycle, hook)| (hook, container.get(lifecycle).and_then(|it| it.get(hook))));
    let probes = PROBES.map(|probe| (probe, container.get(probe)));

    let all = probes.into_iter().chain(hooks);
    let runs = all.filter(|(_, handler)| handler.is_some_and(|it| it.get("exec").is_some()));
    runs.map(|(field, _)| {
        let instead = if PROBES.contains(&field) {
            "write an httpGet of /healthz"
        } else {
            "remove it"
        };
        format!("{field} runs a program, and Skydock's image has none but Skydock: {instead}")
    })
    .collect()
}

/// Lets probes ask Skydock's server. Those by HTTPS do already, as the flags of the server stay.
fn move_probes(container: &mut Map<String, Value>, arguments: &mut Arguments, on_host: bool) {
    let port = arguments.value("secure-port");
    let port = port.and_then(|port| port.parse().ok()).unwrap_or(PORT);
    let is_secure = port != 0;

    let mut moved = false;
    for probe in PROBES {
        let Some((handler, target)) = container.get_mut(probe).and_then(connection) else {
            continue;
        };
        if target.get("scheme").is_some_and(|scheme| scheme == "HTTPS") {
            continue;
        }
        moved = true;

        if !is_secure {
            target.insert("port".to_owned(), PORT.into());
            if on_host {
                target.insert("host".to_owned(), "127.0.0.1".into());
            }
            continue;
        }
        target.insert("port".to_owned(), port.into());
        // A connection without a request has no scheme.
        if handler == "httpGet" {
            target.insert("scheme".to_owned(), "HTTPS".into());
            let note = format!("{probe}: HTTP became HTTPS, which Skydock serves");
            arguments.notes.push(note);
        }
    }

    // The kubelet asks the address of the Pod, unless that is the node's.
    if !is_secure && moved && arguments.value("metrics-bind-address").is_none() {
        let host = if on_host { "127.0.0.1" } else { "" };
        arguments
            .kept
            .push(format!("--metrics-bind-address={host}:{PORT}"));
        if host.is_empty() {
            let note = "metrics and health are plain HTTP on all addresses of the Pod, for its probes; restrict them with a NetworkPolicy";
            arguments.notes.push(note.to_owned());
        }
    }
}

/// Returns how a probe connects, and the fields that say where.
fn connection(probe: &mut Value) -> Option<(&'static str, &mut Map<String, Value>)> {
    let probe = probe.as_object_mut()?;
    let handlers = ["httpGet", "tcpSocket"];
    let handler = handlers
        .into_iter()
        .find(|handler| probe.contains_key(*handler))?;
    Some((handler, probe.get_mut(handler)?.as_object_mut()?))
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
