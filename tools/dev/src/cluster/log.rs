//! Output for the developer: one line for each event in the cluster.

use std::io::{IsTerminal, Write};

use futures::StreamExt;
use jiff::Zoned;
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, Client,
    runtime::{WatchStreamExt, watcher},
};
use owo_colors::OwoColorize;
use skydock::config::Config;
use skydock_cloud::text::escape;

use crate::{cli::DevArgs, cluster::simcloud::Simulated};

/// Prints what is running and how to use it.
pub(crate) fn intro(args: &DevArgs, config: &Config, simulated: Option<&Simulated>) {
    say(&format!(
        "skydock dev: {} simulated nodes, plugin {}\n\n  export KUBECONFIG={}\n  kubectl get nodes\n\n\
         The plugin{} is reloaded when its file changes. Press Ctrl-C to stop.\n",
        args.nodes,
        escape(&config.plugin.file.display().to_string()),
        escape(&args.write_kubeconfig.display().to_string()),
        if config.plugin.cloud_config.is_some() {
            ", with its configuration,"
        } else {
            ""
        },
    ));

    if let Some(simulated) = simulated {
        let file = simulated.token_file();
        say(&format!(
            "simcloud: {}, token in {}\n",
            simulated.url(),
            escape(&file.display().to_string())
        ));
    }

    if config.only_reads && !config.egress_policy.rules.is_empty() {
        say("The cloud is only queried; set --allow-cloud-writes to let the plugin change it.\n");
    }
}

/// Prints events as they arrive, until the future is dropped.
pub(crate) async fn follow(client: Client) {
    let events: Api<Event> = Api::all(client);
    let mut seen = watcher(events, watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .boxed();

    let color = std::io::stdout().is_terminal();
    while let Some(event) = seen.next().await {
        if let Ok(event) = event
            && is_news(event.count)
        {
            say(&line(
                &event,
                &Zoned::now().strftime("%H:%M:%S").to_string(),
                color,
            ));
        }
    }
}

/// Returns true for the 1st, 2nd, 4th, 8th … occurrence of an event, so that a repeated event is
/// printed less and less often.
fn is_news(count: Option<i32>) -> bool {
    count.is_none_or(|count| count.count_ones() == 1)
}

fn line(event: &Event, time: &str, color: bool) -> String {
    let object = &event.involved_object;
    let name = match object.namespace.as_deref() {
        Some(namespace) if object.kind.as_deref() != Some("Node") => {
            format!("{namespace}/{}", object.name.as_deref().unwrap_or_default())
        }
        _ => object.name.clone().unwrap_or_default(),
    };

    let subject = format!(
        "{} {name}",
        object.kind.as_deref().unwrap_or_default().to_lowercase()
    );

    let reason = event.reason.as_deref().unwrap_or_default();
    let message = event
        .message
        .as_deref()
        .unwrap_or_default()
        .replace('\n', " ");

    let times = event
        .count
        .filter(|count| *count > 1)
        .map(|count| format!(" (x{count})"))
        .unwrap_or_default();

    // Any client of the embedded API server can create events with arbitrary text.
    let subject = escape(&subject);
    let line = format!("{reason:<24} {message}{times}");
    let line = escape(&line);

    match (color, event.type_.as_deref() == Some("Warning")) {
        (false, _) => format!("{time}  {subject:<28} {line}"),
        (true, true) => format!("{}  {subject:<28} {}", time.dimmed(), line.yellow()),
        (true, false) => format!("{}  {subject:<28} {line}", time.dimmed()),
    }
}

/// Prints the text. Errors are ignored: standard output may be closed.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_with_time_object_reason_and_message() {
        let event: Event = serde_json::from_value(serde_json::json!({
            "metadata": {},
            "involvedObject": {"kind": "Service", "namespace": "default", "name": "shop"},
            "reason": "EnsuredLoadBalancer",
            "message": "Ensured\nload balancer",
            "count": 3,
        }))
        .unwrap();
        let line = line(&event, "12:00:00", false);

        assert_eq!(
            line,
            "12:00:00  service default/shop         EnsuredLoadBalancer      Ensured load balancer (x3)"
        );
    }

    #[test]
    fn an_event_line_has_no_control_characters() {
        let event: Event = serde_json::from_value(serde_json::json!({
            "metadata": {},
            "involvedObject": {"kind": "No\u{1b}de", "name": "a\rb"},
            "reason": "Ev\u{1b}[2Jil",
            "message": "\u{1b}]0;owned\u{7}\u{202e}",
        }))
        .unwrap();
        let line = line(&event, "12:00:00", false);
        assert!(skydock_cloud::text::is_plain(&line), "{line:?}");
    }
}
