//! What makes the cloud difficult: latency, lag, delays, and a limit of the rate.
use serde::{Deserialize, Serialize};

use crate::api::error::{Error, Result};
use crate::api::parse;
use crate::history::{KEPT, Millis};
use crate::rate::RateLimit;

/// What makes the cloud difficult. Times are in milliseconds, at most a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// How long each answer takes, after the effect.
    pub latency_ms: u64,
    /// How long lists lag behind writes.
    pub lag_ms: u64,
    /// How long a new load balancer is pending.
    pub lb_delay_ms: u64,
    /// How long a volume is being created, attached or detached, and a snapshot is not ready.
    pub volume_delay_ms: u64,
    /// How many requests are allowed.
    pub rate_limit: Option<RateLimit>,
}

/// New values of some settings.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    latency_ms: Option<Millis>,
    lag_ms: Option<Millis>,
    lb_delay_ms: Option<Millis>,
    volume_delay_ms: Option<Millis>,
    #[serde(default, deserialize_with = "parse::present")]
    rate_limit: Option<Option<RateLimit>>,
}

impl Settings {
    /// Returns these settings with some changed.
    pub(crate) fn changed(self, change: Change) -> Result<Self> {
        let changed = Self {
            latency_ms: change.latency_ms.unwrap_or(self.latency_ms),
            lag_ms: change.lag_ms.unwrap_or(self.lag_ms),
            lb_delay_ms: change.lb_delay_ms.unwrap_or(self.lb_delay_ms),
            volume_delay_ms: change.volume_delay_ms.unwrap_or(self.volume_delay_ms),
            rate_limit: change.rate_limit.unwrap_or(self.rate_limit),
        };

        let times = [
            ("latency_ms", changed.latency_ms),
            ("lag_ms", changed.lag_ms),
            ("lb_delay_ms", changed.lb_delay_ms),
            ("volume_delay_ms", changed.volume_delay_ms),
        ];

        match times.iter().find(|(_, time)| *time > KEPT) {
            Some((name, _)) => Err(Error::field(name, format!("at most {KEPT}"))),
            None => Ok(changed),
        }
    }
}
