use super::*;

struct Services(Vec<Value>);

impl ServiceLister for Services {
    fn services(&self) -> Vec<&Value> {
        self.0.iter().collect()
    }
}

fn create(value: &mut Value, services: &Services) -> Vec<Cause> {
    let causes = begin_create(value, services);
    if causes.is_empty() {
        super::create(value)
    } else {
        causes
    }
}

fn service(spec: &Value) -> Value {
    json!({"metadata": {"namespace": "default", "name": "a"}, "spec": spec})
}

fn created(spec: &Value) -> (Value, Vec<String>) {
    let mut value = service(spec);
    let causes = create(&mut value, &Services(Vec::new()));
    (value, causes.into_iter().map(|cause| cause.field).collect())
}

fn good(spec: &Value) -> Value {
    let (value, causes) = created(spec);
    assert!(causes.is_empty(), "{causes:?}");
    value
}

fn updated(old: &Value, change: impl FnOnce(&mut Value)) -> (Value, Vec<String>) {
    let mut value = old.clone();
    change(&mut value);
    let causes = update(&mut value, old, &Services(vec![old.clone()]));
    (value, causes.into_iter().map(|cause| cause.field).collect())
}

#[test]
fn a_load_balancer_gets_the_defaults_of_an_api_server() {
    let value = good(
        &json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}),
    );
    let spec = &value["spec"];
    let (ip, check, port) = (
        &spec["clusterIP"],
        &spec["healthCheckNodePort"],
        &spec["ports"][0]["nodePort"],
    );

    assert!(
        ip.as_str().unwrap().starts_with("10.96.") && check != port,
        "{value}"
    );
    assert!(
        [check, port]
            .iter()
            .all(|port| (30_086..=32_767).contains(&port.as_i64().unwrap())),
        "{value}"
    );

    assert_eq!(
        *spec,
        json!({
            "type": "LoadBalancer", "clusterIP": ip, "clusterIPs": [ip], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "externalTrafficPolicy": "Local", "allocateLoadBalancerNodePorts": true, "healthCheckNodePort": check,
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": port}],
        })
    );
    assert_eq!(value["status"], json!({"loadBalancer": {}}));
}

#[test]
fn other_types_get_only_the_fields_they_need() {
    let cluster = good(&json!({"ports": [{"port": 80, "targetPort": "http"}]}));
    assert_eq!(cluster["spec"]["type"], "ClusterIP");
    assert!(
        cluster["spec"].get("externalTrafficPolicy").is_none()
            && cluster["spec"]["ports"][0].get("nodePort").is_none()
    );
    let headless = good(&json!({"clusterIP": "None"}));
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    let name = good(&json!({"type": "ExternalName", "externalName": "a.example"}));
    assert!(
        name["spec"].get("clusterIP").is_none()
            && name["spec"].get("internalTrafficPolicy").is_none()
    );
    let without = good(
        &json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}]}),
    );
    assert!(without["spec"]["ports"][0].get("nodePort").is_none());
}

#[test]
fn cluster_ips_and_node_ports_are_not_allocated_twice() {
    let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
    let mut first = good(&spec);
    first["metadata"]["name"] = "first".into();
    let existing = Services(vec![first.clone()]);
    let mut second = service(&spec);
    assert!(create(&mut second, &existing).is_empty());
    let taken = |service: &Value| {
        (
            service["spec"]["clusterIP"].clone(),
            service["spec"]["ports"][0]["nodePort"].clone(),
        )
    };
    let ((ip, port), (other_ip, other_port)) = (taken(&first), taken(&second));
    assert!(ip != other_ip && port != other_port, "{second}");
    let mut greedy = service(
        &json!({"type": "NodePort", "clusterIP": ip, "ports": [{"port": 80, "nodePort": port}]}),
    );
    let fields: Vec<_> = create(&mut greedy, &existing)
        .into_iter()
        .map(|cause| cause.field)
        .collect();
    assert_eq!(fields, ["spec.clusterIPs", "spec.ports[0].nodePort"]);
}

#[test]
fn every_validation_error_names_its_field() {
    for (spec, expected) in [
        (json!({}), "spec.ports"),
        (
            json!({"type": "Magic", "ports": [{"port": 80}]}),
            "spec.type",
        ),
        (
            json!({"ports": [{"port": 0, "targetPort": 80}]}),
            "spec.ports[0].port",
        ),
        (
            json!({"ports": [{"port": 80, "name": "a"}, {"port": 81}]}),
            "spec.ports[1].name",
        ),
        (
            json!({"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]}),
            "spec.ports[1].name",
        ),
        (
            json!({"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]}),
            "spec.ports[1]",
        ),
        (
            json!({"ports": [{"port": 80, "protocol": "ICMP"}]}),
            "spec.ports[0].protocol",
        ),
        (
            json!({"ports": [{"port": 80, "nodePort": 30000}]}),
            "spec.ports[0].nodePort",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            "spec.ports[0].nodePort",
        ),
        (json!({"type": "ExternalName"}), "spec.externalName"),
        (
            json!({"ports": [{"port": 80}], "loadBalancerClass": "a"}),
            "spec.loadBalancerClass",
        ),
        (
            json!({"ports": [{"port": 80}], "loadBalancerSourceRanges": ["10.0.0.0/8"]}),
            "spec.LoadBalancerSourceRanges",
        ),
        (
            json!({"type": "LoadBalancer", "ports": [{"port": 80}], "loadBalancerSourceRanges": ["10.0.0.0/33"]}),
            "spec.loadBalancerSourceRanges[0]",
        ),
        (
            json!({"ports": [{"port": 80}], "externalTrafficPolicy": "Local"}),
            "spec.externalTrafficPolicy",
        ),
        (
            json!({"ports": [{"port": 80}], "ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]",
        ),
        (
            json!({"ports": [{"port": 80}], "clusterIP": "10.0.0.1"}),
            "spec.clusterIPs",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80}], "clusterIP": "None"}),
            "spec.clusterIPs[0]",
        ),
    ] {
        assert_eq!(created(&spec).1, [expected], "{spec}");
    }
}

#[test]
fn an_update_without_allocations_keeps_them() {
    let old = good(
        &json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}),
    );
    let plain =
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]});
    let (value, causes) = updated(&old, |value| value["spec"] = plain);
    assert!(causes.is_empty(), "{causes:?}");
    assert_eq!(value, old);
}

#[test]
fn a_former_load_balancer_loses_its_fields_and_status() {
    let mut old = good(
        &json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "loadBalancerClass": "a/b", "ports": [{"port": 80}]}),
    );
    old["status"] = json!({"loadBalancer": {"ingress": [{"ip": "1.1.1.1", "ipMode": "VIP"}]}});
    let (value, causes) = updated(&old, |value| value["spec"]["type"] = "ClusterIP".into());
    assert!(causes.is_empty(), "{causes:?}");
    for gone in [
        "healthCheckNodePort",
        "externalTrafficPolicy",
        "loadBalancerClass",
        "allocateLoadBalancerNodePorts",
    ] {
        assert!(value["spec"].get(gone).is_none(), "{gone}");
    }
    assert!(value["spec"]["ports"][0].get("nodePort").is_none());
    assert_eq!(value["spec"]["clusterIP"], old["spec"]["clusterIP"]);
    assert_eq!(value["status"], json!({"loadBalancer": {}}));
    let (value, _) = updated(&old, |value| {
        value["spec"] =
            json!({"type": "ExternalName", "externalName": "x", "ports": old["spec"]["ports"]});
    });
    assert!(value["spec"].get("clusterIP").is_none());
}

#[test]
fn immutable_fields_cannot_be_changed() {
    let old = good(
        &json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "loadBalancerClass": "a", "ports": [{"port": 80}]}),
    );
    for (field, given, expected) in [
        (
            "loadBalancerClass",
            json!("b"),
            vec!["spec.loadBalancerClass"],
        ),
        (
            "loadBalancerClass",
            Value::Null,
            vec!["spec.loadBalancerClass"],
        ),
        ("clusterIP", json!("10.96.0.9"), vec!["spec.clusterIPs[0]"]),
        (
            "healthCheckNodePort",
            json!(30009),
            vec!["spec.healthCheckNodePort"],
        ),
    ] {
        let (_, causes) = updated(&old, |value| {
            as_map(&mut value["spec"]).remove(field);
            if !given.is_null() {
                value["spec"][field] = given;
            }
        });
        assert_eq!(causes, expected, "{field}");
    }
}

#[test]
fn a_status_needs_a_load_balancer_and_gets_an_ip_mode() {
    let mut value = good(&json!({"type": "LoadBalancer", "ports": [{"port": 80}]}));
    value["status"] =
        json!({"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}, {"hostname": "a.example"}]}});
    assert!(update_status(&mut value).is_empty());
    let ingress = json!([{"ip": "1.1.1.1", "ipMode": "VIP"}, {"hostname": "a.example"}]);
    assert_eq!(value["status"]["loadBalancer"]["ingress"], ingress);
    value["status"] = json!({"loadBalancer": {"ingress": [{"ip": "x"}, {"hostname": "1.1.1.1"}, {"hostname": "a", "ipMode": "VIP"}]}});
    assert_eq!(update_status(&mut value).len(), 3);
    let mut plain = good(&json!({"ports": [{"port": 80}]}));
    plain["status"] = json!({"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}});
    assert_eq!(update_status(&mut plain).len(), 1);
}
