//! The compiler of `[calendars.X]`, named sets of days. The days come from a list in the jobs file
//! and from an iCalendar file beside the jobs file.
//!
//! When the file is read, the days of a calendar are copied into the definition of each job that
//! names the calendar. So every node uses the same days, and a change of a calendar changes its
//! jobs.

use std::collections::BTreeMap;

use super::ics;
use crate::config::key::file_host::{FileHost, calendar_path, doubt_of_calendar};
use crate::config::syntax::known_keys;
use crate::config::syntax::problem::{Problems, quoted};
use crate::config::syntax::reader::{Spot, TableReader};
use schedd_schedule::day_sets::{DayItem, DaySet};
use schedd_schedule::time::zone::{Zone, ZoneName};

/// Compiles the calendars of a file, by name. `None` means a calendar with a fault, which is
/// noted. Relative paths start at the directory of `file_name` on `host`.
pub(crate) fn compile_calendars(
    root: &TableReader<'_>,
    (host, file_name): (FileHost<'_>, &str),
    host_zone: &Zone,
    problems: &mut Problems,
) -> BTreeMap<String, Option<DaySet>> {
    const WANTED: &str = "a table: [calendars.NAME]";
    let mut calendars = BTreeMap::new();
    let Some(table) = root.get("calendars").and_then(|spot| spot.table(WANTED, problems)) else {
        return calendars;
    };
    for (name, name_span, spot) in table.entries() {
        let is_name = (1..=63).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if !is_name {
            problems.fault(
                &spot.path,
                name_span,
                "not a name for a calendar, wanted up to 63 letters, digits and . _ -",
            );
        }
        let faults_before = problems.faults.len();
        let days = spot
            .table(WANTED, problems)
            .map(|table| compile_calendar(&table, (host, file_name), host_zone, problems));
        let days = days.filter(|_| problems.faults.len() == faults_before);
        if let Some(found) = days.as_ref().filter(|days| days.len() > DaySet::MOST).map(DaySet::len)
        {
            spot.fault(
                problems,
                format!("found {found} days and spans, wanted at most {}", DaySet::MOST),
            );
        }
        calendars.insert(name.to_owned(), days);
    }
    calendars
}

fn compile_calendar(
    table: &TableReader<'_>,
    (host, file_name): (FileHost<'_>, &str),
    host_zone: &Zone,
    problems: &mut Problems,
) -> DaySet {
    let slips = table.refuse_other_keys(&[known_keys::CALENDAR], &[], problems);
    let (dates, file) = (table.get("dates"), table.get("file"));
    if dates.is_none() && file.is_none() && !slips.may_be(&["dates", "file"]) {
        problems.fault(
            &table.path,
            table.span.clone(),
            "found no days, wanted dates = [\"2026-12-25\"] or file = \"holidays.ics\"",
        );
    }
    let zone = table.get("tz").and_then(|spot| spot.parsed::<ZoneName>("Europe/Berlin", problems));
    let zone = zone.and_then(|name| Zone::load(&name).ok()).unwrap_or_else(|| host_zone.clone());
    let mut items = Vec::new();
    if let Some(spot) = dates {
        match spot.as_items() {
            Some(list) => list.for_each(|item| items.extend(compile_item(&item, problems))),
            None => items.extend(compile_item(&spot, problems)),
        }
    }
    if let Some(spot) = file {
        items.extend(read_calendar(&spot, (host, file_name), &zone, problems));
    }
    DaySet::of(items)
}

fn compile_item(spot: &Spot<'_>, problems: &mut Problems) -> Option<DayItem> {
    let Some(text) = spot.as_text_or_date() else {
        return spot.wanted(problems, "a date such as \"2026-12-25\"");
    };
    if text.starts_with("calendar:") {
        let why = "but a calendar cannot name another calendar, wanted dates; \
                   a job can name both, such as exclude = [\"calendar:A\", \"calendar:B\"]";
        spot.fault(problems, format!("found {}, {why}", quoted(text)));
        return None;
    }
    text.parse()
        .map_err(|error: schedd_schedule::day_sets::DaysError| {
            spot.fault(problems, error.to_string());
        })
        .ok()
}

fn read_calendar(
    spot: &Spot<'_>,
    (host, file_name): (FileHost<'_>, &str),
    zone: &Zone,
    problems: &mut Problems,
) -> Vec<DayItem> {
    let Some(name) = spot.text("holidays.ics", problems) else { return Vec::new() };
    let path = calendar_path(file_name, name);
    let text = match host.calendar(&path) {
        Ok((text, doubt)) => {
            if let Some(doubt) = doubt {
                problems.warning(&spot.path, spot.span(), doubt_of_calendar(&path, &doubt));
            }
            text
        }
        Err(why) => {
            spot.fault(problems, format!("file {} {why}", quoted(&path.to_string_lossy())));
            return Vec::new();
        }
    };
    match ics::read(&text, zone, DaySet::MOST) {
        Ok(items) => items,
        Err(error) => {
            let (line, why) = (error.line, error.problem);
            let shown = quoted(&path.to_string_lossy());
            spot.fault(problems, format!("file {shown}, line {line}: {why}"));
            Vec::new()
        }
    }
}
