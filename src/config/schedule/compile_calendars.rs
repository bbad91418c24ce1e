//! The compiler of `[calendars.X]`, named sets of days. The days come from a list in the jobs file
//! and from an iCalendar file beside the jobs file.
//!
//! When the file is read, the days of a calendar are copied into the definition of each job that
//! names the calendar. So every node uses the same days, and a change of a calendar changes its
//! jobs.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::ics;
use crate::config::syntax::known_keys;
use crate::config::syntax::problem::{Problems, quoted};
use crate::config::syntax::reader::{Spot, TableReader};
use crate::domain::schedule::day_sets::{DayItem, DaySet};
use crate::domain::time::zone::{Zone, ZoneName};
use crate::files;
use crate::files::{OpenError, Owners, Way};

/// The maximum size of an iCalendar file, in bytes.
const MAX_CALENDAR_BYTES: u64 = 4 * 1024 * 1024;

/// Compiles the calendars of a file, by name. `None` means a calendar with a fault, which is
/// noted. Relative paths start at the directory of `file_name`.
pub(crate) fn compile_calendars(
    root: &TableReader<'_>,
    file_name: &str,
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
            .map(|table| compile_calendar(&table, file_name, host_zone, problems));
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
    file_name: &str,
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
        items.extend(read_calendar(&spot, file_name, &zone, problems));
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
        .map_err(|error: crate::domain::schedule::day_sets::DaysError| {
            spot.fault(problems, error.to_string());
        })
        .ok()
}

fn read_calendar(
    spot: &Spot<'_>,
    file_name: &str,
    zone: &Zone,
    problems: &mut Problems,
) -> Vec<DayItem> {
    let Some(name) = spot.text("holidays.ics", problems) else { return Vec::new() };
    let path = Path::new(file_name)
        .parent()
        .map_or_else(|| PathBuf::from(name), |directory| directory.join(name));
    let text = match read_text(&path) {
        Ok((text, doubt)) => {
            if let Some(doubt) = doubt {
                let message = format!(
                    "another user may write {} and so change when jobs run: {doubt}",
                    quoted(&path.to_string_lossy())
                );
                problems.warning(&spot.path, spot.span(), message);
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

/// Returns the text of an iCalendar file, and the reason why another user may have written the
/// file. Fails if the file is not a regular file or has more than [`MAX_CALENDAR_BYTES`].
fn read_text(path: &Path) -> Result<(String, Option<String>), String> {
    let cannot = |error: std::io::Error| format!("cannot be read: {error}");
    let owners = Owners::of_this_process();
    let opened = files::open(path, &owners, Way::Links).map_err(|error| match error {
        OpenError::Io(error) => cannot(error),
        OpenError::Kind(_) => "is not a regular file, wanted an iCalendar file".to_owned(),
    })?;
    if let Some(doubt) = opened.doubt.as_ref().filter(|_| owners.are_of_root()) {
        return Err(format!(
            "may be written by another user, so jobs of root cannot use the file: {doubt}"
        ));
    }
    let mut bytes = Vec::new();
    opened.file.take(MAX_CALENDAR_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MAX_CALENDAR_BYTES {
        return Err("has more than 4 MiB, wanted at most 4 MiB".to_owned());
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| "is not UTF-8, wanted an iCalendar file".to_owned())?;
    Ok((text, opened.doubt))
}
