//! Manifests as they are written, and what becomes of them.

use std::path::Path;

use super::*;
use crate::file::SkydockConfiguration;

const DEPLOYMENT: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: ccm, namespace: kube-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: metal-ccm, namespace: kube-system}
spec:
  replicas: 1
  template:
    metadata: {labels: {app: ccm}}
    spec:
      hostNetwork: true
      containers:
      - name: sidecar
        image: registry.example.com/proxy:1
        args: [--listen=:80]
      - name: ccm
        image: registry.example.com/metal-cloud-controller-manager:v1.2
        command: [/bin/metal-cloud-controller-manager]
        args:
        - --cloud-provider=metal
        - --allow-untagged-cloud
        - --leader-elect=true
        - --secure-port=10267
        - --kube-api-qps=50
        - --metal-zone=north
        - --cluster-name
        - prod
        env:
        - name: METAL_NETWORK
          valueFrom: {secretKeyRef: {name: metal, key: network}}
        - name: METAL_TOKEN
          valueFrom: {secretKeyRef: {name: metal, key: token}}
        livenessProbe:
          httpGet: {path: /healthz, port: 10267, scheme: HTTPS}
        resources: {limits: {memory: 50Mi}}
        volumeMounts:
        - {name: config, mountPath: /etc/config}
      volumes:
      - name: config
        secret: {secretName: config, defaultMode: 0440}
"#;

fn metal() -> PluginFile {
    let metadata = skydock_sandbox::metadata::Metadata {
        name: "metal".into(),
        version: "1".into(),
        provider_id_prefixes: vec!["metal://".into(), "iron://".into()],
        annotation_prefixes: Vec::new(),
        wanted_hosts: vec!["https://api.*.metal.example:443".into(), "*".into()],
    };
    PluginFile::new(Path::new("/a/metal.wasm"), Some(&metadata))
}

/// Returns the documents, and the configuration of Skydock in the first one.
fn read(migration: &Migration) -> (Vec<Value>, SkydockConfiguration) {
    let documents = parse(&migration.manifest).unwrap();
    let text = documents[0].pointer("/data/config.yaml");
    let text = match text {
        Some(text) => text.as_str().unwrap().to_owned(),
        None => {
            let first = migration.manifest.split("---\n").nth(1);
            first.unwrap().to_owned()
        }
    };
    let configuration = SkydockConfiguration::parse(&text, Path::new("/etc/skydock/config.yaml"))
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    (documents, configuration)
}

#[test]
fn a_deployment_is_migrated() {
    let plugin = metal();
    let migration = migrate(DEPLOYMENT, "skydock:1", Some(&plugin)).unwrap();
    let (documents, configuration) = read(&migration);
    let kinds: Vec<_> = documents
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["ConfigMap", "ServiceAccount", "Deployment"]);
    assert_eq!(documents[0]["metadata"]["namespace"], "kube-system");

    let pod = &documents[2]["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["args"], json!(["--listen=:80"]));
    let container = &pod["containers"][1];
    assert_eq!(container["image"], "skydock:1");
    assert_eq!(container.get("command"), None);
    assert_eq!(
        container["args"],
        json!([
            "--cloud-provider=metal",
            "--leader-elect=true",
            "--secure-port=10267",
            "--cluster-name=prod",
            "--plugin-cache-dir=/var/cache/skydock/compiled"
        ])
    );
    assert_eq!(
        container["livenessProbe"]["httpGet"],
        json!({"path": "/healthz", "port": 10267, "scheme": "HTTPS"})
    );
    // As kubectl reads it.
    assert_eq!(pod["volumes"][0]["secret"]["defaultMode"], 0o440);
    let names = |list: &Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|it| it["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let mounted = [
        "config",
        "skydock-configuration",
        "skydock-cache",
        "skydock-plugins",
    ];
    assert_eq!(names(&pod["volumes"]), mounted);
    assert_eq!(names(&container["volumeMounts"]), mounted);

    for (flag, why) in [
        (
            "/bin/metal-cloud-controller-manager",
            "executable of another image",
        ),
        ("--allow-untagged-cloud=true", "depends on the plugin"),
        ("--kube-api-qps=50", "no rate limit"),
        ("--metal-zone", "options: {metal-zone: VALUE}"),
        (
            "nobody reads the environment variables METAL_NETWORK:",
            "options",
        ),
        ("registry.example.com/plugin:1.0.0", "Kubernetes 1.35"),
        ("memory limit \"50Mi\"", "deploy/base"),
        ("provider IDs of other names, iron://:", "uncomment"),
        ("https://api.xx-region-1.metal.example:443", "make sure"),
    ] {
        let is_told = |note: &String| note.contains(flag) && note.contains(why);
        assert!(
            migration.notes.iter().any(is_told),
            "{flag}: {:#?}",
            migration.notes
        );
    }
    assert!(
        migration
            .notes
            .iter()
            .all(|note| note.starts_with("Deployment metal-ccm: "))
    );

    let found = &configuration.plugins[0];
    assert_eq!((found.name.as_str(), found.egress.len()), ("metal", 1));
    assert_eq!(
        found.egress[0].to,
        "https://api.xx-region-1.metal.example:443"
    );
    assert_eq!(found.permissions.provider_ids, None);
    let found = configuration.credentials[0].variable().unwrap();
    assert_eq!(found.variable.to_string(), "METAL_TOKEN");
}

#[test]
fn what_was_migrated_starts() {
    let migration = migrate(DEPLOYMENT, "skydock:1", None).unwrap();
    let (documents, _) = read(&migration);
    let args = &documents[2]["spec"]["template"]["spec"]["containers"][1]["args"];
    let args = args
        .as_array()
        .unwrap()
        .iter()
        .map(|arg| arg.as_str().unwrap());
    let cli = crate::cli::parse(std::iter::once("skydock").chain(args)).unwrap();
    assert!(cli.ccm.accepted.is_empty());
}

#[test]
fn a_static_pod_has_its_files_on_the_node() {
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ccm"}, "spec": {"containers": [{"name": "ccm",
        "image": "example.com/ccm:1", "command": ["/go-runner", "--log-file=/l", "/cloud-controller-manager", "--v=2",
        "--cloud-provider=openstack", "--cloud-config=/etc/cloud.conf"], "livenessProbe": {"httpGet": {"port": 10258, "scheme": "HTTPS"}}}]}}"#;
    let migration = migrate(pod, "skydock:1", None).unwrap();
    assert!(migration.manifest.starts_with("---\n# This is not an object of Kubernetes: write it as /etc/kubernetes/skydock/config.yaml"));
    let (documents, configuration) = read(&migration);
    let spec = &documents[1]["spec"];
    assert_eq!(
        spec["volumes"][0]["hostPath"]["path"],
        "/etc/kubernetes/skydock"
    );
    let container = &spec["containers"][0];
    assert_eq!(
        container["livenessProbe"]["httpGet"],
        json!({"port": 10258, "scheme": "HTTPS"})
    );
    assert_eq!(
        configuration.credentials[0].cloud_conf(),
        Some(Path::new("/etc/cloud.conf"))
    );
}

#[test]
fn plugins_in_the_image_are_not_mounted() {
    let list = "kind: List\nitems:\n- kind: DaemonSet\n  spec: {template: {spec: {containers: [{name: a, image: x/aws-cloud-controller-manager,\n  \
                args: [--v=2, --cloud-provider=external]}]}}}\n- {kind: Service}\n";
    let aws = PluginFile::new(Path::new("aws.wasm"), None);
    let migration = migrate(list, "skydock:1", Some(&aws)).unwrap();
    let (documents, configuration) = read(&migration);
    assert_eq!(documents.len(), 3);
    let pod = &documents[1]["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"].as_array().unwrap().len(), 2);
    assert_eq!(configuration.plugins[0].name, "aws");
    let dropped = "dropped --cloud-provider=external: the plugin in config.yaml is aws";
    assert!(
        migration.notes[0].ends_with(dropped),
        "{:?}",
        migration.notes
    );
}

#[test]
fn a_script_becomes_arguments() {
    let text = "kind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n      - name: a\n        image: x/y\n        command:\n        - /bin/bash\n        - -c\n        - |\n          set -e\n          exec /bin/metal-cloud-controller-manager \\\n          --v=3 --cidr-allocator-type=CloudAllocator --allocate-node-cidrs=true\n";
    let migration = migrate(text, "skydock:1", None).unwrap();
    let (documents, _) = read(&migration);
    let args = &documents[1]["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(
        (&args[0], &args[1]),
        (
            &"--v=3".into(),
            &"--cidr-allocator-type=CloudAllocator".into()
        )
    );
    for words in [
        "no shell",
        "will not start with these arguments: --cidr-allocator-type=CloudAllocator",
    ] {
        assert!(
            migration.notes.iter().any(|note| note.contains(words)),
            "{:?}",
            migration.notes
        );
    }
}

/// As in the manifests of OpenShift.
#[test]
fn a_script_may_read_a_file_of_variables() {
    let script = [
        "#!/bin/bash",
        "set -o allexport",
        "if [[ -f /etc/kubernetes/apiserver-url.env ]]; then",
        "  source /etc/kubernetes/apiserver-url.env",
        "fi",
        "exec /bin/azure-cloud-controller-manager \\",
        "  --v=3 \\",
        "  --cloud-config=$(CLOUD_CONFIG) \\",
        "  --cloud-provider=azure \\",
        "  --controllers=*,-cloud-node \\",
        "  --cluster-name=$(NAME) \\",
        "  --feature-gates= \\",
        "  --secure-port=0",
    ];
    let container = json!({
        "name": "a",
        "image": "x/y",
        "command": ["/bin/bash", "-c", script.join("\n")],
        "env": [{"name": "CLOUD_CONFIG", "value": "/etc/cloud.conf"}, {"name": "NAME", "value": "prod"}],
    });
    let migration = migrate(&deployment(&container.to_string()), "skydock:1", None).unwrap();
    let (documents, _) = read(&migration);
    let container = &documents[1]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container["args"],
        json!([
            "--v=3",
            "--cloud-config=$(CLOUD_CONFIG)",
            "--cloud-provider=azure",
            "--controllers=*,-cloud-node",
            "--cluster-name=$(NAME)",
            "--secure-port=0",
            "--plugin-cache-dir=/var/cache/skydock/compiled"
        ])
    );
    let notes = migration.notes.join("\n");
    for told in [
        "nobody sets the variables in /etc/kubernetes/apiserver-url.env",
        "dropped --feature-gates=:",
    ] {
        assert!(notes.contains(told), "{told}: {notes}");
    }
}

#[test]
fn what_is_not_understood_is_not_changed() {
    for (container, told) in [
        (
            r#"{name: a, image: x/ccm, command: [sh, -c], args: ["echo cloud-controller-manager\nexec /x/ccm --cluster-name=prod"]}"#,
            "line 1: the command `echo`",
        ),
        (
            r#"{name: a, image: x/ccm, command: [sh, -c, 'exec /x/ccm "$@"'], args: [--, --cluster-name=prod]}"#,
            "an expansion",
        ),
        (
            "{name: a, image: x/ccm, command: [sh, -c, 'exec /x/ccm --cluster-name=$(hostname)']}",
            "does not set the variable",
        ),
        (
            "{name: a, image: x/ccm, envFrom: [{secretRef: {name: b}}], command: [sh, -c, 'exec /x/ccm --cluster-name=$(hostname)']}",
            "does not set the variable",
        ),
        (
            "{name: a, image: x/ccm, command: [env, A=s3cret, /x/ccm, --cluster-name=prod]}",
            "the variable A",
        ),
        (
            "{name: a, image: x/ccm, command: [/bin/zsh, -c, exec /x/ccm --cluster-name=prod]}",
            "a word with blanks",
        ),
        (
            "{name: a, image: x/ccm, command: [/start.sh], args: [--cluster-name=prod]}",
            "its program is not known",
        ),
        (
            "{name: a, image: x/ccm, command: [/sbin/tini, -g, --, /x/ccm, --cluster-name=prod]}",
            "`--`, after which",
        ),
        (
            "{name: a, image: x/ccm, args: [$(MORE)], env: [{name: MORE, value: --cluster-name=prod}]}",
            "a variable that may be a flag",
        ),
        (
            "{name: a, image: x/ccm, args: [plugin, --cluster-name=prod]}",
            "a subcommand of Skydock",
        ),
        ("{name: a, image: x/ccm, args: text}", "args is not a list"),
        (
            "{name: a, image: x/ccm, volumeMounts: 7, env: {b: c}}",
            "env is not a list; volumeMounts is not a list",
        ),
        (
            "{name: a, image: x/ccm, args: [--cluster-name=$(cat s3cret)]}",
            "--cluster-name has `$(` without",
        ),
        (
            "{name: a, image: x/ccm, args: ['--cluster-name=\"s3cret\"']}",
            "--cluster-name has quotes",
        ),
        (
            "{name: a, image: x/ccm, args: ['--cluster-name=$$(A)'], env: [{name: A, value: b}]}",
            "--cluster-name has `$(` without",
        ),
    ] {
        let text = deployment(container);
        let migration = migrate(&text, "skydock:1", None).unwrap();
        assert_eq!(
            parse(&migration.manifest).unwrap(),
            parse(&text).unwrap(),
            "{container}"
        );
        let notes = migration.notes.join("\n");
        assert!(
            notes.contains("a was not changed, so migrate it by hand")
                && notes.contains(told)
                && !notes.contains("s3cret"),
            "{container}: {notes}"
        );
    }
}

#[test]
fn variables_that_kubernetes_replaces_are_kept() {
    for container in [
        "{image: x/ccm, args: [--cluster-name=a-$(A)], env: [{name: A, value: b}]}",
        "{image: x/ccm, args: [--cluster-name=a-$(A)], envFrom: [{configMapRef: {name: a}}]}",
        "{image: x/ccm, command: [sh, -c, 'exec /x/ccm --cluster-name=a-${A}'], env: [{name: A, value: b}]}",
    ] {
        let migration = migrate(&deployment(container), "skydock:1", None).unwrap();
        let (documents, _) = read(&migration);
        let args = &documents[1]["spec"]["template"]["spec"]["containers"][0]["args"];
        assert_eq!(args[0], "--cluster-name=a-$(A)", "{container}");
    }
}

#[test]
fn a_value_does_not_make_a_program() {
    let sidecar =
        "{name: logs, image: x/fluentd, args: [--path, /var/log/cloud-controller-manager.log]}";
    let ccm = "{name: a, image: x/y, command: [/app/x-cloud-controller-manager, --cluster-name=prod, --leader-elect-resource-name=cloud-controller-manager]}";
    let migration = migrate(&deployment(&format!("{sidecar}, {ccm}")), "skydock:1", None).unwrap();
    let (documents, _) = read(&migration);
    let containers = &documents[1]["spec"]["template"]["spec"]["containers"];
    assert_eq!(
        containers[0]["args"],
        json!(["--path", "/var/log/cloud-controller-manager.log"])
    );
    let args = &containers[1]["args"];
    assert_eq!(
        (&args[0], &args[1]),
        (
            &"--cluster-name=prod".into(),
            &"--leader-elect-resource-name=cloud-controller-manager".into()
        )
    );

    for other in [
        "{image: x/kubectl, command: [sh, -c, kubectl wait deploy/cloud-controller-manager]}",
        "{image: x/kubectl, command: [kubectl, rollout, status, deploy/cloud-controller-manager]}",
        "{image: x/fluentd, command: [fluentd, -c, /etc/cloud-controller-manager]}",
        "{image: x/fluentd, command: [fluentd, --log-file, /var/log/cloud-controller-manager]}",
    ] {
        assert!(
            migrate(&deployment(other), "skydock:1", None).is_err(),
            "{other}"
        );
    }
}

#[test]
fn what_cannot_be_migrated_is_an_error() {
    for (text, words) in [
        (
            "image: {{ .Values.image }}\n",
            "render it first, for example with `helm template`",
        ),
        (
            "kind: Pod\nspec: {containers: [{image: x/ccm, args: ['--tls-min-version={{.tls}}']}]}\n",
            "render it first",
        ),
        (
            "kind: PrometheusRule\nspec: {a: '{{ $value }}'}\n",
            "no container of a cloud-controller-manager",
        ),
        ("a: [\n", "not valid YAML"),
        (
            "kind: Service\n",
            "no container of a cloud-controller-manager",
        ),
        (
            "kind: Pod\nspec: {containers: [{image: x/kube-controller-manager, command: [kube-controller-manager, --cloud-provider=external]}]}\n",
            "no container of a cloud-controller-manager",
        ),
        ("", "no container of a cloud-controller-manager"),
        (
            "kind: List\nitems: [{kind: Pod, spec: {containers: [{image: x/ccm}]}}, 7]\n",
            "an item of a List is not an object",
        ),
        (
            "kind: PodList\nitems: [{metadata: {name: a}}, {a: b}]\n",
            "an item of a PodList is not an object",
        ),
    ] {
        let error = format!("{:#}", migrate(text, "skydock:1", None).unwrap_err());
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn probes_by_http_are_moved_to_https_if_it_is_served() {
    let probe = "livenessProbe: {httpGet: {path: /healthz, port: 10253}}";
    let migrated = |args: &str| {
        let container = format!("{{image: x/ccm, args: [{args}], {probe}}}");
        let migration = migrate(&deployment(&container), "skydock:1", None).unwrap();
        let (documents, _) = read(&migration);
        let container = &documents[1]["spec"]["template"]["spec"]["containers"][0];
        let asks = container["livenessProbe"]["httpGet"].clone();
        (asks, container["args"].clone(), migration.notes)
    };

    let (asks, _, notes) = migrated("--port=10253, --secure-port=10300");
    let https = json!({"path": "/healthz", "port": 10300, "scheme": "HTTPS"});
    assert_eq!(asks, https);
    let is_told = |note: &String| note.contains("livenessProbe: HTTP became HTTPS");
    assert!(notes.iter().any(is_told), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("--port is a flag")));

    // The Pod has an address of its own.
    let (asks, args, _) = migrated("--secure-port=0");
    assert_eq!(asks, json!({"path": "/healthz", "port": 10258}));
    let args = args.as_array().unwrap();
    assert!(
        args.contains(&"--metrics-bind-address=:10258".into()),
        "{args:?}"
    );
}

/// Returns a Deployment with this container.
fn deployment(container: &str) -> String {
    format!("kind: Deployment\nspec: {{template: {{spec: {{containers: [{container}]}}}}}}\n")
}

#[test]
fn other_programs_are_not_migrated() {
    for container in [
        "{image: x/cluster-autoscaler:v1, command: [./cluster-autoscaler, --cloud-provider=aws]}",
        "{image: x/backup, args: [--cloud-provider=aws]}",
        "{image: x/cloud-provider-metal/csi-driver:v1}",
    ] {
        let migrated = migrate(&deployment(container), "skydock:1", None);
        assert!(migrated.is_err(), "{container}");
    }
    let named = "{image: x/cloud-provider-metal/manager:v1, args: [--v=2]}";
    assert!(migrate(&deployment(named), "skydock:1", None).is_ok());
}

#[test]
fn an_unknown_word_is_not_shown_and_equal_ones_are_kept() {
    let container = "{image: x/ccm, args: [--metal-token, s3cret, --foo, '2', -v, '2']}";
    let migration = migrate(&deployment(container), "skydock:1", None).unwrap();
    let (documents, _) = read(&migration);
    let args = &documents[1]["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!((&args[0], &args[1]), (&"-v".into(), &"2".into()));
    let notes = format!("{:?}", migration.notes);
    assert!(
        notes.contains("--metal-token") && !notes.contains("s3cret"),
        "{notes}"
    );
}

#[test]
fn a_resource_that_is_no_list_is_not_taken_apart() {
    let list = "kind: AllowList\nitems: [{a: 1}]\n---\n";
    let ccm = deployment("{image: x/ccm, args: [--v=2]}");
    let migration = migrate(&format!("{list}{ccm}"), "skydock:1", None).unwrap();
    let (documents, _) = read(&migration);
    assert!(
        documents.iter().any(|it| it["kind"] == "AllowList"),
        "{documents:?}"
    );
}

/// Migrates a Deployment with this container, and returns the notes in one text.
fn notes(container: &str) -> String {
    let migration = migrate(&deployment(container), "skydock:1", None).unwrap();
    migration.notes.join("\n")
}

#[test]
fn what_is_left_to_do_is_told() {
    for (rest, expected) in [
        (
            "livenessProbe: {exec: {command: [wget]}}",
            "livenessProbe runs a program",
        ),
        (
            "lifecycle: {preStop: {exec: {command: [sh]}}}",
            "preStop runs a program",
        ),
        (
            "livenessProbe: {grpc: {port: 1}}",
            "livenessProbe asks by gRPC",
        ),
        (
            "lifecycle: {postStart: {httpGet: {port: 1}}}",
            "postStart asks a server",
        ),
        (
            "livenessProbe: {httpGet: {path: /custom, port: 10258, scheme: HTTPS}}",
            "livenessProbe asks for a path that Skydock does not have",
        ),
        (
            "startupProbe: {httpGet: {path: /healthz, port: 9999, scheme: HTTPS}}",
            "startupProbe asks port 9999 by HTTPS, but --secure-port is 10258",
        ),
        (
            "args: [--secure-port=0], ports: [{name: a, containerPort: 9999}], readinessProbe: {httpGet: {path: '/readyz?verbose', port: a, scheme: HTTPS}}",
            "readinessProbe asks port 9999 by HTTPS, but --secure-port is 0",
        ),
        (
            "envFrom: [{secretRef: {name: cloud}}, {configMapRef: {name: zone}}]",
            "of Secret cloud (envFrom)",
        ),
        ("args: []", "so that /etc/skydock-secrets/token exists"),
        (
            "volumeMounts: [{name: a, mountPath: /plugins/}]",
            "the volume at /plugins was not changed: the plugin must be in it",
        ),
        (
            "args: [--cloud-config=$(CONF)]",
            "the manifest does not set the variable",
        ),
    ] {
        let notes = notes(&format!("{{image: x/ccm, {rest}}}"));
        assert!(notes.contains(expected), "{rest}: {notes}");
    }
    let ordinary = "{image: x/ccm, args: [--secure-port=9999], lifecycle: {preStop: {sleep: {seconds: 1}}}, \
                    livenessProbe: {httpGet: {path: /healthz/ping, port: 9999, scheme: HTTPS}}}";
    let ordinary = notes(ordinary);
    for told in ["runs a program", "envFrom", "Probe", "preStop"] {
        assert!(!ordinary.contains(told), "{ordinary}");
    }
}

#[test]
fn files_of_nodes_must_be_readable() {
    let with = |context: &str| {
        let pod = format!("kind: Pod\nspec: {{{context} containers: [{{image: x/ccm}}]}}\n");
        migrate(&pod, "skydock:1", None).unwrap().notes.join("\n")
    };
    assert!(with("").contains("user 65532"));
    assert!(!with("securityContext: {runAsUser: 0},").contains("user 65532"));
}

#[test]
fn none_of_several_containers_is_changed() {
    let text = deployment("{name: a, image: x/ccm}, {name: b, image: y/ccm}");
    let migration = migrate(&text, "skydock:1", None).unwrap();
    assert_eq!(parse(&migration.manifest).unwrap(), parse(&text).unwrap());
    let [note] = &*migration.notes else {
        panic!("{:?}", migration.notes);
    };
    assert!(
        note.contains("several may be") && note.contains(": a, b;"),
        "{note}"
    );
}

#[test]
fn init_containers_with_the_old_image_are_told() {
    let containers = "initContainers: [{name: wait, image: x/ccm}, {name: other, image: y}], containers: [{image: x/ccm}]";
    let text = format!("kind: Deployment\nspec: {{template: {{spec: {{{containers}}}}}}}\n");
    let notes = migrate(&text, "skydock:1", None).unwrap().notes.join("\n");
    assert!(
        notes.contains("the init container wait still") && !notes.contains("other still"),
        "{notes}"
    );
}

#[test]
fn a_probe_of_the_port_is_moved() {
    let container = "{image: x/ccm, livenessProbe: {tcpSocket: {port: 8233}}}";
    let migration = migrate(&deployment(container), "skydock:1", None).unwrap();
    let (documents, _) = read(&migration);
    let container = &documents[1]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container["livenessProbe"]["tcpSocket"],
        json!({"port": 10258})
    );
    let args = container["args"].to_string();
    assert!(!args.contains("--metrics-bind-address"), "{args}");
}

#[test]
fn a_variable_in_the_arguments_is_replaced() {
    let container = "{image: x/ccm, args: [--cloud-provider=openstack, --cloud-config=$(CONF)], env: [{name: CONF, value: /etc/config/cloud.conf}]}";
    let migration = migrate(&deployment(container), "skydock:1", None).unwrap();
    let (_, configuration) = read(&migration);
    assert_eq!(
        configuration.credentials[0].cloud_conf(),
        Some(Path::new("/etc/config/cloud.conf"))
    );
    let notes = migration.notes.join("\n");
    assert!(!notes.contains("nobody reads"), "{notes}");
}

#[test]
fn each_workload_gets_its_configuration() {
    let object = |namespace: &str, provider: &str| {
        format!(
            "---\nkind: DaemonSet\nmetadata: {{name: {provider}, namespace: {namespace}}}\nspec: {{template: {{spec: {{containers: \
             [{{image: x/ccm, args: [--cloud-provider={provider}]}}]}}}}}}\n"
        )
    };
    let count = |text: String| {
        let migration = migrate(&text, "skydock:1", None)?;
        let (documents, _) = read(&migration);
        let maps = documents.iter().filter(|it| it["kind"] == "ConfigMap");
        anyhow::Ok(maps.count())
    };

    assert_eq!(count(object("a", "one") + &object("b", "two")).unwrap(), 2);
    assert_eq!(count(object("a", "one") + &object("a", "one")).unwrap(), 1);
    let same_place = count(object("a", "one") + &object("a", "two")).unwrap_err();
    assert!(
        same_place
            .to_string()
            .starts_with("DaemonSet one and DaemonSet two")
    );
}

#[test]
fn templates_are_recognized_wherever_they_are() {
    for (metadata, container, expected) in [
        ("name: '{{ .Release.Name }}'", "image: x/ccm", true),
        ("namespace: '${NAMESPACE}'", "image: x/ccm", true),
        ("name: a", "image: 'x/ccm:${VERSION}'", true),
        (
            "name: a",
            "image: x/ccm, args: ['--cluster-name=${NAME}']",
            true,
        ),
        (
            "name: a",
            "image: x/ccm, command: [sh, -c, 'exec /x-cloud-controller-manager --cluster-name=${NAME}']",
            false,
        ),
        ("name: a, annotations: {a: '{{b}}'}", "image: x/ccm", false),
        ("name: '{{ other }}'", "image: x/other", false),
    ] {
        let text = format!(
            "kind: Deployment\nmetadata: {{{metadata}}}\nspec: {{template: {{spec: {{containers: [{{{container}}}]}}}}}}\n"
        );
        let object = &parse(&text).unwrap()[0];
        assert_eq!(workload::is_template(object), expected, "{text}");
    }
}

#[test]
fn a_plugin_that_reaches_nothing_gets_no_rules() {
    let metadata = skydock_sandbox::metadata::Metadata {
        wanted_hosts: Vec::new(),
        ..skydock_sandbox::metadata::Metadata::default()
    };
    let plugin = PluginFile::new(Path::new("local.wasm"), Some(&metadata));
    let container = "{image: x/ccm, env: [{name: A_TOKEN, value: a}]}";
    let migration = migrate(&deployment(container), "skydock:1", Some(&plugin)).unwrap();
    let (_, configuration) = read(&migration);
    assert!(configuration.credentials.is_empty() && configuration.plugins[0].egress.is_empty());
}

#[test]
fn a_plugin_gets_nothing_because_it_asks_for_it() {
    let plugin = |name: &str| {
        let metadata = skydock_sandbox::metadata::Metadata {
            provider_id_prefixes: vec![
                "metal://".into(),
                "aws://".into(),
                "*".into(),
                "a://\n  permissions: {labels: [rack]}".into(),
            ],
            wanted_hosts: vec![
                "https://api.metal.example:443".into(),
                "https://api.evil.example:443".into(),
                "HTTPS://API.evil.example:0443".into(),
                "https://b.example:443\n  permissions:\n    labels: [rack]".into(),
                "https://*".into(),
                "*".into(),
            ],
            ..skydock_sandbox::metadata::Metadata::default()
        };
        PluginFile::new(Path::new(name), Some(&metadata))
    };
    let migrated = |name: &str| {
        let text = deployment("{image: x/ccm}");
        let migration = migrate(&text, "skydock:1", Some(&plugin(name))).unwrap();
        let (documents, configuration) = read(&migration);
        let text = documents[0]["data"]["config.yaml"]
            .as_str()
            .unwrap()
            .to_owned();
        (configuration, text, migration.notes.join("\n"))
    };

    let (configuration, text, notes) = migrated("metal.wasm");
    let found = &configuration.plugins[0];
    let hosts: Vec<_> = found.egress.iter().map(|rule| rule.to.as_str()).collect();
    assert_eq!(hosts, ["https://api.metal.example:443"]);
    assert_eq!(found.permissions.provider_ids, None);
    assert!(found.permissions.labels.is_empty());
    for line in [
        "  # - name: api-2",
        "  #   to: https://api.evil.example:443",
        "  #   providerIDs: [\"metal://\",\"aws://\",\"a://\\n  permissions: {labels: [rack]}\"]",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}: {text}");
    }
    for told in [
        "provider IDs of other names, aws://",
        "reach https://api.metal.example:443, with the credential",
        "asks for https://api.evil.example:443: uncomment",
        "asks for https://*, for which",
    ] {
        assert!(notes.contains(told), "{told}: {notes}");
    }

    // Whatever the file says, the plugin is that of the image.
    let (configuration, _, notes) = migrated("aws.wasm");
    let found = &configuration.plugins[0].egress;
    assert_eq!(found.len(), 2);
    for rule in found {
        let told = format!("reach {}, with the credential", rule.to.as_str());
        assert!(notes.contains(&told), "{told}: {notes}");
    }
}

#[test]
fn what_is_commented_can_be_uncommented() {
    let metadata = skydock_sandbox::metadata::Metadata {
        provider_id_prefixes: vec!["iron://".into()],
        wanted_hosts: vec![
            "https://a.example:443".into(),
            "https://b.example:443".into(),
        ],
        ..skydock_sandbox::metadata::Metadata::default()
    };
    let plugin = PluginFile::new(Path::new("metal.wasm"), Some(&metadata));
    let migration = migrate(&deployment("{image: x/ccm}"), "skydock:1", Some(&plugin)).unwrap();
    let (documents, _) = read(&migration);
    let text = documents[0]["data"]["config.yaml"].as_str().unwrap();

    let lines = text.lines().map(|line| match line.strip_prefix("  # ") {
        Some(line) if line.starts_with(['-', ' ', 'p']) => format!("  {line}\n"),
        _ => format!("{line}\n"),
    });
    let text: String = lines.collect();
    let path = Path::new("/etc/skydock/config.yaml");
    let configuration =
        SkydockConfiguration::parse(&text, path).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let found = &configuration.plugins[0];
    let expected = vec!["metal://".to_owned(), "iron://".to_owned()];
    assert_eq!(found.permissions.provider_ids.as_ref(), Some(&expected));
    assert_eq!(found.egress.len(), 2);
}

#[test]
fn the_credential_is_no_other_one_without_a_word() {
    for (args, env, variable, told) in [
        (
            "[]",
            "{name: METAL_TOKEN_FILE, value: /etc/token}, {name: METAL_KEY, valueFrom: {secretKeyRef: {name: a, key: b}}}",
            Some("METAL_KEY"),
            "variables METAL_TOKEN_FILE:",
        ),
        (
            "[]",
            "{name: METAL_TOKEN_URL, value: x}, {name: METAL_SECRET_NAME, value: x}, {name: METAL_TOKEN, value: x}",
            Some("METAL_TOKEN"),
            "variables METAL_TOKEN_URL, METAL_SECRET_NAME:",
        ),
        (
            "[--cloud-provider=aws]",
            "{name: AWS_ACCESS_KEY_ID, value: x}, {name: AWS_SECRET_ACCESS_KEY, value: x}",
            None,
            "variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY:",
        ),
        (
            "[--cloud-provider=aws]",
            "{name: AWS_SECRET_ACCESS_KEY, value: x}",
            None,
            "another login, the role of the instance, than the environment variables AWS_SECRET_ACCESS_KEY",
        ),
        (
            "[--cloud-provider=openstack]",
            "{name: OS_PASSWORD, value: x}",
            None,
            "another login, that of cloud.conf, than the environment variables OS_PASSWORD",
        ),
    ] {
        let container = format!("{{image: x/ccm, args: {args}, env: [{env}]}}");
        let migration = migrate(&deployment(&container), "skydock:1", None).unwrap();
        let (_, configuration) = read(&migration);
        let found = configuration.credentials[0].variable();
        let found = found.map(|it| it.variable.to_string());
        assert_eq!(found.as_deref(), variable, "{container}");
        let notes = migration.notes.join("\n");
        assert!(notes.contains(told), "{container}: {notes}");
    }
}

#[test]
fn volumes_that_are_not_skydocks_are_not_mounted() {
    for (volumes, told) in [
        (
            "[{name: skydock-cache, hostPath: {path: /}}]",
            "a volume has the name skydock-cache",
        ),
        ("{a: b}", "volumes is not a list"),
    ] {
        let pod = format!("{{volumes: {volumes}, containers: [{{name: a, image: x/ccm}}]}}");
        let text = format!("kind: Deployment\nspec: {{template: {{spec: {pod}}}}}\n");
        let migration = migrate(&text, "skydock:1", None).unwrap();
        assert_eq!(parse(&migration.manifest).unwrap(), parse(&text).unwrap());
        let notes = migration.notes.join("\n");
        assert!(
            notes.contains("a was not changed") && notes.contains(told),
            "{notes}"
        );
    }
}

#[test]
fn namespaces_come_first_and_texts_keep_their_ends() {
    let deployment = deployment("{image: x/ccm}");
    let config = "kind: ConfigMap\ndata:\n  a: |+\n    b\n\n\n";
    let text = format!("{deployment}---\nkind: Namespace\n---\n{config}");
    let migration = migrate(&text, "skydock:1", None).unwrap();
    let documents = parse(&migration.manifest).unwrap();
    let kinds: Vec<_> = documents.iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["Namespace", "ConfigMap", "Deployment", "ConfigMap"]);
    assert_eq!(documents[3]["data"]["a"], "b\n\n\n");
}
