//! Larger volumes, and other properties of volumes.

use std::{collections::BTreeMap, time::Duration};

use skydock_sdk::{
    Result, storage::StorageError, types::CloudError, volume_attributes::Modification,
    volume_expansion::Expansion,
};

use super::{
    GIB, at_most, broken, by_id, check_owner, explain, gib, is, is_gone, next, no,
    parameters::{Attributes, capped},
    send, tags,
};
use crate::{
    client::{
        api::{
            call::Call,
            ec2::{
                network::create_tags,
                volumes::{self as ebs, Resource, delete_tags, modifications},
            },
            failure::Failure,
        },
        endpoint::Api,
    },
    cloud::Cloud,
    tags::{Cluster, Tags},
};

/// When to look again at a volume that is modified.
const MODIFYING: Duration = Duration::from_secs(3);

/// Maximum number of values of an EC2 filter.
const FILTER: usize = 200;

/// What a volume is to have. What is not named stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    gib: Option<u64>,
    volume_type: Option<String>,
    iops: Option<u64>,
    iops_per_gib: Option<u64>,
    /// Whether IOPS per GiB count for a volume that exists.
    increase: bool,
    throughput: Option<u64>,
    tags: Tags,
    removed: Vec<String>,
}

/// What to send for a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// It is as wanted.
    Done,
    /// This modifies it, for some time.
    Modify(Call),
    /// These change its tags at once.
    Tag(Vec<Call>),
}

impl Cloud<'_> {
    /// Expands volumes.
    ///
    /// # Errors
    /// Fails if EC2 cannot be asked.
    pub fn expand_volumes(
        &self,
        expansions: &[Expansion],
    ) -> Result<Vec<Result<u64, StorageError>>> {
        let wanted: Vec<_> = expansions.iter().map(of_expansion).collect();
        let changed = self.change(&wanted)?;

        let size = |(expansion, changed): (&Expansion, Result<ebs::Volume, Rejection>)| {
            let volume = changed.map_err(|error| match error {
                Rejection::Value(text) => StorageError::out_of_range(text),
                Rejection::Other(error) => error,
            })?;
            let bytes = volume.size.saturating_mul(GIB);
            if expansion.limit_bytes.is_some_and(|limit| bytes > limit) {
                let what = format!("the volume {} has {} GiB", volume.volume_id, volume.size);
                return Err(StorageError::out_of_range(what));
            }
            Ok(bytes)
        };
        Ok(expansions.iter().zip(changed).map(size).collect())
    }

    /// Modifies volumes.
    ///
    /// # Errors
    /// Fails if EC2 cannot be asked.
    pub fn modify_volumes(
        &self,
        modifications: &[Modification],
    ) -> Result<Vec<Result<(), StorageError>>> {
        let wanted: Vec<_> = modifications.iter().map(of_modification).collect();
        let changed = self.change(&wanted)?;

        let answer = |changed: Result<ebs::Volume, Rejection>| match changed {
            Ok(_) => Ok(()),
            Err(Rejection::Value(text)) => Err(CloudError::invalid(text).into()),
            Err(Rejection::Other(error)) => Err(error),
        };
        Ok(changed.into_iter().map(answer).collect())
    }

    /// Changes volumes that are not as wanted. Returns those that are.
    fn change(
        &self,
        wanted: &[Result<(&str, Wanted), StorageError>],
    ) -> Result<Vec<Result<ebs::Volume, Rejection>>> {
        let cluster = self.identity()?.cluster;
        let ids: Vec<&str> = wanted.iter().flatten().map(|(id, _)| *id).collect();
        let mut found = by_id::<ebs::Volume>(self, &ids)?.into_iter();
        let changing = self.changing(&ids)?;

        let mut decide = |id: &str, wanted: &Wanted| -> Result<(ebs::Volume, Step), StorageError> {
            let volume = found.next().unwrap_or(Ok(None))?;
            let volume = volume.ok_or_else(|| no::<ebs::Volume>(id))?;
            let state = changing.get(id).map_or("", String::as_str);
            let step = step(&cluster, &volume, state, wanted)?;
            Ok((volume, step))
        };
        let decided = wanted.iter().map(|wanted| match wanted {
            Ok((id, wanted)) => decide(id, wanted),
            Err(error) => Err(error.clone()),
        });
        let decided: Vec<Result<(ebs::Volume, Step), StorageError>> = decided.collect();
        let decided = at_most(decided, |(_, step)| *step == Step::Done);

        let calls = |(_, step): &(ebs::Volume, Step)| match step {
            Step::Done => Vec::new(),
            Step::Modify(call) => vec![call.clone()],
            Step::Tag(calls) => calls.clone(),
        };
        let calls: Vec<Call> = decided.iter().flatten().flat_map(calls).collect();
        let mut answers = send(self, &calls).into_iter();

        let answer = |decided: Result<(ebs::Volume, Step), StorageError>| {
            let (volume, step) = decided?;
            match step {
                Step::Done => Ok(volume),
                Step::Modify(_) => {
                    let answer = next(&mut answers)?;
                    Err(explain_modification(answer, &volume.volume_id))
                }
                Step::Tag(calls) => {
                    let mut all = Ok(volume);
                    for _ in calls {
                        let tagged = next(&mut answers)?.map_err(CloudError::from);
                        all = all.and_then(|volume| tagged.map(|_| volume));
                    }
                    Ok(all?)
                }
            }
        };
        Ok(decided.into_iter().map(answer).collect())
    }

    /// Returns the states of the last modifications of volumes.
    fn changing(&self, ids: &[&str]) -> Result<BTreeMap<String, String>> {
        let mut last: BTreeMap<String, ebs::Modification> = BTreeMap::new();
        for part in ids.chunks(FILTER) {
            for it in modifications(self.wire, part.iter().copied())? {
                let known = last.get(&it.volume_id);
                if known.is_none_or(|known| known.start_time <= it.start_time) {
                    last.insert(it.volume_id.clone(), it);
                }
            }
        }
        let states = last.into_iter();
        Ok(states.map(|(id, it)| (id, it.modification_state)).collect())
    }
}

/// Why a volume is not as wanted.
#[derive(Debug)]
enum Rejection {
    /// EC2 does not offer a value. Nothing has changed.
    Value(String),
    Other(StorageError),
}

impl From<StorageError> for Rejection {
    fn from(error: StorageError) -> Self {
        Self::Other(error)
    }
}

impl From<CloudError> for Rejection {
    fn from(error: CloudError) -> Self {
        Self::Other(error.into())
    }
}

/// Returns the ID of a volume, and what an expansion wants.
fn of_expansion(expansion: &Expansion) -> Result<(&str, Wanted), StorageError> {
    let wanted = Wanted {
        gib: Some(gib(expansion.size_bytes, expansion.limit_bytes)?),
        ..Wanted::default()
    };
    Ok((expansion.volume.as_str(), wanted))
}

/// Returns the ID of a volume, and what a modification wants.
fn of_modification(modification: &Modification) -> Result<(&str, Wanted), StorageError> {
    let attributes = Attributes::read(&modification.attributes)?;
    let names = tags::Names::of_attributes(&modification.attributes);
    let wanted = of_class(attributes, &names)?;
    Ok((modification.volume.as_str(), wanted))
}

/// Returns what a VolumeAttributesClass wants.
fn of_class(attributes: Attributes, names: &tags::Names<'_>) -> Result<Wanted> {
    let mut wanted = tags::evaluate(&attributes.tags, names)?;
    if let Some(iops) = attributes.iops_per_gib {
        wanted.insert(tags::IOPS_PER_GIB.to_owned(), iops.to_string());
    }
    if let Some(increase) = attributes.increase_on_modify {
        wanted.insert(tags::INCREASE.to_owned(), increase.to_string());
    }
    Ok(Wanted {
        gib: None,
        volume_type: attributes.volume_type,
        iops: attributes.iops,
        iops_per_gib: attributes.iops_per_gib,
        increase: attributes.increase_on_modify == Some(true),
        throughput: attributes.throughput,
        tags: wanted,
        removed: attributes.removed,
    })
}

/// Decides what to send for a volume, whose last modification has this state. Tags are last: a value
/// that EC2 rejects must change nothing.
fn step(
    cluster: &Cluster,
    volume: &ebs::Volume,
    state: &str,
    wanted: &Wanted,
) -> Result<Step, StorageError> {
    check_owner(cluster, volume)?;
    let id = &volume.volume_id;
    match volume.status.as_str() {
        "available" | "in-use" => {}
        "error" => return Err(broken(volume)),
        _ if is_gone(volume) => return Err(no::<ebs::Volume>(id).into()),
        _ => return Err(modifying(is(volume))),
    }
    if state == "modifying" {
        return Err(modifying(format!("the volume {id} is being modified")));
    }

    let tags = volume.tags();
    let call = modification(volume, &tags, wanted);
    if let Some(call) = call {
        return Ok(Step::Modify(call));
    }
    let calls = retagging(id, &tags, wanted);
    Ok(if calls.is_empty() {
        Step::Done
    } else {
        Step::Tag(calls)
    })
}

/// Returns the request that modifies a volume, unless it has what is wanted.
fn modification(volume: &ebs::Volume, tags: &Tags, wanted: &Wanted) -> Option<Call> {
    let gib = wanted.gib.filter(|gib| *gib > volume.size);
    let volume_type = wanted.volume_type.as_deref();
    let iops = iops(volume, tags, wanted);
    let throughput = wanted.throughput;

    let differs = gib.is_some()
        || volume_type.is_some_and(|it| !it.eq_ignore_ascii_case(&volume.volume_type))
        || iops.is_some_and(|it| Some(it) != volume.iops)
        || throughput.is_some_and(|it| Some(it) != volume.throughput);
    // With another type, what is not named has its default.
    differs.then(|| {
        Call::new(Api::Ec2, "ModifyVolume")
            .with("VolumeId", &volume.volume_id)
            .with_some("Size", gib)
            .with_some("VolumeType", volume_type)
            .with_some("Iops", iops)
            .with_some("Throughput", throughput)
    })
}

/// Returns the IOPS that a volume is to have: those that are named, or those that follow from its size.
fn iops(volume: &ebs::Volume, tags: &Tags, wanted: &Wanted) -> Option<u64> {
    let size = wanted.gib.unwrap_or_default().max(volume.size);
    let by_size = || {
        let allowed = tags.get(tags::INCREASE).is_some_and(|it| it == "true");
        let tagged = || -> Option<u64> { tags.get(tags::IOPS_PER_GIB)?.parse().ok() };
        let each: u64 = wanted.iops_per_gib.or_else(tagged)?;
        (wanted.increase || allowed).then(|| each.saturating_mul(size))
    };
    let iops = wanted.iops.or_else(by_size)?;
    let volume_type = wanted.volume_type.as_deref();
    let volume_type = volume_type.unwrap_or(&volume.volume_type);
    Some(capped(volume_type, size, iops, true))
}

/// Returns the requests that change the tags of a volume.
fn retagging(id: &str, tags: &Tags, wanted: &Wanted) -> Vec<Call> {
    let is_missing = |(key, value): &(&String, &String)| tags.get(*key) != Some(*value);
    let missing: Tags = wanted
        .tags
        .iter()
        .filter(is_missing)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let removed: Vec<&str> = wanted
        .removed
        .iter()
        .filter(|key| tags.contains_key(*key) && !wanted.tags.contains_key(*key))
        .map(String::as_str)
        .collect();

    let mut calls = Vec::new();
    if !removed.is_empty() {
        calls.push(delete_tags(id, removed));
    }
    if !missing.is_empty() {
        calls.push(create_tags(id, &missing));
    }
    calls
}

/// Returns what an answer to a modification means. It has succeeded when the volume says so.
fn explain_modification(answer: Result<String, Failure>, id: &str) -> Rejection {
    match answer {
        Ok(_) => Rejection::Other(modifying(format!("the volume {id} is being modified"))),
        Err(failure) if failure.is_about_a_parameter() => Rejection::Value(failure.to_string()),
        Err(failure) => Rejection::Other(explain(failure)),
    }
}

fn modifying(what: String) -> StorageError {
    CloudError::in_progress(MODIFYING, what).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = "<item><key>kubernetes.io/cluster/c</key><value>owned</value></item>";

    fn volume(fields: &str, tags: &str) -> ebs::Volume {
        let text = format!(
            "<item><volumeId>vol-1</volumeId><size>10</size><status>in-use</status>{fields}\
             <tagSet>{CLUSTER}{tags}</tagSet></item>"
        );
        quick_xml::de::from_str(&text).unwrap()
    }

    fn gp3(tags: &str) -> ebs::Volume {
        let fields = "<volumeType>gp3</volumeType><iops>3000</iops><throughput>125</throughput>";
        volume(fields, tags)
    }

    fn of(attributes: &[(&str, &str)]) -> Wanted {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let attributes: Vec<_> = attributes.iter().map(owned).collect();
        let read = Attributes::read(&attributes).unwrap();
        of_class(read, &tags::Names::of_attributes(&attributes)).unwrap()
    }

    fn grown(gib: u64) -> Wanted {
        Wanted {
            gib: Some(gib),
            ..Wanted::default()
        }
    }

    /// Returns what is sent for a volume: actions with their parameters, or the case of an error.
    fn sent(volume: &ebs::Volume, state: &str, wanted: &Wanted) -> String {
        let cluster = Cluster {
            id: "c".into(),
            legacy: false,
        };
        let shown = |call: &Call| {
            let params = call.params.iter().skip(1);
            let params: Vec<String> = params.map(|(key, it)| format!("{key}={it}")).collect();
            format!("{} {}", call.action, params.join(" "))
        };
        match step(&cluster, volume, state, wanted) {
            Ok(Step::Done) => "done".to_owned(),
            Ok(Step::Modify(call)) => shown(&call),
            Ok(Step::Tag(calls)) => {
                let calls: Vec<String> = calls.iter().map(shown).collect();
                calls.join(", ")
            }
            Err(error) => format!("{error:?}"),
        }
    }

    const RATIO: &str = "<item><key>ebs.csi.aws.com/IOPSPerGb</key><value>500</value></item>";
    const ALLOWED: &str = "<item><key>ebs.csi.aws.com/AllowAutoIOPSIncreaseOnModify</key>\
                           <value>true</value></item>";

    #[test]
    fn only_what_differs_is_modified() {
        let both = format!("{RATIO}{ALLOWED}");
        for (volume, wanted, expected) in [
            (gp3(""), grown(20), "ModifyVolume Size=20"),
            (gp3(""), grown(10), "done"),
            (gp3(""), grown(5), "done"),
            // IOPS grow only if that is allowed.
            (gp3(RATIO), grown(20), "ModifyVolume Size=20"),
            (gp3(&both), grown(20), "ModifyVolume Size=20 Iops=10000"),
            (gp3(""), of(&[]), "done"),
            (gp3(""), of(&[("type", "gp3"), ("iops", "3000")]), "done"),
            (gp3(""), of(&[("iops", "4000")]), "ModifyVolume Iops=4000"),
            (gp3(""), of(&[("iops", "9000")]), "ModifyVolume Iops=5000"),
            (
                gp3(""),
                of(&[("type", "io2"), ("iops", "3000")]),
                "ModifyVolume VolumeType=io2 Iops=3000",
            ),
            (
                gp3(""),
                of(&[("throughput", "250")]),
                "ModifyVolume Throughput=250",
            ),
            (
                gp3(ALLOWED),
                of(&[("iopsPerGB", "400")]),
                "ModifyVolume Iops=4000",
            ),
        ] {
            assert_eq!(sent(&volume, "completed", &wanted), expected, "{wanted:?}");
        }
    }

    #[test]
    fn tags_change_after_everything_else() {
        let team = "<item><key>team</key><value>a</value></item>";
        for (volume, wanted, expected) in [
            (
                gp3(""),
                of(&[("tagSpecification_1", "team=a")]),
                "CreateTags Tag.1.Key=team Tag.1.Value=a",
            ),
            (gp3(team), of(&[("tagSpecification_1", "team=a")]), "done"),
            (
                gp3(team),
                of(&[("tagDeletion_1", "team")]),
                "DeleteTags Tag.1.Key=team",
            ),
            (gp3(""), of(&[("tagDeletion_1", "team")]), "done"),
            (
                gp3(team),
                of(&[("tagDeletion_1", "team"), ("tagSpecification_1", "x=y")]),
                "DeleteTags Tag.1.Key=team, CreateTags Tag.1.Key=x Tag.1.Value=y",
            ),
            (
                gp3(""),
                of(&[("tagSpecification_1", "team=a"), ("iops", "4000")]),
                "ModifyVolume Iops=4000",
            ),
            (
                gp3(""),
                of(&[("iopsPerGB", "300")]),
                "CreateTags Tag.1.Key=ebs.csi.aws.com/IOPSPerGb Tag.1.Value=300",
            ),
        ] {
            assert_eq!(sent(&volume, "", &wanted), expected, "{wanted:?}");
        }
    }

    #[test]
    fn the_state_decides_whether_a_volume_can_change() {
        let mut creating = gp3("");
        creating.status = "creating".into();
        let mut broken = gp3("");
        broken.status = "error".into();
        let mut gone = gp3("");
        gone.status = "deleting".into();
        let text = "<item><volumeId>vol-1</volumeId><size>10</size><status>in-use</status><tagSet>\
                    <item><key>kubernetes.io/cluster/d</key><value>owned</value></item></tagSet></item>";
        let foreign: ebs::Volume = quick_xml::de::from_str(text).unwrap();

        for (volume, state, expected) in [
            (gp3(""), "modifying", "InProgress"),
            (gp3(""), "optimizing", "ModifyVolume"),
            (gp3(""), "failed", "ModifyVolume"),
            (creating, "", "InProgress"),
            (broken, "", "Unavailable"),
            (gone, "", "NotFound"),
            (foreign, "", "Denied"),
        ] {
            let sent = sent(&volume, state, &grown(20));
            assert!(sent.contains(expected), "{state}: {sent}");
        }
    }
}
