//! Clusters as they are found, and what is wrong with them.

use serde_json::Value;

use super::*;
use crate::commands::{
    doctor::{
        finding::{Fix, Severity},
        permissions::needed,
        report::{Report, Verdict},
        snapshot::{Account, Lack, Unknown, Workload, decode},
    },
    migrate,
};

const NOW: &str = "2026-01-01T12:00:00Z";

/// Returns a snapshot with the objects in YAML. What has the annotation `file` is in a manifest.
fn snapshot(yaml: &str) -> Snapshot {
    let mut all = Snapshot::new(NOW.parse().unwrap(), None);
    for object in migrate::parse(yaml).unwrap() {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let file = object["metadata"]["annotations"]["file"].as_str();
        let origin = file.map(|file| Origin::Manifest(file.to_owned()));
        match (kind.as_str(), origin) {
            (_, Some(origin)) => {
                all.planned
                    .push(Workload::read(&kind, &object, origin).unwrap());
            }
            ("Node", _) => add(&mut all.nodes, object),
            ("Pod", _) => add(&mut all.pods, object),
            ("Lease", _) => add(&mut all.leases, object),
            ("Event", _) => add(&mut all.events, object),
            ("CertificateSigningRequest", _) => add(&mut all.requests, object),
            ("EndpointSlice", _) => add(&mut all.endpoints, object),
            _ => {
                let workload = Workload::read(&kind, &object, Origin::Cluster);
                all.workloads.as_mut().unwrap().push(workload.unwrap());
            }
        }
    }
    all
}

fn add<T: serde::de::DeserializeOwned>(list: &mut Known<Vec<T>>, object: Value) {
    list.as_mut().unwrap().push(decode(object).unwrap());
}

/// Returns what is found: the check, with `?` for a warning, and the finding.
fn found(snapshot: &Snapshot) -> Vec<(String, Finding)> {
    let facts = Facts::new(snapshot, None);
    let mut all = Vec::new();
    for check in CHECKS {
        for finding in (check.run)(&facts).unwrap() {
            let mark = match finding.severity {
                Severity::Problem => "",
                Severity::Warning => "?",
            };
            all.push((format!("{}{mark}", check.id), finding));
        }
    }
    all
}

fn fixes(finding: &Finding) -> String {
    let fixes = finding.fix.iter();
    let texts = fixes.map(|fix| match fix {
        Fix::Command(text) | Fix::Text(text) => text.as_str(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A control plane node that waits for its cloud and for its network.
const NEW: &str = "
---
kind: Node
metadata: {name: new, creationTimestamp: '2026-01-01T11:00:00Z', labels: {node-role.kubernetes.io/control-plane: ''}}
spec:
  taints:
  - {key: node.cloudprovider.kubernetes.io/uninitialized, value: 'true', effect: NoSchedule}
  - {key: node-role.kubernetes.io/control-plane, effect: NoSchedule}
  - {key: node.kubernetes.io/not-ready, effect: NoSchedule}
status:
  conditions: [{type: Ready, status: 'False', message: 'container runtime network not ready: cni plugin not initialized'}]
";

/// A node that is initialized.
const OLD: &str = "
---
kind: Node
metadata: {name: old, labels: {node-role.kubernetes.io/control-plane: ''}}
spec: {providerID: 'metal://1'}
status: {conditions: [{type: Ready, status: 'True'}]}
";

/// The tolerations that a cloud-controller-manager needs.
const TOLERATIONS: &str = "tolerations: [{key: node.cloudprovider.kubernetes.io/uninitialized, operator: Exists}, \
                           {key: node-role.kubernetes.io/control-plane, operator: Exists}, {key: node.kubernetes.io/not-ready, operator: Exists}]";

/// kube-proxy, which does not run yet, and the API server.
const PROXY_WAITS: &str = "
---
kind: Pod
metadata: {name: kube-proxy-1, namespace: kube-system}
spec: {nodeName: new, containers: []}
status: {phase: Pending}
---
kind: EndpointSlice
metadata: {name: a}
addressType: IPv4
endpoints: [{addresses: [203.0.113.66]}]
ports: [{name: https, port: 6443}]
---
kind: EndpointSlice
metadata: {name: kubernetes}
addressType: IPv4
endpoints: [{addresses: [192.0.2.9], conditions: {ready: false}}, {addresses: [192.0.2.1], conditions: {ready: true}}]
ports: [{name: other, port: 1}, {name: https, port: 6443}]
";

/// Returns a Deployment of another cloud's program with these fields of the Pod and the container.
fn deployment(pod: &str, container: &str) -> String {
    object("Deployment", "kube-system", "metal-ccm", "", pod, container)
}

/// Returns the same in a manifest.
fn planned(pod: &str, container: &str) -> String {
    let annotations = "annotations: {file: ccm.yaml}";
    object(
        "Deployment",
        "kube-system",
        "planned-ccm",
        annotations,
        pod,
        container,
    )
}

fn object(
    kind: &str,
    namespace: &str,
    name: &str,
    metadata: &str,
    pod: &str,
    container: &str,
) -> String {
    format!(
        "\n---\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}, {metadata}}}\nspec: {{template: {{spec: {{{pod}, containers: \
         [{{name: ccm, image: x/metal-cloud-controller-manager, {container}}}]}}}}}}\n"
    )
}

/// Returns a Pod of the Deployment `metal-ccm`.
fn pod(node: &str, status: &str) -> String {
    format!(
        "\n---\nkind: Pod\nmetadata: {{name: metal-ccm-5d-x, namespace: kube-system, labels: {{pod-template-hash: 5d}}, \
         ownerReferences: [{{kind: ReplicaSet, name: metal-ccm-5d, controller: true, apiVersion: apps/v1, uid: '1'}}]}}\nspec: {{nodeName: {node}, containers: [{{name: ccm, image: x/metal-cloud-controller-manager}}]}}\n\
         status: {status}\n"
    )
}

/// Returns a request for the serving certificate of a kubelet.
fn request(name: &str, created: &str, user: &str, group: &str) -> String {
    format!(
        "\n---\nkind: CertificateSigningRequest\nmetadata: {{name: {name}, creationTimestamp: '2026-01-01T{created}Z'}}\nspec: {{request: '', signerName: \
         kubernetes.io/kubelet-serving, username: '{user}', groups: ['{group}']}}\n"
    )
}

/// Returns a Lease that is held.
fn lease(name: &str, holder: &str, renewed: &str) -> String {
    format!(
        "\n---\nkind: Lease\nmetadata: {{name: {name}, namespace: kube-system}}\nspec: {{holderIdentity: {holder}, leaseDurationSeconds: 15, renewTime: \
         '2026-01-01T{renewed}.000000Z'}}\n"
    )
}

const RUNS: &str = "{phase: Running, conditions: [{type: Ready, status: 'True'}]}";
const LEADS: &str = "11:59:55";
const CRASHES: &str = "{phase: Running, conditions: [{type: Ready, status: 'False'}], containerStatuses: [{name: ccm, image: a, imageID: a, ready: false, \
                       restartCount: 3, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 1, message: 'unknown flag'}}}]}";

#[test]
fn causes_are_found_and_ordinary_clusters_are_not_blamed() {
    let tolerant = format!("hostNetwork: true, {TOLERATIONS}");
    let tolerant = tolerant.as_str();
    let new = |more: String| format!("{NEW}{more}");
    let on_new = tolerant.replace("node.kubernetes.io/not-ready", "other");
    let allocator = "\n---\nkind: Pod\nmetadata: {name: a, namespace: kube-system}\nspec: {containers: [{name: kube-controller-manager, \
                     command: [kube-controller-manager, --allocate-node-cidrs=true]}]}\n";
    let stopped =
        deployment(tolerant, "args: []").replace("spec: {template", "spec: {replicas: 0, template");
    let skydock = deployment(tolerant, "args: []").replace("metal-ccm", "skydock");
    let skydock_pod = |status: &str| pod("new", status).replace("metal-ccm", "skydock");
    let cases: &[(&str, String, &[&str], &str)] = &[
        ("nothing runs", NEW.to_owned(), &["D1"], "--manifest FILE"),
        (
            "no cloud",
            "---\nkind: Node\nmetadata: {name: a}\n".to_owned(),
            &[],
            "",
        ),
        (
            "it runs and leads",
            format!(
                "{OLD}{}{}{}",
                deployment(tolerant, "args: []"),
                pod("old", RUNS),
                lease("cloud-controller-manager", "metal-ccm-5d-x_1", LEADS)
            ),
            &[],
            "",
        ),
        (
            "a manifest that is right",
            new(planned(tolerant, "args: [--v=2]")),
            &[],
            "",
        ),
        (
            "the taint is not tolerated",
            new(planned(
                "hostNetwork: true, tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists}, {key: node.kubernetes.io/not-ready, operator: Exists}]",
                "args: []",
            )),
            &["D2"],
            "in ccm.yaml, in the Pod of Deployment kube-system/planned-ccm: set tolerations to",
        ),
        (
            "no taint is tolerated",
            new(planned("hostNetwork: true", "args: []")),
            &["D2", "D3"],
            "{\"key\":\"node.kubernetes.io/not-ready\",\"operator\":\"Exists\"}",
        ),
        (
            "the change of a Deployment is a command",
            new(deployment("hostNetwork: true", "args: []") + &pod("''", "{phase: Pending}")),
            &["D2", "D3"],
            "kubectl --namespace kube-system patch deployment metal-ccm --type=json --patch '[{\"op\":\"add\",\"path\":\"/spec/template/spec/tolerations\"",
        ),
        (
            "the scheduler does not see a static Pod",
            new(
                "---\nkind: Pod\nmetadata: {name: a, annotations: {file: ccm.yaml}}\nspec: {hostNetwork: true, nodeSelector: {a: b}, containers: \
                 [{name: ccm, image: x/metal-cloud-controller-manager}]}\n"
                    .to_owned(),
            ),
            &[],
            "",
        ),
        (
            "nodes for other work are no place for it",
            new(planned(tolerant, "args: []"))
                + "\n---\nkind: Node\nmetadata: {name: gpu}\nspec: {providerID: 'metal://2', taints: [{key: gpu, effect: NoSchedule}]}\n",
            &[],
            "",
        ),
        (
            "a new cluster would wait forever",
            format!("{OLD}{}", planned("hostNetwork: true", "args: []")),
            &["D2?"],
            "uninitialized",
        ),
        (
            "it needs the Pod network",
            new(planned(TOLERATIONS, "args: []")),
            &["D4"],
            "set {\"dnsPolicy\":\"Default\",\"hostNetwork\":true}",
        ),
        (
            "its Pod cannot be started, nor removed",
            new(deployment(TOLERATIONS, "args: []") + &pod("new", "{phase: Pending}")),
            &["D4"],
            "kubectl --namespace kube-system delete pod metal-ccm-5d-x --ignore-not-found --force --grace-period=0",
        ),
        (
            "the network of a new node may still come",
            new(deployment(TOLERATIONS, "args: []") + &pod("new", "{phase: Pending}"))
                .replace("11:00:00Z", "11:59:00Z"),
            &[],
            "",
        ),
        (
            "the taint of a new node may still go",
            new(deployment(&on_new, "args: []")).replace("11:00:00Z", "11:59:00Z")
                + &pod("''", "{phase: Pending}"),
            &[],
            "",
        ),
        (
            "the taint of an old node stays",
            new(deployment(&on_new, "args: []")) + &pod("''", "{phase: Pending}"),
            &["D3"],
            "node.kubernetes.io/not-ready",
        ),
        (
            "it needs the DNS of the cluster",
            new(planned(
                &format!("dnsPolicy: ClusterFirstWithHostNet, {tolerant}"),
                "args: []",
            )),
            &["D4"],
            "set {\"dnsPolicy\":\"Default\"}",
        ),
        (
            "a node that is maintained",
            new(planned(tolerant, "args: []"))
                .replace("spec:\n  taints", "spec:\n  unschedulable: true\n  taints"),
            &["D3"],
            "when the maintenance of one of these nodes is over",
        ),
        (
            "a label that was renamed",
            new(planned(
                &format!("nodeSelector: {{node-role.kubernetes.io/master: ''}}, {tolerant}"),
                "args: []",
            )),
            &["D5"],
            "\"node-role.kubernetes.io/master\":null",
        ),
        (
            "a label with another value",
            new(planned(
                &format!(
                    "nodeSelector: {{node-role.kubernetes.io/control-plane: 'true'}}, {tolerant}"
                ),
                "args: []",
            )),
            &["D5"],
            "\"node-role.kubernetes.io/control-plane\":\"\"",
        ),
        (
            "a label that no node has",
            new(planned(
                &format!("nodeSelector: {{zone: a}}, {tolerant}"),
                "args: []",
            )),
            &["D5"],
            "kubectl label node NAME KEY=VALUE",
        ),
        (
            "its port is in use",
            format!(
                "{NEW}{}\n---\nkind: Pod\nmetadata: {{name: proxy, namespace: other}}\nspec: {{nodeName: new, hostNetwork: true, containers: [{{name: a, \
                 ports: [{{containerPort: 10258}}]}}]}}\nstatus: {{phase: Running}}\n",
                planned(tolerant, "args: []")
            ),
            &["D6"],
            "--secure-port=10268",
        ),
        (
            "a Pod that ended uses no port",
            format!(
                "{NEW}{}\n---\nkind: Pod\nmetadata: {{name: proxy, namespace: other}}\nspec: {{nodeName: new, hostNetwork: true, containers: [{{name: a, \
                 ports: [{{containerPort: 10258}}]}}]}}\nstatus: {{phase: Succeeded}}\n",
                planned(tolerant, "args: []")
            ),
            &[],
            "",
        ),
        (
            "kube-proxy waits, too",
            format!(
                "{NEW}{}{PROXY_WAITS}",
                deployment(tolerant, "args: []") + &pod("''", "{phase: Pending}")
            ),
            &["D7"],
            "set env deployment/metal-ccm KUBERNETES_SERVICE_HOST=192.0.2.1 KUBERNETES_SERVICE_PORT=6443",
        ),
        (
            "a program for load balancers, without a cloud",
            format!(
                "---\nkind: Node\nmetadata: {{name: a}}\n{}{}",
                deployment("hostNetwork: true", "args: []"),
                pod("a", RUNS)
            ),
            &["D8?"],
            "only if it is to initialize these nodes",
        ),
        (
            "a kubelet without the flag",
            format!("{OLD}\n---\nkind: Node\nmetadata: {{name: bare}}\n"),
            &["D8"],
            "--cloud-provider=external",
        ),
        (
            "kube-controller-manager has a cloud",
            format!(
                "{OLD}\n---\nkind: Pod\nmetadata: {{name: kube-controller-manager-old, namespace: kube-system, ownerReferences: [{{kind: Node, name: old, \
                 controller: true, apiVersion: v1, uid: '1'}}]}}\nspec: {{nodeName: old, hostNetwork: true, containers: [{{name: kube-controller-manager, command: \
                 [kube-controller-manager, --cloud-provider=aws, --allocate-node-cidrs=true]}}]}}\n"
            ),
            &["D9"],
            "/etc/kubernetes/manifests/kube-controller-manager.yaml",
        ),
        (
            "two allocate Pod CIDRs",
            format!(
                "{OLD}{allocator}{}",
                planned(tolerant, "args: [--plugin-dir=/x, --allocate-node-cidrs]")
            ),
            &["D9?"],
            "--allocate-node-cidrs=false",
        ),
        (
            "one allocates Pod CIDRs, the other one has routes",
            format!(
                "{OLD}{allocator}{}",
                planned(tolerant, "args: [--allocate-node-cidrs]")
            ),
            &[],
            "",
        ),
        (
            "another one leads with a Lease of its own",
            format!(
                "{OLD}{}{}",
                planned(tolerant, "args: [--leader-elect-resource-name=mine]"),
                lease("cloud-controller-manager", "other", LEADS)
            ),
            &["D10?"],
            "unless each is of another cloud, stop one of them",
        ),
        (
            "two clouds, each with its own",
            format!(
                "{OLD}{}{}{}",
                OLD.replace("old", "edge").replace("metal", "edge"),
                planned(tolerant, "args: [--leader-elect-resource-name=mine]"),
                lease("cloud-controller-manager", "other", LEADS)
            ),
            &[],
            "",
        ),
        (
            "an old Lease is no leader",
            format!(
                "{OLD}{}{}",
                planned(tolerant, "args: [--leader-elect-resource-name=mine]"),
                lease("cloud-controller-manager", "other", "11:00:00")
            ),
            &[],
            "",
        ),
        (
            "it would act next to another one",
            format!(
                "{OLD}{}{}{}",
                deployment(tolerant, "args: []"),
                pod("old", RUNS),
                planned(tolerant, "args: [--leader-elect=false, --secure-port=1]")
            ),
            &["D10"],
            "stop Deployment kube-system/metal-ccm: it may lead",
        ),
        (
            "it would act next to that of another cloud",
            format!(
                "{OLD}{}{}{}{}",
                OLD.replace("old", "edge").replace("metal", "edge"),
                deployment(tolerant, "args: []"),
                pod("old", RUNS),
                planned(tolerant, "args: [--leader-elect=false, --secure-port=1]")
            ),
            &[],
            "",
        ),
        (
            "a dry run next to one that leads",
            format!(
                "{OLD}{}{}{}{}{}",
                deployment(tolerant, "args: []"),
                pod("old", RUNS),
                lease("cloud-controller-manager", "metal-ccm-5d-x_1", LEADS),
                skydock.replace("args: []", "args: [--dry-run]"),
                skydock_pod(RUNS)
            ),
            &[],
            "",
        ),
        (
            "nodes of several clouds",
            format!("{OLD}{}", OLD.replace("old", "k3s").replace("metal", "k3s")),
            &["D10?"],
            "delete a node that has a wrong one",
        ),
        (
            "kubelets without certificates",
            format!(
                "{OLD}{}{}",
                request("csr-1", "11:00:00", "system:node:old", "system:nodes"),
                request("csr-2", "11:59:00", "system:node:old", "system:nodes")
            ),
            &["D14?"],
            "kubectl describe csr csr-1\n",
        ),
        (
            "several Pods without leader election",
            object(
                "DaemonSet",
                "kube-system",
                "ccm",
                "annotations: {file: ccm.yaml}",
                tolerant,
                "args: [--leader-elect=false]",
            ) + OLD,
            &["D15"],
            "add \"--leader-elect=true\" to containers.0.args",
        ),
        (
            "several Pods of a script",
            object(
                "DaemonSet",
                "kube-system",
                "ccm",
                "",
                tolerant,
                "command: [sh, '-c'], args: ['exec /bin/metal-cloud-controller-manager --leader-elect=false']",
            ) + OLD,
            &["D1", "D15"],
            "add --leader-elect=true to the command in the script of DaemonSet kube-system/ccm",
        ),
        (
            "a probe with the wrong scheme",
            format!(
                "{OLD}{}{}",
                deployment(tolerant, "livenessProbe: {httpGet: {port: 10258}}"),
                pod("old", RUNS)
            ),
            &["D15"],
            "[{\"op\":\"test\",\"path\":\"/spec/template/spec/containers/0/name\",\"value\":\"ccm\"},\
             {\"op\":\"add\",\"path\":\"/spec/template/spec/containers/0/livenessProbe/httpGet/scheme\",\"value\":\"HTTPS\"}]",
        ),
        (
            "the probe of a server of the program itself",
            new(planned(tolerant, "livenessProbe: {httpGet: {port: 8233}}")),
            &[],
            "",
        ),
        (
            "nodes wait although somebody leads",
            format!(
                "{NEW}{}{}{}\n---\nkind: Event\nmetadata: {{name: e}}\ninvolvedObject: {{kind: Node, name: new}}\nreason: FailedToInitialize\nmessage: 'no such \
                 instance'\nlastTimestamp: '2026-01-01T11:59:00Z'\n",
                deployment(tolerant, "args: []"),
                pod("new", RUNS),
                lease("cloud-controller-manager", "metal-ccm-5d-x_1", LEADS)
            ),
            &["D16"],
            "kubectl --namespace kube-system logs metal-ccm-5d-x --container=ccm",
        ),
        (
            "only one of two leads",
            new(
                skydock.replace("args: []", "args: [--leader-elect-resource-name=mine]")
                    + &skydock_pod(RUNS)
                    + &deployment(tolerant, "args: []")
                    + &pod("new", RUNS)
                    + &lease("cloud-controller-manager", "metal-ccm-5d-x_1", LEADS),
            ),
            &["D16", "D16"],
            "kubectl --namespace kube-system logs skydock-5d-x --container=ccm",
        ),
        (
            "it crashes",
            new(deployment(tolerant, "args: []") + &pod("new", CRASHES)),
            &["D1"],
            "logs metal-ccm-5d-x --container=ccm --previous",
        ),
        (
            "it was scaled to nothing",
            new(stopped.clone()),
            &["D1"],
            "scale deployment metal-ccm --replicas=1",
        ),
        (
            "the one before a migration stays stopped",
            new(stopped.clone() + &skydock + &skydock_pod(CRASHES)),
            &["D1"],
            "logs skydock-5d-x --container=ccm --previous",
        ),
        (
            "both were scaled to nothing",
            new(stopped + &skydock.replace("spec: {template", "spec: {replicas: 0, template")),
            &["D1", "D1"],
            "scale the one to 1",
        ),
    ];

    for (name, yaml, expected, fix) in cases {
        let found = found(&snapshot(yaml));
        let ids: Vec<_> = found.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, *expected, "{name}: {found:#?}");
        let has_fix = found
            .iter()
            .any(|(_, finding)| fixes(finding).contains(*fix));
        assert!(has_fix || expected.is_empty(), "{name}: {found:#?}");
    }
}

#[test]
fn the_probes_of_skydock_are_checked() {
    let skydock = |pod: &str, container: &str| {
        let yaml = planned(&format!("{pod}, {TOLERATIONS}"), container);
        let snapshot = snapshot(
            &(OLD.to_owned() + &yaml.replace("metal-cloud-controller-manager", "skydock")),
        );
        found(&snapshot)
    };
    let on_host = "hostNetwork: true";
    for (pod, container, saw) in [
        (
            on_host,
            "livenessProbe: {httpGet: {port: 10258, host: 127.0.0.1}}",
            "serves HTTPS",
        ),
        (
            on_host,
            "args: ['--metrics-bind-address=:7'], livenessProbe: {httpGet: {port: 7, scheme: HTTPS}}",
            "serves HTTP",
        ),
        (
            on_host,
            "livenessProbe: {httpGet: {port: 8233, host: 127.0.0.1}}",
            "has port 10258",
        ),
        (
            on_host,
            "args: [--bind-address=127.0.0.1], livenessProbe: {httpGet: {port: 10258, scheme: HTTPS}}",
            "the address of the Pod",
        ),
        (
            "hostNetwork: false",
            "args: ['--metrics-bind-address=127.0.0.1:7'], livenessProbe: {tcpSocket: {port: 7}}",
            "the address of the Pod",
        ),
        (
            on_host,
            "args: [--secure-port=0], startupProbe: {httpGet: {port: metrics}}, ports: [{name: metrics, containerPort: 7}]",
            "turns the server off",
        ),
        (
            on_host,
            "resources: {limits: {memory: 50Mi}}",
            "memory limit, 50Mi",
        ),
    ] {
        let found = skydock(pod, container);
        assert_eq!(found.len(), 1, "{container}: {found:#?}");
        assert!(
            found[0].0.starts_with("D15") && found[0].1.saw.contains(saw),
            "{found:#?}"
        );
    }
    for (pod, container) in [
        (
            on_host,
            "livenessProbe: {httpGet: {port: 10258, scheme: HTTPS}}, resources: {limits: {memory: 3Gi}}",
        ),
        (
            "hostNetwork: false",
            "args: [--secure-port=0, '--metrics-bind-address=:10258'], livenessProbe: {httpGet: {port: 10258}}",
        ),
    ] {
        let found = skydock(pod, container);
        assert!(found.is_empty(), "{container}: {found:#?}");
    }
}

#[test]
fn what_is_unknown_is_no_absence() {
    let why = Unknown("cannot list nodes: forbidden".to_owned());
    let nothing = Snapshot::new(NOW.parse().unwrap(), Some(&why));
    let report = Report::of(&Facts::new(&nothing, None));
    assert_eq!(report.result, Verdict::Unknown);
    let text = report.text("summary");
    assert!(
        text.contains("not checked: D1 (") && text.contains("forbidden"),
        "{text}"
    );
    assert_eq!(text.matches("forbidden").count(), 1, "{text}");

    // Nodes wait, and nobody knows whether something runs.
    let mut some = snapshot(NEW);
    some.workloads = Err(why);
    let report = Report::of(&Facts::new(&some, None));
    assert_eq!(report.result, Verdict::Unknown);
}

#[test]
fn nodes_that_wait_for_long_are_a_problem() {
    const NEVER_READY: &str = "{phase: Running, conditions: [{type: Ready, status: 'False'}], containerStatuses: [{name: ccm, image: a, imageID: a, \
                               ready: false, restartCount: 0, state: {running: {startedAt: '2026-01-01T11:50:00Z'}}}]}";
    const INITIALIZES: &str = "{phase: Pending, containerStatuses: [{name: ccm, image: a, imageID: a, ready: false, restartCount: 0, state: {waiting: \
                               {reason: PodInitializing}}}], initContainerStatuses: [{name: copy, image: a, imageID: a, ready: false, restartCount: 2, \
                               state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 1}}}]}";
    const EVICTED: &str = "{phase: Failed, reason: Evicted, message: 'low on memory'}";
    let ccm = deployment(&format!("hostNetwork: true, {TOLERATIONS}"), "args: []");
    let lost = pod("new", RUNS).replace(
        "name: metal-ccm-5d-x,",
        "name: metal-ccm-5d-x, deletionTimestamp: '2026-01-01T11:00:00Z',",
    );
    let other = |status: &str| pod("new", status).replace("metal-ccm-5d-x", "metal-ccm-5d-y");
    let name = "cloud-controller-manager";
    let held = pod("new", RUNS) + &lease(name, "metal-ccm-5d-x_1", LEADS);
    let forever = lease(name, "metal-ccm-5d-x_1", LEADS).replace("15,", "2147483647,");
    let begins = held.replace(
        "holderIdentity",
        "acquireTime: '2026-01-01T11:59:50.000000Z', holderIdentity",
    );
    let unheld = "nobody holds the Lease kube-system/cloud-controller-manager of Deployment kube-system/metal-ccm";
    let previous = "logs metal-ccm-5d-y --container=ccm --previous";

    for (more, verdict, expected) in [
        (pod("new", RUNS), Verdict::Problems, unheld),
        (
            pod("new", RUNS) + &lease(name, "metal-ccm-5d-x_1", "11:00:00"),
            Verdict::Problems,
            unheld,
        ),
        (
            pod("new", NEVER_READY),
            Verdict::Problems,
            "it runs, but is not ready",
        ),
        (lost, Verdict::Problems, "its node may be lost"),
        (pod("new", EVICTED), Verdict::Problems, "low on memory"),
        (
            pod("new", INITIALIZES),
            Verdict::Problems,
            "logs metal-ccm-5d-x --container=copy --previous",
        ),
        (
            pod("new", RUNS) + &forever.replace("T11:59:55", "T23:59:55"),
            Verdict::Problems,
            unheld,
        ),
        (
            pod("new", RUNS) + &forever.replace("T11:59:55", "T11:00:00"),
            Verdict::Problems,
            unheld,
        ),
        (
            pod("new", EVICTED) + &other(CRASHES),
            Verdict::Problems,
            previous,
        ),
        (
            pod("''", "{phase: Pending}"),
            Verdict::Problems,
            "no check finds why",
        ),
        (held, Verdict::Problems, "cannot initialize these nodes"),
        (begins, Verdict::Unknown, "began less than 2 minutes ago"),
    ] {
        let all = snapshot(&format!("{NEW}{ccm}{more}"));
        let report = Report::of(&Facts::new(&all, None));
        let text = report.text("summary");
        assert_eq!(report.result, verdict, "{text}");
        assert!(text.contains(expected), "{text}");
    }

    // Whether somebody holds a Lease that was not read is not known.
    let mut all = snapshot(&format!("{NEW}{ccm}{}", pod("new", RUNS)));
    all.unread.push("kube-system".to_owned());
    all.notices.push("not read".to_owned());
    let report = Report::of(&Facts::new(&all, None));
    assert_eq!(report.result, Verdict::Unknown);

    let new = NEW.replace("11:00:00Z", "11:59:00Z");
    let all = snapshot(&format!("{new}{ccm}{}", pod("new", RUNS)));
    assert_eq!(Report::of(&Facts::new(&all, None)).result, Verdict::Ok);
}

#[test]
fn only_pods_that_have_no_network_are_deleted_by_force() {
    let waits = |field: &str, reason: &str| {
        format!(
            "{field}: [{{name: ccm, image: a, imageID: a, ready: false, restartCount: 0, state: {{waiting: {{reason: {reason}}}}}}}]"
        )
    };
    let creating = waits("containerStatuses", "ContainerCreating");
    let initializing = waits("containerStatuses", "PodInitializing");
    let runs = waits("initContainerStatuses", "PodInitializing")
        .replace("waiting: {reason: PodInitializing}", "running: {}");
    for (node, status, is_deleted) in [
        ("new", String::new(), true),
        ("''", String::new(), false),
        ("new", creating.clone(), true),
        (
            "new",
            creating.replace("restartCount: 0", "restartCount: 1"),
            false,
        ),
        ("new", waits("containerStatuses", "ImagePullBackOff"), false),
        (
            "new",
            format!(
                "{initializing}, {}",
                waits("initContainerStatuses", "PodInitializing")
            ),
            true,
        ),
        ("new", format!("{initializing}, {runs}"), false),
    ] {
        let yaml = NEW.to_owned()
            + &deployment(TOLERATIONS, "args: []")
            + &pod(node, &format!("{{phase: Pending, {status}}}"));
        let found = found(&snapshot(&yaml));
        let (_, finding) = found.iter().find(|(id, _)| id == "D4").unwrap();
        let fixes = fixes(finding);
        assert_eq!(fixes.contains("--force"), is_deleted, "{status}: {fixes}");
        assert_eq!(fixes.contains("by force"), is_deleted, "{status}: {fixes}");
    }
}

#[test]
fn hostile_texts_are_shown_without_effect() {
    let yaml =
        planned("hostNetwork: true", "args: []").replace("planned-ccm", "\"a\\e[31m'$(reboot)\"");
    let mut hostile = snapshot(&(NEW.to_owned() + &yaml));
    hostile.notices.push("\u{1b}[2J".repeat(10_000));
    for workload in &mut hostile.planned {
        workload.origin = Origin::Cluster;
    }
    let report = Report::of(&Facts::new(&hostile, None));
    let text = report.text("summary");
    assert!(
        !text.contains('\u{1b}') && text.len() < 20_000,
        "{}",
        text.len()
    );
    assert!(text.contains("note: ") && text.contains('…'), "{text}");
    assert!(
        text.contains(r"patch deployment 'a\u{1b}[31m'\''$(reboot)'"),
        "{text}"
    );
}

#[test]
fn what_anybody_may_create_is_no_cloud_controller_manager() {
    let healthy = format!(
        "{OLD}{}{}{}",
        deployment(&format!("hostNetwork: true, {TOLERATIONS}"), "args: []"),
        pod("old", RUNS),
        lease("cloud-controller-manager", "metal-ccm-5d-x_1", LEADS)
    );
    let tenant = |pod: &str, args: &str| object("Deployment", "tenant", "x-ccm", "", pod, args);
    let on_host = "hostNetwork: true, nodeSelector: {node-role.kubernetes.io/control-plane: ''}";
    let component = "\n---\nkind: Pod\nmetadata: {name: a, namespace: tenant}\nspec: {containers: [{name: kube-controller-manager, \
                     command: [kube-controller-manager, --cloud-provider=aws]}]}\n";
    let unnoticed = snapshot(&(healthy.clone() + component));
    assert!(found(&unnoticed).is_empty());
    for lookalike in [
        tenant(on_host, "args: []"),
        tenant("hostNetwork: true", "args: [--leader-elect=false]"),
        tenant("hostNetwork: true", "args: [--plugin-dir=/x]"),
        pod("old", RUNS)
            .replace("kube-system", "tenant")
            .replace("x/metal", "x/evil"),
    ] {
        let all = snapshot(&(healthy.clone() + &lookalike));
        let found = found(&all);
        assert!(found.is_empty(), "{found:#?}");
        let summary = Facts::new(&all, None).summary();
        assert!(summary.contains("tenant/"), "{summary}");
    }

    // A Lease of its own does not hide that the real one crashes.
    let crashes = format!(
        "{NEW}{}{}",
        deployment(TOLERATIONS, "args: []"),
        pod("new", CRASHES)
    );
    let args = "args: [--leader-elect-resource-namespace=tenant]";
    let own = lease("cloud-controller-manager", "x", LEADS).replace("kube-system", "tenant");
    let hidden = snapshot(&(crashes + &tenant("hostNetwork: true", args) + &own));
    assert!(found(&hidden).iter().any(|(id, _)| id == "D1"));

    // Whether its account may change nodes is not known.
    let mut unasked = snapshot(&(NEW.to_owned() + &tenant(on_host, "args: []")));
    assert_eq!(
        Report::of(&Facts::new(&unasked, None)).result,
        Verdict::Problems
    );
    unasked.unasked = Some(Unknown("forbidden".to_owned()));
    unasked.notices.push("forbidden".to_owned());
    let facts = Facts::new(&unasked, None);
    assert_eq!(Report::of(&facts).result, Verdict::Unknown);
    let summary = facts.summary();
    assert!(summary.contains("of which it is not known"), "{summary}");

    // Its account may change nodes: it is looked at.
    let mut trusted = snapshot(&(healthy + &tenant(on_host, "args: []")));
    trusted.trusted.push(Account {
        namespace: "tenant".to_owned(),
        name: "default".to_owned(),
    });
    assert!(!found(&trusted).is_empty());
}

#[test]
fn what_leads_is_stopped_by_no_command() {
    let tolerant = format!("hostNetwork: true, {TOLERATIONS}");
    let led = format!(
        "{OLD}{}{}{}",
        deployment(&tolerant, "args: []"),
        pod("old", RUNS),
        lease("cloud-controller-manager", "metal-ccm-5d-x_1", LEADS)
    );
    let second = object(
        "Deployment",
        "kube-system",
        "a-ccm",
        "",
        &tolerant,
        "args: []",
    );
    let second = second + &pod("old", RUNS).replace("metal-ccm-5d", "a-ccm-5d");
    let own_lease = "args: [--leader-elect-resource-name=a-cloud-controller-manager]";
    let leads = second.replace("args: []", own_lease)
        + &lease("a-cloud-controller-manager", "a-ccm-5d-x_1", LEADS);
    let daemons = object(
        "DaemonSet",
        "kube-system",
        "d-ccm",
        "",
        &tolerant,
        "args: []",
    ) + &pod("old", RUNS)
        .replace("metal-ccm-5d-x", "d-ccm-x")
        .replace(
            "kind: ReplicaSet, name: metal-ccm-5d",
            "kind: DaemonSet, name: d-ccm",
        );
    let scale = "kubectl --namespace kube-system scale deployment";
    for (name, more, expected) in [
        (
            "a second one waits",
            second.clone(),
            format!("{scale} a-ccm --replicas=0"),
        ),
        (
            "a second one leads with a Lease of its own",
            leads,
            "stop one of them: Deployment kube-system/a-ccm, Deployment kube-system/metal-ccm"
                .to_owned(),
        ),
        (
            "daemons are not deleted",
            daemons,
            "delete DaemonSet kube-system/d-ccm".to_owned(),
        ),
        (
            "a manifest with the same Lease",
            planned(&tolerant, "args: []"),
            "apply ccm.yaml only after".to_owned(),
        ),
        (
            "a manifest without a Lease",
            planned(&tolerant, "args: [--leader-elect=false]"),
            "stop Deployment kube-system/metal-ccm: it may lead".to_owned(),
        ),
    ] {
        let found = found(&snapshot(&(led.clone() + &more)));
        let all: Vec<_> = found.iter().map(|(_, finding)| fixes(finding)).collect();
        let all = all.join("\n");
        assert!(all.contains(&expected), "{name}: {found:#?}");
        assert!(
            !all.contains(&format!("{scale} metal-ccm")),
            "{name}: {all}"
        );
        assert!(
            !all.contains("kubectl --namespace kube-system delete"),
            "{name}: {all}"
        );
    }
}

#[test]
fn a_leader_with_another_host_name_is_stopped_by_no_command() {
    let tolerant = format!("hostNetwork: true, {TOLERATIONS}");
    let yaml = format!(
        "{OLD}{}{}{}{}",
        deployment(&tolerant, "args: []"),
        pod("old", CRASHES),
        lease("cloud-controller-manager", "old.example.com_1", LEADS),
        planned(&tolerant, "args: [--leader-elect-resource-name=mine]")
    );
    let found = found(&snapshot(&yaml));
    let (_, finding) = found.iter().find(|(id, _)| id == "D6").unwrap();
    assert!(fixes(finding).contains("it may lead"), "{finding:#?}");
}

#[test]
fn only_requests_of_nodes_are_to_be_approved() {
    for (user, group, is_of_node) in [
        ("system:node:old", "system:nodes", true),
        ("system:node:old", "system:authenticated", false),
        ("system:node:gone", "system:nodes", false),
        ("system:serviceaccount:tenant:x", "system:nodes", false),
    ] {
        let yaml = OLD.to_owned() + &request("csr-1", "11:00:00", user, group);
        let found = found(&snapshot(&yaml));
        let [(id, finding)] = found.as_slice() else {
            panic!("{found:#?}");
        };
        let fixes = fixes(finding);
        assert!(
            id == "D14?" && fixes.contains("describe csr csr-1"),
            "{fixes}"
        );
        assert_eq!(fixes.contains("approve"), is_of_node, "{user} {group}");
    }
}

#[test]
fn permissions_are_granted_to_an_account_of_its_own() {
    type Manifest = fn(&str, &str) -> String;
    let lacking = |account: &str, runs_as: &str, manifest: Manifest| {
        let pod = format!("serviceAccountName: {runs_as}, {TOLERATIONS}");
        let yaml = OLD.to_owned() + &manifest(&pod, "args: [--plugin-dir=/x]");
        let mut all = snapshot(&yaml);
        let lack = |permission| Lack {
            account: Account {
                namespace: "kube-system".to_owned(),
                name: account.to_owned(),
            },
            permission,
        };
        all.lacks = Ok(needed(None).into_iter().take(1).map(lack).collect());
        found(&all)
    };
    let is_d12 = |(id, _): &&(String, Finding)| id == "D12";

    // One that a manifest replaces keeps its account.
    for manifest in [deployment as Manifest, planned] {
        let own = lacking("skydock", "skydock", manifest);
        let fix = fixes(&own.iter().find(is_d12).unwrap().1);
        assert!(fix.ends_with("' | kubectl apply --filename -"), "{fix}");
        let names = r#""resourceNames":["cloud-controller-manager-load-balancer-nodes"]"#;
        assert!(fix.contains(names), "{fix}");
    }
    let former = lacking("former", "skydock", planned);
    assert!(!former.iter().any(|it| is_d12(&it)), "{former:#?}");

    let default = lacking("default", "default", deployment);
    let fix = fixes(&default.iter().find(is_d12).unwrap().1);
    assert!(
        fix.contains("account of its own") && !fix.contains("kubectl"),
        "{fix}"
    );
}

#[test]
fn a_pod_belongs_to_what_creates_it() {
    let owned = |kind: &str, owner: &str, labels: &str| {
        let yaml = format!(
            "{{metadata: {{name: a-5d-x, namespace: b, labels: {labels}, ownerReferences: [{{kind: {kind}, name: {owner}, controller: true, apiVersion: v1, \
             uid: '1'}}]}}}}"
        );
        let all = migrate::parse(&yaml).unwrap();
        Workload::of_pod(&decode(all[0].clone()).unwrap()).title()
    };
    for (kind, owner, labels, expected) in [
        (
            "ReplicaSet",
            "a-5d",
            "{pod-template-hash: 5d}",
            "Deployment b/a",
        ),
        ("ReplicaSet", "my-ccm", "{}", "ReplicaSet b/my-ccm"),
        (
            "ReplicaSet",
            "my-ccm",
            "{pod-template-hash: 5d}",
            "ReplicaSet b/my-ccm",
        ),
        ("DaemonSet", "a", "{}", "DaemonSet b/a"),
        ("Node", "x", "{}", "Pod b/a-5d"),
        ("'a b'", "'c d'", "{}", "\"a b\" b/\"c d\""),
    ] {
        assert_eq!(owned(kind, owner, labels), expected);
    }
}

#[test]
fn owners_of_any_kind_and_name_are_no_commands() {
    for (kind, name) in [
        ("kubectl delete ns x # touch", "foo"),
        ("statefulset x; touch y; #", "foo"),
        ("x/$(touch y)", "foo"),
        ("Deployment", "--server=https://touch.example"),
        ("Touch", "touch"),
    ] {
        let owned = format!(
            "\n---\nkind: Pod\nmetadata: {{name: web-0, namespace: kube-system, ownerReferences: [{{kind: {kind:?}, name: {name:?}, controller: true, \
             apiVersion: v1, uid: '1'}}]}}\nspec: {{containers: [{{name: ccm, image: x/metal-cloud-controller-manager, args: [--leader-elect=false]}}]}}\n\
             status: {{phase: Pending}}\n{PROXY_WAITS}"
        );
        let all = snapshot(&format!("{NEW}{owned}"));
        let text = Report::of(&Facts::new(&all, None)).text("summary");
        assert!(!text.contains(": kubectl delete"), "{text}");
        let found = found(&all);
        assert!(found.iter().any(|(id, _)| id == "D2"), "{found:#?}");
        assert!(found.iter().any(|(id, _)| id == "D7"), "{found:#?}");
        let commands = found.iter().flat_map(|(_, finding)| &finding.fix);
        for fix in commands {
            let Fix::Command(command) = fix else { continue };
            assert!(!command.to_lowercase().contains("touch"), "{command}");
        }
    }
}

#[test]
fn words_of_the_cluster_do_not_look_like_commands() {
    let hostile = "kubectl delete ns kube-system --now # x";
    let labels = format!("labels: {{app.kubernetes.io/managed-by: {hostile:?}}}");
    let managed = object(
        "Deployment",
        "kube-system",
        "metal-ccm",
        &labels,
        "hostNetwork: true",
        "args: []",
    );
    let led = deployment(TOLERATIONS, "args: []")
        + &lease("cloud-controller-manager", &format!("{hostile:?}"), LEADS);
    for yaml in [managed, led] {
        let all = snapshot(&format!("{NEW}{yaml}"));
        let text = Report::of(&Facts::new(&all, None)).text("summary");
        let lines: Vec<_> = text.lines().filter(|line| line.contains(hostile)).collect();
        assert!(!lines.is_empty(), "{text}");
        for line in lines {
            assert!(line.contains(&format!("{hostile:?}")), "{line}");
            assert!(
                !line.contains(": kubectl delete") && !line.contains("run: "),
                "{line}"
            );
        }
    }
}

#[test]
fn thousands_of_findings_are_few_lines() {
    let mut many = snapshot(OLD);
    let node = |number: u32| {
        let mut node = Node::default();
        node.metadata.name = Some(format!("n{number}"));
        node
    };
    many.nodes.as_mut().unwrap().extend((0..10_000).map(node));
    let text = Report::of(&Facts::new(&many, None)).text("summary");
    assert!(text.contains("9992 more") && text.len() < 2_000, "{text}");
}

#[test]
fn only_a_new_node_of_a_cloud_is_tainted_by_a_command() {
    let bare = |created: &str| {
        format!(
            "\n---\nkind: Node\nmetadata: {{name: bare, creationTimestamp: '2026-01-01T{created}Z'}}\n"
        )
    };
    let ccm = deployment(&format!("hostNetwork: true, {TOLERATIONS}"), "args: []");
    let runs = ccm + &pod("old", RUNS);
    let led = |renewed: &str| {
        let lease = lease("cloud-controller-manager", "metal-ccm-5d-x_1", renewed);
        let created = "kube-system, creationTimestamp: '2026-01-01T10:00:00Z'}";
        runs.clone() + &lease.replace("kube-system}", created)
    };
    for (yaml, expected, is_command) in [
        (format!("{OLD}{}", bare("11:00:00")), "D8", false),
        (
            format!("{OLD}{}{}", bare("11:00:00"), led(LEADS)),
            "D8",
            true,
        ),
        (
            format!("{OLD}{}{}", bare("09:00:00"), led(LEADS)),
            "D8",
            false,
        ),
        (
            format!("{OLD}{}{}", bare("11:00:00"), led("11:00:00")),
            "D8",
            false,
        ),
        // It may only have load balancers.
        (bare("11:00:00") + &led(LEADS), "D8?", false),
    ] {
        let found = found(&snapshot(&yaml));
        let [(id, finding)] = found.as_slice() else {
            panic!("{found:#?}");
        };
        let command = "kubectl taint node bare node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule";
        let has_command = finding.fix.contains(&Fix::Command(command.to_owned()));
        assert_eq!(
            (id.as_str(), has_command),
            (expected, is_command),
            "{found:#?}"
        );
    }
}

#[test]
fn one_node_can_be_chosen() {
    let two = snapshot(&format!(
        "{OLD}\n---\nkind: Node\nmetadata: {{name: bare}}\n"
    ));
    let problems = |node| Report::of(&Facts::new(&two, Some(node))).result;
    assert_eq!(problems("old"), Verdict::Ok);
    assert_eq!(problems("bare"), Verdict::Problems);
}

#[test]
fn what_the_cloud_says_is_compared_with_nodes() {
    use crate::commands::doctor::snapshot::{Cloud, CloudAnswers};
    use skydock_cloud::{AddressKind, CloudError, Instance, NodeAddress};

    let waiting = |name: &str, metadata: &str, id: &str| {
        format!(
            "\n---\nkind: Node\nmetadata: {{name: {name}, {metadata}}}\nspec: {{providerID: '{id}', taints: [{{key: \
             node.cloudprovider.kubernetes.io/uninitialized, effect: NoSchedule}}]}}\n"
        )
    };
    let annotation = "annotations: {alpha.kubernetes.io/provided-node-ip: 10.0.0.9}";
    let nodes = waiting("gone", "", "")
        + &waiting("foreign", "", "other://1")
        + &waiting("moved", annotation, "metal://3")
        + &waiting("denied", "", "");
    let others = snapshot(&deployment(TOLERATIONS, "args: []")).workloads;
    let skydock = planned(TOLERATIONS, "args: [--plugin-dir=/x]");
    let mut snapshot = snapshot(&(nodes + &skydock));
    let instance = Instance {
        addresses: vec![NodeAddress {
            kind: AddressKind::InternalIp,
            address: "10.0.0.1".to_owned(),
        }],
        ..Instance::default()
    };
    let answers = CloudAnswers {
        prefixes: vec!["metal://".to_owned()],
        instances: vec![
            (
                "gone".to_owned(),
                Err(CloudError::NotFound("gone".to_owned())),
            ),
            ("moved".to_owned(), Ok(instance)),
            (
                "denied".to_owned(),
                Err(CloudError::Denied("no".to_owned())),
            ),
        ],
    };
    snapshot.cloud = Some(Cloud {
        file: "config.yaml".to_owned(),
        errors: Vec::new(),
        answers: Ok(answers),
    });
    let told = |found: &[(String, Finding)]| -> Vec<String> {
        let found = found.iter().filter(|(id, _)| id == "D11" || id == "D13");
        found
            .map(|(id, finding)| format!("{id} {}", finding.saw))
            .collect()
    };
    assert_eq!(
        told(&found(&snapshot)),
        [
            "D11 these nodes wait, and their provider ID does not begin with metal://: foreign",
            "D11 its kubelet has --node-ip=10.0.0.9, but the instance has 10.0.0.1",
            "D11 the cloud knows no instance for gone",
            "D13 asked about denied, the plugin answers: denied: no",
        ]
    );

    // Nodes of another cloud wait for its own program.
    let mut two = snapshot.clone();
    two.workloads = others;
    assert_eq!(
        told(&found(&two)),
        [
            "D11 its kubelet has --node-ip=10.0.0.9, but the instance has 10.0.0.1",
            "D13 asked about denied, the plugin answers: denied: no",
        ]
    );

    let wrong = Cloud {
        file: "config.yaml".to_owned(),
        errors: vec!["config.yaml:1:1: error: no".to_owned()],
        answers: Err(Unknown("the cloud was not asked".to_owned())),
    };
    snapshot.cloud = Some(wrong);
    let facts = Facts::new(&snapshot, None);
    assert_eq!(cloud::credentials(&facts).unwrap().len(), 1);
    assert!(cloud::instances(&facts).is_err());
}
