//! The probes and hooks of a container: what asks its server, or runs a program in it.

use serde_json::{Map, Value};

use super::container::Arguments;

/// The port of Skydock's server.
const PORT: u16 = 10258;
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
/// The first parts of the paths that this server has.
const SERVED: [&str; 4] = ["healthz", "livez", "metrics", "readyz"];

/// Returns what is said about probes and hooks that the old program, or its image, has answered.
pub(super) fn unanswered(container: &Map<String, Value>, arguments: &Arguments) -> Vec<String> {
    let secure_port = arguments.value("secure-port");
    let secure_port = secure_port.map_or(Some(PORT), |port| port.parse().ok());
    let lifecycle = container.get("lifecycle");
    let hooks = ["postStart", "preStop"].map(|hook| (hook, lifecycle.and_then(|it| it.get(hook))));
    let probes = PROBES.map(|probe| (probe, container.get(probe)));

    let all = probes.into_iter().chain(hooks);
    all.filter_map(|(field, handler)| {
        let handler = handler?;
        let is_probe = PROBES.contains(&field);
        let instead = if is_probe {
            "write an httpGet of /healthz"
        } else {
            "remove it"
        };

        let has = |kind: &str| handler.get(kind).is_some();
        let problem = if has("exec") {
            "runs a program, and Skydock's image has none but Skydock".to_owned()
        } else if has("grpc") {
            "asks by gRPC, which Skydock does not serve".to_owned()
        } else if is_probe {
            problem_of_request(handler.get("httpGet")?, container, secure_port)?
        } else if has("httpGet") || has("tcpSocket") {
            "asks a server, perhaps that of the old program".to_owned()
        } else {
            return None;
        };
        Some(format!("{field} {problem}: {instead}"))
    })
    .collect()
}

/// Returns why Skydock does not answer the request of a probe.
fn problem_of_request(
    get: &Value,
    container: &Map<String, Value>,
    secure_port: Option<u16>,
) -> Option<String> {
    let path = get.get("path").and_then(Value::as_str).unwrap_or("/");
    let mut parts = path.trim_start_matches('/').split(['/', '?']);
    if !SERVED.contains(&parts.next()?) {
        return Some("asks for a path that Skydock does not have".to_owned());
    }

    let is_secure = get.get("scheme").is_some_and(|scheme| scheme == "HTTPS");
    let port = port(get.get("port")?, container).filter(|_| is_secure)?;
    let served = secure_port.filter(|served| u64::from(*served) != port)?;
    Some(format!(
        "asks port {port} by HTTPS, but --secure-port is {served}"
    ))
}

/// Returns the number of a port, which may be that of a name.
fn port(port: &Value, container: &Map<String, Value>) -> Option<u64> {
    let Some(name) = port.as_str() else {
        return port.as_u64();
    };
    let ports = container.get("ports").and_then(Value::as_array);
    let named = ports.into_iter().flatten();
    let mut named = named.filter(|port| port.get("name").is_some_and(|it| it == name));
    named.next()?.get("containerPort")?.as_u64()
}

/// Lets probes ask Skydock's server. Those by HTTPS do already, as the flags of the server stay.
pub(super) fn move_probes(
    container: &mut Map<String, Value>,
    arguments: &mut Arguments,
    on_host: bool,
) {
    let port = arguments.value("secure-port");
    let port = port.and_then(|port| port.parse().ok()).unwrap_or(PORT);
    let is_secure = port != 0;

    let mut moved = false;
    for probe in PROBES {
        let Some((handler, target)) = container.get_mut(probe).and_then(connection) else {
            continue;
        };
        if target.get("scheme").is_some_and(|scheme| scheme == "HTTPS") {
            continue;
        }
        moved = true;

        if !is_secure {
            target.insert("port".to_owned(), PORT.into());
            if on_host {
                target.insert("host".to_owned(), "127.0.0.1".into());
            }
            continue;
        }
        target.insert("port".to_owned(), port.into());
        // A connection without a request has no scheme.
        if handler == "httpGet" {
            target.insert("scheme".to_owned(), "HTTPS".into());
            let note = format!("{probe}: HTTP became HTTPS, which Skydock serves");
            arguments.notes.push(note);
        }
    }

    // The kubelet asks the address of the Pod, unless that is the node's.
    if !is_secure && moved && arguments.value("metrics-bind-address").is_none() {
        let host = if on_host { "127.0.0.1" } else { "" };
        arguments
            .kept
            .push(format!("--metrics-bind-address={host}:{PORT}"));
        if host.is_empty() {
            let note = "metrics and health are plain HTTP on all addresses of the Pod, for its probes; restrict them with a NetworkPolicy";
            arguments.notes.push(note.to_owned());
        }
    }
}

/// Returns how a probe connects, and the fields that say where.
fn connection(probe: &mut Value) -> Option<(&'static str, &mut Map<String, Value>)> {
    let probe = probe.as_object_mut()?;
    let handlers = ["httpGet", "tcpSocket"];
    let handler = handlers
        .into_iter()
        .find(|handler| probe.contains_key(*handler))?;
    Some((handler, probe.get_mut(handler)?.as_object_mut()?))
}
