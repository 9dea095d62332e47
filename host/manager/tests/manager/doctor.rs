//! `skydock doctor` finds what keeps a cloud-controller-manager from starting.
#![allow(clippy::unwrap_used)] // helpers are not test functions for clippy

use std::{fs, process::Command};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, Config, api::PostParams};
use serde_json::{Value, json};
use skydock_devplane::{DevPlane, NodeSpec, Options};

const TOLERATIONS: &str = "tolerations: [{key: node.cloudprovider.kubernetes.io/uninitialized, operator: Exists}, \
                           {key: node.kubernetes.io/not-ready, operator: Exists}]";

/// Returns a manifest with these fields of the Pod and the container.
fn manifest(pod: &str, container: &str) -> String {
    format!(
        "kind: Deployment\nmetadata: {{name: ccm, namespace: kube-system}}\nspec: {{template: {{spec: {{{pod}, containers: [{{name: ccm, image: \
         x/cloud-controller-manager, {container}}}]}}}}}}\n"
    )
}

/// Runs the command, and returns the exit code, and the standard output and errors.
fn doctor(kubeconfig: &str, manifest: Option<&str>, flags: &[&str]) -> (i32, String, String) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kubeconfig"), kubeconfig).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_skydock"));
    command
        .args(["doctor", "--kubeconfig=kubeconfig"])
        .args(flags)
        .current_dir(dir.path());
    if let Some(manifest) = manifest {
        fs::write(dir.path().join("ccm.yaml"), manifest).unwrap();
        command.arg("--manifest=ccm.yaml");
    }
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_finds_why_nodes_wait() {
    let plane = DevPlane::start(Options::default()).await.unwrap();
    let node = NodeSpec::new("node-1", "10.0.0.1".parse().unwrap());
    plane.kubelets().register(node).unwrap();
    let kubeconfig = plane.kubeconfig();

    let right = manifest(
        &format!("hostNetwork: true, {TOLERATIONS}"),
        "args: [--v=2]",
    );
    let ready =
        "hostNetwork: true, tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}]";
    let label = format!("hostNetwork: true, nodeSelector: {{zone: a}}, {TOLERATIONS}");
    let probe = "livenessProbe: {httpGet: {port: 10258}}";
    let skydock =
        "args: [--plugin-dir=/plugins], livenessProbe: {httpGet: {port: 10267, host: 127.0.0.1}}";
    let unelected = right
        .replace("--v=2", "--leader-elect=false")
        .replace("{template", "{replicas: 2, template");
    for (name, manifest, expected) in [
        (
            "missing toleration",
            manifest(ready, "args: []"),
            "problem D2",
        ),
        ("label", manifest(&label, "args: []"), "problem D5"),
        (
            "scheme",
            right.replace("args: [--v=2]", probe),
            "problem D15",
        ),
        (
            "port",
            right.replace("args: [--v=2]", skydock),
            "problem D15",
        ),
        ("no election", unelected, "problem D15"),
    ] {
        let (code, out, said) = doctor(&kubeconfig, Some(&manifest), &[]);
        assert_eq!(code, 1, "{name}: {out}{said}");
        assert!(
            out.contains(expected) && out.contains("fix: in ccm.yaml"),
            "{name}: {out}"
        );
        assert_eq!(out.matches("\nproblem").count(), 1, "{name}: {out}");
    }

    // What the embedded API server does not have cannot be checked.
    let (code, out, said) = doctor(&kubeconfig, Some(&right), &[]);
    assert_eq!((code, said.as_str()), (2, ""), "{out}");
    assert!(
        out.contains("1 of 1 nodes wait for their cloud: node-1") && out.contains("not checked:"),
        "{out}"
    );

    // Another one leads.
    let client = Client::try_from(Config::new(plane.url().parse().unwrap())).unwrap();
    let now = jiff::Timestamp::now();
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": "cloud-controller-manager"},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": format!("{now:.6}")},
    }))
    .unwrap();
    let leases: Api<Lease> = Api::namespaced(client, "kube-system");
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let two = right.replace("--v=2", "--leader-elect-resource-name=mine");
    let (code, out, _) = doctor(&kubeconfig, Some(&two), &["-o", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["result"]), (1, &"problems".into()));
    assert_eq!(report["findings"][0]["check"], "D10", "{out}");
    plane.shutdown().await;
}

#[test]
fn the_doctor_says_when_nothing_is_known() {
    let server = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {}}]\n\
                  clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n";
    let (code, out, said) = doctor(server, None, &[]);
    assert_eq!((code, said.as_str()), (2, ""));
    assert!(out.contains("the API server does not answer"), "{out}");

    let (code, out, said) = doctor("a: [", None, &[]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(said.contains("cannot use the kubeconfig"), "{said}");

    let wrong = "users:\n- name: a\n  user:\n    token: S3CRET\n    password: [S3CRET\n";
    let (code, out, said) = doctor(wrong, None, &[]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        said.contains("line 5 column 15") && !said.contains("S3C"),
        "{said}"
    );

    let (code, _, said) = doctor(server, Some("kind: Service\n"), &[]);
    assert_eq!(code, 2);
    assert!(
        said.contains("no cloud-controller-manager was found"),
        "{said}"
    );
}
