//! A test walker that visits every real minute around a clock change and decides which jobs
//! cron(8) would start at each minute.

use jiff::civil::DateTime;
use jiff::{Timestamp, ToSpan as _};

use super::oracle_known::OracleKnown;
use crate::clock_changes::{ClockChanges, Fold, Gap};
use crate::time::zone::Zone;

/// The smallest jump of the wall clock, in minutes, that cron(8) takes for a correction of the
/// clock. A smaller jump is a change to or from daylight saving time.
const CORRECTION: i64 = 180;
/// The number of minutes in a window before the clock change, and the number of minutes after the
/// change.
const HALF: i64 = 30 * 60;

/// A window of two and a half days of real minutes around a clock change. Each minute has the time
/// that the wall clock shows.
pub(super) struct WalkWindow {
    pub(super) zone: Zone,
    first_minute: i64,
    clock: Vec<Shown>,
}

/// The time `now` that the wall clock shows at a minute. `step` is the number of minutes by which
/// the wall clock moved since the previous minute. `comes_again` is true if the clock is later set
/// back and shows `now` a second time.
struct Shown {
    now: DateTime,
    step: i64,
    comes_again: bool,
}

impl Shown {
    fn is_correction(&self) -> bool {
        (self.step - 1).abs() >= CORRECTION
    }
}

impl WalkWindow {
    pub(super) fn around(zone: &Zone, change: Timestamp) -> Self {
        let first_minute = change.as_second().div_euclid(60) - HALF;
        let show = |minute: i64| {
            zone.rules().to_datetime(Timestamp::from_second((first_minute + minute) * 60).unwrap())
        };
        let mut clock: Vec<Shown> = Vec::new();
        let mut before = show(-1);
        for minute in 0..2 * HALF {
            let now = show(minute);
            let shown = Shown { now, step: minutes_between(before, now), comes_again: false };
            if shown.step < 1 && !shown.is_correction() {
                let again = usize::try_from(1 - shown.step).unwrap();
                clock.iter_mut().rev().take(again).for_each(|earlier| earlier.comes_again = true);
            }
            clock.push(shown);
            before = now;
        }
        Self { zone: zone.clone(), first_minute, clock }
    }

    /// Returns the first second of the window.
    pub(super) fn start(&self) -> i64 {
        self.first_minute * 60
    }

    /// Returns the second after the last second of the window.
    pub(super) fn end(&self) -> i64 {
        (self.first_minute + 2 * HALF) * 60
    }
}

fn minutes_between(from: DateTime, to: DateTime) -> i64 {
    let between = to - from;
    i64::from(between.get_days()) * 1440
        + i64::from(between.get_hours()) * 60
        + between.get_minutes()
}

/// Returns the seconds of `window` at which cron(8) would start the job, with the job's `rule` for
/// clock changes.
pub(super) fn walk(
    window: &WalkWindow,
    [minute, hour, day, month, weekday]: &[OracleKnown; 5],
    rule: ClockChanges,
) -> Vec<i64> {
    let due = |clock: DateTime| {
        let date = clock.date();
        let today = || {
            let by_day = day.has(clock.day(), date);
            let by_weekday = weekday.has(date.weekday().to_sunday_zero_offset(), date);
            if day.starred || weekday.starred { by_day && by_weekday } else { by_day || by_weekday }
        };
        minute.has(clock.minute(), date)
            && hour.has(clock.hour(), date)
            && month.has(clock.month(), date)
            && today()
    };
    let wild = minute.starred || hour.starred;
    let runs_after_gap = rule.gap.map_or(!wild, |gap| gap == Gap::RunAfter);
    let fold = rule.fold.unwrap_or(if wild { Fold::Both } else { Fold::First });
    let mut starts = Vec::new();
    let mut passed = DateTime::MIN;
    let mut before = DateTime::MIN;
    for (number, shown) in window.clock.iter().enumerate() {
        let &Shown { now, step, comes_again } = shown;
        if step < 1 && !shown.is_correction() {
            passed = before;
        }
        let was_left_out = || {
            step > 1
                && !shown.is_correction()
                && (1..step).any(|minutes| due(now - minutes.minutes()))
        };
        let counts = match fold {
            Fold::First => now > passed || shown.is_correction(),
            Fold::Last => !comes_again,
            Fold::Both => true,
        };
        if counts && due(now) || runs_after_gap && was_left_out() {
            starts.push((window.first_minute + i64::try_from(number).unwrap()) * 60);
        }
        before = now;
    }
    starts
}
