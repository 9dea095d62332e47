//! The hooks of tests, under `/_sim`.
use serde::{Deserialize, Serialize};

use super::Cloud;
use crate::api::answer::{Reply, Request};
use crate::api::calls::Call;
use crate::api::error::{Error, Result};
use crate::failures::Failure;
use crate::history::Millis;
use crate::{
    api::parse,
    resources::{load_balancers, routes, servers, snapshots, volumes},
};

/// Maximum number of milliseconds that pass at once: a day.
const ADVANCE: Millis = 86_400_000;

/// Everything that exists.
#[derive(Debug, Serialize)]
struct State<'a> {
    servers: Vec<servers::View<'a>>,
    load_balancers: Vec<load_balancers::View<'a>>,
    routes: Vec<routes::View<'a>>,
    volumes: Vec<volumes::View<'a>>,
    snapshots: Vec<snapshots::View<'a>>,
}

#[derive(Debug, Serialize)]
struct Log<'a> {
    calls: Vec<&'a Call>,
}

/// A step of the clock.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    ms: Millis,
}

/// Performs a request under `/_sim`.
pub(super) fn perform(cloud: &mut Cloud, now: Millis, request: &Request) -> Result<Reply> {
    let path = request.path.as_str();
    let method = request.method.as_str();
    let body = request.body.as_slice();

    let [after] = parse::query(&request.query, ["after"])?;
    let segments: Vec<&str> = path.split('/').skip(2).collect();

    match (method, segments.as_slice()) {
        ("POST", ["servers"]) => {
            let number = cloud.create_server(now, parse::body(body)?)?;
            server(cloud, now, 201, &servers::id(number))
        }
        ("PATCH", ["servers", id]) => {
            cloud.change_server(now, id, parse::body(body)?)?;
            server(cloud, now, 200, id)
        }
        ("DELETE", ["servers", id]) => {
            let (number, _) = cloud.server(now, id)?;
            cloud.servers.delete(now, number);
            Ok(Reply::empty())
        }
        ("PATCH", ["load-balancers", id]) => {
            cloud.hook_load_balancer(now, id, parse::body(body)?)?;
            let (number, it) = cloud.load_balancer(now, id)?;
            Reply::json(200, &cloud.load_balancer_view(now, number, it))
        }
        ("PATCH", ["volumes", id]) => {
            cloud.hook_volume(now, id, parse::body(body)?)?;
            let (number, it) = cloud.volume(now, id)?;
            Reply::json(200, &cloud.volume_view(now, number, it))
        }
        ("GET", ["settings"]) => Reply::json(200, &cloud.settings),
        ("PATCH", ["settings"]) => {
            cloud.settings = cloud.settings.changed(parse::body(body)?)?;
            Reply::json(200, &cloud.settings)
        }
        ("GET", ["failures"]) => Reply::json(200, &cloud.failures),
        ("POST", ["failures"]) => {
            let failure: Failure = parse::body(body)?;
            let reply = Reply::json(201, &failure);
            cloud.failures.add(failure)?;
            reply
        }
        ("DELETE", ["failures"]) => {
            cloud.failures = crate::failures::Failures::default();
            Ok(Reply::empty())
        }
        ("GET", ["calls"]) => calls(cloud, after.as_deref()),
        ("DELETE", ["calls"]) => {
            cloud.calls.clear();
            Ok(Reply::empty())
        }
        ("POST", ["advance"]) => advance(cloud, parse::body(body)?),
        ("POST", ["reset"]) => {
            *cloud = Cloud::new(&cloud.options);
            Ok(Reply::empty())
        }
        ("GET", ["state"]) => state(cloud, now),
        _ => Err(Error::no_such_path(&format!("{method} {path}"))),
    }
}

/// Returns the calls after the one with this number, or all.
fn calls(cloud: &Cloud, after: Option<&str>) -> Result<Reply> {
    let number = after.map_or(Ok(0), |text| {
        text.parse()
            .map_err(|_| Error::field("after", "expected a number"))
    })?;
    let calls = cloud.calls.after(number);
    Reply::json(200, &Log { calls })
}

/// Lets time pass.
fn advance(cloud: &mut Cloud, Advance { ms }: Advance) -> Result<Reply> {
    if ms > ADVANCE {
        return Err(Error::field("ms", format!("at most {ADVANCE}")));
    }
    cloud.ahead = cloud.ahead.saturating_add(ms);
    Ok(Reply::empty())
}

fn server(cloud: &Cloud, now: Millis, status: u16, id: &str) -> Result<Reply> {
    let (number, it) = cloud.server(now, id)?;
    Reply::json(status, &it.view(number, &cloud.options.region))
}

fn state(cloud: &Cloud, now: Millis) -> Result<Reply> {
    let region = &cloud.options.region;
    let load_balancers = cloud.load_balancers.all(now);
    Reply::json(
        200,
        &State {
            servers: cloud
                .servers
                .all(now)
                .map(|(number, it)| it.view(number, region))
                .collect(),
            load_balancers: load_balancers
                .map(|(number, it)| cloud.load_balancer_view(now, number, it))
                .collect(),
            routes: cloud
                .routes
                .all(now)
                .map(|(number, it)| cloud.route_view(now, number, it))
                .collect(),
            volumes: cloud
                .volumes
                .all(now)
                .map(|(number, it)| cloud.volume_view(now, number, it))
                .collect(),
            snapshots: cloud
                .snapshots
                .all(now)
                .map(|(number, it)| it.view(now, number))
                .collect(),
        },
    )
}
