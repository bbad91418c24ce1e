//! What `--at` means, and `--fold` where the clock goes back over it.
//!
//! Invariant: which instant was understood is always said, and of one that comes twice also the other.

use jiff::tz::AmbiguousOffset;

use super::AddArgs;
use super::flags::Fold;
use crate::cli::failure::Failure;
use crate::cli::render::{Console, Relative, rfc3339, shown, span};
use crate::domain::human_time::{Instant, parse_instant};
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;

/// What each `--at` means at `now` in `zone`.
pub(super) fn instants_of(args: &AddArgs, now: UnixMillis, zone: &Zone) -> Result<Vec<Instant>, Failure> {
    let read = |text: &String| {
        let read = parse_instant(text, now, zone).map_err(|error| Failure::at_time("--at", text, &error))?;
        Ok(folded(read, args.fold, zone))
    };
    args.at.iter().map(read).collect()
}

/// What `--anchor`, `--start` and `--end` mean.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    pub(super) anchor: Option<Instant>,
    pub(super) start: Option<Instant>,
    pub(super) end: Option<Instant>,
}

/// What the bounds of the schedule mean at `now` in `zone`.
pub(super) fn bounds_of(args: &AddArgs, now: UnixMillis, zone: &Zone) -> Result<Bounds, Failure> {
    let read = |flag: &str, text: &Option<String>| {
        let read = text.as_ref().map(|text| parse_instant(text, now, zone).map_err(|error| Failure::at_time(flag, text, &error)));
        read.transpose()
    };
    Ok(Bounds { anchor: read("--anchor", &args.anchor)?, start: read("--start", &args.start)?, end: read("--end", &args.end)? })
}

/// Says which instants were understood.
pub(super) fn tell_bounds(bounds: &Bounds, now: UnixMillis, zone: &Zone, console: &mut Console) {
    for (word, bound) in [("anchor", &bounds.anchor), ("start", &bounds.start), ("end", &bounds.end)] {
        let Some(Instant { at, note }) = bound else { continue };
        console.note(&format!("{word} {} ({}), {}", rfc3339(*at, zone), zone.name(), Relative { now }.either(*at)));
        if let Some(note) = note {
            console.note(note);
        }
    }
}

/// Whether what is asked for is counted from now or read on a local clock, so that a wrong clock matters to who asks.
pub(super) fn depends_on_a_clock(args: &AddArgs) -> bool {
    let counts_from_1970 = |text: &str| text.trim_start_matches('@').bytes().all(|b| b.is_ascii_digit());
    let is_local = |text: &String| !counts_from_1970(text.trim()) && text.parse::<jiff::Timestamp>().is_err();
    let bounds = [&args.anchor, &args.start, &args.end];
    args.start_in.is_some() || args.at.iter().chain(bounds.into_iter().flatten()).any(is_local)
}

/// The coming of a local time that `fold` asks for. An instant without a note comes once, or says its offset.
fn folded(read: Instant, fold: Option<Fold>, zone: &Zone) -> Instant {
    let Some((first, second)) = both_comings(read.at, zone).filter(|_| read.note.is_some()) else { return read };
    let tell = |at: UnixMillis| rfc3339(at, zone);
    let (at, said) = match fold {
        None if read.at == second => return read,
        None => {
            (first, format!("the first is taken, {}; the second is {}, which --fold second takes", tell(first), tell(second)))
        }
        Some(Fold::First) => (first, format!("the first is taken, {}", tell(first))),
        Some(Fold::Second) => (second, format!("the second is taken, {}", tell(second))),
    };
    let note = format!("it comes twice in {}: {said}", zone.name());
    Instant { at, note: Some(note) }
}

/// Both instants at which the local time of `at` is shown, if there are two.
fn both_comings(at: UnixMillis, zone: &Zone) -> Option<(UnixMillis, UnixMillis)> {
    let rules = zone.rules();
    let ambiguous = rules.to_ambiguous_timestamp(rules.to_datetime(at.to_timestamp()));
    let AmbiguousOffset::Fold { .. } = ambiguous.offset() else { return None };
    let [first, second] = [ambiguous.earlier(), ambiguous.later()].map(|at| at.ok().and_then(UnixMillis::from_timestamp));
    first.zip(second)
}

/// Says at which instant a job runs once.
pub(super) fn tell_due(at: UnixMillis, now: UnixMillis, zone: &Zone, console: &mut Console) {
    console.note(&format!("at {} ({}), {}", rfc3339(at, zone), zone.name(), Relative { now }.either(at)));
}

/// Refuses an instant that is past, and says which one was understood.
pub(super) fn judge_instant(
    args: &AddArgs,
    text: &str,
    instant: &Instant,
    now: UnixMillis,
    zone: &Zone,
    console: &mut Console,
) -> Result<(), Failure> {
    let (at, name) = (instant.at, zone.name());
    if at < now && !args.allow_past {
        let ago = span(now.since(at));
        return Err(Failure::Invalid(format!(
            "--at {text:?} is {ago} ago: {} in {name}; wanted a time to come, or --allow-past to run it at once",
            shown(at, zone)
        )));
    }
    tell_due(at, now, zone, console);
    if let Some(note) = &instant.note {
        console.note(note);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_time_that_comes_twice_the_one_asked_for_is_taken() {
        let berlin = Zone::load(&"Europe/Berlin".parse().unwrap()).unwrap();
        let take = |text: &str, now: &str, fold: Option<Fold>| {
            let now = UnixMillis::from_timestamp(now.parse().unwrap()).unwrap();
            let taken = folded(parse_instant(text, now, &berlin).unwrap(), fold, &berlin);
            (taken.at.to_string(), taken.note)
        };
        let (first, second) = ("2027-10-31T00:30:00.000Z", "2027-10-31T01:30:00.000Z");
        let (before, between) = ("2027-10-01T00:00:00Z", "2027-10-31T01:00:00Z");
        for (fold, wanted) in [(None, first), (Some(Fold::First), first), (Some(Fold::Second), second)] {
            let (at, note) = take("2027-10-31T02:30", before, fold);
            assert_eq!(at, wanted, "{fold:?}");
            assert_eq!(note.unwrap().contains("--fold second"), fold.is_none());
        }
        assert_eq!(take("02:30", between, None).0, second);
        assert_eq!(take("02:30", between, Some(Fold::First)).0, first);
        for once in ["2027-10-31T02:30:00+02:00", "2027-10-31T04:30"] {
            assert_eq!(take(once, before, Some(Fold::Second)), take(once, before, None), "{once}");
        }
    }
}
