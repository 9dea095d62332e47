//! `--feature-gates`.

/// Routes are checked when nodes change; without it, upstream only checks them periodically.
const WATCH_BASED_ROUTES: &str = "CloudControllerManagerWatchBasedRoutesReconciliation";

/// A feature gate that Skydock supports, and whether it is enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureGate {
    /// `CloudControllerManagerWatchBasedRoutesReconciliation`.
    WatchBasedRoutes(bool),
}

/// Parses `NAME=BOOL`.
pub(super) fn parse(text: &str) -> Result<FeatureGate, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("expected NAME=BOOL, for example {WATCH_BASED_ROUTES}=false"))?;

    if name.trim() != WATCH_BASED_ROUTES {
        return Err(format!(
            "unknown feature gate {:?}; expected {WATCH_BASED_ROUTES}",
            name.trim()
        ));
    }

    // Like Go's strconv.ParseBool.
    match value.trim() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(FeatureGate::WatchBasedRoutes(true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(FeatureGate::WatchBasedRoutes(false)),
        other => Err(format!("{other:?} is neither true nor false")),
    }
}
