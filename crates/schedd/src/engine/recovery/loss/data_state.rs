//! Decides whether the data in Redis is complete, has lost a part, or belongs to another Redis
//! server. The functions read and write nothing.

use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{DataMarks, LossKind, LossRecord, Met, begun_at};

/// The facts by which a node recognizes its data in Redis.
#[derive(Debug, Clone, Default)]
pub(super) struct Remembered {
    /// The epoch of the data. `None` if this node has not seen any epoch.
    pub(super) epoch: Option<String>,
    /// The earlier epochs of the data, oldest first.
    pub(super) past_epochs: Vec<String>,
    /// The highest fence that this node has seen.
    pub(super) highest: u64,
    /// The time at which this node last saw the data complete, in Unix ms by Redis' clock.
    pub(super) whole_at: i64,
    /// The address of the Redis server at which this node last saw the data complete.
    pub(super) address: String,
    /// The identity of that Redis server. `None` if the server is not known.
    pub(super) server: Option<String>,
}

/// The result of comparing the data in Redis with the data that this node knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DataState {
    /// The data is the data that this node knows, and complete.
    Same,
    /// Redis is empty, and this node has not seen any data before.
    FirstDay,
    /// Redis has data, and this node has not seen any data before.
    New,
    /// A part of the data is gone, and this node is the first to notice.
    Lost(LossKind),
    /// A part of the data is gone, and another node has already reported the loss.
    Joined(LossKind),
    /// The data is that of another Redis server or another installation.
    Another,
}

/// Compares the data at `address` with the data that this node knows. `losses` are the data losses
/// recorded in Redis. They are only needed if the epochs differ.
pub(super) fn judge(
    known: &Remembered,
    found: &DataMarks,
    address: &str,
    losses: &[LossRecord],
) -> DataState {
    if found.is_damaged {
        return DataState::Same;
    }
    let Some(epoch) = &known.epoch else {
        return if found.epoch.is_empty() { DataState::FirstDay } else { DataState::New };
    };
    let is_same_place = known.address == address;
    if found.epoch == *epoch {
        return if lowest(known, found) < known.highest {
            DataState::Lost(LossKind::Older)
        } else {
            DataState::Same
        };
    }
    let gone = if found.fence == 0 {
        LossKind::Flushed
    } else if found.fence < known.highest {
        LossKind::Older
    } else {
        LossKind::Unmarked
    };
    if found.epoch.is_empty() {
        // If Redis is empty at the known address, the data was lost. At another address, an
        // operator chose another Redis.
        return if is_same_place { DataState::Lost(gone) } else { DataState::Another };
    }
    if let Some(kind) = descent(epoch, &found.epoch, losses) {
        return DataState::Joined(kind);
    }
    if known.past_epochs.contains(&found.epoch) {
        return DataState::Lost(LossKind::Older);
    }
    // The epoch began at the same address after this node last saw its data complete. So the data
    // was deleted, and a node that did not know the old data began a new epoch.
    let is_younger = begun_at(&found.epoch)
        .zip(UnixMillis::new(known.whole_at))
        .is_some_and(|(begun, whole)| begun > whole);
    if is_same_place && is_younger { DataState::Lost(gone) } else { DataState::Another }
}

/// Returns the fence to compare with the highest fence that this node has seen. Usually this is the
/// present fence of the data. If the data has since moved to another server, the result is at most
/// the fence that the server had when a node first met it.
fn lowest(known: &Remembered, found: &DataMarks) -> u64 {
    let has_moved = known.server.as_ref().is_some_and(|server| *server != found.server);
    match found.met {
        // Other nodes may have raised the fence on this server before this node met the server.
        Met::At(fence) if has_moved => fence.min(found.fence),
        _ => found.fence,
    }
}

/// Returns the kind of the data loss that ended the epoch `from`. The epoch `to` replaced `from`
/// directly, or after further losses. Returns `None` if the recorded losses do not lead from `from`
/// to `to`.
fn descent(from: &str, to: &str, losses: &[LossRecord]) -> Option<LossKind> {
    let mut epoch = to;
    // Each step goes to an earlier loss. The limit also ends a circle in damaged records.
    for _ in 0..losses.len() {
        let loss = &losses.iter().find(|record| record.loss.epoch == epoch)?.loss;
        if loss.follows(from) {
            return Some(loss.kind);
        }
        epoch = &loss.before;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedd_store::DataLoss;

    fn known(epoch: &str) -> Remembered {
        Remembered {
            epoch: Some(epoch.to_owned()),
            past_epochs: vec!["0-zero".to_owned()],
            highest: 50,
            whole_at: 1_000,
            address: "here".to_owned(),
            server: Some("a/x".to_owned()),
        }
    }

    fn found(epoch: &str, fence: u64) -> DataMarks {
        DataMarks {
            epoch: epoch.to_owned(),
            fence,
            is_damaged: false,
            server: "a/x".to_owned(),
            met: Met::At(3),
        }
    }

    fn loss(before: &str, found: &str, epoch: &str) -> LossRecord {
        let loss = DataLoss {
            epoch: epoch.to_owned(),
            before: before.to_owned(),
            found: found.to_owned(),
            kind: LossKind::Older,
            by: "n2".to_owned(),
            whole_at_ms: 0,
            kept_to_ms: 0,
        };
        LossRecord { at: None, loss, reports: Vec::new() }
    }

    #[test]
    fn the_same_mark_with_a_fence_no_lower_is_the_same_data() {
        assert_eq!(judge(&known("1-a"), &found("1-a", 50), "here", &[]), DataState::Same);
        assert_eq!(
            judge(&known("1-a"), &found("1-a", 51), "elsewhere", &[]),
            DataState::Same,
            "it may have moved"
        );
        assert_eq!(
            judge(&known("1-a"), &found("1-a", 49), "here", &[]),
            DataState::Lost(LossKind::Older)
        );
        assert_eq!(
            judge(&known("1-a"), &found("1-a", 0), "here", &[]),
            DataState::Lost(LossKind::Older)
        );
    }

    #[test]
    fn a_server_first_met_with_less_data_has_lost_data_however_far_fences_rose() {
        let here = |met| DataMarks { server: "b/y".to_owned(), met, ..found("1-a", 900) };
        assert_eq!(
            judge(&known("1-a"), &here(Met::At(49)), "here", &[]),
            DataState::Lost(LossKind::Older)
        );
        for met in [Met::At(50), Met::At(60), Met::Unknown] {
            assert_eq!(judge(&known("1-a"), &here(met), "here", &[]), DataState::Same, "{met:?}");
        }
        // No server was recorded, so the data may have been on this server all the time.
        let noted = Remembered { server: None, ..known("1-a") };
        assert_eq!(judge(&noted, &here(Met::At(49)), "here", &[]), DataState::Same);
    }

    #[test]
    fn a_damaged_mark_says_nothing() {
        let damaged = DataMarks { is_damaged: true, ..found("?", 0) };
        assert_eq!(judge(&known("1-a"), &damaged, "here", &[]), DataState::Same);
    }

    #[test]
    fn data_never_seen_is_no_loss() {
        let nothing = Remembered::default();
        assert_eq!(judge(&nothing, &found("", 0), "here", &[]), DataState::FirstDay);
        assert_eq!(judge(&nothing, &found("5-x", 7), "here", &[]), DataState::New);
    }

    #[test]
    fn an_empty_server_is_a_loss_where_the_data_was_and_another_server_elsewhere() {
        assert_eq!(
            judge(&known("1-a"), &found("", 0), "here", &[]),
            DataState::Lost(LossKind::Flushed)
        );
        assert_eq!(
            judge(&known("1-a"), &found("", 50), "here", &[]),
            DataState::Lost(LossKind::Unmarked)
        );
        assert_eq!(
            judge(&known("1-a"), &found("", 9), "here", &[]),
            DataState::Lost(LossKind::Older)
        );
        assert_eq!(judge(&known("1-a"), &found("", 0), "there", &[]), DataState::Another);
    }

    #[test]
    fn another_mark_is_a_loss_somebody_reported_of_if_losses_lead_to_it() {
        let losses = [loss("2-b", "2-b", "3-c"), loss("1-a", "", "2-b")];
        assert_eq!(
            judge(&known("1-a"), &found("3-c", 60), "there", &losses),
            DataState::Joined(LossKind::Older)
        );
        assert_eq!(
            judge(&known("2-b"), &found("3-c", 60), "here", &losses),
            DataState::Joined(LossKind::Older)
        );
        assert_eq!(judge(&known("9-z"), &found("3-c", 60), "there", &losses), DataState::Another);
        // The first node did not know the old data. A later node recorded the epoch that it found.
        assert_eq!(
            judge(&known("5-fresh"), &found("6-f", 60), "x", &[loss("1-a", "5-fresh", "6-f")]),
            DataState::Joined(LossKind::Older)
        );
    }

    #[test]
    fn a_mark_of_its_own_past_is_an_older_state() {
        assert_eq!(
            judge(&known("1-a"), &found("0-zero", 60), "there", &[]),
            DataState::Lost(LossKind::Older)
        );
    }

    #[test]
    fn a_mark_nobody_can_explain_is_another_s_unless_it_was_begun_here_since() {
        assert_eq!(
            judge(&known("1-a"), &found("1001-n9-x", 0), "here", &[]),
            DataState::Lost(LossKind::Flushed)
        );
        assert_eq!(
            judge(&known("1-a"), &found("1001-n9-x", 60), "here", &[]),
            DataState::Lost(LossKind::Unmarked)
        );
        for (epoch, place) in
            [("1001-n9-x", "there"), ("999-n9-x", "here"), ("garbage", "here"), ("1001-n9-x", "")]
        {
            assert_eq!(
                judge(&known("1-a"), &found(epoch, 60), place, &[]),
                DataState::Another,
                "{epoch} {place}"
            );
        }
    }

    #[test]
    fn losses_that_lead_in_a_circle_lead_nowhere() {
        let losses = [loss("2-b", "", "3-c"), loss("3-c", "", "2-b")];
        assert_eq!(judge(&known("1-a"), &found("3-c", 60), "there", &losses), DataState::Another);
    }
}
