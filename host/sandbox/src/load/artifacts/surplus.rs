//! How many compiled plugins the compile cache keeps: selects the files to delete.

use std::time::{Duration, SystemTime};

/// Maximum number of artifacts: the plugin in service, the previous one, and a few of other
/// versions and plugins.
const MOST: usize = 16;

/// Maximum bytes of all artifacts; the most recently used one is kept whatever its size. Half of
/// the volume in `deploy/`.
const BYTES: u64 = 512 << 20;

/// Age after which an unfinished file that nobody writes to is considered abandoned.
const ABANDONED: Duration = Duration::from_secs(30 * 60);

/// A file of the directory.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Time of its last use.
    pub(super) used: SystemTime,
}

/// Returns the file name of an artifact: the key, and an extension that tells people what it is.
pub(super) fn artifact(key: &str) -> String {
    format!("{key}.cwasm")
}

/// Returns the file name of an unfinished artifact.
pub(crate) fn unfinished(number: u64) -> String {
    format!("{number:016x}.tmp")
}

/// Returns true if the name consists of this many lower-case hexadecimal digits and this extension.
fn is_ours(name: &str, digits: usize, ending: &str) -> bool {
    name.strip_suffix(ending).is_some_and(|stem| {
        stem.len() == digits
            && stem
                .bytes()
                .all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it))
    })
}

/// Returns the names of the files to delete. They never include files that are not ours.
pub(super) fn surplus(files: Vec<File>, now: SystemTime) -> Vec<String> {
    let (mut artifacts, others): (Vec<_>, Vec<_>) = files
        .into_iter()
        .partition(|it| is_ours(&it.name, 64, ".cwasm"));

    artifacts.sort_by_key(|it| std::cmp::Reverse(it.used));
    let mut bytes = 0_u64;
    let old = artifacts.into_iter().enumerate().filter(|(at, it)| {
        bytes = bytes.saturating_add(it.bytes);
        *at >= MOST || (*at > 0 && bytes > BYTES)
    });

    let abandoned = others.into_iter().filter(|it| {
        is_ours(&it.name, 16, ".tmp")
            && now.duration_since(it.used).is_ok_and(|age| age > ABANDONED)
    });

    old.map(|(_, it)| it)
        .chain(abandoned)
        .map(|it| it.name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn file(number: usize, bytes: u64, age: Duration, now: SystemTime) -> File {
        File {
            name: artifact(&format!("{number:064x}")),
            bytes,
            used: now - age,
        }
    }

    #[test]
    fn the_most_recently_used_artifacts_are_kept() {
        let now = SystemTime::now();
        let hours = |hours: usize| HOUR * u32::try_from(hours).unwrap();
        let files: Vec<_> = (0..20)
            .map(|number| file(number, 1, hours(number), now))
            .collect();
        let gone: Vec<_> = files[16..].iter().map(|it| it.name.clone()).collect();
        let mut shuffled = files;
        shuffled.reverse();
        let mut removed = surplus(shuffled, now);
        removed.sort();
        assert_eq!(removed, gone);
    }

    #[test]
    fn large_artifacts_leave_room_for_fewer() {
        let now = SystemTime::now();
        let files = vec![
            file(1, 300 << 20, HOUR, now),
            file(2, 300 << 20, HOUR * 2, now),
            file(3, 1, HOUR * 3, now),
        ];
        let kept_out: Vec<_> = files[1..].iter().map(|it| it.name.clone()).collect();

        assert_eq!(surplus(files, now), kept_out);
        assert_eq!(
            surplus(vec![file(1, 2 << 30, HOUR, now)], now),
            Vec::<String>::new(),
            "one is always kept"
        );
    }

    #[test]
    fn files_not_created_by_skydock_are_never_removed() {
        let now = SystemTime::now();
        let ancient = now - HOUR * 10_000;
        let named = |name: &str| File {
            name: name.to_owned(),
            bytes: 1 << 40,
            used: ancient,
        };
        let stem = "0".repeat(64);
        let foreign = [
            "notes.txt".to_owned(),
            "CACHEDIR.TAG".to_owned(),
            stem.clone(),
            format!("{stem}.cwasm.bak"),
            format!("{}.cwasm", "A".repeat(64)),
            format!("{}.cwasm", "0".repeat(63)),
            "0123.tmp".to_owned(),
        ];
        assert_eq!(
            surplus(foreign.iter().map(|name| named(name)).collect(), now),
            Vec::<String>::new()
        );
        assert_eq!(surplus(vec![named(&unfinished(7))], now), [unfinished(7)]);

        let fresh = File {
            used: now - HOUR / 3,
            ..named(&unfinished(7))
        };
        assert_eq!(
            surplus(vec![fresh], now),
            Vec::<String>::new(),
            "somebody may be writing it"
        );
    }
}
