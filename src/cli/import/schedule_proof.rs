//! `--compare`: the next times of the written jobs, against those by the crontab's own rules.

use serde_json::{Value, json};

use super::crontab_field::FieldItem;
use super::crontab_times::CrontabTimes;
use super::imported_job::ImportedJob;
use crate::cli::failure::CliFailure;
use crate::cli::local_zone::local_zone;
use crate::cli::render::rfc3339;
use schedd_core::config;
use schedd_core::config::Rendering;
use schedd_schedule::names::JobName;
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_schedule::timetable::Timetable;

/// The result of the comparison for one job.
#[derive(Debug)]
pub(super) struct ComparedJob {
    pub(super) name: JobName,
    pub(super) is_equal: bool,
    /// The result in words.
    pub(super) words: String,
}

impl ComparedJob {
    pub(super) fn json(&self) -> Value {
        json!({"job": self.name.as_str(), "equal": self.is_equal, "result": self.words})
    }
}

/// Compares the next `count` times after `now` of each job in the written file `text` with those of
/// its line.
pub(super) fn compare(
    text: &str,
    jobs: &[ImportedJob],
    now: UnixMillis,
    count: usize,
) -> Result<Vec<ComparedJob>, CliFailure> {
    let config =
        config::compile_text(text, "the written file", &local_zone()).map_err(|error| {
            CliFailure::Config(
                error.rendered(Rendering::Lines).lines().map(str::to_owned).collect(),
            )
        })?;
    let compared = jobs.iter().map(|job| {
        let stored = config.jobs.get(&job.name);
        let spec = stored.and_then(|stored| stored.spec().ok());
        let verdict = match (spec, Zone::load(&job.zone)) {
            (Some(spec), Ok(zone)) if spec.tz.as_ref() == Some(zone.name()) => {
                let schedule = spec.schedule.for_job(&job.name, spec.dst);
                if schedule.is_at_boot() || job.entry.fields.is_none() {
                    at_boot(&schedule, job)
                } else {
                    let table = Timetable::shaped(schedule, &spec.shape, zone.clone(), now);
                    of_times(job, &table, &zone, now, count)
                }
            }
            _ => Err("the written file has no such job in the zone of the crontab".to_owned()),
        };
        let is_equal = verdict.is_ok();
        let words = verdict.unwrap_or_else(|difference| difference);
        ComparedJob { name: job.name.clone(), is_equal, words }
    });
    Ok(compared.collect())
}

fn at_boot(schedule: &Schedule, job: &ImportedJob) -> Result<String, String> {
    if schedule.is_at_boot() && job.entry.fields.is_none() {
        Ok("equal: runs after each boot".to_owned())
    } else {
        Err("differs: only one of both runs after each boot".to_owned())
    }
}

fn of_times(
    job: &ImportedJob,
    table: &Timetable,
    zone: &Zone,
    now: UnixMillis,
    count: usize,
) -> Result<String, String> {
    // A value that was drawn outside the range of the crontab makes the times differ.
    let drawn = |place: usize, at: usize| {
        let item = job.entry.fields.as_ref().and_then(|fields| fields.get(place)?.items.get(at));
        item.and_then(|item| drawn_value(&job.name, place, item)).unwrap_or_default()
    };
    let by_crontab = CrontabTimes::of(&job.entry, drawn)
        .map(|times| times.after(now, zone, count))
        .unwrap_or_default();
    let next = |at: &UnixMillis| table.next_after(*at);
    let by_schedd: Vec<UnixMillis> =
        std::iter::successors(table.next_after(now), next).take(count).collect();
    let shown =
        |at: Option<&UnixMillis>| at.map_or_else(|| "none".to_owned(), |at| rfc3339(*at, zone));
    let longest = by_crontab.len().max(by_schedd.len());
    for index in 0..longest {
        let (wanted, found) = (by_crontab.get(index), by_schedd.get(index));
        if wanted != found {
            let number = index + 1;
            return Err(format!(
                "differs at time {number}: {} by the crontab, {} by schedd",
                shown(wanted),
                shown(found)
            ));
        }
    }
    match by_schedd.last() {
        Some(last) => {
            Ok(format!("equal: the next {longest} times, until {}", rfc3339(*last, zone)))
        }
        None => Err("differs: no times before 2100".to_owned()),
    }
}

/// Returns the value that schedd draws for an item of a job's field, if it is in the item's range.
fn drawn_value(job: &JobName, place: usize, item: &FieldItem) -> Option<u8> {
    let mut fields = ["*"; 5];
    fields[place] = &item.written;
    let Ok(Schedule::Cron(list)) = Schedule::of_cron(&fields.join(" ")) else { return None };
    let text = list.first()?.text_for(job.as_str());
    let first = text.split(' ').nth(place)?.split(',').next()?.parse().ok()?;
    item.drawn_from().contains(&first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::super::crontab_line::UserColumn;
    use super::super::crontab_source::CrontabText;
    use super::super::imported_crontab::ImportedCrontab;
    use super::super::imported_file::written;
    use super::*;

    #[test]
    fn a_job_with_other_times_than_its_line_is_found() {
        let zone = Zone::named("Europe/Berlin").unwrap();
        let text = "30 2 * * * a\n@reboot b\n7~9 * * * * c\n0 0 1 1 * d\n".into();
        let name = "crontab".to_owned();
        let source =
            CrontabText { name, text, column: UserColumn::Absent, owner: None, drop_in: None };
        let mut imported = ImportedCrontab::default();
        imported.add(&source, &zone);
        let file = written(&imported, "crontab", None);
        let now = UnixMillis::from_timestamp("2027-03-20T00:00:00Z".parse().unwrap()).unwrap();
        let compared = |file: &str| -> Vec<(bool, String)> {
            let jobs = compare(file, &imported.jobs, now, 50).unwrap();
            jobs.into_iter().map(|job| (job.is_equal, job.words)).collect()
        };
        assert!(compared(&file).iter().all(|(is_equal, _)| *is_equal), "{:?}", compared(&file));
        for (from, to, index, words) in [
            (
                "\"30 2 * * *\"",
                "\"*/30 2 * * *\"",
                0,
                "differs at time 1: 2027-03-20T02:30:00.000+01:00 by the crontab, 2027-03-20T02:00:00.000+01:00 by schedd",
            ),
            (
                "shell = \"a\"",
                "shell = \"a\"\ndst = { gap = \"skip\" }",
                0,
                "differs at time 9: 2027-03-28T03:00",
            ),
            ("\"@reboot\"", "\"@daily\"", 1, "only one of both"),
            ("\"H(7-9) ", "\"10 ", 2, "differs at time 1"),
            ("0 0 1 1 *\"", "0 0 0 1 1 * 2040\"", 3, "differs"),
            ("tz = \"Europe/Berlin\"", "tz = \"UTC\"", 3, "no such job in the zone"),
        ] {
            assert!(file.contains(from), "{from}: {file}");
            let (is_equal, found) = &compared(&file.replacen(from, to, 1))[index];
            assert!(!is_equal && found.contains(words), "{to}: {found}");
        }
    }
}
