//! Volumes.
use serde::{Deserialize, Serialize};

use crate::api::check::{self, Labels};
use crate::api::error::{Error, Result};
use crate::api::parse;
use crate::history::Millis;

/// Maximum number of volumes.
pub(crate) const MOST: usize = 10_000;
/// Maximum number of volumes of a server.
pub(crate) const PER_SERVER: u8 = 16;
/// Sizes of volumes.
const SIZES: std::ops::RangeInclusive<u32> = 1..=16_384;
/// Input and output operations per second.
const IOPS: std::ops::RangeInclusive<u32> = 100..=100_000;

/// What a client sends to create one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct New {
    pub(crate) name: String,
    pub(crate) size_gib: u32,
    pub(crate) zone: String,
    #[serde(default = "iops")]
    pub(crate) iops: u32,
    #[serde(default)]
    pub(crate) snapshot: Option<String>,
    /// The volume that it begins as a copy of.
    #[serde(default)]
    pub(crate) original: Option<String>,
    #[serde(default)]
    pub(crate) labels: Labels,
}

/// What a client sends to change one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    pub(crate) size_gib: Option<u32>,
    pub(crate) iops: Option<u32>,
    /// The server to attach it to, or none to detach it.
    #[serde(default, deserialize_with = "parse::present")]
    pub(crate) server: Option<Option<String>>,
    pub(crate) labels: Option<Labels>,
}

/// What a test can set.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hook {
    pub(crate) status: Option<Broken>,
}

/// The only status that a test can set.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Broken {
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Status {
    Creating,
    Available,
    Attaching,
    InUse,
    Detaching,
    Error,
}

/// The place of a volume in a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// ID of the server.
    pub(crate) server: String,
    /// From 0: the server has no other volume with it.
    pub(crate) slot: u8,
    /// Whether it is being detached.
    pub(crate) ends: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) spec: New,
    pub(crate) attachment: Option<Attachment>,
    /// When it is created, attached or detached completely.
    pub(crate) ready: Millis,
    /// Whether it will never work.
    pub(crate) broken: bool,
}

/// A volume as clients see it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct View<'a> {
    pub(crate) id: String,
    pub(crate) name: &'a str,
    pub(crate) status: Status,
    pub(crate) size_gib: u32,
    pub(crate) zone: &'a str,
    pub(crate) iops: u32,
    pub(crate) snapshot: Option<&'a str>,
    pub(crate) original: Option<&'a str>,
    pub(crate) server: Option<&'a str>,
    pub(crate) device: Option<String>,
    pub(crate) labels: &'a Labels,
}

impl New {
    pub(crate) fn check(&self) -> Result<()> {
        check::name(&self.name, 128)?;
        range("size_gib", self.size_gib, SIZES)?;
        range("iops", self.iops, IOPS)?;
        check::labels(&self.labels)
    }
}

fn range(field: &str, number: u32, range: std::ops::RangeInclusive<u32>) -> Result<()> {
    if range.contains(&number) {
        Ok(())
    } else {
        let (least, most) = range.into_inner();
        Err(Error::field(field, format!("expected {least} to {most}")))
    }
}

impl Volume {
    /// Returns the attachment at this time. `exists` says whether a server does: a volume is detached
    /// when its server is deleted.
    pub(crate) fn attachment(
        &self,
        at: Millis,
        exists: impl Fn(&str) -> bool,
    ) -> Option<&Attachment> {
        let attachment = self.attachment.as_ref()?;
        let is_over = attachment.ends && at >= self.ready;
        (!is_over && exists(&attachment.server)).then_some(attachment)
    }

    /// Returns the status, with the attachment at the same time.
    pub(crate) fn status(&self, at: Millis, attachment: Option<&Attachment>) -> Status {
        match attachment {
            _ if self.broken => Status::Error,
            Some(Attachment { ends: true, .. }) => Status::Detaching,
            Some(_) if at < self.ready => Status::Attaching,
            Some(_) => Status::InUse,
            // Detached by the deletion of its server.
            None if self.attachment.is_some() => Status::Available,
            None if at < self.ready => Status::Creating,
            None => Status::Available,
        }
    }
}

impl Attachment {
    /// Returns the device that the server has, for example `/dev/vdb`.
    pub(crate) fn device(&self) -> String {
        format!("/dev/vd{}", char::from(b'b'.saturating_add(self.slot)))
    }
}

fn iops() -> u32 {
    3000
}

/// Returns the ID of a volume.
pub(crate) fn id(number: u64) -> String {
    format!("vol-{number}")
}
