//! The interface `storage-capacity`.

use skydock_cloud::{self as cloud, StorageError};

use super::{Guest, storage};
use crate::{
    answers::{Checked, Element},
    contract::{
        Running,
        v0_1::{exports::generated::storage_capacity, from_guest::each, to_guest},
    },
};

impl<'a, 's> Guest<'a, 's> {
    /// Calls `storage-capacity.get-capacities`.
    pub(crate) fn get_capacities(
        self,
        requests: &'s [cloud::CapacityRequest],
    ) -> Running<'a, Vec<Element<cloud::Capacity, StorageError>>> {
        let Self {
            functions, store, ..
        } = self;
        let records: Vec<_> = requests.iter().map(to_guest::capacity_request).collect();

        Box::pin(async move {
            let answer = call!(functions, store, GetCapacities: storage_capacity.call_get_capacities(&records));

            Ok(each(requests, answer, |_, it| capacity(it)))
        })
    }
}

fn capacity(capacity: storage_capacity::Capacity) -> Checked<cloud::Capacity> {
    Ok(cloud::Capacity {
        available: storage::bytes(capacity.available_bytes)?,
        maximum: capacity.maximum_bytes.map(storage::bytes).transpose()?,
        minimum: capacity.minimum_bytes.map(storage::bytes).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacity_is_in_signed_numbers() {
        let most = i64::MAX.unsigned_abs();
        let table = [
            (7, Some(5), Some(1), true),
            (most, None, None, true),
            (most + 1, None, None, false),
            (7, Some(u64::MAX), None, false),
            (7, None, Some(u64::MAX), false),
        ];
        for (available, maximum, minimum, expected) in table {
            let found = capacity(storage_capacity::Capacity {
                available_bytes: available,
                maximum_bytes: maximum,
                minimum_bytes: minimum,
            });
            let converted = cloud::Capacity {
                available,
                maximum,
                minimum,
            };
            assert_eq!(found.ok(), expected.then_some(converted));
        }
    }
}
