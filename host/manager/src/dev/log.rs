//! What a developer reads while it runs: one line per event of the cluster.

use std::io::{IsTerminal, Write};

use futures::StreamExt;
use jiff::Zoned;
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, Client,
    runtime::{WatchStreamExt, watcher},
};
use owo_colors::OwoColorize;
use skydock_cloud::text::escape;

use crate::{cli::DevArgs, config::Config};

/// Tells what runs and what can be done with it.
pub(super) fn intro(args: &DevArgs, config: &Config) {
    say(&format!(
        "skydock dev: {} simulated nodes, plugin {}\n\n  export KUBECONFIG={}\n  kubectl get nodes\n\n\
         The plugin{} is swapped in when its file changes. Ctrl-C ends it.\n",
        args.nodes,
        escape(&config.plugin.file.display().to_string()),
        escape(&args.write_kubeconfig.display().to_string()),
        if config.cloud_config.is_some() { ", with its configuration," } else { "" },
    ));
    if config.only_reads {
        say("The cloud is only asked: --allow-cloud-writes lets the plugin change it.\n");
    }
}

/// Prints events as they come, until dropped.
pub(super) async fn follow(client: Client) {
    let events: Api<Event> = Api::all(client);
    let mut seen = watcher(events, watcher::Config::default()).default_backoff().applied_objects().boxed();
    let colour = std::io::stdout().is_terminal();
    while let Some(event) = seen.next().await {
        if let Ok(event) = event
            && is_news(event.count)
        {
            say(&line(&event, &Zoned::now().strftime("%H:%M:%S").to_string(), colour));
        }
    }
}

/// An event that comes again and again is told less and less often: the 1st, 2nd, 4th, 8th … time.
fn is_news(count: Option<i32>) -> bool {
    count.is_none_or(|count| count.count_ones() == 1)
}

fn line(event: &Event, time: &str, colour: bool) -> String {
    let object = &event.involved_object;
    let name = match object.namespace.as_deref() {
        Some(namespace) if object.kind.as_deref() != Some("Node") => {
            format!("{namespace}/{}", object.name.as_deref().unwrap_or_default())
        }
        _ => object.name.clone().unwrap_or_default(),
    };
    let subject = format!("{} {name}", object.kind.as_deref().unwrap_or_default().to_lowercase());
    let reason = event.reason.as_deref().unwrap_or_default();
    let message = event.message.as_deref().unwrap_or_default().replace('\n', " ");
    let times = event.count.filter(|count| *count > 1).map(|count| format!(" (x{count})")).unwrap_or_default();
    // Anyone who reaches the embedded API server writes events.
    let (subject, told) = (escape(&subject), format!("{reason:<24} {message}{times}"));
    let told = escape(&told);
    match (colour, event.type_.as_deref() == Some("Warning")) {
        (false, _) => format!("{time}  {subject:<28} {told}"),
        (true, true) => format!("{}  {subject:<28} {}", time.dimmed(), told.yellow()),
        (true, false) => format!("{}  {subject:<28} {told}", time.dimmed()),
    }
}

/// Nobody reads any more if standard output is closed.
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
        assert_eq!(line, "12:00:00  service default/shop         EnsuredLoadBalancer      Ensured load balancer (x3)");
    }

    #[test]
    fn an_event_moves_no_terminal() {
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
