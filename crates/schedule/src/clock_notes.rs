//! Notes that explain to users how a clock change of a zone affects an occurrence.
//!
//! Invariant: a note is derived from the wall clock and from the occurrences of the timetable, not
//! from the rule for clock changes. So a note is right under every rule.

use jiff::civil::{Date, DateTime};
use jiff::tz::AmbiguousOffset;

use super::timetable::Timetable;
use crate::time::unix_millis::UnixMillis;
use crate::time::zone::Zone;

/// The maximum number of clock changes examined between two occurrences. The limit covers the
/// decades that may lie between two occurrences of a rare schedule.
const CHANGES: usize = 400;

/// Returns the notes on the occurrence `at` of `table`. `after` is an earlier time, and `at` is the
/// first occurrence after it.
///
/// A note names the times that a clock change skipped since `after`, or says that the time of `at`
/// comes twice. A note also names the zone of `table` if it differs from the zone `shown`.
/// Examples: `02:30 does not exist this day: the run is due at 03:00`;
/// `02:30 occurs twice this day: the first time is used`.
pub fn clock_notes(
    table: &Timetable,
    after: UnixMillis,
    at: UnixMillis,
    shown: &Zone,
) -> Vec<String> {
    let with_zone = |zone: &Zone, note: String| {
        if zone.name() == shown.name() { note } else { format!("in {}: {note}", zone.name()) }
    };
    let mut notes = Vec::new();
    for clock in table.by_wall_clocks() {
        let mut own = left_out(&clock, after, at);
        own.extend(twice(&clock, at).filter(|_| comes_at(&clock, at)));
        notes.extend(own.into_iter().map(|note| with_zone(clock.zone(), note)));
    }
    if table.is_one_shot() {
        notes.extend(twice(table, at).map(|note| with_zone(table.zone(), note)));
    }
    notes
}

/// Returns a note for each clock change after `after` and up to `at` that skipped times of `table`.
fn left_out(table: &Timetable, after: UnixMillis, at: UnixMillis) -> Vec<String> {
    let zone = table.zone();
    let changes = zone.rules().following(after.to_timestamp()).take(CHANGES);
    let mut gaps = changes
        .map(|change| change.timestamp())
        .take_while(|change| *change <= at.to_timestamp())
        .peekable();
    if gaps.peek().is_none() {
        return Vec::new();
    }
    // On a clock without changes, the timetable also has the times that the gap skips.
    let wall = table.on_an_even_clock();
    gaps.filter_map(|change| {
        let change = UnixMillis::from_timestamp(change)?;
        let start = zone.wall(UnixMillis::new(change.as_i64() - 1)?)?;
        let start = UnixMillis::new(start.as_i64() + 1)?;
        let end = zone.wall(change)?;
        let last_within = UnixMillis::new(end.as_i64() - 1).filter(|last| *last > start)?;
        let first = wall
            .next_after(UnixMillis::new(start.as_i64() - 1)?)
            .filter(|first| *first <= last_within)?;
        let last = wall.latest_in(first, last_within)?;
        let (skipped_times, does_or_do, is_or_are) = if first == last {
            (clock(local(first)), "does", "is")
        } else {
            (format!("{} to {}", clock(local(first)), clock(local(last))), "do", "are")
        };
        let consequence = match () {
            () if !comes_at(table, change) => format!(" and {is_or_are} left out"),
            () if comes_at(&wall, end) => String::new(),
            () => format!(": the run is due at {}", clock(local(end))),
        };
        let on_day = day(local(first).date(), zone, at);
        Some(format!("{skipped_times} {does_or_do} not exist {on_day}{consequence}"))
    })
    .collect()
}

/// Returns a note if the wall clock shows the time of `at` twice. The note says if `at` is the
/// first or the second of the two instants, and if the other instant counts too.
fn twice(table: &Timetable, at: UnixMillis) -> Option<String> {
    let zone = table.zone();
    let shown = zone.rules().to_datetime(at.to_timestamp());
    let ambiguous = zone.rules().to_ambiguous_timestamp(shown);
    let AmbiguousOffset::Fold { .. } = ambiguous.offset() else { return None };
    let first = UnixMillis::from_timestamp(ambiguous.earlier().ok()?)?;
    let second = UnixMillis::from_timestamp(ambiguous.later().ok()?)?;
    let (first_or_second, other) = if at == first { ("first", second) } else { ("second", first) };
    let which_counts = if comes_at(table, other) {
        format!("this run is the {first_or_second} of the two")
    } else {
        format!("the {first_or_second} time is used")
    };
    let (time, on_day) = (clock(shown), day(shown.date(), zone, at));
    Some(format!("{time} occurs twice {on_day}: {which_counts}"))
}

fn comes_at(table: &Timetable, at: UnixMillis) -> bool {
    UnixMillis::new(at.as_i64() - 1).and_then(|before| table.next_after(before)) == Some(at)
}

fn local(wall: UnixMillis) -> DateTime {
    jiff::tz::TimeZone::UTC.to_datetime(wall.to_timestamp())
}

/// Formats a time as `02:30`, with seconds if they are not 0.
fn clock(shown: DateTime) -> String {
    shown.strftime(if shown.second() == 0 { "%H:%M" } else { "%H:%M:%S" }).to_string()
}

/// Returns `this day` if `at` falls on `date`, else `on` and the date.
fn day(date: Date, zone: &Zone, at: UnixMillis) -> String {
    if zone.rules().to_datetime(at.to_timestamp()).date() == date {
        "this day".to_owned()
    } else {
        format!("on {date}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock_changes::{ClockChanges, Gap};
    use crate::schedule_form::Schedule;

    /// Returns the notes on the first `count` occurrences of the cron expression after `from`. The
    /// local time of the occurrence precedes each note.
    fn noted(expression: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let zone = Zone::load(&zone.parse().unwrap()).unwrap();
        let schedule = Schedule::Cron(vec![expression.parse().unwrap()]);
        let table = Timetable::new(schedule, zone.clone(), UnixMillis::EPOCH);
        let mut after = UnixMillis::from_timestamp(from.parse().unwrap()).unwrap();
        let mut found = Vec::new();
        for _ in 0..count {
            let at = table.next_after(after).unwrap();
            for note in clock_notes(&table, after, at, &zone) {
                found.push(format!(
                    "{}: {note}",
                    zone.rules().to_datetime(at.to_timestamp()).strftime("%m-%d %H:%M")
                ));
            }
            after = at;
        }
        found
    }

    #[test]
    fn a_time_that_does_not_exist_is_reported_where_it_runs_or_that_it_is_left_out() {
        let eve = "2027-03-27T12:00:00Z";
        let berlin = |text: &str, count: usize| noted(text, "Europe/Berlin", eve, count);
        assert_eq!(
            berlin("30 2 * * *", 3),
            ["03-28 03:00: 02:30 does not exist this day: the run is due at 03:00"]
        );
        assert_eq!(
            berlin("0,30 2 * * *", 3),
            ["03-28 03:00: 02:00 to 02:30 do not exist this day: the run is due at 03:00"]
        );
        assert_eq!(
            berlin("30 2,3 * * *", 2),
            ["03-28 03:00: 02:30 does not exist this day: the run is due at 03:00"]
        );
        assert_eq!(
            berlin("*/15 * * * *", 100),
            ["03-28 03:00: 02:00 to 02:45 do not exist this day"]
        );
        assert_eq!(
            berlin("30 * * * *", 100),
            ["03-28 03:30: 02:30 does not exist this day and is left out"]
        );
        assert_eq!(
            berlin("*/15 2 * * *", 1),
            ["03-29 02:00: 02:00 to 02:45 do not exist on 2027-03-28 and are left out"]
        );
        assert_eq!(berlin("0 12 * * *", 10), [""; 0]);
        assert_eq!(
            noted("5 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", 2),
            ["09-06 01:00: 00:05 does not exist this day: the run is due at 01:00"]
        );
        assert_eq!(
            noted("0 12 * * *", "Pacific/Apia", "2011-12-29T23:00:00Z", 1),
            ["12-31 12:00: 12:00 does not exist on 2011-12-30 and is left out"]
        );
    }

    #[test]
    fn a_time_that_comes_twice_is_reported_which_one_it_is() {
        let eve = "2027-10-30T12:00:00Z";
        let berlin = |text: &str, count: usize| noted(text, "Europe/Berlin", eve, count);
        assert_eq!(
            berlin("30 2 * * *", 3),
            ["10-31 02:30: 02:30 occurs twice this day: the first time is used"]
        );
        assert_eq!(
            berlin("30 * * * *", 40),
            [
                "10-31 02:30: 02:30 occurs twice this day: this run is the first of the two",
                "10-31 02:30: 02:30 occurs twice this day: this run is the second of the two"
            ]
        );
        assert_eq!(berlin("0 3 * * *", 3), [""; 0]);
    }

    #[test]
    fn a_real_time_schedule_has_no_notes_and_a_one_shot_only_that_it_comes_twice() {
        let berlin = Zone::load(&"Europe/Berlin".parse().unwrap()).unwrap();
        let at = |text: &str| UnixMillis::from_timestamp(text.parse().unwrap()).unwrap();
        let first = at("2027-10-31T00:30:00Z");
        let every = Timetable::new(
            Schedule::Every(std::time::Duration::from_secs(3600)),
            berlin.clone(),
            UnixMillis::EPOCH,
        );
        assert_eq!(clock_notes(&every, at("2027-10-30T23:30:00Z"), first, &berlin), [""; 0]);
        let once = Timetable::new(Schedule::At(first), berlin.clone(), UnixMillis::EPOCH);
        assert_eq!(
            clock_notes(&once, UnixMillis::EPOCH, first, &berlin),
            ["02:30 occurs twice this day: the first time is used"]
        );
    }

    #[test]
    fn a_schedule_is_noted_among_real_time_ones_and_by_the_clock_of_its_own_zone() {
        let zone = |name: &str| Zone::load(&name.parse().unwrap()).unwrap();
        let at = |text: &str| UnixMillis::from_timestamp(text.parse().unwrap()).unwrap();
        let mixed = |gap| {
            let hours = Schedule::Every(std::time::Duration::from_secs(3600));
            let list =
                Schedule::Several(vec![hours, Schedule::Cron(vec!["30 2 * * *".parse().unwrap()])]);
            let list = list.for_job(&"a".parse().unwrap(), ClockChanges { gap, fold: None });
            Timetable::new(list, zone("Europe/Berlin"), at("2027-03-27T00:15:00Z"))
        };
        let (before, change) = (at("2027-03-28T00:15:00Z"), at("2027-03-28T01:00:00Z"));
        let berlin = zone("Europe/Berlin");
        let text = "02:30 does not exist this day: the run is due at 03:00";
        assert_eq!(clock_notes(&mixed(None), before, change, &berlin), [text]);
        let skips = mixed(Some(Gap::Skip));
        let later = at("2027-03-28T01:15:00Z");
        assert_eq!(
            clock_notes(&skips, before, later, &berlin),
            ["02:30 does not exist this day and is left out"]
        );
        let twice = at("2027-10-31T00:15:00Z");
        assert_eq!(clock_notes(&skips, at("2027-10-30T23:15:00Z"), twice, &berlin), [""; 0]);

        let own = Schedule::Calendar(vec!["02:30 Europe/Berlin".parse().unwrap()]);
        let table = Timetable::new(own, Zone::utc(), UnixMillis::EPOCH);
        let before = at("2027-03-27T12:00:00Z");
        assert_eq!(
            clock_notes(&table, before, change, &Zone::utc()),
            [format!("in Europe/Berlin: {text}")]
        );
        assert_eq!(clock_notes(&table, before, change, &berlin), [text]);
    }
}
