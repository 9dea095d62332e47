//! The files in `deploy/` are consistent, do not request excessive permissions, and run in a
//! restricted Pod.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use skydock_support::kubernetes::UNINITIALIZED;

use crate::roles::is_of_sidecar;
use crate::{deploy, read};

/// Returns all YAML files in a directory and its subdirectories, except those of the chart: they are
/// templates, and links to other files.
fn yaml_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("chart") {
            continue;
        }
        if path.is_dir() {
            files.extend(yaml_files(&path));
        } else if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            files.push(path);
        }
    }
    files
}

fn documents(file: &Path) -> Vec<Value> {
    serde_saphyr::from_multiple(&read(file))
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns all Kubernetes objects in the files that kustomizations list as resources.
fn objects() -> Vec<Value> {
    kustomizations()
        .iter()
        .flat_map(|(dir, kustomization)| {
            texts(kustomization, "/resources")
                .into_iter()
                .map(|name| dir.join(name))
        })
        .filter(|path| path.is_file())
        .flat_map(|path| documents(&path))
        .collect()
}

fn kustomizations() -> Vec<(PathBuf, Value)> {
    let is_kustomization = |path: &PathBuf| path.ends_with("kustomization.yaml");
    let load = |path: PathBuf| {
        (
            path.parent().unwrap().to_owned(),
            documents(&path).remove(0),
        )
    };
    yaml_files(&deploy())
        .into_iter()
        .filter(is_kustomization)
        .map(load)
        .collect()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects
        .iter()
        .filter(|object| text(object, "/kind") == kind)
        .collect()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn texts<'a>(value: &'a Value, pointer: &str) -> Vec<&'a str> {
    list(value, pointer)
        .iter()
        .map(|item| item.as_str().unwrap())
        .collect()
}

fn deployment(objects: &[Value]) -> &Value {
    of_kind(objects, "Deployment")[0]
}

#[test]
fn every_object_has_api_version_kind_and_name() {
    let objects = objects();
    assert!(objects.len() >= 12, "found only {}", objects.len());
    for object in &objects {
        assert!(
            !text(object, "/apiVersion").is_empty() && !text(object, "/kind").is_empty(),
            "{object}"
        );
        assert!(!text(object, "/metadata/name").is_empty(), "{object}");
    }
    for file in yaml_files(&deploy()) {
        assert!(!documents(&file).is_empty(), "{}", file.display());
    }
}

#[test]
fn every_file_in_a_kustomization_exists() {
    for (dir, kustomization) in kustomizations() {
        let mut names: Vec<&str> = ["/resources", "/components"]
            .iter()
            .flat_map(|pointer| texts(&kustomization, pointer))
            .collect();
        for pointer in ["/secretGenerator", "/configMapGenerator"] {
            names.extend(
                list(&kustomization, pointer)
                    .iter()
                    .flat_map(|generator| texts(generator, "/files")),
            );
        }
        for name in names {
            assert!(dir.join(name).exists(), "{} names {name}", dir.display());
        }
    }
}

// Holds: P-43
#[test]
fn bindings_bind_roles_that_exist_to_accounts_that_exist() {
    let objects = objects();
    let names = |kind: &str| -> BTreeSet<&str> {
        of_kind(&objects, kind)
            .iter()
            .map(|o| text(o, "/metadata/name"))
            .collect()
    };
    let mut accounts = names("ServiceAccount");
    // These accounts are created on demand: by kube-controller-manager, or by Skydock for its
    // controllers.
    let roles = of_kind(&objects, "Role");
    let rules = roles.iter().flat_map(|role| list(role, "/rules"));
    let tokens = rules.filter(|rule| texts(rule, "/resources") == ["serviceaccounts/token"]);
    accounts.extend(tokens.flat_map(|rule| texts(rule, "/resourceNames")));
    // Of Prometheus, in another namespace.
    accounts.insert("prometheus-k8s");
    assert!(accounts.contains(text(
        deployment(&objects),
        "/spec/template/spec/serviceAccountName"
    )));
    let bindings = [
        of_kind(&objects, "ClusterRoleBinding"),
        of_kind(&objects, "RoleBinding"),
    ]
    .concat();
    assert!(!bindings.is_empty());
    for binding in bindings {
        assert!(
            names(text(binding, "/roleRef/kind")).contains(text(binding, "/roleRef/name")),
            "{binding}"
        );
        for subject in list(binding, "/subjects") {
            assert!(accounts.contains(text(subject, "/name")), "{binding}");
        }
    }
}

#[test]
fn prometheus_finds_the_pods() {
    let objects = objects();
    let monitor = of_kind(&objects, "ServiceMonitor")[0];
    let service = of_kind(&objects, "Service")[0];
    let pod = &deployment(&objects)["spec"]["template"];
    let label = "/app.kubernetes.io~1name";

    let name = text(&pod["metadata"]["labels"], label);
    assert_eq!(text(&service["spec"]["selector"], label), name);
    // Kustomize and Helm add it to the Service.
    assert_eq!(
        text(&monitor["spec"]["selector"]["matchLabels"], label),
        name
    );

    let endpoint = &monitor["spec"]["endpoints"][0];
    let port = &service["spec"]["ports"][0];
    assert_eq!(endpoint["port"], port["name"]);
    let serves = &pod["spec"]["containers"][0]["ports"][0];
    assert_eq!(port["targetPort"], serves["containerPort"]);

    // The Prometheus operator takes the name of the job from that of the Service.
    let rules = read(deploy().join("components/alerts/rules.yaml"));
    let job = format!("up{{job=\"{}\"}}", text(service, "/metadata/name"));
    assert!(rules.contains(&job), "{job}");
}

#[test]
fn the_readme_has_each_section_once() {
    let page = read(deploy().join("README.md"));
    let mut seen = BTreeSet::new();
    for line in page.lines().filter(|line| line.starts_with('#')) {
        assert!(seen.insert(line), "{line}");
    }
}

// Holds: P-43
#[test]
fn no_role_has_a_right_that_is_not_used() {
    let objects = objects();
    let mut rights = BTreeSet::new();
    for role in [of_kind(&objects, "ClusterRole"), of_kind(&objects, "Role")].concat() {
        if is_of_sidecar(text(role, "/metadata/name")) {
            continue;
        }
        for rule in list(role, "/rules") {
            for resource in texts(rule, "/resources") {
                rights.extend(
                    texts(rule, "/verbs")
                        .into_iter()
                        .map(|verb| format!("{verb} {resource}")),
                );
            }
        }
    }
    let used = [
        "approve signers",
        "create configmaps",
        "create events",
        "create leases",
        "create persistentvolumes",
        "create serviceaccounts",
        "create serviceaccounts/token",
        "create subjectaccessreviews",
        "create tokenreviews",
        "delete nodes",
        "delete persistentvolumes",
        "get configmaps",
        "get leases",
        "get namespaces",
        "get secrets",
        "get volumeattributesclasses",
        "get volumesnapshotclasses",
        "get volumesnapshotcontents",
        "get volumesnapshots",
        "list certificatesigningrequests",
        "list csinodes",
        "list leases",
        "list nodes",
        "list persistentvolumeclaims",
        "list persistentvolumes",
        "list services",
        "list storageclasses",
        "list volumeattachments",
        "list volumesnapshotcontents",
        "list volumesnapshots",
        "patch certificatesigningrequests/approval",
        "patch events",
        "patch nodes",
        "patch nodes/status",
        "patch persistentvolumeclaims",
        "patch persistentvolumeclaims/status",
        "patch persistentvolumes",
        "patch services/status",
        "patch volumeattachments",
        "patch volumeattachments/status",
        "patch volumesnapshotcontents",
        "patch volumesnapshotcontents/status",
        "patch volumesnapshots",
        "update configmaps",
        "update leases",
        "watch certificatesigningrequests",
        "watch csinodes",
        "watch leases",
        "watch nodes",
        "watch persistentvolumeclaims",
        "watch persistentvolumes",
        "watch services",
        "watch storageclasses",
        "watch volumeattachments",
        "watch volumesnapshotcontents",
    ];
    assert_eq!(rights, used.map(str::to_owned).into());
}

/// Returns the objects that are read for a plugin, as `resource namespace/name`.
fn granted_objects(configuration: &Value) -> BTreeSet<String> {
    let plugins = list(configuration, "/plugins");
    let objects = plugins
        .iter()
        .flat_map(|plugin| list(plugin, "/permissions/objects"));
    let told = |object: &Value| {
        let resource = text(object, "/kind")
            .trim_start_matches("v1/")
            .to_lowercase();
        format!(
            "{resource}s {}/{}",
            text(object, "/namespace"),
            text(object, "/name")
        )
    };
    objects.map(told).collect()
}

#[test]
fn roles_of_examples_grant_only_the_configured_objects() {
    let mut found = 0;
    for (dir, kustomization) in kustomizations() {
        let configuration = dir.join("config.yaml");
        if text(&kustomization, "/kind") != "Kustomization" || !configuration.exists() {
            continue;
        }
        let namespace = text(&kustomization, "/namespace");
        let files = texts(&kustomization, "/resources")
            .into_iter()
            .map(|name| dir.join(name));
        let objects: Vec<Value> = files
            .filter(|path| path.is_file())
            .flat_map(|path| documents(&path))
            .collect();
        let mut rights = BTreeSet::new();
        for rule in of_kind(&objects, "Role")
            .iter()
            .flat_map(|role| list(role, "/rules"))
        {
            assert_eq!(texts(rule, "/verbs"), ["get"], "{rule}");
            assert!(!texts(rule, "/resourceNames").is_empty(), "{rule}");
            for resource in texts(rule, "/resources") {
                let names = texts(rule, "/resourceNames").into_iter();
                rights.extend(names.map(|name| format!("{resource} {namespace}/{name}")));
            }
        }
        assert!(
            of_kind(&objects, "ClusterRole").is_empty(),
            "{}",
            dir.display()
        );
        assert_eq!(
            rights,
            granted_objects(&documents(&configuration)[0]),
            "{}",
            dir.display()
        );
        found += rights.len();
    }
    assert!(found >= 2, "no example shows it");
}

#[test]
fn pods_are_replaced_one_at_a_time() {
    let objects = objects();
    let deployment = deployment(&objects);
    let number = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_u64);
    assert_eq!(number(deployment, "/spec/replicas"), Some(2));
    assert_eq!(
        number(deployment, "/spec/strategy/rollingUpdate/maxSurge"),
        Some(0)
    );
    assert_eq!(
        number(deployment, "/spec/strategy/rollingUpdate/maxUnavailable"),
        Some(1)
    );
    let budgets = of_kind(&objects, "PodDisruptionBudget");
    assert_eq!(number(budgets[0], "/spec/maxUnavailable"), Some(1));
    let probe = "/spec/template/spec/containers/0/readinessProbe/httpGet/path";
    assert_eq!(
        text(deployment, probe),
        "/readyz",
        "the next one is replaced when this one can take over"
    );
}

// Holds: SEC-09
#[test]
fn the_pod_has_a_memory_limit() {
    let objects = objects();
    let containers = list(deployment(&objects), "/spec/template/spec/containers");
    assert!(!containers.is_empty());
    for container in containers {
        assert!(
            !text(container, "/resources/limits/memory").is_empty(),
            "{container}"
        );
    }
}

#[test]
fn the_pod_meets_the_restricted_profile_except_host_network() {
    let objects = objects();
    let pod = deployment(&objects).pointer("/spec/template/spec").unwrap();
    let is_true = |value: &Value, pointer: &str| value.pointer(pointer) == Some(&Value::Bool(true));
    assert!(is_true(pod, "/securityContext/runAsNonRoot"));
    assert_eq!(
        text(pod, "/securityContext/seccompProfile/type"),
        "RuntimeDefault"
    );
    for container in list(pod, "/containers") {
        let context = container.pointer("/securityContext").unwrap();
        assert_eq!(
            context.pointer("/allowPrivilegeEscalation"),
            Some(&Value::Bool(false))
        );
        assert!(is_true(context, "/readOnlyRootFilesystem"));
        assert_eq!(texts(context, "/capabilities/drop"), ["ALL"]);
    }
    for volume in list(pod, "/volumes") {
        assert!(volume.get("hostPath").is_none(), "{volume}");
    }
}

#[test]
fn the_pod_can_run_on_an_uninitialized_node() {
    let objects = objects();
    let pod = deployment(&objects).pointer("/spec/template/spec").unwrap();
    assert_eq!(pod.pointer("/hostNetwork"), Some(&Value::Bool(true)));
    assert_eq!(text(pod, "/dnsPolicy"), "Default");
    let tolerated: BTreeSet<&str> = list(pod, "/tolerations")
        .iter()
        .map(|toleration| text(toleration, "/key"))
        .collect();
    for taint in [
        UNINITIALIZED,
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/network-unavailable",
        "node-role.kubernetes.io/control-plane",
    ] {
        assert!(tolerated.contains(taint), "{taint}");
    }
}
