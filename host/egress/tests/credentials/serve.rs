//! The fake cloud as a server for the vendors' own clients: `tests/vendors.py` checks that they
//! accept it.

use crate::world::cloud::{self, Cloud};

#[tokio::test]
#[ignore = "serves until the file $SKYDOCK_SERVE goes"]
async fn serves_the_fake_cloud_for_vendor_clients() {
    let folder = std::path::PathBuf::from(std::env::var("SKYDOCK_SERVE").unwrap());
    let cloud = Cloud::start().await;
    for (name, text) in cloud::files(&cloud.url) {
        std::fs::write(folder.join(name), text).unwrap();
    }
    std::fs::write(folder.join("url"), &cloud.url).unwrap();
    while folder.join("url").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
