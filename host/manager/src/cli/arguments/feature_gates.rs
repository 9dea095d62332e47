//! `--feature-gates`: which gates Skydock knows, and what becomes of upstream's others.

use super::parse_bool;

/// Routes are checked when nodes change; without it, upstream only checks them periodically.
pub(crate) const WATCH_BASED_ROUTES: &str = "CloudControllerManagerWatchBasedRoutesReconciliation";
/// Upstream's webhooks, which are alpha.
const WEBHOOK: &str = "CloudControllerManagerWebhook";
/// Addresses of both IP families for kubelets with `--node-ip`.
const DUAL_STACK_NODE_IPS: &str = "CloudDualStackNodeIPs";

/// A feature gate that Skydock supports, and whether it is enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureGate {
    /// `CloudControllerManagerWatchBasedRoutesReconciliation`.
    WatchBasedRoutes(bool),
}

/// Parses `NAME=BOOL`.
pub(in crate::cli) fn parse(text: &str) -> Result<FeatureGate, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("expected NAME=BOOL, for example {WATCH_BASED_ROUTES}=false"))?;

    if name.trim() != WATCH_BASED_ROUTES {
        return Err(unknown(text));
    }
    boolean(value).map(FeatureGate::WatchBasedRoutes)
}

/// Returns why a gate that Skydock does not have has no effect, or that Skydock behaves as it says;
/// `None` for the gate that Skydock has, and for what is not a gate.
pub(super) fn foreign(text: &str) -> Option<Result<Option<String>, String>> {
    let (name, value) = text.split_once('=')?;
    let name = name.trim();
    if name == WATCH_BASED_ROUTES {
        return None;
    }

    let why = |on| match (name, on) {
        (WEBHOOK, false) | (DUAL_STACK_NODE_IPS, true) => None,
        (WEBHOOK, true) => Some("Skydock has no webhooks".to_owned()),
        (DUAL_STACK_NODE_IPS, false) => {
            Some("nodes can always have addresses of both IP families".to_owned())
        }
        _ => Some("Skydock does not have this gate".to_owned()),
    };
    Some(boolean(value).map(why))
}

fn boolean(text: &str) -> Result<bool, String> {
    let text = text.trim();
    parse_bool(text).ok_or_else(|| format!("{text:?} is neither true nor false"))
}

/// Returns the error for a gate that Skydock does not have.
pub(super) fn unknown(text: &str) -> String {
    let name = text.split('=').next().unwrap_or_default();
    format!(
        "unknown feature gate {:?}; expected {WATCH_BASED_ROUTES}",
        name.trim()
    )
}
