//! What the process does, as a page for people. It has no script, and nothing is loaded from
//! elsewhere.

use jiff::Timestamp;
use ring::digest::{SHA256, digest};

/// Maximum number of rows of a table.
const ROWS: usize = 50;
/// Maximum length of a text in characters.
const LENGTH: usize = 500;

/// The style of the page.
const STYLE: &str = include_str!("overview.css");

/// What the process does. Nothing of it may be secret.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// Whether it leads: "leads", "stands by".
    pub role: &'static str,
    /// The plugin in service; `None` until it is loaded.
    pub plugin: Option<PluginInService>,
    /// Attempts to change the plugin, the newest first.
    pub changes: Vec<PluginChange>,
    /// What the controllers know; `None` while none runs.
    pub objects: Option<Objects>,
    /// Requests of the plugin by egress rule, in each of the last minutes.
    pub egress: Vec<RuleMinutes>,
}

/// The plugin in service.
#[derive(Clone, Debug, Default)]
pub struct PluginInService {
    /// The operator's name for it, and its own name and version.
    pub name: String,
    /// The number of its generation.
    pub generation: u64,
    /// SHA-256 of the component, in hexadecimal.
    pub digest: String,
    /// Since when it is in service.
    pub since: Timestamp,
}

/// An attempt to change the plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginChange {
    /// When it ended.
    pub at: Timestamp,
    /// How it ended.
    pub text: String,
    /// Whether the plugin in service was not changed.
    pub is_rejected: bool,
}

/// What the controllers know about objects.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Number of nodes.
    pub nodes: usize,
    /// Nodes that are not initialized.
    pub waiting_nodes: Vec<Waiting>,
    /// Number of Services whose load balancer has an address.
    pub served: usize,
    /// Services that wait for it.
    pub waiting_services: Vec<Waiting>,
    /// Services whose load balancer is being deleted.
    pub deleting_services: Vec<Waiting>,
    /// Number of Services, in any of these states, whose last attempt failed.
    pub failing: u64,
}

/// An object that waits.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// The name, with the namespace if there is one.
    pub name: String,
    /// Since when it exists, if that is known.
    pub since: Option<Timestamp>,
    /// The last warning about it: when, and what it says.
    pub warning: Option<(Timestamp, String)>,
}

/// The requests by an egress rule.
#[derive(Clone, Debug, Default)]
pub struct RuleMinutes {
    /// The rule; empty for requests that no rule allows.
    pub rule: String,
    /// Requests in each minute, the oldest first: how many have ended, failed and were denied.
    pub minutes: Vec<[u64; 3]>,
}

/// What is always known about the process.
pub(super) struct Process<'a> {
    pub(super) version: &'a str,
    pub(super) started: Timestamp,
    pub(super) now: Timestamp,
}

/// Returns the header `Content-Security-Policy` of the page: only its own style is allowed.
pub(super) fn policy() -> String {
    use base64::{Engine as _, prelude::BASE64_STANDARD};

    let hash = BASE64_STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

/// Returns the page.
pub(super) fn page(overview: &Overview, process: &Process<'_>) -> String {
    let Overview {
        role: _,
        plugin: _,
        changes,
        objects,
        egress,
    } = overview;

    let mut body = vec![
        element("h1", [text("Skydock")]),
        summary(overview, process),
        element("h2", [text("Plugin")]),
        timeline(changes, process.now),
    ];
    match objects {
        Some(objects) => body.extend(tables(objects, process.now)),
        None => body.push(paragraph("No controller runs in this replica.")),
    }
    body.push(element("h2", [text("Requests by egress rule")]));
    body.push(traffic(egress));

    let Html(body) = concat(body);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Skydock</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

fn summary(overview: &Overview, process: &Process<'_>) -> Html {
    let Process {
        version,
        started,
        now,
    } = process;
    let mut rows = vec![
        ("Version", (*version).to_owned()),
        ("Started", since(*started, *now)),
        ("Role", overview.role.to_owned()),
    ];
    match &overview.plugin {
        Some(plugin) => {
            let PluginInService {
                name,
                generation,
                digest,
                since: at,
            } = plugin;
            rows.extend([
                ("Plugin", name.clone()),
                ("Digest", format!("sha256:{digest}")),
                ("Generation", format!("{generation}, {}", since(*at, *now))),
            ]);
        }
        None => rows.push(("Plugin", "is being loaded".to_owned())),
    }

    let rows = rows.into_iter().map(|(name, value)| {
        let cells = [element("th", [text(name)]), element("td", [text(&value)])];
        element("tr", cells)
    });
    element("table", rows)
}

fn timeline(changes: &[PluginChange], now: Timestamp) -> Html {
    if changes.is_empty() {
        return paragraph("It has not been loaded yet.");
    }

    let shown = changes.iter().take(ROWS).map(|change| {
        let tag = if change.is_rejected { "em" } else { "span" };
        let at = element("time", [text(&since(change.at, now))]);
        element("li", [at, text(" "), element(tag, [text(&change.text)])])
    });
    concat([element("ol", shown), rest(changes.len())])
}

fn tables(objects: &Objects, now: Timestamp) -> Vec<Html> {
    let Objects {
        nodes,
        waiting_nodes,
        served,
        waiting_services,
        deleting_services,
        failing,
    } = objects;
    let [waiting, deleting] = [waiting_services, deleting_services].map(Vec::len);

    let of_nodes = format!("{} of {nodes} wait for their cloud.", waiting_nodes.len());
    let of_services = format!(
        "{served} have an address, {waiting} wait for one, {deleting} are being deleted. The last attempt failed for {failing} of them."
    );
    vec![
        element("h2", [text("Nodes")]),
        paragraph(&of_nodes),
        waiting_table("Node", waiting_nodes, now),
        element("h2", [text("Load balancers of Services")]),
        paragraph(&of_services),
        waiting_table("Service that waits", waiting_services, now),
        waiting_table("Service that is deleted", deleting_services, now),
    ]
}

fn waiting_table(title: &'static str, waiting: &[Waiting], now: Timestamp) -> Html {
    if waiting.is_empty() {
        return concat([]);
    }

    let head = [title, "Created", "Last warning"].map(|name| element("th", [text(name)]));
    let rows = waiting.iter().take(ROWS).map(|it| {
        let created = it.since.map(|at| since(at, now)).unwrap_or_default();
        let warning = it.warning.as_ref();
        let warning = warning.map(|(at, what)| format!("{}: {what}", since(*at, now)));
        let cells = [&it.name, &created, &warning.unwrap_or_default()];
        element("tr", cells.map(|cell| element("td", [text(cell)])))
    });
    let all = [element("tr", head)].into_iter().chain(rows);
    concat([element("table", all), rest(waiting.len())])
}

fn traffic(rules: &[RuleMinutes]) -> Html {
    if rules.is_empty() {
        return paragraph("There are no rules, and no requests were denied.");
    }

    let minutes = rules.iter().map(|rule| rule.minutes.len()).max();
    let minutes = minutes.unwrap_or_default();
    let ago = (0..minutes).rev().map(|before| match before {
        0 => "now".to_owned(),
        before => format!("-{before} min"),
    });
    let head = ["Rule".to_owned()].into_iter().chain(ago);
    let head = head.map(|name| element("th", [text(&name)]));

    let rows = rules.iter().take(ROWS).map(|rule| {
        let name = match rule.rule.as_str() {
            "" => "(no rule)",
            name => name,
        };
        let counts = rule.minutes.iter().map(count);
        let cells = [name.to_owned()].into_iter().chain(counts);
        element("tr", cells.map(|cell| element("td", [text(&cell)])))
    });
    let all = [element("tr", head)].into_iter().chain(rows);
    concat([element("table", all), rest(rules.len())])
}

/// Returns the requests of a minute in words; nothing if there were none.
fn count([ended, failed, denied]: &[u64; 3]) -> String {
    let parts = [(ended, ""), (failed, " failed"), (denied, " denied")];
    let parts = parts.into_iter().filter(|(number, _)| **number > 0);
    let parts: Vec<_> = parts
        .map(|(number, what)| format!("{number}{what}"))
        .collect();
    parts.join(", ")
}

/// Returns a time, and how long ago it was.
fn since(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs().max(0);
    let ago = match seconds {
        ..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    };
    let at = at.strftime("%Y-%m-%d %H:%M:%S");
    format!("{at} UTC ({ago} ago)")
}

/// HTML. Other texts become a part of it only through [`text`].
struct Html(String);

/// Returns a text as HTML, without what exceeds the maximum length.
fn text(text: &str) -> Html {
    let mut html = String::with_capacity(text.len());
    for (at, c) in text.chars().enumerate() {
        match c {
            _ if at == LENGTH => {
                html.push('…');
                break;
            }
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            // They change the direction of the text around them.
            '\u{200e}'
            | '\u{200f}'
            | '\u{61c}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {
                html.extend(c.escape_unicode());
            }
            c => html.push(c),
        }
    }
    Html(html)
}

fn concat(parts: impl IntoIterator<Item = Html>) -> Html {
    Html(parts.into_iter().map(|Html(part)| part).collect())
}

/// Returns an element; what stands in a line of its own has one.
fn element(tag: &'static str, parts: impl IntoIterator<Item = Html>) -> Html {
    let Html(content) = concat(parts);
    let end = match tag {
        "td" | "th" | "time" | "em" | "span" => "",
        _ => "\n",
    };
    let begin = match tag {
        "table" | "ol" => "\n",
        _ => "",
    };
    Html(format!("<{tag}>{begin}{content}</{tag}>{end}"))
}

fn paragraph(sentence: &str) -> Html {
    element("p", [text(sentence)])
}

/// Says how many rows are not shown.
fn rest(number: usize) -> Html {
    match number.saturating_sub(ROWS) {
        0 => concat([]),
        rest => paragraph(&format!("and {rest} more")),
    }
}

#[cfg(test)]
mod tests;
