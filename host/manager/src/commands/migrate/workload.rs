//! The object that runs a cloud-controller-manager.

use serde_json::{Map, Value, json};

use super::{
    configuration::{self, PluginFile},
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
    /// Where the configuration file is.
    pub(super) place: Place,
    /// `--cloud-provider`.
    pub(super) provider: Option<String>,
    /// `--cloud-config`.
    pub(super) cloud_config: Option<String>,
    /// Environment variables that have secrets.
    pub(super) secrets: Vec<String>,
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

/// Returns true if the container of a cloud-controller-manager has text that a program for templates
/// replaces, so that it cannot be understood.
pub(super) fn is_template(object: &Value) -> bool {
    let pod = pod_at(object).and_then(|path| object.pointer(path));
    let containers = pod.and_then(|pod| pod.get("containers")?.as_array());
    let mut containers = containers.into_iter().flatten();
    containers.any(|container| is_ccm(container) && container.to_string().contains("{{"))
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
    let place = match kind.as_str() {
        "Pod" => Place::Node,
        _ => Place::Cluster {
            namespace: text(object, "/metadata/namespace"),
        },
    };

    let pod = object.pointer_mut(path)?.as_object_mut()?;
    let on_host = pod.get("hostNetwork") == Some(&Value::Bool(true));
    let containers = pod.get_mut("containers")?.as_array_mut()?;
    let container = containers.iter_mut().find(|it| is_ccm(it))?;
    let container = container.as_object_mut()?;

    let (mut migrated, mounts_plugin) = of_container(container, image, plugin, on_host, place);
    add_volumes(pod, &migrated.place, mounts_plugin);
    for note in &mut migrated.notes {
        *note = format!("{}: {note}", format!("{kind} {name}").trim_end());
    }
    Some(migrated)
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
fn is_ccm(container: &Value) -> bool {
    let image = container.get("image").and_then(Value::as_str);
    let words = container::words(container);
    // Flags do not show it: other programs have `--cloud-provider`, too.
    let programs = || {
        let words = words.iter().map(String::as_str);
        words.filter(|word| !word.starts_with('-'))
    };
    let all = || programs().chain(image);

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

/// Migrates a container. Also returns whether the plugin has to be mounted.
fn of_container(
    container: &mut Map<String, Value>,
    image: &str,
    plugin: Option<&PluginFile>,
    on_host: bool,
    place: Place,
) -> (Migrated, bool) {
    let words = container::words(&Value::Object(container.clone()));
    let mut arguments = container::sort(&words);

    let provider = arguments.value("cloud-provider").map(str::to_owned);
    if let (Some(plugin), Some(provider)) = (plugin, &provider)
        && plugin.name != *provider
    {
        let why = format!("the plugin in config.yaml is {}", plugin.name);
        arguments.drop("cloud-provider", &why);
    }
    move_probes(container, &mut arguments, on_host);
    arguments
        .kept
        .push("--plugin-cache-dir=/var/cache/skydock/compiled".to_owned());

    let name = plugin.map(|plugin| plugin.name.as_str());
    let name = name.or(provider.as_deref()).unwrap_or_default();
    let mounts_plugin = !configuration::is_in_image(name);
    let mut mounts = vec![
        json!({"name": "skydock-configuration", "mountPath": "/etc/skydock", "readOnly": true}),
        json!({"name": "skydock-cache", "mountPath": "/var/cache/skydock"}),
    ];
    if mounts_plugin {
        mounts.push(json!({"name": "skydock-plugins", "mountPath": "/plugins", "readOnly": true}));
    }
    push(container, "volumeMounts", mounts);

    let mut notes = std::mem::take(&mut arguments.notes);
    if let Some(limit) = container
        .get("resources")
        .and_then(|it| it.pointer("/limits/memory"))
    {
        notes.push(format!(
            "the memory limit {limit} was not changed: Skydock needs more than other cloud-controller-managers, see deploy/base"
        ));
    }
    if mounts_plugin && place != Place::Node {
        notes.push(format!(
            "the plugin is mounted from its image, which needs Kubernetes 1.35: replace {}, or mount the plugin in another way",
            configuration::PLUGIN_IMAGE
        ));
    }
    let secrets = configuration::secrets(container);
    notes.extend(configuration::unread(container, &secrets));
    let cloud_config = arguments.value("cloud-config").map(str::to_owned);

    container.remove("command");
    container.insert("args".to_owned(), arguments.kept.into());
    container.insert("image".to_owned(), image.into());

    let migrated = Migrated {
        place,
        provider,
        cloud_config,
        secrets,
        notes,
    };
    (migrated, mounts_plugin)
}

/// Lets probes ask Skydock's server. Those by HTTPS do already, as the flags of the server stay.
fn move_probes(container: &mut Map<String, Value>, arguments: &mut Arguments, on_host: bool) {
    let port = arguments.value("secure-port");
    let port = port.and_then(|port| port.parse().ok()).unwrap_or(PORT);
    let is_secure = port != 0;

    let mut moved = false;
    for probe in PROBES {
        let Some(get) = container
            .get_mut(probe)
            .and_then(|probe| probe.get_mut("httpGet"))
            .and_then(Value::as_object_mut)
            .filter(|get| get.get("scheme").is_none_or(|scheme| scheme != "HTTPS"))
        else {
            continue;
        };
        moved = true;

        if is_secure {
            get.insert("port".to_owned(), port.into());
            get.insert("scheme".to_owned(), "HTTPS".into());
            let note = format!("{probe}: HTTP became HTTPS, which Skydock serves");
            arguments.notes.push(note);
        } else {
            get.insert("port".to_owned(), PORT.into());
            if on_host {
                get.insert("host".to_owned(), "127.0.0.1".into());
            }
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

fn add_volumes(pod: &mut Map<String, Value>, place: &Place, mounts_plugin: bool) {
    let in_host = |name: &str, path: String| json!({"name": name, "hostPath": {"path": path, "type": "Directory"}});
    let configuration = match place {
        Place::Node => in_host("skydock-configuration", HOST_DIRECTORY.to_owned()),
        Place::Cluster { .. } => {
            json!({"name": "skydock-configuration", "configMap": {"name": CONFIG_MAP}})
        }
    };

    let mut volumes = vec![
        configuration,
        json!({"name": "skydock-cache", "emptyDir": {}}),
    ];
    if mounts_plugin {
        volumes.push(match place {
            Place::Node => in_host("skydock-plugins", format!("{HOST_DIRECTORY}/plugins")),
            Place::Cluster { .. } => {
                json!({"name": "skydock-plugins", "image": {"reference": configuration::PLUGIN_IMAGE}})
            }
        });
    }
    push(pod, "volumes", volumes);
}

/// Adds items to a list.
fn push(object: &mut Map<String, Value>, list: &str, items: Vec<Value>) {
    match object.entry(list).or_insert_with(|| json!([])) {
        Value::Array(array) => array.extend(items),
        other => *other = items.into(),
    }
}
