//! The attributes of a network load balancer.

use std::collections::BTreeMap;

use skydock_sdk::Result;

use crate::load_balancing::common::annotation::{self, Annotations};

const CROSS_ZONE: &str = "load_balancing.cross_zone.enabled";
/// The prefix of the attributes of access logs.
pub(in crate::load_balancing::nlb) const LOGS: &str = "access_logs.";
const LOGS_ENABLED: &str = "access_logs.s3.enabled";
const LOGS_BUCKET: &str = "access_logs.s3.bucket";
const LOGS_PREFIX: &str = "access_logs.s3.prefix";

/// Reads the attributes that annotations request. All others are not changed.
///
/// # Errors
/// Fails if an annotation is not valid.
pub(super) fn of(annotations: Annotations<'_>) -> Result<BTreeMap<String, String>> {
    let flag = |name| annotations.flag(name).map(Option::unwrap_or_default);
    let logs = flag(annotation::ACCESS_LOG_ENABLED)?;
    let mut attributes = BTreeMap::from([
        (
            CROSS_ZONE.to_owned(),
            flag(annotation::CROSS_ZONE)?.to_string(),
        ),
        (LOGS_ENABLED.to_owned(), logs.to_string()),
    ]);

    // AWS accepts no empty bucket, so the bucket is not changed if logs are disabled.
    if logs {
        let text = |name| annotations.get(name).unwrap_or_default().to_owned();
        attributes.insert(LOGS_BUCKET.into(), text(annotation::ACCESS_LOG_BUCKET));
        attributes.insert(LOGS_PREFIX.into(), text(annotation::ACCESS_LOG_PREFIX));
    }

    Ok(attributes)
}

/// Returns the default attributes of a new load balancer.
pub(in crate::load_balancing::nlb) fn defaults() -> BTreeMap<String, String> {
    BTreeMap::from([
        (CROSS_ZONE.to_owned(), "false".to_owned()),
        (LOGS_ENABLED.to_owned(), "false".to_owned()),
        (LOGS_BUCKET.to_owned(), String::new()),
        (LOGS_PREFIX.to_owned(), String::new()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_set_attributes_that_default_to_off() {
        let attributes = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            let pairs: Vec<_> = pairs
                .map(|(name, value)| (annotation::key(name), (*value).to_owned()))
                .collect();
            let attributes = of(Annotations(&pairs)).unwrap();
            attributes
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let off = "access_logs.s3.enabled=false load_balancing.cross_zone.enabled=false";

        assert_eq!(attributes(&[]), off);
        assert_eq!(
            attributes(&[("access-log-s3-bucket-name", "b")]),
            off,
            "no bucket where logs are off"
        );
        assert_eq!(
            attributes(&[
                ("access-log-enabled", "true"),
                ("access-log-s3-bucket-name", "b"),
                ("access-log-s3-bucket-prefix", "p"),
                ("cross-zone-load-balancing-enabled", "true"),
            ]),
            "access_logs.s3.bucket=b access_logs.s3.enabled=true access_logs.s3.prefix=p \
             load_balancing.cross_zone.enabled=true"
        );
    }
}
