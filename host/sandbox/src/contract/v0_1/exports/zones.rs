//! The interface `zones`: `locate`, the zones of nodes.

use std::sync::Arc;

use skydock_cloud as cloud;

use super::{Guest, generated::zones};
use crate::{
    answers::{Checked, Element, text},
    contract::{
        Running,
        v0_1::{from_guest::each, to_guest},
    },
};

impl<'a, 's> Guest<'a, 's> {
    /// Calls `zones.locate`.
    pub(crate) fn locate(
        self,
        nodes: &'s [Arc<cloud::Node>],
    ) -> Running<'a, Vec<Element<cloud::Zone>>> {
        let Self {
            functions, store, ..
        } = self;
        let records = to_guest::nodes(nodes);

        Box::pin(async move {
            let answer = call!(functions, store, Locate: zones.call_locate(&records));

            Ok(each(nodes, answer, |_, it| zone(it)))
        })
    }
}

fn zone(zone: zones::Zone) -> Checked<cloud::Zone> {
    Ok(cloud::Zone {
        zone: text::label_value("zone", zone.zone)?,
        region: text::label_value("region", zone.region)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_consists_of_label_values() {
        let checked = |it: &str, region: &str| {
            zone(zones::Zone {
                zone: Some(it.into()),
                region: Some(region.into()),
            })
        };
        assert_eq!(
            checked("z-1", "").unwrap(),
            cloud::Zone {
                zone: Some("z-1".into()),
                region: None
            }
        );
        assert!(checked("not a label", "r").is_err() && checked("z", "-dash").is_err());
    }
}
