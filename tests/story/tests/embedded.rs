//! The story on the embedded control plane.

use skydock_story::{
    Stage,
    narrator::{Audience, Narrator},
};
use skydock_support::Paths;

#[tokio::test(flavor = "multi_thread")]
async fn the_story_runs_on_the_embedded_control_plane() {
    let plane = skydock_clusters::EmbeddedPlane::start()
        .await
        .expect("the plane starts");
    let mut stage = Stage::set(Box::new(plane), Paths::of_checkout().expect("all is built"))
        .await
        .expect("a stage");
    let told = skydock_story::tell(&mut stage, &mut Narrator::new(Audience::Machine)).await;
    if let Err(error) = told {
        stage.keep_files();
        panic!("{error:#}\nthe logs are in {}", stage.dir().display());
    }
}
