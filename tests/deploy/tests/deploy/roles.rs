//! The roles grant what the binary requires, and those of sidecars what their projects publish.

use std::collections::BTreeSet;

use serde_json::Value;
use skydock_controllers::{
    Controller, controllers, controllers_off_by_default, route, service::config_map,
};

use crate::variants::{all, kustomization, text, yaml};

/// Returns the documents of this kind in a file.
fn documents(file: &str, kind: &str) -> Vec<Value> {
    text(file)
        .split("\n---\n")
        .map(yaml::<Value>)
        .filter(|document| document["kind"] == kind)
        .collect()
}

/// Returns the names to which the roles in a file are limited for a resource.
fn names(file: &str, resource: &str) -> Vec<String> {
    let roles = documents(file, "Role");
    let rules = roles
        .iter()
        .flat_map(|role| role["rules"].as_array().unwrap());
    let matching = rules.filter(|rule| rule["resources"] == serde_json::json!([resource]));
    let names = matching
        .filter_map(|rule| rule["resourceNames"].as_array())
        .flatten();
    names
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_role_grants_access_to_the_configured_lease() {
    for variant in all() {
        assert_eq!(
            names("base/rbac.yaml", "leases"),
            [variant.args.leader_elect_resource_name.as_str()]
        );
        assert_eq!(
            kustomization_namespace(),
            variant.args.leader_elect_resource_namespace
        );
    }
}

#[test]
fn the_role_grants_access_to_the_records_of_load_balancers() {
    for variant in all() {
        let lease = &variant.args.leader_elect_resource_name;
        assert_eq!(names("base/rbac.yaml", "configmaps"), [config_map(lease)]);
    }
}

fn kustomization_namespace() -> String {
    let base: Value = yaml(&text("base/kustomization.yaml"));
    base["namespace"].as_str().unwrap().to_owned()
}

// Holds: P-45
#[test]
fn the_role_grants_tokens_of_exactly_the_controller_accounts() {
    let mut wanted: Vec<_> = controllers()
        .map(|controller| controller.client.as_str().to_owned())
        .collect();
    wanted.sort();
    wanted.dedup();
    let mut granted = names(
        "components/service-account-credentials/rbac.yaml",
        "serviceaccounts/token",
    );
    granted.sort();
    assert_eq!(granted, wanted);
}

#[test]
fn pods_use_the_service_account_of_the_role_binding() {
    let accounts = documents("base/rbac.yaml", "ServiceAccount");
    let [account] = accounts.as_slice() else {
        panic!("one account")
    };
    for variant in all() {
        assert_eq!(
            variant.pod.service_account_name.as_deref(),
            account["metadata"]["name"].as_str()
        );
    }
}

#[test]
fn the_route_controller_account_may_patch_node_status() {
    let expected = serde_json::json!([{ "apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"] }]);
    component_grants("routes", &expected, &route::CONTROLLER);
}

// Holds: SEC-64
#[test]
fn the_approver_may_approve_only_serving_certificates() {
    let group = "certificates.k8s.io";
    let expected = serde_json::json!([
        { "apiGroups": [group], "resources": ["certificatesigningrequests"], "verbs": ["list", "watch"] },
        { "apiGroups": [group], "resources": ["certificatesigningrequests/approval"], "verbs": ["patch"] },
        {
            "apiGroups": [group],
            "resources": ["signers"],
            "resourceNames": ["kubernetes.io/kubelet-serving"],
            "verbs": ["approve"],
        },
    ]);
    let approver = off_by_default("node-csr-approval");
    component_grants("node-csr-approval", &expected, approver);
    component_enables("node-csr-approval", approver);
}

#[test]
fn labels_of_volumes_need_only_persistent_volumes() {
    let expected = serde_json::json!([
        { "apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["list", "watch", "patch"] },
    ]);
    let labeler = off_by_default("pvlabel");
    component_grants("csi/pvlabel", &expected, labeler);
    component_enables("csi/pvlabel", labeler);
}

#[test]
fn controllers_of_volumes_may_do_what_they_replace_and_no_more() {
    let snapshots = "snapshot.storage.k8s.io";
    let storage = "storage.k8s.io";
    let all = ["list", "watch", "create", "patch", "delete"];
    let expected = serde_json::json!([
        { "apiGroups": [""], "resources": ["persistentvolumes"], "verbs": all },
        { "apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["list", "watch", "patch"] },
        { "apiGroups": [""], "resources": ["persistentvolumeclaims/status"], "verbs": ["patch"] },
        { "apiGroups": [storage], "resources": ["storageclasses", "csinodes"], "verbs": ["list", "watch"] },
        { "apiGroups": [storage], "resources": ["volumeattributesclasses"], "verbs": ["get"] },
        { "apiGroups": [storage], "resources": ["volumeattachments"], "verbs": ["list", "watch", "patch"] },
        { "apiGroups": [storage], "resources": ["volumeattachments/status"], "verbs": ["patch"] },
        { "apiGroups": [snapshots], "resources": ["volumesnapshots"], "verbs": ["get", "list", "patch"] },
        { "apiGroups": [snapshots], "resources": ["volumesnapshotcontents"], "verbs": ["get"] },
    ]);
    let aliases = [
        "volume-attach",
        "volume-provision",
        "volume-resize",
        "volume-modify",
    ];
    for alias in aliases {
        component_grants("csi/controllers", &expected, off_by_default(alias));
    }
    let patches = kustomization("components/csi/controllers").patches.unwrap();
    let argument = format!("value: --controllers={}\n", aliases.join(","));
    assert!(patches[0].patch.contains(&argument), "{}", patches[0].patch);
}

#[test]
fn the_controller_of_snapshots_needs_only_their_objects() {
    let group = "snapshot.storage.k8s.io";
    let expected = serde_json::json!([
        { "apiGroups": [group], "resources": ["volumesnapshotclasses"], "verbs": ["get"] },
        { "apiGroups": [group], "resources": ["volumesnapshotcontents"], "verbs": ["list", "watch", "patch"] },
        { "apiGroups": [group], "resources": ["volumesnapshotcontents/status"], "verbs": ["patch"] },
    ]);
    let controller = off_by_default("volume-snapshot");
    component_grants("csi/controllers/snapshots", &expected, controller);
    component_enables("csi/controllers/snapshots", controller);
}

/// Returns the controller with this alias, which only a component enables.
fn off_by_default(alias: &str) -> Controller {
    let mut off = controllers_off_by_default();
    off.find(|controller| controller.alias == alias).unwrap()
}

/// Checks that a component enables a controller in addition to those of the base.
fn component_enables(component: &str, controller: Controller) {
    let patches = kustomization(&format!("components/{component}")).patches;
    let patches = patches.unwrap();
    let argument = format!("value: --controllers={}\n", controller.alias);
    assert!(patches[0].patch.contains(&argument), "{}", patches[0].patch);
    assert!(text("base/deployment.yaml").contains("- --controllers=*\n"));
}

/// Checks that a component grants these permissions, and that they move to the account of the
/// controller with `service-account-credentials`.
fn component_grants(component: &str, rules: &Value, controller: Controller) {
    let file = format!("components/{component}/rbac.yaml");
    let roles = documents(&file, "ClusterRole");
    assert_eq!((roles.len(), &roles[0]["rules"]), (1, rules));
    let mut bindings = documents(&file, "ClusterRoleBinding");
    assert_eq!(bindings[0]["roleRef"]["name"], roles[0]["metadata"]["name"]);
    assert_eq!(bindings[0]["subjects"][0]["name"], "skydock");
    let patches = kustomization("components/service-account-credentials")
        .patches
        .unwrap();
    let name = bindings[0]["metadata"]["name"].as_str().unwrap();
    let moved = patches
        .iter()
        .find(|patch| patch.target.kind == "ClusterRoleBinding" && patch.target.name == name);
    let operations: json_patch::Patch = yaml(&moved.expect("it is moved").patch);
    json_patch::patch(&mut bindings[0], &operations).unwrap();
    assert_eq!(
        bindings[0]["subjects"][0]["name"],
        controller.client.as_str()
    );
}

/// A rule of a role: group, resource and verbs.
type Rule = (&'static str, &'static str, &'static str);

/// A sidecar of CSI. It is a program of another project, so that its role is not what Skydock uses,
/// but what that project publishes.
struct Sidecar {
    name: &'static str,
    /// The release whose `deploy/kubernetes` has the role. Another one may have another role.
    version: &'static str,
    component: &'static str,
    published: &'static [Rule],
    /// The resources of a feature, and the flag that turns it off.
    off: Option<(&'static [&'static str], &'static str)>,
    /// What it uses although the published role lacks it.
    missing: &'static [Rule],
}

const SIDECARS: [Sidecar; 4] = [
    Sidecar {
        name: "csi-provisioner",
        version: "v6.4.0",
        component: "csi",
        published: &[
            (
                "",
                "persistentvolumes",
                "get list watch create patch delete",
            ),
            ("", "persistentvolumeclaims", "get list watch update"),
            ("", "nodes", "get list watch"),
            ("", "events", "list watch create update patch"),
            ("storage.k8s.io", "storageclasses", "get list watch"),
            ("storage.k8s.io", "csinodes", "get list watch"),
            ("storage.k8s.io", "volumeattachments", "get list watch"),
            (
                "snapshot.storage.k8s.io",
                "volumesnapshots",
                "get list watch update",
            ),
            (
                "snapshot.storage.k8s.io",
                "volumesnapshotcontents",
                "get list",
            ),
        ],
        off: None,
        missing: &[("storage.k8s.io", "volumeattributesclasses", "get")],
    },
    Sidecar {
        name: "csi-attacher",
        version: "v4.13.0",
        component: "csi",
        published: &[
            ("", "persistentvolumes", "get list watch patch"),
            ("storage.k8s.io", "csinodes", "get list watch"),
            (
                "storage.k8s.io",
                "volumeattachments",
                "get list watch patch",
            ),
            ("storage.k8s.io", "volumeattachments/status", "patch"),
        ],
        off: None,
        missing: &[],
    },
    Sidecar {
        name: "csi-resizer",
        version: "v2.3.0",
        component: "csi",
        published: &[
            ("", "persistentvolumes", "get list watch patch"),
            ("", "persistentvolumeclaims", "get list watch"),
            ("", "persistentvolumeclaims/status", "patch"),
            ("", "pods", "get list watch"),
            ("", "events", "list watch create update patch"),
            (
                "storage.k8s.io",
                "volumeattributesclasses",
                "get list watch",
            ),
        ],
        off: Some((&["pods"], "--handle-volume-inuse-error=false")),
        missing: &[],
    },
    Sidecar {
        name: "csi-snapshotter",
        version: "v8.7.0",
        component: "csi-snapshots",
        published: &[
            ("", "events", "list watch create update patch"),
            (
                "snapshot.storage.k8s.io",
                "volumesnapshotclasses",
                "get list watch",
            ),
            (
                "snapshot.storage.k8s.io",
                "volumesnapshotcontents",
                "get list watch update patch",
            ),
            (
                "snapshot.storage.k8s.io",
                "volumesnapshotcontents/status",
                "update patch",
            ),
            (
                "groupsnapshot.storage.k8s.io",
                "volumegroupsnapshotclasses",
                "get list watch",
            ),
            (
                "groupsnapshot.storage.k8s.io",
                "volumegroupsnapshotcontents",
                "get list watch update patch",
            ),
            (
                "groupsnapshot.storage.k8s.io",
                "volumegroupsnapshotcontents/status",
                "update patch",
            ),
        ],
        off: Some((
            &[
                "volumegroupsnapshotclasses",
                "volumegroupsnapshotcontents",
                "volumegroupsnapshotcontents/status",
            ],
            "--feature-gates=CSIVolumeGroupSnapshot=false",
        )),
        missing: &[],
    },
];

impl Sidecar {
    fn role(&self) -> String {
        format!("skydock-{}", self.name)
    }

    /// Returns the rights that its role must have, and no others.
    fn rights(&self) -> BTreeSet<String> {
        let off = self.off.map(|(resources, _)| resources).unwrap_or_default();
        let used = self.published.iter().filter(|(_, it, _)| !off.contains(it));
        let rights = used
            .chain(self.missing)
            .flat_map(|(group, resource, verbs)| {
                verbs
                    .split(' ')
                    .map(move |verb| right(group, resource, verb))
            });
        rights.collect()
    }
}

fn right(group: &str, resource: &str, verb: &str) -> String {
    format!("{verb} {group}/{resource}")
}

/// Returns true for the role of a sidecar, which is not for what Skydock uses.
pub(crate) fn is_of_sidecar(role: &str) -> bool {
    SIDECARS.iter().any(|it| it.role() == role)
}

// Holds: P-43
#[test]
fn sidecars_of_csi_have_the_roles_that_are_published() {
    for sidecar in &SIDECARS {
        let component = format!("components/{}", sidecar.component);
        let roles = documents(&format!("{component}/rbac.yaml"), "ClusterRole");
        let mut named = roles.iter();
        let role = named.find(|it| it["metadata"]["name"] == sidecar.role());

        let mut granted = BTreeSet::new();
        for rule in role.expect("it has a role")["rules"].as_array().unwrap() {
            let texts = |field: &str| {
                let all = rule[field].as_array().unwrap().iter();
                all.map(|it| it.as_str().unwrap()).collect::<Vec<_>>()
            };
            assert!(rule["resourceNames"].is_null());
            for group in texts("apiGroups") {
                for resource in texts("resources") {
                    let verbs = texts("verbs").into_iter();
                    granted.extend(verbs.map(|verb| right(group, resource, verb)));
                }
            }
        }
        assert_eq!(granted, sidecar.rights(), "{}", sidecar.name);

        let patches = kustomization(&component).patches.unwrap();
        let added: String = patches.iter().map(|it| it.patch.as_str()).collect();
        let (name, version) = (sidecar.name, sidecar.version);
        let image = format!("image: registry.k8s.io/sig-storage/{name}:{version}\n");
        assert!(added.contains(&image), "{image}");
        if let Some((_, flag)) = sidecar.off {
            assert!(added.contains(&format!("- {flag}\n")), "{flag}");
        }
    }
}
