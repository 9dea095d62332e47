//! The Helm chart: with its default values it is `deploy/base`, with others what Kustomize makes of
//! components and examples, and wrong values are explained.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::Pod,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use skydock::cli;
use skydock_deploy::{NAMESPACE, Program, objects};
use skydock_support::copy_folder;

use crate::deploy;
use crate::variants::{EXAMPLES, container, text, yaml};

/// How snapshots are written.
const HEADER: &str = "# SNAPSHOTS=overwrite cargo test -p skydock-deploy --test deploy chart";

/// Renders the chart. The arguments name files relative to a folder in `deploy/`.
async fn template(folder: &str, arguments: &[&str]) -> anyhow::Result<String> {
    template_in(&deploy().join(folder), arguments).await
}

/// Renders the chart beside a folder.
async fn template_in(folder: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let command = ["template", "skydock", "../chart", "--namespace", NAMESPACE];
    let helm = Program::helm().await?;
    helm.run(folder, &[&command[..], arguments].concat())
}

async fn kustomize(folder: &Path) -> String {
    let kustomize = Program::kustomize().await.unwrap();
    kustomize.run(folder, &["build"]).unwrap()
}

/// Returns the objects in a text by kind, namespace and name, without differences that have no
/// meaning.
fn normal(text: &str) -> BTreeMap<String, Value> {
    let named = objects(text).unwrap().into_iter().map(|mut object| {
        let kind = object["kind"].as_str().unwrap().to_owned();
        if kind == "Secret" {
            // Kustomize breaks lines.
            for value in object["data"].as_object_mut().unwrap().values_mut() {
                let words = value.as_str().unwrap().split_whitespace();
                *value = words.collect::<String>().into();
            }
        }
        let metadata = object["metadata"].as_object_mut().unwrap();
        if kind == "ConfigMap" {
            // Kustomize adds none to what an example generates.
            metadata.remove("labels");
        }
        let name = |field: &str| metadata.get(field).and_then(Value::as_str);
        let place = [name("namespace"), name("name")].map(Option::unwrap_or_default);
        (format!("{kind} {}/{}", place[0], place[1]), object)
    });
    named.collect()
}

#[track_caller]
fn assert_same(case: &str, helm: &str, kustomize: &str) {
    let (helm, kustomize) = (normal(helm), normal(kustomize));
    let [by_helm, by_kustomize] = [&helm, &kustomize].map(|all| all.keys().collect::<Vec<_>>());
    assert_eq!(by_helm, by_kustomize, "{case}");
    for (name, object) in helm {
        assert_eq!(object, kustomize[&name], "{case}: {name}");
    }
}

#[tokio::test]
async fn values_give_the_objects_of_base_and_components() {
    let dir = tempfile::tempdir().unwrap();
    copy_folder(&deploy(), dir.path()).unwrap();
    let folder = dir.path().join("mine");
    fs::create_dir(&folder).unwrap();
    let cases: [(&[&str], &[&str]); 15] = [
        (&[], &[]),
        (&["secure-serving"], &["--set=secureServing=true"]),
        (&["routes"], &["--set=routes=true"]),
        (
            &["service-account-credentials"],
            &["--set=serviceAccountCredentials=true"],
        ),
        (
            &["routes", "service-account-credentials"],
            &["--set=routes=true,serviceAccountCredentials=true"],
        ),
        (
            &["node-csr-approval"],
            &["--set=nodeCsrApproval.enabled=true"],
        ),
        (
            &["node-csr-approval", "service-account-credentials"],
            &["--set=nodeCsrApproval.enabled=true,serviceAccountCredentials=true"],
        ),
        (
            &["secure-serving", "alerts", "service-monitor"],
            &["--set=secureServing=true,alerts.enabled=true,serviceMonitor.enabled=true"],
        ),
        (&["dashboard"], &["--set=dashboard.enabled=true"]),
        (&["csi"], &["--set=csi.enabled=true"]),
        (
            &["csi", "csi-snapshots", "service-account-credentials"],
            &["--set=csi.enabled=true,csi.snapshots=true,serviceAccountCredentials=true"],
        ),
        (&["csi/pvlabel"], &["--set=csi.pvlabel=true"]),
        (&["csi/controllers"], &["--set=csi.controllers=true"]),
        (
            &[
                "csi/controllers",
                "csi/controllers/snapshots",
                "service-account-credentials",
            ],
            &["--set=csi.controllers=true,csi.snapshots=true,serviceAccountCredentials=true"],
        ),
        (
            &[
                "csi",
                "node-csr-approval",
                "csi/pvlabel",
                "service-account-credentials",
            ],
            &[
                "--set=csi.enabled=true,csi.pvlabel=true",
                "--set=nodeCsrApproval.enabled=true,serviceAccountCredentials=true",
            ],
        ),
    ];
    for (components, values) in cases {
        let paths: Vec<_> = components
            .iter()
            .map(|name| format!("../components/{name}"))
            .collect();
        let kustomization = serde_json::json!({
            "namespace": NAMESPACE,
            "resources": ["../base"],
            "components": paths,
            "images": [{
                "name": "skydock",
                "newName": "registry.example.com/skydock",
            }],
        });
        fs::write(folder.join("kustomization.yaml"), kustomization.to_string()).unwrap();
        let helm = template("base", values).await.unwrap();
        assert_same(&components.join(", "), &helm, &kustomize(&folder).await);
    }
}

#[test]
fn the_chart_reads_every_component() {
    let read = |folder: &str| -> String {
        let entries = fs::read_dir(deploy().join(folder)).unwrap();
        entries
            .map(|entry| crate::read(entry.unwrap().path()))
            .collect()
    };
    let templates = read("chart/templates");
    for entry in fs::read_dir(deploy().join("components")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // The value `configuration` is all three.
        if ["configuration", "openstack", "aws"].contains(&name.as_str()) {
            continue;
        }
        assert!(
            templates.contains(&format!("components/{name}/")),
            "{name} has no value"
        );
        assert!(
            crate::read(deploy().join("README.md")).contains(&format!("`{name}`")),
            "{name}"
        );
    }
}

#[tokio::test]
async fn values_add_to_the_tolerations_of_base() {
    let own = "--set-json=tolerations=[{\"key\": \"dedicated\", \"operator\": \"Exists\"}]";
    let tolerations = async |arguments: &[&str]| {
        let rendered = objects(&template("base", arguments).await.unwrap()).unwrap();
        let mut found = rendered
            .into_iter()
            .filter(|object| object["kind"] == "Deployment");
        let deployment = found.next().unwrap();
        let list = &deployment["spec"]["template"]["spec"]["tolerations"];
        list.as_array().unwrap().clone()
    };
    let mut expected = tolerations(&[]).await;
    expected.push(serde_json::json!({"key": "dedicated", "operator": "Exists"}));
    assert_eq!(tolerations(&[own]).await, expected);
}

#[tokio::test]
async fn an_example_without_its_files_is_not_rendered() {
    for (folder, file) in [
        ("example", "cloudConfig: cloud.yaml is empty"),
        ("example-aws", "configuration: cloud.conf is empty"),
        ("example-metal", "configuration: config.yaml is empty"),
        ("example-openstack", "configuration: config.yaml is empty"),
    ] {
        let values = ["--values", "values.yaml"];
        let error = template(folder, &values).await.expect_err(folder);
        assert!(error.to_string().contains(file), "{folder}: {error}");
        // The files of a static Pod are on the node.
        let on_node = ["--values", "values.yaml", "--set=kind=StaticPod"];
        template(folder, &on_node).await.unwrap();
    }
}

/// Returns the arguments of `helm install` after the namespace, from the comment in an example's
/// values.
fn documented(folder: &str) -> Vec<String> {
    let values = text(format!("{folder}/values.yaml"));
    let comment: Vec<_> = values
        .lines()
        .map_while(|line| line.strip_prefix('#'))
        .collect();
    let comment = comment.join("\n").replace("\\\n", " ");
    let command = comment.lines().find_map(|line| {
        line.trim()
            .strip_prefix("helm install skydock ../chart --namespace kube-system ")
    });
    let words = command.expect("a command").split_whitespace();
    words
        .map(|word| word.trim_matches('\'').to_owned())
        .collect()
}

/// Checks that Helm renders an example, in this copy of `deploy/`, as Kustomize does, with these
/// arguments in addition to the documented ones.
async fn assert_same_example(deploy: &Path, folder: &str, more: &[&str]) {
    let documented = documented(folder);
    let mut arguments: Vec<_> = documented.iter().map(String::as_str).collect();
    arguments.extend(more);
    let example = deploy.join(folder);
    let helm = template_in(&example, &arguments).await.unwrap();

    let mut expected = objects(&kustomize(&example).await).unwrap();
    // Those of objects.yaml, which users of Helm apply.
    expected.retain(|object| object["metadata"]["name"] != "skydock-objects");
    let expected: Vec<_> = expected.iter().map(Value::to_string).collect();
    assert_same(folder, &helm, &expected.join("\n---\n"));
}

#[tokio::test]
async fn values_of_examples_give_the_objects_of_kustomize() {
    for folder in EXAMPLES {
        assert_same_example(&deploy(), folder, &[]).await;
    }
}

#[tokio::test]
async fn an_init_container_in_values_is_that_of_the_example() {
    let dir = tempfile::tempdir().unwrap();
    copy_folder(&deploy(), dir.path()).unwrap();
    let file = dir.path().join("example-metal/kustomization.yaml");
    let (volume, container) = ("path: image-volume.yaml", "path: init-container.yaml");
    let text = crate::read(&file);
    assert!(text.contains(volume));
    fs::write(&file, text.replace(volume, container)).unwrap();

    let plugin = serde_json::json!({
        "image": "",
        "initContainer": {"image": "registry.example.com/metal:1.4.2"},
    });
    let value = format!("--set-json=plugin={plugin}");
    assert_same_example(dir.path(), "example-metal", &[&value]).await;
}

#[tokio::test]
async fn snapshots_are_what_helm_renders() {
    let deployment = template("base", &[]).await.unwrap();
    snapbox::assert_data_eq!(
        format!("{HEADER}\n{deployment}"),
        snapbox::file!["../../snapshots/deployment.yaml"].raw()
    );

    let values = concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots/values.yaml");
    let daemon_set = template("base", &["--values", values]).await.unwrap();
    snapbox::assert_data_eq!(
        format!("{HEADER}\n{daemon_set}"),
        snapbox::file!["../../snapshots/daemon-set.yaml"].raw()
    );

    let example = documented("example-metal");
    let mut arguments: Vec<_> = example.iter().map(String::as_str).collect();
    arguments.push("--set=kind=StaticPod,serviceAccountCredentials=false");
    arguments.push("--show-only=templates/workload.yaml");
    let static_pod = template("example-metal", &arguments).await.unwrap();
    snapbox::assert_data_eq!(
        format!("{HEADER}\n{static_pod}"),
        snapbox::file!["../../snapshots/static-pod.yaml"].raw()
    );
}

/// Returns the only object of a kind in a snapshot, parsed strictly.
fn snapshot<T: DeserializeOwned + Serialize>(name: &str, kind: &str) -> (Value, T) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("snapshots/{name}.yaml"));
    let mut objects = objects(&crate::read(file)).unwrap();
    objects.retain(|object| object["kind"] == kind);
    let [object]: [Value; 1] = objects.try_into().expect("one object");
    let parsed: T = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(
        serde_json::to_value(&parsed).unwrap()["spec"],
        object["spec"],
        "an unknown field"
    );
    (object, parsed)
}

#[test]
fn snapshots_have_known_fields_and_flags() {
    let (_, deployment): (_, Deployment) = snapshot("deployment", "Deployment");
    let (_, daemon_set): (_, DaemonSet) = snapshot("daemon-set", "DaemonSet");
    let (_, static_pod): (_, Pod) = snapshot("static-pod", "Pod");
    let pods = [
        deployment.spec.unwrap().template.spec,
        daemon_set.spec.unwrap().template.spec,
        static_pod.spec,
    ];
    for pod in pods {
        let args = container(&pod.unwrap()).args.clone().unwrap();
        cli::parse(["skydock".to_owned()].into_iter().chain(args)).expect("valid flags");
    }
}

#[test]
fn a_static_pod_refers_to_no_object() {
    let (object, pod): (_, Pod) = snapshot("static-pod", "Pod");
    let spec = pod.spec.unwrap();
    assert!(spec.service_account_name.is_none() && spec.affinity.is_none());
    for name in ["secret", "configMap", "projected", "secretKeyRef"] {
        assert!(
            !object.to_string().contains(&format!("\"{name}\"")),
            "{name}"
        );
    }
}

#[tokio::test]
async fn helm_finds_no_fault_in_the_chart() {
    let helm = Program::helm().await.unwrap();
    let chart = ["lint", "chart", "--strict", "--namespace", NAMESPACE];
    let said = helm.run(&deploy(), &chart).unwrap();
    assert!(
        said.contains("1 chart(s) linted, 0 chart(s) failed"),
        "{said}"
    );
}

#[tokio::test]
async fn wrong_values_are_explained() {
    let cases = [
        (
            "--set=kind=StatefulSet",
            "'/kind': value must be one of 'Deployment'",
        ),
        (
            "--set=replica=3",
            "additional properties 'replica' not allowed",
        ),
        ("--set=replicas=-1", "'/replicas': minimum: got -1"),
        ("--set-string=replicas=two", "'/replicas': got string, want"),
        (
            "--set=image.digest=latest",
            "'/image/digest': 'latest' does not match",
        ),
        ("--set=image.repository=", "'/image/repository'"),
        ("--set=image=skydock:1", "'/image': got string, want object"),
        (
            "--set=flags.--v=4",
            "'/flags': additional properties '--v' not allowed",
        ),
        (
            "--set=resources.memory=1Gi",
            "'/resources': additional properties 'memory'",
        ),
        (
            "--set-json=cloudConfig={\"a/b\": \"\"}",
            "'/cloudConfig': additional properties 'a/b' not allowed",
        ),
        (
            "--set-json=plugin={\"image\": \"a\", \"initContainer\": {\"image\": \"b\"}}",
            "plugin.image and plugin.initContainer are mutually exclusive",
        ),
        (
            "--set-json=configuration={\"cloud.conf\": \"\"}",
            "configuration: config.yaml is missing",
        ),
        (
            "--set=image.repository=registry.example.com/skydock:0.1.0",
            "'/image/repository': 'registry.example.com/skydock:0.1.0' does not match",
        ),
        (
            "--set=cloudConfig.existingSecret=cloud-config",
            "your own Secret goes to sources",
        ),
        (
            "--set-json=cloudConfig={\"cloud.yaml\": \"\"}",
            "add --set-file 'cloudConfig.cloud\\.yaml=FILE'",
        ),
        (
            "--set-json=sources=[{\"secret\": {\"name\": \"cloud-config\"}}]",
            "add --set-file 'configuration.config\\.yaml=config.yaml'",
        ),
        (
            "--set=flags.leader-elect-resource-name=metal",
            "the roles are for the default Lease",
        ),
        (
            "--set=csi.snapshots=true",
            "csi.snapshots needs csi.enabled",
        ),
        (
            "--set=csi.enabled=true,csi.controllers=true",
            "csi.enabled and csi.controllers exclude each other",
        ),
        (
            "--set=csi.enabled=true,kind=StaticPod",
            "csi.enabled needs kind Deployment or DaemonSet",
        ),
        (
            "--set=serviceMonitor.enabled=true",
            "serviceMonitor needs secureServing",
        ),
        ("--set=alerts.enabled=true", "alerts need secureServing"),
        (
            "--set=dashboard=true",
            "'/dashboard': got boolean, want object",
        ),
        (
            "--set-json=volumes=[{\"emptyDir\": {}}]",
            "'/volumes/0': missing property 'name'",
        ),
        (
            "--namespace=default",
            "the namespace is default; expected kube-system",
        ),
    ];
    for (argument, expected) in cases {
        let error = template("base", &[argument]).await.expect_err(argument);
        let error = error.to_string();
        assert!(error.contains(expected), "{argument}: {error}");
    }
}

#[test]
fn the_chart_has_the_version_of_skydock() {
    let chart: Value = yaml(&text("chart/Chart.yaml"));
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
}

#[test]
fn only_the_base_has_the_version_of_the_image() {
    let images = |folder: &str| {
        let mut kustomization: Value = yaml(&text(format!("{folder}/kustomization.yaml")));
        kustomization["images"].take()
    };
    // A digest is only in what is released: the image of a checkout is not built yet.
    let version = env!("CARGO_PKG_VERSION");
    let expected = serde_json::json!([{"name": "skydock", "newTag": version}]);
    assert_eq!(images("base"), expected);
    let copied = "registry.example.com/skydock";
    let expected = serde_json::json!([{"name": "skydock", "newName": copied}]);
    for folder in EXAMPLES {
        assert_eq!(images(folder), expected, "{folder}");
    }
}

/// Returns the image of the Deployment among these objects.
fn image(rendered: &str) -> String {
    let objects = objects(rendered).unwrap();
    let mut found = objects.iter().filter(|it| it["kind"] == "Deployment");
    let pod = &found.next().unwrap()["spec"]["template"]["spec"];
    pod["containers"][0]["image"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_digest_in_the_base_is_that_of_examples_and_chart() {
    let dir = tempfile::tempdir().unwrap();
    copy_folder(&deploy(), dir.path()).unwrap();
    let digest = format!("sha256:{:064}", 1);
    // The second file is a link in `deploy/`, of which there is a copy.
    for file in ["base/kustomization.yaml", "chart/base/kustomization.yaml"] {
        let file = dir.path().join(file);
        let pinned = skydock_image::pin(&crate::read(&file), "skydock:0.2.0", &digest);
        fs::write(&file, pinned.unwrap()).unwrap();
    }
    let pinned = format!("registry.example.com/skydock:0.2.0@{digest}");
    for folder in EXAMPLES {
        let arguments = documented(folder);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let example = dir.path().join(folder);
        let by_helm = template_in(&example, &arguments).await.unwrap();
        assert_eq!(image(&by_helm), pinned, "{folder}");
        assert_eq!(image(&kustomize(&example).await), pinned, "{folder}");
    }

    // Of an image that an operator has built.
    let other = format!("sha256:{:064}", 2);
    let by_digest = format!("@{other}");
    let cases = [
        (("newTag", "1-shell"), "image.tag", ":1-shell"),
        (("digest", &*other), "image.digest", &*by_digest),
    ];
    let mine = dir.path().join("mine");
    fs::create_dir(&mine).unwrap();
    for ((field, text), value, end) in cases {
        let expected = format!("registry.example.com/skydock{end}");
        let kustomization = serde_json::json!({
            "resources": ["../base"],
            "images": [{"name": "skydock", "newName": "registry.example.com/skydock", field: text}],
        });
        fs::write(mine.join("kustomization.yaml"), kustomization.to_string()).unwrap();
        assert_eq!(image(&kustomize(&mine).await), expected);
        let value = format!("--set={value}={text}");
        assert_eq!(
            image(&template_in(&mine, &[&value]).await.unwrap()),
            expected
        );
    }
}
