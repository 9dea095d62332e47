//! The Pods match the binary: flags are valid, and files are where the flags expect them.

use std::{collections::BTreeSet, fs, net::IpAddr, path::Path};

use skydock::cli::{self, BindAddress, plugin_limits};
use skydock_controllers::service::ServiceOptions;
use skydock_image::PROVIDERS;
use skydock_support::checkout;

use crate::alerts::sources;
use crate::deploy;
use crate::variants::{EXAMPLES, all, base, container, example, kustomization};

#[test]
fn every_example_is_tested() {
    let names = fs::read_dir(deploy())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let examples: BTreeSet<_> = names.filter(|name| name.starts_with("example")).collect();
    assert_eq!(examples, EXAMPLES.map(str::to_owned).into());
}

#[test]
fn the_flags_of_every_variant_are_valid() {
    let (base, example) = (base(), example("example", Vec::new()));
    assert!(base.args.leader_elect && !base.args.use_service_account_credentials);
    assert!(example.args.leader_elect && example.args.use_service_account_credentials);
    assert_eq!(base.args.controllers, ["*"]);
    let variants = all();
    assert_eq!(
        variants.len(),
        7,
        "base, examples, and two in the examples' comments"
    );
    assert!(variants.iter().any(|variant| variant.args.master.is_some()));
    for variant in variants {
        assert!(
            variant.args.config.is_some() != variant.args.cloud_config.is_some(),
            "one of both tells all"
        );
        assert_eq!(
            variant.args.config.is_some(),
            variant.args.cloud_provider.is_empty(),
            "flags win over the file"
        );
    }
}

#[test]
fn the_plugin_is_either_in_the_image_or_mounted() {
    for variant in all() {
        let file = variant.plugin();
        let name = file
            .strip_prefix("/plugins")
            .expect("a directory of plugins")
            .display()
            .to_string();
        let name = name.strip_suffix(".wasm").expect("a component");
        assert!(
            PROVIDERS.contains(&name) != variant.mount(&file).is_some(),
            "{name} is nowhere, or hidden by what is mounted"
        );
        assert!(variant.args.plugins.is_empty());
    }
}

#[test]
fn every_configured_file_is_in_a_mounted_directory() {
    for variant in all() {
        for file in variant.read_files() {
            let (mount, volume) = variant
                .mount(&file)
                .unwrap_or_else(|| panic!("{} is nowhere", file.display()));
            assert!(
                mount.sub_path.is_none(),
                "a file that is mounted by subPath never changes"
            );
            let key = file
                .strip_prefix(&mount.mount_path)
                .unwrap()
                .display()
                .to_string();
            let files = variant.files(volume);
            assert!(
                files.contains(&key),
                "{}: no {key} among {files:?}",
                variant.folder
            );
        }
    }
}

// Holds: SEC-24
#[test]
fn only_the_group_of_the_pod_can_read_the_configuration() {
    for variant in all() {
        let context = variant.pod.security_context.as_ref().unwrap();
        assert!(context.fs_group.is_some() && context.fs_group == context.run_as_group);
        for file in variant.read_files() {
            let (mount, volume) = variant.mount(&file).unwrap();
            let secret = volume
                .secret
                .as_ref()
                .and_then(|secret| secret.default_mode);
            let mode = secret.or(volume
                .projected
                .as_ref()
                .and_then(|projected| projected.default_mode));
            assert_eq!(
                (mode, mount.read_only),
                (Some(0o440), Some(true)),
                "{}",
                variant.folder
            );
        }
    }
}

#[test]
fn cloud_examples_bind_each_egress_rule_to_a_credential() {
    for (folder, rules) in [
        ("example-aws", 2),
        ("example-metal", 1),
        ("example-openstack", 4),
    ] {
        let (plugin, _) = example(folder, Vec::new()).configured().unwrap();
        assert_eq!(plugin.egress.len(), rules, "{folder}");
        assert_eq!(folder.split_once('-').unwrap().1, plugin.name);
        for rule in plugin.egress {
            assert!(
                rule.to.starts_with("https://") && rule.credential.is_some(),
                "{}",
                rule.name
            );
        }
    }
}

#[test]
fn the_example_for_aws_allows_exactly_what_its_plugin_does() {
    let (plugin, _) = example("example-aws", Vec::new()).configured().unwrap();
    let allowed: Vec<_> = plugin
        .egress
        .iter()
        .flat_map(|rule| &rule.actions)
        .collect();
    let matches = |pattern: &str, action: &str| match pattern.strip_suffix('*') {
        Some(prefix) => action.starts_with(prefix),
        None => action == pattern,
    };

    let mut source = String::new();
    sources(&checkout().join("plugins/aws/src"), &mut source);
    let texts = source.split('"').filter(|text| {
        text.chars().all(|letter| letter.is_ascii_alphanumeric()) && !text.ends_with("Result")
    });
    let texts: BTreeSet<_> = texts.collect();

    let verbs = [
        "Add",
        "Apply",
        "Attach",
        "Authorize",
        "Configure",
        "Create",
        "Delete",
        "Deregister",
        "Describe",
        "Detach",
        "Modify",
        "Register",
        "Remove",
        "Replace",
        "Revoke",
        "Set",
    ];
    let begins = |text: &str, verb: &str| {
        let rest = text.strip_prefix(verb);
        rest.is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_uppercase()))
    };
    let sent = texts
        .iter()
        .filter(|text| verbs.iter().any(|verb| begins(text, verb)));
    let mut count = 0;
    for action in sent {
        let is_allowed = allowed.iter().any(|pattern| matches(pattern, action));
        assert!(is_allowed, "{action}");
        count += 1;
    }
    assert!(count > 40, "only {count}");

    for pattern in allowed {
        let is_used = texts.iter().any(|text| matches(pattern, text));
        assert!(is_used, "{pattern}");
    }
}

#[test]
fn a_comment_names_the_actions_for_volumes_on_aws() {
    let (plugin, _) = example("example-aws", Vec::new()).configured().unwrap();
    let rule = plugin
        .egress
        .iter()
        .find(|rule| rule.name == "ec2")
        .unwrap();

    let plugin = checkout().join("plugins/aws/src");
    let mut source = String::new();
    sources(&plugin.join("volumes"), &mut source);
    for file in ["volumes.rs", "client/api/ec2/volumes.rs"] {
        source.push_str(&fs::read_to_string(plugin.join(file)).unwrap());
    }
    let sent = source.split("Call::new(Api::Ec2, \"").skip(1);
    let sent: BTreeSet<&str> = sent
        .map(|rest| rest.split('"').next().unwrap())
        .filter(|action| !action.starts_with("Describe"))
        .filter(|action| !rule.actions.iter().any(|allowed| allowed == action))
        .collect();
    assert!(sent.len() > 5, "{sent:?}");

    let text = fs::read_to_string(deploy().join("example-aws/config.yaml")).unwrap();
    let comment = text
        .lines()
        .skip_while(|line| !line.starts_with("# For volumes"));
    let named: BTreeSet<&str> = comment
        .skip(1)
        .map_while(|line| line.strip_prefix("#   "))
        .flat_map(|line| line.split(", "))
        .collect();
    assert_eq!(named, sent);
}

#[test]
fn the_memory_limit_covers_plugin_compiler_and_host() {
    for variant in all() {
        let configured = variant
            .configured()
            .map(|(plugin, _)| plugin.limits().unwrap())
            .unwrap_or_default();
        let settings = [configured, variant.args.plugin_limits.clone()].concat();
        let syncs = variant.args.services.concurrent_service_syncs;
        let syncs = syncs.map_or(ServiceOptions::default().concurrent_syncs, usize::from);
        let limits = plugin_limits::limits(syncs, &settings).unwrap();
        let plugin = limits.memory_total + limits.instances * limits.hostcall_buffer;
        let skydock = skydock_egress::MAX_BODY_MEMORY + (256 << 20);
        let needed = (plugin + limits.compile_memory + skydock) >> 20;
        let resources = container(&variant.pod).resources.as_ref().unwrap();
        assert_eq!(
            resources.limits.as_ref().unwrap()["memory"].0,
            format!("{needed}Mi"),
            "{}",
            variant.folder
        );
    }
}

#[test]
fn the_plugin_cache_is_below_a_writable_mount() {
    for variant in all() {
        let dir = variant
            .args
            .plugin_cache_dir
            .clone()
            .expect("the root file system is read-only");
        let (mount, volume) = variant.mount(&dir).expect("it is mounted");
        assert_ne!(mount.read_only, Some(true));
        assert!(volume.empty_dir.is_some());
        // The root directory of a volume is writable by its group, and is therefore rejected as a
        // directory for machine code.
        assert_ne!(Path::new(&mount.mount_path), dir);
    }
}

#[test]
fn every_mount_is_used_by_a_flag() {
    for variant in all() {
        assert!(
            variant.args.kubeconfig.is_none(),
            "a Pod has its service account"
        );
        let mut asked = variant.read_files();
        asked.push(variant.plugin());
        asked.extend(variant.args.plugin_cache_dir.clone());
        for mount in container(&variant.pod).volume_mounts.iter().flatten() {
            assert!(
                asked.iter().any(|path| path.starts_with(&mount.mount_path)),
                "{} is for nothing",
                mount.mount_path
            );
        }
    }
}

#[test]
fn sidecars_of_csi_use_the_socket_as_the_same_user() {
    let patches = ["components/csi", "components/csi-snapshots"]
        .map(|folder| kustomization(folder).patches.unwrap());
    let with_csi = example("example-openstack", patches.into_iter().flatten().collect());
    let socket = with_csi.args.csi.csi_endpoint.clone().unwrap();
    let (mount, volume) = with_csi.mount(&socket).unwrap();
    assert!(mount.read_only.is_none() && volume.empty_dir.is_some());

    let pod = &with_csi.pod;
    assert!(pod.security_context.as_ref().unwrap().run_as_user.is_some());
    let sidecars = &pod.containers[1..];
    let names: Vec<_> = sidecars.iter().map(|it| it.name.as_str()).collect();
    let expected = [
        "csi-provisioner",
        "csi-attacher",
        "csi-resizer",
        "csi-snapshotter",
    ];
    assert_eq!(names, expected);

    let skydock = container(pod).security_context.clone();
    for sidecar in sidecars {
        let args = sidecar.args.clone().unwrap();
        let address = format!("--csi-address={}", socket.display());
        assert!(args.contains(&address), "{args:?}");
        // A volume that takes long does not keep those of others waiting.
        let workers = ["--worker-threads=100", "--workers=100"];
        assert!(args.iter().any(|arg| workers.contains(&arg.as_str())));
        for flag in ["--timeout=60s", "--kube-api-qps=50", "--kube-api-burst=100"] {
            assert!(args.iter().any(|arg| arg == flag), "{flag}");
        }
        // Those of a standby wait for it.
        assert!(!args.iter().any(|arg| arg.starts_with("--leader-election")));
        assert_eq!(
            sidecar.volume_mounts.clone().unwrap(),
            std::slice::from_ref(mount)
        );
        assert_eq!(sidecar.security_context, skydock);
        let limits = sidecar.resources.clone().unwrap().limits.unwrap();
        assert!(limits.contains_key("memory"));
    }
}

#[test]
fn probes_use_https_on_loopback() {
    for variant in all() {
        let serving = &variant.args.serving;
        assert_eq!(serving.metrics_bind_address, BindAddress::Off);
        assert!(serving.bind_address.is_unspecified());
        let port = i32::from(serving.secure_port);
        let container = container(&variant.pod);
        let probes = [
            &container.startup_probe,
            &container.liveness_probe,
            &container.readiness_probe,
        ];
        for probe in probes {
            let asks = probe
                .as_ref()
                .and_then(|probe| probe.http_get.as_ref())
                .expect("a probe by HTTP");
            assert_eq!(serde_json::to_value(&asks.port).unwrap(), port);
            assert_eq!(asks.scheme.as_deref(), Some("HTTPS"));
            let host: IpAddr = asks.host.as_deref().unwrap().parse().unwrap();
            assert!(host.is_loopback());
            // Nobody may be asked whether the kubelet may do this.
            let path = asks.path.as_ref().unwrap();
            let open = &serving.authorization_always_allow_paths;
            assert!(open.contains(path), "{path}");
        }
        let served = &container.ports.as_ref().expect("a port")[0];
        assert_eq!(
            (served.container_port, served.host_port),
            (port, Some(port))
        );
    }
}

#[test]
fn links_of_the_image_are_known_as_executables() {
    let links: Vec<_> = skydock_image::links().collect();
    assert!(links.contains(&"/bin/aws-cloud-controller-manager"));
    for path in links {
        // Some manifests have it in `args`, with or without its directory.
        let (_, name) = path.rsplit_once('/').unwrap();
        for word in [path, name] {
            let args = cli::parse(["skydock", word, "--v=2"]).unwrap().ccm;
            assert_eq!(args.executables, [word]);
        }
    }
}

#[test]
fn the_user_is_that_of_the_image() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("image");
    fs::create_dir_all(&folder).unwrap();
    for name in PROVIDERS {
        fs::write(folder.join(format!("{name}.wasm")), name).unwrap();
    }
    let program = std::env::current_exe().unwrap();
    let image = skydock_image::skydock(&program, &folder).unwrap();
    for variant in all() {
        let context = variant.pod.security_context.as_ref().unwrap();
        let [user, group] = [context.run_as_user, context.run_as_group].map(Option::unwrap);
        assert_eq!(image.identity(), format!("{user}:{group}"));
    }
}
