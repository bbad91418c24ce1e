//! Tests of the findings about clock changes, with the clock of Berlin.

use super::explain_scene::{fresh, the_job};
use crate::domain::explain::{Facts, RunFacts, Subject, judge};
use crate::domain::job::job_spec::JobSpec;
use schedd_schedule::clock_changes::{Fold, Gap};
use schedd_schedule::names::RunId;
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_schedule::timetable::Timetable;

/// The first instant after the gap, 03:00 in Berlin. The clock skips 02:00 to 03:00.
const AFTER_GAP: &str = "2027-03-28T01:00:00Z";

fn at(text: &str) -> UnixMillis {
    UnixMillis::from_timestamp(text.parse().unwrap()).unwrap()
}

/// Returns facts about `subject` of a job with this cron expression in Berlin. The reader has the
/// clock of `local`.
fn berlin(cron: &str, subject: Subject, change: impl FnOnce(&mut JobSpec), local: &str) -> Facts {
    let zone = |name: &str| Zone::load(&name.parse().unwrap()).unwrap();
    let facts = the_job(vec![], None).with_job(|job| {
        let (spec, timetable) = job.definition.as_mut().unwrap();
        spec.schedule = Schedule::Cron(vec![cron.parse().unwrap()]);
        change(spec);
        let schedule = spec.schedule.for_job(&"j".parse().unwrap(), spec.dst);
        *timetable = Timetable::new(schedule, zone("Europe/Berlin"), UnixMillis::EPOCH);
        job.since = at("2027-01-01T00:00:00Z");
        job.pending = timetable.next_after(at("2027-06-01T00:00:00Z"));
    });
    let now = at("2027-06-01T00:00:00Z");
    Facts { subject, now, zone: zone("Europe/Berlin"), local: zone(local), ..facts }
}

fn run_due(due: &str) -> Subject {
    let run = RunId::regular("j".parse().unwrap(), at(due));
    Subject::Run(Box::new(RunFacts { run, ..fresh() }))
}

/// Returns the findings about clock changes and the rule `dst`.
fn found(facts: &Facts) -> Vec<String> {
    let is_such = |text: &String, code| code == "clock_change" || text.starts_with("dst = ");
    judge(facts)
        .into_iter()
        .filter(|found| is_such(&found.text, found.code))
        .map(|found| found.text)
        .collect()
}

#[test]
fn a_run_moved_by_a_gap_says_which_time_did_not_exist() {
    let moved = "02:30 does not exist this day: the run is due at 03:00.";
    let default = "dst = { gap = \"run-after\", fold = \"first\" } is the default.";
    let subject = || run_due(AFTER_GAP);
    let facts = berlin("30 2 * * *", subject(), |_| {}, "Europe/Berlin");
    assert_eq!(found(&facts), [moved, default]);
    let in_utc = berlin("30 2 * * *", subject(), |_| {}, "UTC");
    assert_eq!(found(&in_utc), [&format!("In Europe/Berlin: {moved}"), default]);
    let plain = berlin("30 2 * * *", run_due("2027-03-29T00:30:00Z"), |_| {}, "UTC");
    assert_eq!(found(&plain), Vec::<String>::new());
    let wild = berlin("*/15 * * * *", subject(), |_| {}, "Europe/Berlin");
    assert_eq!(
        found(&wild),
        [
            "02:00 to 02:45 do not exist this day.",
            "dst = { gap = \"skip\", fold = \"both\" } is the default."
        ]
    );
}

#[test]
fn a_time_that_a_gap_left_out_is_explained_with_the_rule() {
    let subject = || Subject::NotDue {
        at: at(AFTER_GAP),
        before: Some(at("2027-03-27T01:30:00Z")),
        after: Some(at("2027-03-29T00:30:00Z")),
    };
    let facts =
        berlin("30 2 * * *", subject(), |spec| spec.dst.gap = Some(Gap::Skip), "Europe/Berlin");
    assert_eq!(
        found(&facts),
        [
            "02:30 does not exist on 2027-03-28 and is left out.",
            "dst = { gap = \"skip\", fold = \"first\" }, set in [jobs.j] or [defaults] of the file of node n1."
        ]
    );
    let other = Subject::NotDue {
        at: at("2027-05-28T01:00:00Z"),
        before: Some(at("2027-05-28T00:30:00Z")),
        after: Some(at("2027-05-29T00:30:00Z")),
    };
    assert_eq!(found(&berlin("30 2 * * *", other, |_| {}, "UTC")), Vec::<String>::new());
}

#[test]
fn the_other_of_two_equal_times_is_explained() {
    let second = Subject::NotDue {
        at: at("2027-10-31T01:30:00Z"),
        before: Some(at("2027-10-31T00:30:00Z")),
        after: Some(at("2027-11-01T01:30:00Z")),
    };
    let used = "02:30 occurs twice this day: the first time is used.";
    let default = "dst = { gap = \"run-after\", fold = \"first\" } is the default.";
    assert_eq!(found(&berlin("30 2 * * *", second, |_| {}, "Europe/Berlin")), [used, default]);
    let first = berlin("30 2 * * *", run_due("2027-10-31T00:30:00Z"), |_| {}, "Europe/Berlin");
    assert_eq!(found(&first), [used, default]);
    let both = |spec: &mut JobSpec| spec.dst.fold = Some(Fold::Both);
    let first = berlin("30 2 * * *", run_due("2027-10-31T00:30:00Z"), both, "Europe/Berlin");
    assert!(found(&first)[0].contains("this run is the first of the two"), "{:?}", found(&first));
}

#[test]
fn a_time_is_shown_by_the_clock_of_the_reader_and_by_that_of_the_job() {
    let facts = berlin("30 2 * * *", run_due("2027-03-29T00:30:00Z"), |_| {}, "UTC");
    assert_eq!(
        facts.shown_for_job(facts.at().unwrap()),
        "Mon 2027-03-29 00:30:00 UTC (02:30:00 CEST in Europe/Berlin)"
    );
    let texts: Vec<String> = judge(&facts).into_iter().map(|found| found.text).collect();
    let next = "The next occurrence is due on Tue 2027-06-01 00:30:00 UTC (02:30:00 CEST in Europe/Berlin).";
    assert!(texts.iter().any(|text| text == next), "{texts:#?}");
}

#[test]
fn the_next_occurrence_comes_with_the_clock_change_before_it() {
    let mut facts = berlin("30 2 * * *", Subject::Never, |_| {}, "Europe/Berlin")
        .with_job(|job| job.pending = Some(at(AFTER_GAP)));
    facts.now = at("2027-03-28T00:00:00Z");
    let next = "The next occurrence is due on Sun 2027-03-28 03:00:00 CEST; 02:30 does not exist this day: the run is due at 03:00.";
    assert_eq!(judge(&facts).last().unwrap().text, next);
}
