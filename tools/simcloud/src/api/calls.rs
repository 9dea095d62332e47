//! The log of calls.
use std::collections::VecDeque;

use serde::Serialize;

/// How many calls are kept.
const KEPT: usize = 10_000;
/// How many bytes of a path or query are kept.
const TEXT: usize = 1024;

/// A call under `/v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Call {
    seq: u64,
    /// None if no operation has this method and path.
    operation: Option<String>,
    method: String,
    path: String,
    query: String,
    /// None if the connection was cut.
    status: Option<u16>,
    injected: bool,
}

/// The last calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    last: u64,
    calls: VecDeque<Call>,
}

impl Calls {
    pub(crate) fn add(
        &mut self,
        operation: Option<String>,
        [method, path, query]: [&str; 3],
        status: Option<u16>,
        injected: bool,
    ) {
        self.last += 1;
        if self.calls.len() >= KEPT {
            self.calls.pop_front();
        }

        let [method, path, query] = [method, path, query].map(|text| {
            text.get(..text.floor_char_boundary(TEXT))
                .unwrap_or_default()
                .to_owned()
        });

        self.calls.push_back(Call {
            seq: self.last,
            operation,
            method,
            path,
            query,
            status,
            injected,
        });
    }

    /// Returns the calls after this one.
    pub(crate) fn after(&self, seq: u64) -> Vec<&Call> {
        self.calls.iter().filter(|call| call.seq > seq).collect()
    }

    /// Forgets all calls. The numbers go on.
    pub(crate) fn clear(&mut self) {
        self.calls.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_bounded() {
        let mut calls = Calls::default();
        for _ in 0..=KEPT {
            calls.add(None, ["GET", &"é".repeat(TEXT), ""], None, false);
        }
        let kept = calls.after(0);
        assert_eq!(
            (kept.len(), kept[0].seq, kept[0].path.len()),
            (KEPT, 2, TEXT)
        );
        assert_eq!(calls.after(10_000).len(), 1);
        calls.clear();
        calls.add(None, ["GET", "/", ""], Some(404), false);
        assert_eq!(calls.after(0)[0].seq, 10_002);
    }
}
