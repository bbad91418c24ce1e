//! The load of each hour of the week, and the minutes in which the most runs start.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Weekday;

use super::time_axis::percent;
use crate::dashboard::page_clock::{DocumentTime, PageClock};
use crate::dashboard::page_link::job_path;
use crate::dashboard::shown_text::ShownText;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The height of a day.
const ROW: usize = 26;
/// The number of minutes that are named.
const MINUTES: usize = 8;
/// The number of jobs that are named for a minute.
const NAMES: usize = 8;
/// The days, from Monday.
const DAYS: [Weekday; 7] = [
    Weekday::Monday,
    Weekday::Tuesday,
    Weekday::Wednesday,
    Weekday::Thursday,
    Weekday::Friday,
    Weekday::Saturday,
    Weekday::Sunday,
];

/// The load of each hour of the week.
pub(in crate::dashboard) struct HeatMap {
    pub(in crate::dashboard) days: Vec<HeatDay>,
    /// The highest number of starts in an hour.
    pub(in crate::dashboard) most: u64,
    /// The minutes in which the most runs start, the fullest first.
    pub(in crate::dashboard) fullest: Vec<FullMinute>,
}

/// A day of the week with its hours.
pub(in crate::dashboard) struct HeatDay {
    pub(in crate::dashboard) word: &'static str,
    pub(in crate::dashboard) cells: Vec<HeatCell>,
}

/// An hour of a day of the week.
pub(in crate::dashboard) struct HeatCell {
    pub(in crate::dashboard) count: u64,
    pub(in crate::dashboard) level: u64,
    pub(in crate::dashboard) x: String,
    pub(in crate::dashboard) middle: String,
    pub(in crate::dashboard) y: usize,
}

/// A minute in which several runs start.
pub(in crate::dashboard) struct FullMinute {
    pub(in crate::dashboard) at: DocumentTime,
    pub(in crate::dashboard) count: usize,
    /// The first jobs that start: the path of the page, and the name.
    pub(in crate::dashboard) jobs: Vec<(String, ShownText)>,
    pub(in crate::dashboard) more: usize,
}

impl HeatMap {
    /// The width of an hour.
    pub(in crate::dashboard) const WIDTH: &'static str = "4.00%";

    /// Returns the map of these starts, each with the name of its job.
    pub(in crate::dashboard) fn of<'s>(
        starts: impl Iterator<Item = (UnixMillis, &'s str)>,
        clock: &PageClock,
    ) -> Self {
        let zone = clock.zone();
        let mut hours = [[0_u64; 24]; 7];
        let mut minutes: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
        for (at, job) in starts {
            let local = at.to_timestamp().to_zoned(zone.rules().clone());
            let day = usize::try_from(local.weekday().to_monday_zero_offset()).unwrap_or(0);
            let hour = usize::try_from(local.hour()).unwrap_or(0);
            hours[day.min(6)][hour.min(23)] += 1;
            minutes.entry(at.as_i64() / 60_000).or_default().push(job);
        }
        let most = hours.iter().flatten().copied().max().unwrap_or(0);
        let cell = |(day, hour): (usize, usize)| {
            let count = hours[day][hour];
            #[expect(clippy::cast_precision_loss, reason = "a place in a drawing")]
            let x = hour as f64 * 100.0 / 24.0;
            HeatCell {
                count,
                // From 0 for no start to 5 for the most.
                level: (count * 5).div_ceil(most.max(1)),
                x: percent(x),
                middle: percent(x + 2.0),
                y: day * ROW,
            }
        };
        let day = |(at, day): (usize, &Weekday)| HeatDay {
            word: word(*day),
            cells: (0..24).map(|hour| cell((at, hour))).collect(),
        };
        let mut full: Vec<(i64, Vec<&str>)> =
            minutes.into_iter().filter(|(_, jobs)| jobs.len() > 1).collect();
        full.sort_by_key(|(minute, jobs)| (std::cmp::Reverse(jobs.len()), *minute));
        full.truncate(MINUTES);
        Self {
            days: DAYS.iter().enumerate().map(day).collect(),
            most,
            fullest: full.into_iter().filter_map(full_minute).collect(),
        }
    }

    /// Returns the height of the drawing without its axis.
    pub(in crate::dashboard) fn height(&self) -> usize {
        self.days.len() * ROW
    }

    /// Returns the sum of all starts.
    pub(in crate::dashboard) fn sum(&self) -> u64 {
        self.days.iter().flat_map(|day| &day.cells).map(|cell| cell.count).sum()
    }
}

fn full_minute((minute, jobs): (i64, Vec<&str>)) -> Option<FullMinute> {
    let count = jobs.len();
    let names: BTreeSet<&str> = jobs.into_iter().collect();
    let shown = names.iter().take(NAMES).map(|name| (job_path(name), ShownText::new(name)));
    Some(FullMinute {
        at: DocumentTime::of(UnixMillis::new(minute * 60_000)?),
        count,
        jobs: shown.collect(),
        more: names.len().saturating_sub(NAMES),
    })
}

fn word(day: Weekday) -> &'static str {
    match day {
        Weekday::Monday => "Mon",
        Weekday::Tuesday => "Tue",
        Weekday::Wednesday => "Wed",
        Weekday::Thursday => "Thu",
        Weekday::Friday => "Fri",
        Weekday::Saturday => "Sat",
        Weekday::Sunday => "Sun",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::view_choices::ViewChoices;

    #[test]
    fn starts_count_in_the_hour_of_the_readers_clock() {
        let at = |text: &str| text.parse().ok().and_then(UnixMillis::from_timestamp).unwrap();
        let choices =
            ViewChoices { own_zone: Some("Asia/Tokyo".to_owned()), ..ViewChoices::default() };
        let clock = PageClock::new(at("2026-11-27T00:00:00Z"), &choices);
        let starts = [
            (at("2026-11-27T18:30:00Z"), "a"),
            (at("2026-11-27T18:30:59Z"), "b"),
            (at("2026-11-27T18:31:00Z"), "a"),
        ];
        let map = HeatMap::of(starts.into_iter(), &clock);
        let saturday = &map.days[5];
        assert_eq!(
            (saturday.word, saturday.cells[3].count, saturday.cells[3].level),
            ("Sat", 3, 5)
        );
        assert_eq!((map.most, map.sum()), (3, 3));
        assert_eq!(map.fullest.len(), 1);
        let names: Vec<&str> = map.fullest[0].jobs.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!((map.fullest[0].count, names), (2, vec!["a", "b"]));
    }
}
