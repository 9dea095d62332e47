//! Reads the memory of a process, separated into that of its guests and the rest.
//!
//! The linear memory of a guest is at the beginning of a reservation of several gigabytes, which
//! nothing else in the host has. Writable memory that is followed by at least one gigabyte of
//! inaccessible memory therefore belongs to a guest.

use std::{
    fmt,
    fs::{self, File},
    os::unix::fs::FileExt as _,
};

use anyhow::{Context as _, Result, ensure};

/// Minimum size of the reservation after a guest's memory. Those of thread stacks and of the
/// allocator's arenas are at most 64 MiB.
const RESERVED: u64 = 1 << 30;

/// Size in bytes of a page, and of its entry in `/proc/PID/pagemap`.
const PAGE: u64 = 4096;
const ENTRY: u64 = 8;

/// The contents of the memory.
pub(super) struct Memory {
    /// The memory of all guests, including pages of ended guests that the host has kept.
    pub(super) guests: Vec<u8>,
    /// All other writable memory.
    pub(super) host: Vec<u8>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes of guests, {} of the host",
            self.guests.len(),
            self.host.len()
        )
    }
}

/// A line of `/proc/PID/maps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    from: u64,
    to: u64,
    writable: bool,
    nobodys: bool,
}

/// Reads the memory of a running process.
pub(super) fn read(process: u32) -> Result<Memory> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let mappings = maps.lines().map(mapping).collect::<Result<Vec<_>>>()?;
    let file = File::open(format!("/proc/{process}/mem")).context("the host's memory")?;
    let pages = File::open(format!("/proc/{process}/pagemap")).context("the host's pages")?;
    let mut memory = Memory {
        guests: Vec::new(),
        host: Vec::new(),
    };
    for (number, mapping) in mappings.iter().enumerate() {
        if !mapping.writable {
            continue;
        }
        let into = if is_guests(&mappings, number) {
            &mut memory.guests
        } else {
            &mut memory.host
        };
        for (from, length) in present(&pages, *mapping)? {
            let mut bytes = vec![0; length];
            // The memory may have been freed in the meantime.
            if file.read_exact_at(&mut bytes, from).is_ok() {
                into.append(&mut bytes);
            }
        }
    }
    ensure!(!memory.guests.is_empty(), "there are no guests in {maps}");
    Ok(memory)
}

/// Returns the ranges of a mapping that are present: most writable memory has never been written.
fn present(pages: &File, mapping: Mapping) -> Result<Vec<(u64, usize)>> {
    let mut entries = vec![0; usize::try_from((mapping.to - mapping.from) / PAGE * ENTRY)?];
    pages
        .read_exact_at(&mut entries, mapping.from / PAGE * ENTRY)
        .context("the host's pages")?;
    let mut stretches: Vec<(u64, usize)> = Vec::new();
    let page = usize::try_from(PAGE)?;
    for (at, entry) in (mapping.from..)
        .step_by(page)
        .zip(entries.chunks_exact(usize::try_from(ENTRY)?))
    {
        // Bit 63: in memory. Bit 62: swapped out.
        if entry.last().is_none_or(|flags| flags & 0xc0 == 0) {
            continue;
        }
        match stretches.last_mut() {
            Some((from, length)) if *from + u64::try_from(*length)? == at => *length += page,
            _ => stretches.push((at, page)),
        }
    }
    Ok(stretches)
}

fn mapping(line: &str) -> Result<Mapping> {
    let mut words = line.split_whitespace();
    let (range, rights) = (
        words.next().context("a range")?,
        words.next().context("rights")?,
    );
    let (from, to) = range.split_once('-').context("a range")?;
    let at = |text| u64::from_str_radix(text, 16).with_context(|| line.to_owned());
    Ok(Mapping {
        from: at(from)?,
        to: at(to)?,
        writable: rights.starts_with("rw"),
        nobodys: rights.starts_with("---"),
    })
}

/// Returns whether only writable memory is between this mapping and a large reservation.
fn is_guests(mappings: &[Mapping], number: usize) -> bool {
    if !mappings.get(number).is_some_and(|mapping| mapping.writable) {
        return false;
    }
    let mut end = None;
    for mapping in mappings.iter().skip(number) {
        if end.is_some_and(|end| end != mapping.from) {
            return false;
        }
        if mapping.nobodys {
            return mapping.to - mapping.from >= RESERVED;
        }
        if !mapping.writable {
            return false;
        }
        end = Some(mapping.to);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_memory_is_known_by_the_mapping_behind_it() {
        let maps = "10000-20000 rw-p 0 00:00 0\n20000-30000 ---p 0 00:00 0\n\
                    100000-200000 rw-p 0 00:01 5 /memfd:wasm-memory-image (deleted)\n200000-210000 rw-p 0 00:00 0\n210000-100210000 ---p 0 00:00 0\n\
                    200000000-200010000 rw-p 0 00:00 0\n200020000-300020000 ---p 0 00:00 0\n300020000-300030000 r--p 0 00:00 0";
        let mappings: Vec<_> = maps.lines().map(|line| mapping(line).unwrap()).collect();
        let guests: Vec<_> = (0..mappings.len())
            .filter(|&number| is_guests(&mappings, number))
            .collect();
        assert_eq!(
            guests,
            [2, 3],
            "neither an arena of the allocator's nor what has a gap behind it"
        );
    }
}
