//! Names of devices.

use std::{collections::BTreeSet, time::Duration};

use crate::{client::api::ec2::Instance, cloud::Cloud};

/// How long a name is kept for a volume: until EC2 shows its device.
const RESERVED: Duration = Duration::from_secs(60);

/// How long a name is avoided that EC2 did not accept: the image of the instance may use it.
const AVOIDED: Duration = Duration::from_secs(600);

/// Returns the names that EC2 accepts, in the order of the official driver: `/dev/xvdb` to
/// `/dev/xvdz` conflict with others on old instance types, and some Windows nodes do not know
/// `/dev/xvdca`.
fn names() -> impl Iterator<Item = String> {
    let pairs = |first: char, last: char| {
        ('a'..=last).map(move |second| format!("/dev/xvd{first}{second}"))
    };
    let short = ('b'..='z').map(|letter| format!("/dev/xvd{letter}"));
    pairs('a', 'z')
        .chain(pairs('b', 'z'))
        .chain(pairs('d', 'x'))
        .chain(short)
}

/// Returns a free name on an instance, and reserves it for a volume. `taken` are names that other
/// volumes of this call have.
pub(super) fn reserve(
    cloud: &Cloud<'_>,
    instance: &Instance,
    taken: &BTreeSet<String>,
    volume: &str,
) -> Option<String> {
    let used = instance.block_device_mapping.items.iter();
    let used: BTreeSet<&str> = used.map(|it| it.device_name.as_str()).collect();
    let is_free = |name: &String| {
        let key = key(cloud, &instance.instance_id, name);
        !used.contains(name.as_str())
            && !taken.contains(name)
            && cloud.store.reserve(&key, volume, RESERVED)
    };
    names().find(is_free)
}

/// Does not use a name for a while.
pub(super) fn avoid(cloud: &Cloud<'_>, instance: &str, name: &str) {
    let key = key(cloud, instance, name);
    cloud.store.set(&key, "avoided", AVOIDED);
}

fn key(cloud: &Cloud<'_>, instance: &str, name: &str) -> String {
    cloud.key(&format!("device/{instance}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        client::api::call::Call,
        testing::{Memory, Scripted, nothing, setup},
    };

    #[test]
    fn names_are_those_of_the_official_driver() {
        let names: Vec<String> = names().collect();
        assert_eq!(names.len(), 101);
        for (index, name) in [
            (0, "/dev/xvdaa"),
            (51, "/dev/xvdbz"),
            (52, "/dev/xvdda"),
            (75, "/dev/xvddx"),
            (76, "/dev/xvdb"),
            (100, "/dev/xvdz"),
        ] {
            assert_eq!(names[index], name);
        }
    }

    #[test]
    fn a_name_is_used_once() {
        let (setup, memory) = (setup(), Memory::default());
        let wire = Scripted::new(|call: &Call| nothing(call));
        let cloud = Cloud::new(&setup, &wire, &memory, &Vec::new, 0);
        let instance: Instance = quick_xml::de::from_str(
            "<item><instanceId>i-1</instanceId><blockDeviceMapping>\
             <item><deviceName>/dev/sda1</deviceName></item>\
             <item><deviceName>/dev/xvdaa</deviceName></item></blockDeviceMapping></item>",
        )
        .unwrap();

        let taken = BTreeSet::from(["/dev/xvdab".to_owned()]);
        let reserve = |volume: &str| reserve(&cloud, &instance, &taken, volume);
        assert_eq!(reserve("vol-1").as_deref(), Some("/dev/xvdac"));
        assert_eq!(reserve("vol-2").as_deref(), Some("/dev/xvdad"));
        // The same volume again has the same name.
        assert_eq!(reserve("vol-1").as_deref(), Some("/dev/xvdac"));

        avoid(&cloud, "i-1", "/dev/xvdac");
        assert_eq!(reserve("vol-1").as_deref(), Some("/dev/xvdae"));
        memory.wait(Duration::from_secs(61));
        assert_eq!(reserve("vol-3").as_deref(), Some("/dev/xvdad"));
        memory.wait(Duration::from_secs(600));
        assert_eq!(reserve("vol-4").as_deref(), Some("/dev/xvdac"));
    }
}
