//! Skydock's metrics.

use std::collections::BTreeMap;

/// Returns the calls to the cloud from Skydock's metrics: calls of the capabilities, without calls
/// that configure the plugin.
#[must_use]
pub fn calls(metrics: &str) -> BTreeMap<String, u64> {
    let mut calls = BTreeMap::new();
    for line in metrics.lines() {
        let Some((labels, count)) = line
            .strip_prefix("skydock_plugin_calls_total{")
            .and_then(|rest| rest.split_once("} "))
        else {
            continue;
        };
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\""))?;
            Some(rest.split_once('"')?.0)
        };
        let (Some(interface), Some(function)) = (label("interface"), label("function")) else {
            continue;
        };
        if interface != "plugin" {
            *calls.entry(format!("{interface}.{function}")).or_default() +=
                count.parse::<u64>().unwrap_or_default();
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloud_calls_are_summed_over_all_outcomes() {
        let metrics = "# TYPE skydock_plugin_calls counter
skydock_plugin_calls_total{plugin=\"bench\",interface=\"instances\",function=\"describe\",outcome=\"ok\"} 10
skydock_plugin_calls_total{plugin=\"bench\",interface=\"instances\",function=\"describe\",outcome=\"denied\"} 2
skydock_plugin_calls_total{plugin=\"bench\",interface=\"plugin\",function=\"info\",outcome=\"ok\"} 5
skydock_plugin_instances{plugin=\"bench\",state=\"idle\"} 1
";
        assert_eq!(
            calls(metrics),
            BTreeMap::from([("instances.describe".to_owned(), 12)])
        );
    }
}
