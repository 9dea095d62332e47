//! The roles grant what the binary requires.

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
    let approver = controllers_off_by_default()
        .find(|it| it.alias == "node-csr-approval")
        .unwrap();
    component_grants("node-csr-approval", &expected, approver);

    let patches = kustomization("components/node-csr-approval").patches;
    let patches = patches.unwrap();
    let argument = format!("value: --controllers={}\n", approver.alias);
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
