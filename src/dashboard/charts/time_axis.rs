//! A horizontal axis of time, in percent of the width of a drawing.

use std::time::Duration;

use crate::dashboard::page_clock::PageClock;
use schedd_schedule::time::unix_millis::UnixMillis;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// The distances of ticks, each with the format of its words.
const STEPS: [(u64, &str); 10] = [
    (MINUTE, "%H:%M"),
    (5 * MINUTE, "%H:%M"),
    (15 * MINUTE, "%H:%M"),
    (HOUR, "%H:%M"),
    (3 * HOUR, "%H:%M"),
    (6 * HOUR, "%H:%M"),
    (12 * HOUR, "%a %H:%M"),
    (DAY, "%a %d"),
    (7 * DAY, "%d %b"),
    (28 * DAY, "%d %b"),
];
/// The maximum number of ticks.
const MOST_TICKS: u64 = 8;

/// The longest change of a clock that is common.
const AN_HOUR: Duration = Duration::from_millis(HOUR);
/// The place behind which a tick has no words, in percent.
const LAST_WORDS: f64 = 95.0;

/// An axis of time from one time to another.
#[derive(Debug, Clone, Copy)]
pub(in crate::dashboard) struct TimeAxis {
    pub(in crate::dashboard) from: UnixMillis,
    pub(in crate::dashboard) to: UnixMillis,
}

/// A tick of an axis.
pub(in crate::dashboard) struct AxisTick {
    pub(in crate::dashboard) x: String,
    pub(in crate::dashboard) words: String,
}

impl TimeAxis {
    /// Returns the place of a time in percent, from 0 to 100.
    #[expect(clippy::cast_precision_loss, reason = "a place in a drawing")]
    pub(in crate::dashboard) fn place(self, at: UnixMillis) -> f64 {
        let whole = (self.to.as_i64() - self.from.as_i64()).max(1) as f64;
        ((at.as_i64() - self.from.as_i64()) as f64 * 100.0 / whole).clamp(0.0, 100.0)
    }

    /// Returns the length of the axis.
    pub(in crate::dashboard) fn length(self) -> Duration {
        self.to.since(self.from)
    }

    /// Returns the ticks at round times of the clock.
    pub(in crate::dashboard) fn ticks(self, clock: &PageClock) -> Vec<AxisTick> {
        let length = u64::try_from(self.length().as_millis()).unwrap_or(u64::MAX);
        let step = STEPS.iter().find(|(step, _)| length / step <= MOST_TICKS);
        let (step, format) = *step.unwrap_or(&STEPS[STEPS.len() - 1]);
        let mut ticks = Vec::new();
        let mut at = floor(self.from, step, clock);
        while at < self.to && ticks.len() < 64 {
            if at >= self.from {
                let place = self.place(at);
                // Words at the right edge would leave the drawing.
                let has_room = place < LAST_WORDS;
                let words = if has_room { clock.formatted(at, format) } else { String::new() };
                ticks.push(AxisTick { x: percent(place), words });
            }
            // A quarter more than a step leads to the next tick, unless the clock is turned back.
            let further = at.saturating_add(Duration::from_millis(step + step / 4));
            let next = floor(further, step, clock);
            at = if next > at { next } else { floor(further.saturating_add(AN_HOUR), step, clock) };
        }
        ticks
    }
}

/// Returns the last time up to `at` whose wall clock is a multiple of `step`, ms.
fn floor(at: UnixMillis, step: u64, clock: &PageClock) -> UnixMillis {
    let offset_of = |at: UnixMillis| {
        let local = at.to_timestamp().to_zoned(clock.zone().rules().clone());
        i64::from(local.offset().seconds()) * 1_000
    };
    let offset = offset_of(at);
    let step = i64::try_from(step).unwrap_or(i64::MAX);
    // Weeks begin on Monday; 1 January 1970 was a Thursday.
    let shift = if step % (7 * 86_400_000) == 0 { 4 * 86_400_000 } else { 0 };
    let wall = (at.as_i64() + offset - shift).div_euclid(step) * step + shift;
    let floor = UnixMillis::new(wall - offset).unwrap_or(UnixMillis::EPOCH);
    // The clock may have been changed in between.
    UnixMillis::new(wall - offset_of(floor)).unwrap_or(floor)
}

/// Returns a place as an attribute of SVG.
pub(in crate::dashboard) fn percent(place: f64) -> String {
    format!("{place:.2}%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::view_choices::ViewChoices;

    fn at(text: &str) -> UnixMillis {
        text.parse().ok().and_then(UnixMillis::from_timestamp).unwrap()
    }

    fn words(zone: &str, from: &str, to: &str) -> Vec<String> {
        let choices = ViewChoices { own_zone: Some(zone.to_owned()), ..ViewChoices::default() };
        let clock = PageClock::new(at(from), &choices);
        let axis = TimeAxis { from: at(from), to: at(to) };
        axis.ticks(&clock).into_iter().map(|tick| tick.words).collect()
    }

    #[test]
    fn ticks_are_round_times_of_the_clock_also_where_it_changes() {
        let day = words("Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z");
        let every_three = ["00:00", "03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00"];
        assert_eq!(day, every_three);
        let spring = words("Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z");
        assert_eq!(spring, every_three);
        let night = words("Europe/Berlin", "2026-10-24T23:00:00Z", "2026-10-25T04:00:00Z");
        assert_eq!(night, ["01:00", "02:00", "02:00", "03:00", "04:00"]);
        let week = words("Europe/Berlin", "2026-10-22T10:00:00Z", "2026-10-29T10:00:00Z");
        assert_eq!(week, ["Fri 23", "Sat 24", "Sun 25", "Mon 26", "Tue 27", "Wed 28", "Thu 29"]);
        let minutes = words("Asia/Kolkata", "2026-10-22T10:01:00Z", "2026-10-22T10:31:00Z");
        assert_eq!(minutes, ["15:35", "15:40", "15:45", "15:50", "15:55", ""]);
    }

    #[test]
    fn a_place_is_within_the_drawing() {
        let axis = TimeAxis { from: at("2026-10-22T10:00:00Z"), to: at("2026-10-22T11:00:00Z") };
        assert_eq!(percent(axis.place(at("2026-10-22T10:15:00Z"))), "25.00%");
        assert_eq!(percent(axis.place(at("2026-10-22T09:00:00Z"))), "0.00%");
        assert_eq!(percent(axis.place(at("2026-10-23T09:00:00Z"))), "100.00%");
    }
}
