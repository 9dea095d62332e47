//! Detects when a leader must stop, because another replica may hold the Lease.

use std::time::Duration;

use tokio::{sync::watch::Receiver, time::sleep_until};
use tokio_util::sync::CancellationToken;

use super::Leadership;

/// Returns the reason when this replica is no longer the leader. Never returns once the Lease is
/// released on purpose.
///
/// The elector reports this itself. If it is blocked, this function detects that the Lease has
/// expired and another replica may lead.
pub async fn lost(
    state: &mut Receiver<Leadership>,
    lease_duration: Duration,
    release: &CancellationToken,
) -> String {
    loop {
        let leads_until = match &*state.borrow_and_update() {
            // After a release, nothing can be lost.
            Leadership::Lost(why) if !release.is_cancelled() => return why.clone(),
            Leadership::Leading(renewed) => Some(*renewed + lease_duration),
            Leadership::Standby | Leadership::Released | Leadership::Lost(_) => None,
        };

        let Some(leads_until) = leads_until else {
            break;
        };

        tokio::select! {
            changed = state.changed() => if changed.is_err() { break },
            () = sleep_until(leads_until.into()) => {
                if release.is_cancelled() {
                    break;
                }
                return format!("the Lease was not renewed for {lease_duration:?}, for an unknown reason");
            }
        }
    }

    // The Lease was released because only events are left to write.
    if release.is_cancelled() {
        std::future::pending().await
    } else {
        "leader election has stopped".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::{
        sync::watch,
        time::{advance, timeout},
    };

    use super::*;

    const LEASE: Duration = Duration::from_secs(15);
    const AGES: Duration = Duration::from_secs(3600);

    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_whose_elector_is_stuck_stops_with_its_lease() {
        let (elector, mut state) = watch::channel(Leadership::Leading(now()));
        let release = CancellationToken::new();
        let start = tokio::time::Instant::now();
        let renewing = async {
            for _ in 0..5 {
                advance(Duration::from_secs(2)).await;
                elector.send_replace(Leadership::Leading(now()));
                tokio::task::yield_now().await;
            }
            std::future::pending::<()>().await;
        };
        let why = tokio::select! {
            why = lost(&mut state, LEASE, &release) => why,
            () = renewing => unreachable!(),
        };
        assert_eq!(start.elapsed().as_secs(), 10 + LEASE.as_secs(), "{why}");
        assert!(why.contains("not renewed for 15s"), "{why}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_lease_is_reported_at_once() {
        let release = CancellationToken::new();
        let (elector, mut state) = watch::channel(Leadership::Leading(now()));
        elector.send_replace(Leadership::Lost("another holds it".to_owned()));
        assert_eq!(lost(&mut state, LEASE, &release).await, "another holds it");

        let (elector, mut state) = watch::channel(Leadership::Leading(now()));
        drop(elector);
        assert_eq!(
            lost(&mut state, LEASE, &release).await,
            "leader election has stopped"
        );

        let (_elector, mut state) = watch::channel(Leadership::Released);
        assert_eq!(
            lost(&mut state, LEASE, &release).await,
            "leader election has stopped"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_released_on_purpose_is_not_lost() {
        let release = CancellationToken::new();
        let (elector, mut state) = watch::channel(Leadership::Leading(now()));
        release.cancel();
        assert!(
            timeout(AGES, lost(&mut state, LEASE, &release))
                .await
                .is_err()
        );
        for ended in [
            Leadership::Released,
            Leadership::Lost("the API server is away".to_owned()),
        ] {
            elector.send_replace(ended);
            assert!(
                timeout(AGES, lost(&mut state, LEASE, &release))
                    .await
                    .is_err()
            );
        }
    }
}
