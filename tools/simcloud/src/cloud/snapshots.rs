//! Operations on snapshots.
use super::Cloud;
use crate::api::error::{Error, Result};
use crate::api::{check, parse};
use crate::history::Millis;
use crate::resources::snapshots::{self, MOST, New, Snapshot};

impl Cloud {
    pub(crate) fn snapshot(&self, now: Millis, id: &str) -> Result<(u64, &Snapshot)> {
        let found = parse::number("snap-", id)
            .and_then(|number| Some((number, self.snapshots.get(now, number)?)));
        found.ok_or_else(|| Error::not_found("snapshot", id))
    }

    pub(crate) fn create_snapshot(&mut self, now: Millis, spec: New) -> Result<u64> {
        check::name(&spec.name, 128)?;
        check::labels(&spec.labels)?;

        // By name first, because the volume may be deleted by now.
        if let Some((number, _)) = self
            .snapshots
            .all(now)
            .find(|(_, other)| other.spec.name == spec.name)
        {
            return Err(Error::exists("snapshot", snapshots::id(number), &spec.name));
        }

        let (_, volume) = self.volume(now, &spec.volume)?;
        if self.snapshots.len() >= MOST {
            return Err(Error::quota(MOST, "snapshots"));
        }

        let created = Snapshot {
            size_gib: volume.spec.size_gib,
            spec,
            cut: now,
            ready: now + self.settings.volume_delay_ms,
        };
        Ok(self.snapshots.create(now, created))
    }
}
