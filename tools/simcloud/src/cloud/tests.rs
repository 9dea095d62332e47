//! The cloud with a clock of the test.
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::api::answer::{Answer, Request};
use crate::api::parse;

/// A cloud, and the time.
struct World {
    cloud: Cloud,
    now: u64,
}

impl World {
    fn new(servers: u32) -> Self {
        Self {
            cloud: Cloud::new(&Options {
                servers,
                ..Options::default()
            }),
            now: 0,
        }
    }

    fn ask(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let request = Request {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            authorization: Some("Bearer simcloud".to_owned()),
            body: if body.is_null() {
                Vec::new()
            } else {
                body.to_string().into_bytes()
            },
            ..Request::default()
        };
        match self
            .cloud
            .handle(Duration::from_millis(self.now), &request)
            .answer
        {
            Answer::Reply(reply) => (
                reply.status,
                serde_json::from_str(&reply.body).unwrap_or_default(),
            ),
            Answer::Cut => (0, Value::Null),
        }
    }

    fn get(&mut self, path: &str) -> Value {
        self.ask("GET", path, &Value::Null).1
    }
}

fn balancer(name: &str) -> Value {
    json!({"name": name, "listeners": [{"protocol": "tcp", "port": 80, "target_port": 30080}], "targets": ["srv-1"]})
}

#[test]
fn a_load_balancer_is_pending_then_active() {
    let mut world = World::new(1);
    world.ask("PATCH", "/_sim/settings", &json!({"lb_delay_ms": 2000}));
    let (status, created) = world.ask("POST", "/v1/load-balancers", &balancer("web"));
    assert_eq!(
        (status, &created["status"], &created["addresses"]),
        (201, &json!("pending"), &json!([]))
    );

    world.now = 1999;
    let (status, error) = world.ask("PATCH", "/v1/load-balancers/lb-1", &json!({"targets": []}));
    assert_eq!((status, &error["code"]), (409, &json!("pending")));

    world.now = 2000;
    let active = world.get("/v1/load-balancers/lb-1");
    assert_eq!(
        (&active["status"], &active["addresses"]),
        (&json!("active"), &json!(["198.19.0.1"]))
    );
    assert_eq!(
        world
            .ask("PATCH", "/v1/load-balancers/lb-1", &json!({"targets": []}))
            .0,
        200
    );
}

#[test]
fn a_pending_load_balancer_can_be_deleted() {
    let mut world = World::new(1);
    world.ask("PATCH", "/_sim/settings", &json!({"lb_delay_ms": 2000}));
    world.ask("POST", "/v1/load-balancers", &balancer("web"));
    assert_eq!(
        world
            .ask("DELETE", "/v1/load-balancers/lb-1", &Value::Null)
            .0,
        204
    );
    assert_eq!(
        world
            .ask("DELETE", "/v1/load-balancers/lb-1", &Value::Null)
            .0,
        404
    );

    let again = world.ask("POST", "/v1/load-balancers", &balancer("web"));
    assert_eq!((again.0, &again.1["id"]), (201, &json!("lb-2")));
}

#[test]
fn an_address_is_used_once_at_a_time() {
    let mut world = World::new(1);
    let create = |world: &mut World, name| {
        world.ask("POST", "/v1/load-balancers", &balancer(name)).1["addresses"][0].clone()
    };
    assert_eq!(
        [create(&mut world, "a"), create(&mut world, "b")],
        ["198.19.0.1", "198.19.0.2"]
    );

    world.ask("DELETE", "/v1/load-balancers/lb-1", &Value::Null);
    assert_eq!(
        [create(&mut world, "c"), create(&mut world, "d")],
        ["198.19.0.1", "198.19.0.3"]
    );

    let both = json!({"name": "e", "ip_families": ["ipv6", "ipv4"], "listeners": balancer("e")["listeners"]});
    let addresses = world.ask("POST", "/v1/load-balancers", &both).1["addresses"].clone();
    assert_eq!(addresses, json!(["2001:db8:ffff::4", "198.19.0.4"]));
}

#[test]
fn health_follows_servers_unless_a_test_sets_it() {
    let mut world = World::new(2);
    let path = "/v1/load-balancers/lb-1";
    world.ask("POST", "/v1/load-balancers", &balancer("web"));
    world.ask(
        "PATCH",
        path,
        &json!({"targets": ["srv-1", "srv-2", "10.0.0.2", "192.0.2.1"]}),
    );
    let health = |world: &mut World, hook: (&str, &str, Value)| {
        world.ask(hook.0, hook.1, &hook.2);
        let health = world.get(path)["health"].clone();
        ["srv-1", "srv-2", "10.0.0.2", "192.0.2.1"].map(|target| health[target] == "healthy")
    };

    assert_eq!(
        health(&mut world, ("GET", "/_sim/state", Value::Null)),
        [true, true, true, false]
    );

    let stop = ("PATCH", "/_sim/servers/srv-2", json!({"state": "stopped"}));
    assert_eq!(health(&mut world, stop), [true, false, false, false]);

    let set = (
        "PATCH",
        "/_sim/load-balancers/lb-1",
        json!({"health": {"srv-1": "unhealthy", "srv-2": "healthy"}}),
    );
    assert_eq!(health(&mut world, set), [false, true, false, false]);

    let delete = ("DELETE", "/_sim/servers/srv-2", Value::Null);
    assert_eq!(health(&mut world, delete), [false, true, false, false]);

    let (status, error) = world.ask(
        "PATCH",
        "/_sim/load-balancers/lb-1",
        &json!({"health": {"srv-9": "healthy"}}),
    );
    assert_eq!((status, &error["field"]), (400, &json!("health")));
}

#[test]
fn a_broken_load_balancer_can_only_be_deleted() {
    let mut world = World::new(1);
    world.ask("POST", "/v1/load-balancers", &balancer("web"));
    assert_eq!(
        world
            .ask(
                "PATCH",
                "/_sim/load-balancers/lb-1",
                &json!({"status": "error"})
            )
            .1["status"],
        "error"
    );
    assert_eq!(
        world
            .ask("PATCH", "/v1/load-balancers/lb-1", &json!({"targets": []}))
            .1["status"],
        "error"
    );
    assert_eq!(
        world
            .ask(
                "PATCH",
                "/_sim/load-balancers/lb-1",
                &json!({"status": "active"})
            )
            .0,
        400
    );
    assert_eq!(
        world
            .ask("DELETE", "/v1/load-balancers/lb-1", &Value::Null)
            .0,
        204
    );
}

#[test]
fn a_change_leaves_other_fields_alone() {
    let mut world = World::new(1);
    world.ask("POST", "/v1/load-balancers", &balancer("web"));
    let path = "/v1/load-balancers/lb-1";
    for change in [
        json!({"labels": {"a": "b"}}),
        json!({"allowed_cidrs": ["10.0.0.0/8"]}),
        json!({"health_check_port": 1}),
        json!({"listeners": [{"protocol": "udp", "port": 53, "target_port": 30053}]}),
        json!({"targets": []}),
        json!({}),
    ] {
        let mut expected = world.get(path);
        for (field, value) in change.as_object().unwrap() {
            expected[field] = value.clone();
        }
        if change.get("targets").is_some() {
            expected["health"] = json!({});
        }
        assert_eq!(
            world.ask("PATCH", path, &change),
            (200, expected),
            "{change}"
        );
    }

    assert_eq!(
        world
            .ask("PATCH", path, &json!({"health_check_port": null}))
            .1["health_check_port"],
        Value::Null
    );
}

#[test]
fn invalid_input_names_its_field() {
    let mut world = World::new(1);
    let with = |field: &str, value: Value| {
        let mut body = balancer("web");
        body[field] = value;
        ("/v1/load-balancers", body)
    };
    let route = |cidr: &str, target: &str| {
        (
            "/v1/routes",
            json!({"name": "r", "cidr": cidr, "target": target}),
        )
    };
    let listener = |port: u32| json!({"protocol": "tcp", "port": port, "target_port": 1});
    let server = |body: Value| ("/_sim/servers", body);
    for ((path, body), field) in [
        (with("name", json!("")), "name"),
        (with("size", json!(1)), "size"),
        (with("listeners", json!([])), "listeners"),
        (with("listeners", json!([listener(0)])), "listeners[0].port"),
        (
            with("listeners", json!([listener(65536)])),
            "listeners[0].port",
        ),
        (
            with("listeners", json!([listener(1), listener(1)])),
            "listeners[1]",
        ),
        (with("targets", json!(["srv-1", "web"])), "targets[1]"),
        (with("targets", json!(["srv-1", "srv-1"])), "targets[1]"),
        (
            with("allowed_cidrs", json!(["10.0.0.1/8"])),
            "allowed_cidrs[0]",
        ),
        (with("ip_families", json!([])), "ip_families"),
        (
            with("ip_families", json!(["ipv4", "ipv4"])),
            "ip_families[1]",
        ),
        (with("labels", json!({"a": "\n"})), "labels.a"),
        (with("id", json!("lb-7")), "id"),
        (route("10.0.0.1/24", "srv-1"), "cidr"),
        (route("10.0.0.0/24", "srv-2"), "target"),
        (server(json!({})), "name"),
        (server(json!({"name": "n", "zone": "nowhere"})), "zone"),
        (server(json!({"name": "n", "type": ""})), "type"),
        (
            server(json!({"name": "n", "addresses": [{"kind": "internal", "address": "x"}]})),
            "addresses[0].address",
        ),
        (("/_sim/advance", json!({"ms": 86_400_001})), "ms"),
    ] {
        let (status, error) = world.ask("POST", path, &body);
        assert_eq!(
            (status, &error["field"]),
            (400, &json!(field)),
            "{body} {error}"
        );
    }

    let (status, error) = world.ask("PATCH", "/_sim/settings", &json!({"lag_ms": 60_001}));
    assert_eq!((status, &error["field"]), (400, &json!("lag_ms")));
    assert_eq!(
        world
            .ask("GET", "/v1/servers/srv-1?limit=1", &Value::Null)
            .1["field"],
        "limit"
    );
    assert_eq!(world.get("/_sim/state")["load_balancers"], json!([]));
}

#[test]
fn names_of_routes_are_unique_and_targets_may_vanish() {
    let mut world = World::new(1);
    let route = json!({"name": "r", "cidr": "10.0.0.0/24", "target": "srv-1"});
    assert_eq!(
        world.ask("POST", "/v1/routes", &route).1["blackhole"],
        false
    );

    let (status, error) = world.ask("POST", "/v1/routes", &route);
    assert_eq!(
        (status, &error["code"], &error["id"]),
        (409, &json!("exists"), &json!("rt-1"))
    );

    world.ask("DELETE", "/_sim/servers/srv-1", &Value::Null);
    assert_eq!(world.get("/v1/routes")["items"][0]["blackhole"], true);
    assert_eq!(world.ask("DELETE", "/v1/routes/rt-1", &Value::Null).0, 204);
}

#[test]
fn quotas_are_an_error_of_their_own() {
    let mut world = World::new(10_000);
    let (status, error) = world.ask("POST", "/_sim/servers", &json!({"name": "n"}));
    assert_eq!((status, &error["code"]), (403, &json!("quota")));

    for number in 0..1000 {
        assert_eq!(
            world
                .ask(
                    "POST",
                    "/v1/load-balancers",
                    &balancer(&format!("b{number}"))
                )
                .0,
            201
        );
    }
    let (status, error) = world.ask("POST", "/v1/load-balancers", &balancer("more"));
    assert_eq!((status, &error["code"]), (403, &json!("quota")));
    assert_eq!(
        world.ask("POST", "/v1/load-balancers", &balancer("b7")).0,
        409
    );
}

#[test]
fn a_large_body_is_rejected() {
    let mut world = World::new(0);
    let labels = json!({"name": "x".repeat(parse::BODY)});
    assert_eq!(world.ask("POST", "/v1/routes", &labels).0, 413);
}

#[test]
fn a_failure_after_the_effect_hides_the_answer() {
    let mut world = World::new(1);
    for (failure, answer, there) in [
        (json!({"operation": "load-balancers.create"}), 0, 0),
        (
            json!({"operation": "load-balancers.*", "status": 500}),
            500,
            0,
        ),
        (
            json!({"operation": "*.create", "status": 504, "after": true}),
            504,
            1,
        ),
    ] {
        assert_eq!(world.ask("POST", "/_sim/failures", &failure).0, 201);
        assert_eq!(
            world.ask("POST", "/v1/load-balancers", &balancer("web")).0,
            answer,
            "{failure}"
        );
        assert_eq!(
            world.get("/v1/load-balancers")["items"]
                .as_array()
                .unwrap()
                .len(),
            there,
            "{failure}"
        );
    }
    assert_eq!(world.get("/_sim/failures"), json!([]));
}

#[test]
fn a_list_lags_from_the_first_moment() {
    for lag in [1, 60_000] {
        let mut world = World::new(1);
        world.ask("PATCH", "/_sim/settings", &json!({"lag_ms": lag}));
        world.ask("POST", "/v1/load-balancers", &balancer("web"));
        world.now = lag - 1;
        assert_eq!(world.get("/v1/load-balancers")["items"], json!([]), "{lag}");
        assert_eq!(world.get("/v1/servers")["items"][0]["id"], "srv-1", "{lag}");
        world.now = lag;
        assert_eq!(
            world.get("/v1/load-balancers")["items"][0]["id"],
            "lb-1",
            "{lag}"
        );
    }
}

#[test]
fn a_reset_restores_the_start() {
    let mut world = World::new(1);
    let before = world.get("/_sim/state");
    world.ask("POST", "/v1/load-balancers", &balancer("web"));
    world.ask("POST", "/_sim/servers", &json!({"name": "n"}));
    world.ask("PATCH", "/_sim/settings", &json!({"lag_ms": 5}));
    world.ask("POST", "/_sim/failures", &json!({"operation": "*.*"}));

    assert_eq!(world.ask("POST", "/_sim/reset", &Value::Null).0, 204);
    assert_eq!(world.get("/_sim/state"), before);
    assert_eq!(
        (
            &world.get("/_sim/settings")["lag_ms"],
            world.get("/_sim/calls")
        ),
        (&json!(0), json!({"calls": []}))
    );
    assert_eq!(
        world.ask("POST", "/v1/load-balancers", &balancer("web")).1["id"],
        "lb-1"
    );
}

#[test]
fn hooks_have_no_other_paths() {
    let mut world = World::new(1);
    for (method, path) in [
        ("GET", "/_sim/"),
        ("PUT", "/_sim/state"),
        ("GET", "/_sim/servers"),
        ("GET", "/_sim/state/x"),
    ] {
        assert_eq!(
            world.ask(method, path, &Value::Null).0,
            404,
            "{method} {path}"
        );
    }
    assert_eq!(world.ask("GET", "/_sim/calls?after=x", &Value::Null).0, 400);
}

/// Returns a cloud with servers in the zones a, b and c, and a volume in zone a.
fn with_volume(delay: u64) -> World {
    let mut world = World::new(3);
    world.ask(
        "PATCH",
        "/_sim/settings",
        &json!({"volume_delay_ms": delay}),
    );
    let new = json!({"name": "data", "size_gib": 10, "zone": "zone-a"});
    let (status, _) = world.ask("POST", "/v1/volumes", &new);
    assert_eq!(status, 201);
    world
}

/// Returns the status, the server and the device of the volume.
fn place(world: &mut World) -> [Value; 3] {
    let volume = world.get("/v1/volumes/vol-1");
    ["status", "server", "device"].map(|field| volume[field].clone())
}

#[test]
fn a_volume_takes_its_time() {
    let mut world = with_volume(1000);
    let path = "/v1/volumes/vol-1";
    let attach = json!({"server": "srv-1"});
    assert_eq!(
        place(&mut world),
        [json!("creating"), Value::Null, Value::Null]
    );
    let (status, error) = world.ask("PATCH", path, &attach);
    assert_eq!((status, &error["code"]), (409, &json!("pending")));

    world.now = 1000;
    assert_eq!(place(&mut world)[0], "available");
    assert_eq!(world.ask("PATCH", path, &attach).0, 200);
    let attaching = [json!("attaching"), json!("srv-1"), Value::Null];
    assert_eq!(place(&mut world), attaching);

    world.now = 2000;
    let in_use = [json!("in-use"), json!("srv-1"), json!("/dev/vdb")];
    assert_eq!(place(&mut world), in_use);
    assert_eq!(world.ask("PATCH", path, &attach).0, 200, "it is attached");
    assert_eq!(place(&mut world), in_use);
    let (status, error) = world.ask("PATCH", path, &json!({"server": "srv-2"}));
    assert_eq!((status, &error["code"]), (409, &json!("in_use")));
    assert_eq!(world.ask("DELETE", path, &Value::Null).0, 409);

    let detach = json!({"server": null});
    assert_eq!(world.ask("PATCH", path, &detach).0, 200);
    let detaching = [json!("detaching"), json!("srv-1"), Value::Null];
    assert_eq!(place(&mut world), detaching);
    world.now = 3000;
    let available = [json!("available"), Value::Null, Value::Null];
    assert_eq!(place(&mut world), available);
    assert_eq!(world.ask("PATCH", path, &detach).0, 200, "it is detached");
    assert_eq!(world.ask("DELETE", path, &Value::Null).0, 204);
    assert_eq!(world.ask("DELETE", path, &Value::Null).0, 404);
}

#[test]
fn a_volume_is_attached_to_one_of_few_servers() {
    let mut world = with_volume(0);
    let path = "/v1/volumes/vol-1";
    for (server, status, expected) in [
        ("srv-2", 400, json!("server")),
        ("srv-9", 404, Value::Null),
        ("srv-1", 200, Value::Null),
    ] {
        let (found, answer) = world.ask("PATCH", path, &json!({"server": server}));
        assert_eq!((found, &answer["field"]), (status, &expected), "{server}");
    }

    // The server disappears, and its disks with it.
    world.ask("DELETE", "/_sim/servers/srv-1", &Value::Null);
    let available = [json!("available"), Value::Null, Value::Null];
    assert_eq!(place(&mut world), available);
    world.ask(
        "POST",
        "/_sim/servers",
        &json!({"name": "n", "zone": "zone-a"}),
    );
    assert_eq!(world.ask("PATCH", path, &json!({"server": "srv-4"})).0, 200);

    for number in 2..=16 {
        let new = json!({"name": format!("data-{number}"), "size_gib": 1, "zone": "zone-a"});
        world.ask("POST", "/v1/volumes", &new);
        let path = format!("/v1/volumes/vol-{number}");
        let attached = world.ask("PATCH", &path, &json!({"server": "srv-4"}));
        assert_eq!(attached.0, 200, "{number}");
    }
    let new = json!({"name": "data-17", "size_gib": 1, "zone": "zone-a"});
    world.ask("POST", "/v1/volumes", &new);
    let path = "/v1/volumes/vol-17";
    let (status, error) = world.ask("PATCH", path, &json!({"server": "srv-4"}));
    assert_eq!((status, &error["code"]), (403, &json!("quota")));

    world.ask("PATCH", "/v1/volumes/vol-2", &json!({"server": null}));
    let attached = world.ask("PATCH", path, &json!({"server": "srv-4"})).1;
    assert_eq!(attached["device"], "/dev/vdc", "the place is free again");
}

#[test]
fn what_a_volume_cannot_be_is_rejected() {
    let mut world = with_volume(0);
    let post = |world: &mut World, field: &str, value: Value| {
        let mut new = json!({"name": "other", "size_gib": 10, "zone": "zone-a"});
        new[field] = value;
        let (status, error) = world.ask("POST", "/v1/volumes", &new);
        (status, error["field"].clone())
    };
    for (field, value, status) in [
        ("name", json!("data"), 409),
        ("name", json!("a b"), 400),
        ("size_gib", json!(0), 400),
        ("size_gib", json!(16_385), 400),
        ("iops", json!(99), 400),
        ("zone", json!("zone-z"), 400),
        ("color", json!("red"), 400),
    ] {
        assert_eq!(post(&mut world, field, value), (status, json!(field)));
    }
    assert_eq!(post(&mut world, "snapshot", json!("snap-1")).0, 404);

    let path = "/v1/volumes/vol-1";
    for (field, value) in [("size_gib", json!(9)), ("iops", json!(100_001))] {
        let (status, error) = world.ask("PATCH", path, &json!({field: value}));
        assert_eq!((status, &error["field"]), (400, &json!(field)));
    }
    let larger = json!({"size_gib": 20, "iops": 100});
    let changed = world.ask("PATCH", path, &larger).1;
    assert_eq!([&changed["size_gib"], &changed["iops"]], [20, 100]);

    world.ask("PATCH", "/_sim/volumes/vol-1", &json!({"status": "error"}));
    assert_eq!(place(&mut world)[0], "error");
    assert_eq!(world.ask("PATCH", path, &larger).0, 409);
    assert_eq!(world.ask("DELETE", path, &Value::Null).0, 204);
}

#[test]
fn a_volume_is_copied_in_its_zone() {
    let mut world = with_volume(1000);
    let copy = |size: u32, zone: &str| json!({"name": "copy", "size_gib": size, "zone": zone, "original": "vol-1"});
    let created = world.ask("POST", "/v1/volumes", &copy(10, "zone-a"));
    assert_eq!(created.0, 409, "the original is being created");

    world.now = 1000;
    for (new, field) in [
        (copy(10, "zone-b"), "original"),
        (copy(9, "zone-a"), "size_gib"),
        (
            json!({"name": "copy", "size_gib": 10, "zone": "zone-a", "original": "vol-1", "snapshot": "snap-1"}),
            "original",
        ),
    ] {
        let (status, error) = world.ask("POST", "/v1/volumes", &new);
        assert_eq!((status, &error["field"]), (400, &json!(field)), "{new}");
    }
    let created = world.ask("POST", "/v1/volumes", &copy(11, "zone-a")).1;
    assert_eq!(created["original"], "vol-1");

    world.ask("DELETE", "/v1/volumes/vol-1", &Value::Null);
    let (status, error) = world.ask("POST", "/v1/volumes", &copy(11, "zone-a"));
    assert_eq!((status, &error["id"]), (409, &created["id"]));
    let other = json!({"name": "other", "size_gib": 10, "zone": "zone-a", "original": "vol-1"});
    assert_eq!(world.ask("POST", "/v1/volumes", &other).0, 404);
}

#[test]
fn a_snapshot_outlives_its_volume() {
    let mut world = with_volume(1000);
    let new = json!({"name": "s", "volume": "vol-1"});
    world.now = 1000;
    let (status, snapshot) = world.ask("POST", "/v1/snapshots", &new);
    assert_eq!(
        (status, &snapshot["size_gib"], &snapshot["ready"]),
        (201, &json!(10), &json!(false))
    );
    let (status, error) = world.ask("POST", "/v1/snapshots", &new);
    assert_eq!((status, &error["id"]), (409, &json!("snap-1")));

    let volume = |size: u32| json!({"name": "copy", "size_gib": size, "zone": "zone-b", "snapshot": "snap-1"});
    assert_eq!(world.ask("POST", "/v1/volumes", &volume(10)).0, 409);
    world.now = 2000;
    world.ask("DELETE", "/v1/volumes/vol-1", &Value::Null);
    let (status, error) = world.ask("POST", "/v1/volumes", &volume(9));
    assert_eq!((status, &error["field"]), (400, &json!("size_gib")));
    let copy = world.ask("POST", "/v1/volumes", &volume(10)).1;
    assert_eq!(copy["snapshot"], "snap-1");

    let again = world.ask("POST", "/v1/snapshots", &new);
    assert_eq!(
        again.0, 409,
        "its name is used, although its volume is gone"
    );
    let path = "/v1/snapshots/snap-1";
    assert_eq!(world.ask("DELETE", path, &Value::Null).0, 204);
    assert_eq!(world.ask("GET", path, &Value::Null).0, 404);
}
