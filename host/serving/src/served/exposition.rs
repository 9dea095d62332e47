//! The formats in which metrics are served: that of OpenMetrics, and the text format of Prometheus
//! for those who do not ask for it, as upstream.

use std::fmt;

use axum::http::{HeaderMap, header};
use prometheus_client::{encoding::text::encode, registry::Registry};

const OPENMETRICS: &str = "application/openmetrics-text";

/// Returns the metrics in the format that these headers ask for, and its content type.
pub(super) fn encoded(
    registry: &Registry,
    headers: &HeaderMap,
) -> Result<(&'static str, String), fmt::Error> {
    let mut text = String::new();
    encode(&mut text, registry)?;

    let mut accepted = headers.get_all(header::ACCEPT).iter();
    if accepted.any(|value| {
        value
            .to_str()
            .is_ok_and(|kinds| kinds.contains(OPENMETRICS))
    }) {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        return Ok((kind, text));
    }
    Ok(("text/plain; version=0.0.4; charset=utf-8", plain(&text)))
}

/// Returns metrics in the text format of Prometheus. It names metrics like their series, and has
/// neither units nor an end.
fn plain(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    // Written once the type is known, which the name depends on.
    let mut help = "";

    for line in openmetrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                _ => ("", kind),
            };
            text += &format!("# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with('#') {
            text += line;
            text += "\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use prometheus_client::{
        metrics::{counter::Counter, gauge::Gauge, histogram::Histogram, info::Info},
        registry::Unit,
    };

    use super::*;

    #[test]
    fn the_format_is_the_one_that_is_asked_for() {
        let mut registry = Registry::default();
        registry.register("a", "Things", Counter::<u64>::default());
        registry.register_with_unit("b", "Time", Unit::Seconds, Histogram::new([1.0]));
        registry.register("c", "Size", Gauge::<i64>::default());
        registry.register("d", "Build", Info::new([("version", "1")]));
        let asked = |accept: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT, accept.parse().unwrap());
            }
            encoded(&registry, &headers).unwrap()
        };

        let prometheus =
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let (kind, text) = asked(Some(prometheus));
        assert!(kind.starts_with(OPENMETRICS), "{kind}");
        assert!(text.starts_with("# HELP a Things.\n# TYPE a counter\na_total 0\n"));
        assert!(text.ends_with("# EOF\n"), "{text}");

        let plain = "# HELP a_total Things.
# TYPE a_total counter
a_total 0
# HELP b_seconds Time.
# TYPE b_seconds histogram
b_seconds_sum 0.0
b_seconds_count 0
b_seconds_bucket{le=\"1.0\"} 0
b_seconds_bucket{le=\"+Inf\"} 0
# HELP c Size.
# TYPE c gauge
c 0
# HELP d_info Build.
# TYPE d_info gauge
d_info{version=\"1\"} 1
";
        for accept in [None, Some("*/*"), Some("text/plain")] {
            let (kind, text) = asked(accept);
            assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
            assert_eq!(text, plain, "{accept:?}");
        }
    }
}
