//! `--feature-gates`.

/// Routes follow changes of nodes; upstream looks at them by the clock unless this is on.
const WATCH_BASED_ROUTES: &str = "CloudControllerManagerWatchBasedRoutesReconciliation";

/// A feature gate that Skydock has, and whether it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureGate {
    /// `CloudControllerManagerWatchBasedRoutesReconciliation`.
    WatchBasedRoutes(bool),
}

/// Reads `NAME=BOOL`.
pub(super) fn parse(text: &str) -> Result<FeatureGate, String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("expected NAME=BOOL, such as {WATCH_BASED_ROUTES}=false"))?;
    if name.trim() != WATCH_BASED_ROUTES {
        return Err(format!("skydock has no feature gate {:?}; it has {WATCH_BASED_ROUTES}", name.trim()));
    }
    // As Go's strconv.ParseBool.
    match value.trim() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(FeatureGate::WatchBasedRoutes(true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(FeatureGate::WatchBasedRoutes(false)),
        other => Err(format!("{other:?} is neither true nor false")),
    }
}
