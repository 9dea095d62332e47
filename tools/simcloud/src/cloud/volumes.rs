//! Operations on volumes.
use std::collections::BTreeSet;

use super::Cloud;
use crate::api::error::{Error, Result};
use crate::api::parse;
use crate::history::Millis;
use crate::resources::volumes::{
    self, Attachment, Change, Hook, MOST, New, PER_SERVER, Status, View, Volume,
};

impl Cloud {
    /// Returns a volume as clients see it.
    pub(crate) fn volume_view<'a>(&self, at: Millis, number: u64, it: &'a Volume) -> View<'a> {
        let attachment = self.attachment(at, it);
        let status = it.status(at, attachment);
        View {
            id: volumes::id(number),
            name: &it.spec.name,
            status,
            size_gib: it.spec.size_gib,
            zone: &it.spec.zone,
            iops: it.spec.iops,
            snapshot: it.spec.snapshot.as_deref(),
            original: it.spec.original.as_deref(),
            server: attachment.map(|it| it.server.as_str()),
            device: attachment
                .filter(|_| status == Status::InUse)
                .map(Attachment::device),
            labels: &it.spec.labels,
        }
    }

    fn attachment<'a>(&self, at: Millis, it: &'a Volume) -> Option<&'a Attachment> {
        it.attachment(at, |server| self.server(at, server).is_ok())
    }

    pub(crate) fn volume(&self, now: Millis, id: &str) -> Result<(u64, &Volume)> {
        let found = parse::number("vol-", id)
            .and_then(|number| Some((number, self.volumes.get(now, number)?)));
        found.ok_or_else(|| Error::not_found("volume", id))
    }

    pub(crate) fn create_volume(&mut self, now: Millis, spec: New) -> Result<u64> {
        spec.check()?;
        if !self.options.zones.contains(&spec.zone) {
            return Err(Error::field("zone", format!("no zone {}", spec.zone)));
        }

        // By name first, because what it began as may be deleted by now.
        if let Some((number, _)) = self
            .volumes
            .all(now)
            .find(|(_, other)| other.spec.name == spec.name)
        {
            return Err(Error::exists("volume", volumes::id(number), &spec.name));
        }

        let needed = self.size_of_content(now, &spec)?;
        if spec.size_gib < needed {
            let message = format!("its content needs {needed}");
            return Err(Error::field("size_gib", message));
        }

        if self.volumes.len() >= MOST {
            return Err(Error::quota(MOST, "volumes"));
        }

        let created = Volume {
            spec,
            attachment: None,
            ready: now + self.settings.volume_delay_ms,
            broken: false,
        };
        Ok(self.volumes.create(now, created))
    }

    /// Returns the size of what a new volume begins as, if it can.
    fn size_of_content(&self, now: Millis, spec: &New) -> Result<u32> {
        match (&spec.snapshot, &spec.original) {
            (None, None) => Ok(0),
            (Some(_), Some(_)) => Err(Error::field("original", "there is a snapshot, too")),
            (Some(id), None) => {
                let (_, snapshot) = self.snapshot(now, id)?;
                if snapshot.is_ready(now) {
                    Ok(snapshot.size_gib)
                } else {
                    Err(Error::pending("snapshot", id))
                }
            }
            (None, Some(id)) => {
                let (_, original) = self.volume(now, id)?;
                let status = original.status(now, self.attachment(now, original));
                if !matches!(status, Status::Available | Status::InUse) {
                    return Err(Error::pending("volume", id));
                }
                if original.spec.zone != spec.zone {
                    return Err(Error::field("original", "it is in another zone"));
                }
                Ok(original.spec.size_gib)
            }
        }
    }

    pub(crate) fn change_volume(&mut self, now: Millis, number: u64, change: Change) -> Result<()> {
        // The caller has found it.
        let Some(current) = self.volumes.get(now, number) else {
            return Ok(());
        };

        let attachment = self.attachment(now, current).cloned();
        let status = current.status(now, attachment.as_ref());
        if !matches!(status, Status::Available | Status::InUse) {
            return Err(Error::pending("volume", &volumes::id(number)));
        }

        let mut it = current.clone();
        it.attachment = attachment;
        if let Some(size) = change.size_gib {
            if size < it.spec.size_gib {
                return Err(Error::field("size_gib", "a volume does not shrink"));
            }
            it.spec.size_gib = size;
        }
        it.spec.iops = change.iops.unwrap_or(it.spec.iops);
        it.spec.labels = change.labels.unwrap_or(it.spec.labels);
        it.spec.check()?;

        if let Some(server) = change.server {
            self.place(now, number, &mut it, server)?;
        }
        self.volumes.change(now, number, it);
        Ok(())
    }

    /// Attaches a volume to a server, or detaches it.
    fn place(
        &self,
        now: Millis,
        number: u64,
        it: &mut Volume,
        server: Option<String>,
    ) -> Result<()> {
        let ready = now + self.settings.volume_delay_ms;
        match (server, &mut it.attachment) {
            (None, None) => {}
            (None, Some(attachment)) => {
                (attachment.ends, it.ready) = (true, ready);
            }
            (Some(server), Some(attachment)) if attachment.server == server => {}
            (Some(_), Some(_)) => return Err(Error::in_use("volume", &volumes::id(number))),
            (Some(server), None) => {
                let (_, there) = self.server(now, &server)?;
                if there.zone() != it.spec.zone {
                    return Err(Error::field("server", "it is in another zone"));
                }
                let slot = self.free_slot(now, &server)?;
                let ends = false;
                it.attachment = Some(Attachment { server, slot, ends });
                it.ready = ready;
            }
        }
        Ok(())
    }

    fn free_slot(&self, now: Millis, server: &str) -> Result<u8> {
        let attachments = self
            .volumes
            .all(now)
            .filter_map(|(_, it)| self.attachment(now, it));
        let taken: BTreeSet<u8> = attachments
            .filter(|it| it.server == server)
            .map(|it| it.slot)
            .collect();
        let free = (0..PER_SERVER).find(|slot| !taken.contains(slot));
        free.ok_or_else(|| Error::quota(PER_SERVER.into(), "volumes of a server"))
    }

    pub(crate) fn delete_volume(&mut self, now: Millis, number: u64) -> Result<()> {
        let current = self.volumes.get(now, number);
        if current.is_some_and(|it| self.attachment(now, it).is_some()) {
            return Err(Error::in_use("volume", &volumes::id(number)));
        }
        self.volumes.delete(now, number);
        Ok(())
    }

    /// Sets what only a test can set.
    pub(crate) fn hook_volume(&mut self, now: Millis, id: &str, hook: Hook) -> Result<()> {
        let (number, current) = self.volume(now, id)?;
        let mut it = current.clone();
        it.broken |= hook.status.is_some();
        self.volumes.change(now, number, it);
        Ok(())
    }
}
