//! The zone in which a verb prints times, and reads times that name no zone.

use std::future::Future;

use schedd_schedule::time::zone::Zone;

tokio::task_local! {
    /// The zone of the user whose request this task serves. Tasks that it starts do not have it.
    static USER_ZONE: Zone;
}

/// Returns the zone of the user: the zone that the request named, else the zone of this host.
pub(crate) fn local_zone() -> Zone {
    USER_ZONE.try_with(Zone::clone).unwrap_or_else(|_| Zone::of_host())
}

/// Runs a verb for a user in the zone with this name. If this host does not know the zone, the verb
/// uses the zone of this host.
pub(crate) async fn run_in_zone<F: Future>(name: &str, verb: F) -> F::Output {
    USER_ZONE.scope(Zone::named(name).unwrap_or_else(Zone::of_host), verb).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_verb_uses_the_zone_of_its_user_or_of_the_host() {
        let seen = |name: &'static str| run_in_zone(name, async { local_zone().name().clone() });
        assert_eq!(seen("Asia/Tokyo").await.as_str(), "Asia/Tokyo");
        for unknown in ["", "Mars/Olympus", "../../etc/passwd"] {
            assert_eq!(seen(unknown).await, *Zone::of_host().name(), "{unknown}");
        }
        assert_eq!(local_zone().name(), Zone::of_host().name());
    }
}
