//! The instants of `--at`, `--anchor`, `--start` and `--end`. `--fold` selects one of two instants
//! if the clock shows a local time twice.
//!
//! Invariant: each instant is printed, so that users can check it. If the clock shows a local time
//! twice, the other instant is printed too.

use std::time::Duration;

use jiff::tz::AmbiguousOffset;

use super::AddArgs;
use super::flags::key_flag::FoldFlag;
use crate::cli::failure::CliFailure;
use crate::cli::render::{Console, Relative, rfc3339, shown, span};
use schedd::adding::fixed_times;
use schedd_core::config::NamedJob;
use schedd_core::domain::job::job_spec::JobSpec;
use schedd_schedule::lateness::{Decision, Due, judge};
use schedd_schedule::time::human_time::{Instant, parse_instant};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_schedule::timetable::Timetable;

/// The maximum number of past times named in one warning.
const SHOWN: usize = 5;

/// Parses the text of each `--at` into an instant. Relative times count from `now`, and local times
/// are in `zone`.
pub(super) fn instants_of(
    args: &AddArgs,
    now: UnixMillis,
    zone: &Zone,
) -> Result<Vec<Instant>, CliFailure> {
    let read = |text: &str| {
        let read = parse_instant(text, now, zone)
            .map_err(|error| CliFailure::at_time("--at", text, &error))?;
        Ok(folded(read, args.keys.fold(), zone))
    };
    args.keys.texts("at").into_iter().map(read).collect()
}

/// The instants of `--anchor`, `--start` and `--end`; `None` for a flag that is not given.
#[derive(Debug, Default)]
pub(super) struct AddBounds {
    pub(super) anchor: Option<Instant>,
    pub(super) start: Option<Instant>,
    pub(super) end: Option<Instant>,
}

/// Parses `--anchor`, `--start` and `--end`. Relative times count from `now`, and local times are
/// in `zone`.
pub(super) fn bounds_of(
    args: &AddArgs,
    now: UnixMillis,
    zone: &Zone,
) -> Result<AddBounds, CliFailure> {
    let read = |flag: &str| {
        let text = args.keys.text(flag.trim_start_matches('-'))?;
        Some(
            parse_instant(text, now, zone).map_err(|error| CliFailure::at_time(flag, text, &error)),
        )
    };
    Ok(AddBounds {
        anchor: read("--anchor").transpose()?,
        start: read("--start").transpose()?,
        end: read("--end").transpose()?,
    })
}

/// Prints the instants of `--anchor`, `--start` and `--end`.
pub(super) fn report_bounds(
    bounds: &AddBounds,
    now: UnixMillis,
    zone: &Zone,
    console: &mut Console,
) {
    for (word, bound) in
        [("anchor", &bounds.anchor), ("start", &bounds.start), ("end", &bounds.end)]
    {
        let Some(Instant { at, note }) = bound else { continue };
        console.note(&format!(
            "{word} {} ({}), {}",
            rfc3339(*at, zone),
            zone.name(),
            Relative { now }.either(*at)
        ));
        if let Some(note) = note {
            console.note(note);
        }
    }
}

/// Returns true if a time flag is relative to now or has a local time. Then a wrong clock of this
/// host changes the meaning of the flag.
pub(super) fn depends_on_a_clock(args: &AddArgs) -> bool {
    let counts_from_1970 =
        |text: &str| text.trim_start_matches('@').bytes().all(|b| b.is_ascii_digit());
    let is_local =
        |text: &str| !counts_from_1970(text.trim()) && text.parse::<jiff::Timestamp>().is_err();
    let bounds = ["anchor", "start", "end"].into_iter().filter_map(|flag| args.keys.text(flag));
    args.keys.has("in") || args.keys.texts("at").into_iter().chain(bounds).any(is_local)
}

/// Returns the instant that `--fold` selects for a local time that the clock shows twice. Without
/// `--fold`, this is the first instant; for a time without a date, the second if the first is past.
/// Returns `read` if its text has an offset, or if the clock shows the time once.
///
/// The parser adds a note to each local time that the clock shows twice. So an instant without a
/// note is returned unchanged.
fn folded(read: Instant, fold: Option<FoldFlag>, zone: &Zone) -> Instant {
    let Some((first, second)) = both_comings(read.at, zone).filter(|_| read.note.is_some()) else {
        return read;
    };
    let report = |at: UnixMillis| rfc3339(at, zone);
    let (at, said) = match fold {
        None if read.at == second => return read,
        None => (
            first,
            format!(
                "the first time, {}, is used; --fold second uses the second time, {}",
                report(first),
                report(second)
            ),
        ),
        Some(FoldFlag::First) => (first, format!("the first time, {}, is used", report(first))),
        Some(FoldFlag::Second) => (second, format!("the second time, {}, is used", report(second))),
    };
    let note = format!("this time occurs twice in {}: {said}", zone.name());
    Instant { at, note: Some(note) }
}

/// Returns both instants at which the clock of `zone` shows the local time of `at`, or `None` if
/// the clock shows this time once.
fn both_comings(at: UnixMillis, zone: &Zone) -> Option<(UnixMillis, UnixMillis)> {
    let rules = zone.rules();
    let ambiguous = rules.to_ambiguous_timestamp(rules.to_datetime(at.to_timestamp()));
    let AmbiguousOffset::Fold { .. } = ambiguous.offset() else { return None };
    let [first, second] = [ambiguous.earlier(), ambiguous.later()]
        .map(|at| at.ok().and_then(UnixMillis::from_timestamp));
    first.zip(second)
}

/// Prints the instant at which a job runs once. For an instant within the next second, prints that
/// the job runs now.
pub(super) fn report_due(at: UnixMillis, now: UnixMillis, zone: &Zone, console: &mut Console) {
    if at >= now && at.since(now) < Duration::from_secs(1) {
        return console.note("the job runs now");
    }
    console.note(&format!(
        "at {} ({}), {}",
        rfc3339(at, zone),
        zone.name(),
        Relative { now }.either(at)
    ));
}

/// Refuses past instants of `--at` unless `--allow-past` is given.
pub(super) fn refuse_past(
    args: &AddArgs,
    instants: &[Instant],
    now: UnixMillis,
    zone: &Zone,
) -> Result<(), CliFailure> {
    let past =
        args.keys.texts("at").into_iter().zip(instants).find(|(_, instant)| instant.at < now);
    let Some((text, Instant { at, .. })) = past.filter(|_| !args.keys.has("allow-past")) else {
        return Ok(());
    };
    let (ago, name) = (span(now.since(*at)), zone.name());
    Err(CliFailure::Invalid(format!(
        "--at {text:?} is {ago} ago: {} in {name}; wanted a future time, or --allow-past to run the job at once",
        shown(*at, zone)
    )))
}

/// Prints each future instant of `--at`, or a warning with the reason why the job does not run
/// then. A past instant is allowed by `--allow-past`, which asks for a run at once. So the function
/// fails if the job would not run for a past instant.
///
/// Returns the past instant for which the job is to run at once, or `None`. Only the later write to
/// Redis finds out if the job already ran for this instant.
pub(super) fn report_instants(
    args: &AddArgs,
    instants: &[Instant],
    job: &NamedJob,
    now: UnixMillis,
    zone: &Zone,
    console: &mut Console,
) -> Result<Option<UnixMillis>, CliFailure> {
    let table = Timetable::shaped(job.spec.schedule.clone(), &job.spec.shape, zone.clone(), now);
    let mut owed = None;
    for (text, instant) in args.keys.texts("at").into_iter().zip(instants) {
        let at = instant.at;
        match (why_not(&job.spec, &table, at, now), at < now) {
            (Some(why), true) => {
                return Err(CliFailure::Invalid(format!(
                    "--at {text:?} is past, and the job would not run at once: {why}"
                )));
            }
            (Some(why), false) => {
                console.warn(&format!("the job does not run at --at {text:?}: {why}"));
            }
            (None, true) => owed = Some(at),
            (None, false) => report_due(at, now, zone, console),
        }
        if let Some(note) = &instant.note {
            console.note(note);
        }
    }
    Ok(owed)
}

/// Returns the past times for which a job that is added at `now` gets no run, with the reasons, as
/// text. Returns `None` if there are no such times.
pub(super) fn past_without_run(
    spec: &JobSpec,
    now: UnixMillis,
    host_zone: &Zone,
) -> Option<String> {
    let past: Vec<UnixMillis> = fixed_times(spec).iter().copied().filter(|at| *at < now).collect();
    let newest = *past.iter().max()?;
    let zone = spec.tz.as_ref().and_then(|name| Zone::load(name).ok());
    let zone = zone.unwrap_or_else(|| host_zone.clone());
    let table = Timetable::shaped(spec.schedule.clone(), &spec.shape, zone, now);
    let (mut older, mut barred) = (Vec::new(), Vec::new());
    for at in past.into_iter().filter(|at| why_not(spec, &table, *at, now).is_some()) {
        if at < newest { older.push(at.to_string()) } else { barred.push(at.to_string()) }
    }
    let group = |times: Vec<String>, why: &str| {
        let more = times.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let shown = times.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
        (!times.is_empty()).then(|| format!("for {shown}{more}: {why}"))
    };
    let groups = [
        group(older, "only the newest past time runs"),
        group(
            barred,
            "a rule of the job (skip_if_late, catch_up, exclude, only_on, start, end) excludes this time",
        ),
    ];
    groups.into_iter().flatten().reduce(|text, more| format!("{text}; nor {more}"))
}

/// Returns the reason why a job that is added at `now` does not run at `at`, one of its instants.
/// Returns `None` if the job runs then.
fn why_not(spec: &JobSpec, table: &Timetable, at: UnixMillis, now: UnixMillis) -> Option<String> {
    if table.count_in(at, at) == 0 {
        return Some("--exclude, --only-on, --start or --end excludes this time".to_owned());
    }
    let first = table.latest_in(UnixMillis::EPOCH, now).unwrap_or(now);
    if at < first {
        return Some(format!("only the newest past time runs, {first}; remove the older times"));
    }
    let due = Due {
        timetable: table,
        since: now,
        taken: UnixMillis::EPOCH,
        catch_up: &spec.catch_up,
        skip_if_late: spec.shape.skip_if_late,
        late_after: spec.late_after,
        due: at,
        not_before: UnixMillis::EPOCH,
        now,
    };
    if at < now && matches!(judge(due), Decision::Skip { .. }) {
        return Some(
            "--catch-up skip, --max-age or --skip-if-late skips a run this late".to_owned(),
        );
    }
    let most = spec.shape.max_runs.filter(|most| table.count_in(first, at) > u64::from(*most))?;
    Some(format!("--max-runs {most} is reached before this time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_time_that_comes_twice_the_one_asked_for_is_taken() {
        let berlin = Zone::load(&"Europe/Berlin".parse().unwrap()).unwrap();
        let take = |text: &str, now: &str, fold: Option<FoldFlag>| {
            let now = UnixMillis::from_timestamp(now.parse().unwrap()).unwrap();
            let taken = folded(parse_instant(text, now, &berlin).unwrap(), fold, &berlin);
            (taken.at.to_string(), taken.note)
        };
        let (first, second) = ("2027-10-31T00:30:00.000Z", "2027-10-31T01:30:00.000Z");
        let (before, between) = ("2027-10-01T00:00:00Z", "2027-10-31T01:00:00Z");
        for (fold, wanted) in
            [(None, first), (Some(FoldFlag::First), first), (Some(FoldFlag::Second), second)]
        {
            let (at, note) = take("2027-10-31T02:30", before, fold);
            assert_eq!(at, wanted, "{fold:?}");
            assert_eq!(note.unwrap().contains("--fold second"), fold.is_none());
        }
        assert_eq!(take("02:30", between, None).0, second);
        assert_eq!(take("02:30", between, Some(FoldFlag::First)).0, first);
        for once in ["2027-10-31T02:30:00+02:00", "2027-10-31T04:30"] {
            assert_eq!(
                take(once, before, Some(FoldFlag::Second)),
                take(once, before, None),
                "{once}"
            );
        }
    }
}
