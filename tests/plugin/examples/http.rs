//! A plugin that sends HTTP requests: one per node, according to the node's annotations, all of
//! them concurrently. The result of each is in the labels of the instance, or is returned as an
//! error.
//!
//! | annotation | value |
//! | --- | --- |
//! | `hostile.example/request` | `METHOD URL` |
//! | `hostile.example/body` | size of the body in bytes, 0 by default |
//! | `hostile.example/timeout` | timeout in milliseconds, the remaining time of the call by default |
//! | `hostile.example/at-most` | maximum size of the answer in bytes, 16 MiB by default |
//!
//! The cloud-config is the maximum number of concurrent requests, 32 by default.
use std::time::Duration;

use skydock_sdk::http::{self, Method, Request, Response};
use skydock_sdk::instances::{Instance, Presence};
use skydock_sdk::plugin::{PluginInfo, Settings};
use skydock_sdk::types::{CloudError, Node};
use skydock_sdk::{Configured, Instances, Lookup, Plugin, Result};

struct Http;

static AT_ONCE: Configured<usize> = Configured::new();

impl Plugin for Http {
    fn configure(settings: Settings) -> Result<()> {
        let text = settings.cloud_config.unwrap_or_default();
        let number = if text.trim().is_empty() {
            Ok(32)
        } else {
            text.trim().parse()
        };
        AT_ONCE
            .set(number.map_err(|_| {
                CloudError::invalid("the cloud-config is not a number of requests")
            })?);
        Ok(())
    }

    fn info() -> PluginInfo {
        PluginInfo {
            name: "http".into(),
            version: "1.0.0".into(),
            provider_id_prefixes: vec!["http-test://".into()],
            ..PluginInfo::default()
        }
    }
}

impl Instances for Http {
    fn check(nodes: Vec<Node>) -> Result<Vec<Result<Presence>>> {
        let answers = send(&nodes)?.into_iter();
        Ok(answers
            .map(|answer| answer?.success().map(|_| Presence::Running))
            .collect())
    }

    fn describe(nodes: Vec<Node>) -> Result<Vec<Result<Instance>>> {
        let answers = send(&nodes)?;
        Ok(nodes
            .iter()
            .zip(answers)
            .map(|(node, answer)| Ok(instance(node, &answer?.success()?)))
            .collect())
    }
}

fn send(nodes: &[Node]) -> Result<Vec<Result<Response>>> {
    let requests = nodes.iter().map(request).collect::<Result<_>>()?;
    Ok(http::send_all(requests, *AT_ONCE.get()?))
}

fn request(node: &Node) -> Result<Request> {
    let wrong = |what| {
        CloudError::invalid(format!(
            "{}: hostile.example/{what} is not as expected",
            node.name
        ))
    };
    let annotation = |name| node.annotations.lookup(&format!("hostile.example/{name}"));
    let number = |name| {
        annotation(name)
            .map(|text| text.parse().map_err(|_| wrong(name)))
            .transpose()
    };
    let (method, url) = annotation("request")
        .and_then(|text| text.split_once(' '))
        .ok_or_else(|| wrong("request"))?;
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "PATCH" => Method::Patch,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        _ => return Err(wrong("request")),
    };
    let mut request = Request::new(method, url).header("X-Node", &node.name);
    if let Some(bytes) = number("body")? {
        request.body = b"0123456789abcdef"
            .iter()
            .copied()
            .cycle()
            .take(bytes)
            .collect();
    }
    if let Some(limit) = number("timeout")? {
        request = request.timeout(Duration::from_millis(
            u64::try_from(limit).unwrap_or(u64::MAX),
        ));
    }
    if let Some(bytes) = number("at-most")? {
        request = request.at_most(bytes);
    }
    Ok(request)
}

/// Returns an instance with status, length and checksum (FNV-1a) of the answer.
fn instance(node: &Node, response: &Response) -> Instance {
    let sum = |sum: u32, byte: &u8| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let label = |name: &str, value: String| (format!("hostile.example/{name}"), value);
    Instance {
        provider_id: Some(format!("http-test://{}", node.name)),
        labels: vec![
            label("status", response.status.to_string()),
            label("bytes", response.body.len().to_string()),
            label(
                "sum",
                format!("{:08x}", response.body.iter().fold(0x811c_9dc5, sum)),
            ),
        ],
        ..Instance::default()
    }
}

skydock_sdk::export!(Http: instances);
