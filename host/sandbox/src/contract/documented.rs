//! What the contract says of limits, for tests.

use std::time::Duration;

use skydock_resources::limits::Limits;

/// Returns the amounts in the words of the contract that have this mark, with their units.
pub(crate) fn documented(mark: &str) -> Vec<String> {
    const UNITS: &[&str] = &["s", "bytes", "KiB", "MiB", "GiB"];
    let text = include_str!("../../../../wit/v0.1.1/plugin.wit");
    let (before, _) = text.split_once(&format!(" [{mark}]")).unwrap();
    let clause = before.rsplit(['.', ':', ';', ']']).next().unwrap();

    let words: Vec<_> = clause
        .split_whitespace()
        .filter(|word| *word != "///")
        .map(|word| word.trim_end_matches(','))
        .collect();

    let numbers = words
        .iter()
        .enumerate()
        .filter(|(_, word)| word.parse::<u64>().is_ok());

    numbers
        .map(|(at, number)| match words.get(at + 1) {
            Some(unit) if UNITS.contains(unit) => format!("{number} {unit}"),
            _ => (*number).to_owned(),
        })
        .collect()
}

#[test]
fn the_contract_documents_the_default_limits() {
    let limits = Limits::default();
    let seconds = |time: Duration| format!("{} s", time.as_secs());
    let mib = |bytes: usize| format!("{} MiB", bytes >> 20);
    for (mark, amounts) in [
        ("limits-cpu", vec![seconds(limits.guest_cpu)]),
        (
            "limits-clock",
            vec![
                seconds(limits.read_deadline),
                seconds(limits.write_deadline),
            ],
        ),
        (
            "limits-memory",
            vec![
                mib(limits.memory),
                format!("{} GiB", limits.memory_total >> 30),
            ],
        ),
        ("limits-handles", vec![limits.handles.to_string()]),
        ("limits-size", vec![mib(limits.hostcall_buffer)]),
        (
            "limits-log",
            vec![
                limits.log_rate.to_string(),
                format!("{} KiB", limits.log_bytes >> 10),
            ],
        ),
        ("concurrent-calls", vec![limits.instances.to_string()]),
    ] {
        assert_eq!(documented(mark), amounts, "{mark}");
    }
}
