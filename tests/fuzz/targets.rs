//! The parsers and what is held against each: a text is read or refused, never a panic; what is read means the same when it is
//! written and read again; the next time is later; a refusal is one line that says what was wanted and points into the text;
//! and no text takes long. Shared by the fuzzer and the suite, which tries the corpus and damaged copies of it.

use std::cell::RefCell;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use schedd_core::config::{compile_text, from_canonical, job_from_json, read_ics, to_canonical};
use schedd_core::domain::job::env_file;
use schedd_core::domain::job::job_spec::JobSpec;
use schedd_core::domain::job::secret_reference;
use schedd_core::domain::job::secret_reference::ReferenceError;
use schedd_core::domain::job::unique_rule::UniqueKey;
use schedd_core::domain::name::byte_size::parse_size;
use schedd_core::domain::queue::gate::SharedKey;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::rate::Rate;
use schedd_keeper::{news_frame, order_frame, read_news, read_order};
use schedd_programs::api::check_request;
use schedd_programs::executor::wait_asked;
use schedd_schedule::clock_changes::ClockChanges;
use schedd_schedule::clock_notes::clock_notes;
use schedd_schedule::day_sets::{DayItem, DaySet};
use schedd_schedule::describe::{PhraseOf, in_words};
use schedd_schedule::names::{IdError, JobName, NodeName, QueueName, RunId};
use schedd_schedule::schedule_form::{CalendarExpr, Recurrence, Schedule};
use schedd_schedule::schedule_modifiers::Shape;
use schedd_schedule::time::duration::{format_duration, parse_duration};
use schedd_schedule::time::human_time::{parse_fixed, parse_instant};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::{Zone, ZoneName};
use schedd_schedule::timetable::Timetable;
use schedd_store::Address;

/// What reads a text, by name.
pub(crate) type Target = (&'static str, fn(&str));

/// Every parser of texts that people, files or servers write.
pub(crate) const TARGETS: [Target; 20] = [
    ("cron", cron),
    ("calendar", calendar),
    ("rrule", rrule),
    ("human_time", human_time),
    ("duration", duration),
    ("size", size),
    ("days", days),
    ("ics", ics),
    ("file", file),
    ("line", line),
    ("definition", definition),
    ("ids", ids),
    ("zone", zone),
    ("address", address),
    ("request", request),
    ("retry_after", retry_after),
    ("keys", keys),
    ("wire", wire),
    ("env_file", env_file),
    ("reference", reference),
];

/// The processor time one expression may take, in milliseconds: enough for a test build; the fuzzer sets less. In a release build
/// it is below one, which `script/bench limits` shows.
pub(crate) static MOST_MILLIS: AtomicU64 = AtomicU64::new(500);

fn most() -> Duration {
    Duration::from_millis(MOST_MILLIS.load(Ordering::Relaxed))
}

thread_local! {
    static SLOWEST: RefCell<(Duration, String)> = const { RefCell::new((Duration::ZERO, String::new())) };
}

/// The longest time one step of a target took on this thread since the last call, and the text it took it for.
pub(crate) fn slowest() -> (Duration, String) {
    SLOWEST.take()
}

/// The seeds of a target: the lines of its file in `corpus`, or what stands between lines of `----`.
pub(crate) fn seeds(corpus: &Path, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(corpus.join(name))
        .unwrap_or_else(|error| panic!("the seeds of {name}: {error}"));
    if text.contains("\n----\n") {
        text.split("----\n").map(str::to_owned).collect()
    } else {
        text.lines().map(str::to_owned).collect()
    }
}

fn ran() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// What `work` gives, if it gives it in time.
fn timed<T>(text: &str, most: Duration, work: impl Fn() -> T) -> T {
    let time = || {
        let begun = ran();
        (work(), ran().saturating_sub(begun))
    };
    let (result, mut took) = time();
    SLOWEST.with_borrow_mut(|slowest| {
        if took > slowest.0 {
            // Again: the first may have read zone data, or the processor was busy with others.
            took = took.min(time().1).min(time().1);
        }
        if took > slowest.0 {
            *slowest = (took, text.to_owned());
        }
    });
    assert!(took <= most, "{took:?} for {text:?}");
    result
}

fn berlin() -> Zone {
    zone_of("Europe/Berlin")
}

fn zone_of(name: &str) -> Zone {
    let name: ZoneName = name.parse().expect("zone data is installed");
    Zone::load(&name).expect("zone data is installed")
}

/// 2026-02-13, some time before both clock changes.
fn now() -> UnixMillis {
    UnixMillis::new(1_771_000_000_123).expect("in range")
}

/// A refusal says in one line what was wanted, or what there is instead.
fn is_clear(error: &impl Display) {
    let line = error.to_string();
    let says = ["wanted", ", write ", "does not exist in"].iter().any(|words| line.contains(words));
    assert!(says, "does not say what was wanted: {line}");
    assert!(!line.contains(['\n', '\r', '\0', '\u{1b}']), "more than a line: {line:?}");
    assert!(line.len() < 1_500, "{} bytes: {line}", line.len());
}

/// A refusal points at a character of the text, or right behind it.
fn points_into(text: &str, offset: usize) {
    assert!(
        offset <= text.len() && text.is_char_boundary(offset),
        "{offset} is no place in {text:?}"
    );
}

/// The next times are later, one after the other, and what is said of the schedule is said without a panic.
fn steps_forward(text: &str, schedule: &Schedule) {
    for zone in [Zone::utc(), berlin(), zone_of("Africa/Casablanca")] {
        let table = Timetable::new(schedule.clone(), zone.clone(), now());
        let mut at = now();
        for _ in 0..3 {
            let Some(next) = timed(text, most(), || table.next_after(at)) else { break };
            assert!(next > at, "{next} is not after {at}");
            assert!(table.left_out_by(next).is_none());
            let _ = clock_notes(&table, at, next, &zone);
            at = next;
        }
        let _ = (
            in_words(schedule, PhraseOf { zone: &zone, job: None, anchor: None }),
            schedule.text_with_zone(&zone),
        );
    }
}

fn cron(text: &str) {
    match timed(text, most(), || Schedule::of_cron(text)) {
        Ok(schedule) => {
            if let Schedule::Cron(list) = &schedule {
                assert!(list.iter().all(|expr| expr.as_str() == text));
            }
            let name: JobName = "backup".parse().expect("a name");
            steps_forward(text, &schedule.for_job(&name, ClockChanges::default()));
        }
        Err(error) => {
            is_clear(&error);
            points_into(text, error.offset);
        }
    }
}

fn calendar(text: &str) {
    match timed(text, most(), || CalendarExpr::from_str(text)) {
        Ok(expr) => {
            assert_eq!(expr.to_string(), text);
            steps_forward(text, &Schedule::Calendar(vec![expr]));
        }
        Err(error) => {
            is_clear(&error);
            points_into(text, error.offset);
        }
    }
}

/// A rule, with its start before it where there is a `|`.
fn rrule(text: &str) {
    let (start, rule) = text.split_once('|').unwrap_or(("2026-01-05T09:00", text));
    let Ok(start) = start.parse::<jiff::civil::DateTime>() else { return };
    if !(1970..2100).contains(&start.year()) {
        return;
    }
    match timed(text, most(), || Recurrence::new(rule, start)) {
        Ok(read) => {
            assert_eq!(
                (read.as_str(), read.start()),
                (rule, start.with().subsec_nanosecond(0).build().expect("a time"))
            );
            if let Some(first) = read.first_local_from(&Zone::utc(), 0) {
                assert_eq!(read.first_local_from(&Zone::utc(), first), Some(first));
            }
            steps_forward(text, &Schedule::Rules(vec![read]));
        }
        Err(error) => {
            is_clear(&error);
            points_into(rule, error.offset);
        }
    }
}

fn human_time(text: &str) {
    let zone = berlin();
    let fixed = timed(text, most(), || parse_fixed(text, Some(&zone)));
    match timed(text, most(), || parse_instant(text, now(), &zone)) {
        Ok(found) => {
            let written = found.at.to_string();
            let again = parse_instant(&written, now(), &zone).expect("what is printed is read");
            assert_eq!(again.at, found.at);
            if let Ok(fixed) = fixed {
                assert_eq!(fixed.at, found.at, "means two things: {text:?}");
            }
        }
        Err(error) => {
            is_clear(&error);
            points_into(text, error.offset);
            assert!(fixed.is_err(), "fixed and yet refused: {text:?}");
        }
    }
    if let Err(error) = parse_fixed(text, None) {
        is_clear(&error);
        points_into(text, error.offset);
    }
}

fn duration(text: &str) {
    match timed(text, most(), || parse_duration(text)) {
        Ok(found) => {
            let written = format_duration(found);
            assert_eq!(parse_duration(&written).ok(), Some(found), "{written}");
        }
        Err(error) => is_clear(&error),
    }
}

fn size(text: &str) {
    match timed(text, most(), || parse_size(text)) {
        Ok(bytes) => assert_eq!(parse_size(&format!("{bytes}B")), Ok(bytes)),
        Err(error) => is_clear(&error),
    }
}

/// Entries with a comma between them; behind a `|` a schedule they leave days out of, or let only those in.
fn days(text: &str) {
    let (list, cron) = text.split_once('|').unwrap_or((text, "30 2 * * *"));
    let mut items = Vec::new();
    for item in list.split(',') {
        match timed(item, most(), || DayItem::from_str(item)) {
            Ok(item) => items.push(item),
            Err(error) => is_clear(&error),
        }
    }
    let set = DaySet::of(items);
    let again: Result<Vec<DayItem>, _> = set.texts().iter().map(|text| text.parse()).collect();
    assert_eq!(again.map(DaySet::of).as_ref(), Ok(&set));
    let Some(schedule) = any_schedule(cron) else { return };
    let only_on =
        Shape { only_on: Some(set.clone()).filter(|days| !days.is_empty()), ..Shape::default() };
    for shape in [Shape { exclude: set, ..Shape::default() }, only_on] {
        let table = Timetable::shaped(schedule.clone(), &shape, berlin(), now());
        for from in [UnixMillis::EPOCH, now()] {
            if let Some(next) = timed(text, most(), || table.next_after(from)) {
                assert!(next > from && table.lets(next));
            }
        }
    }
}

/// A period, a rule, or an expression of cron or systemd.
fn any_schedule(text: &str) -> Option<Schedule> {
    if let Some(period) = text.strip_prefix("every ") {
        return parse_duration(period)
            .ok()
            .filter(|period| *period >= Duration::from_secs(1))
            .map(Schedule::Every);
    }
    if text.starts_with("FREQ") {
        let start = jiff::civil::date(1970, 1, 5).at(9, 0, 0, 0);
        return Recurrence::new(text, start).ok().map(|rule| Schedule::Rules(vec![rule]));
    }
    Schedule::of_cron(text)
        .ok()
        .or_else(|| text.parse().ok().map(|expr| Schedule::Calendar(vec![expr])))
}

fn ics(text: &str) {
    match timed(text, by_length(text), || read_ics(text, &berlin(), DaySet::MOST)) {
        Ok(items) => {
            let set = DaySet::of(items);
            let again: Result<Vec<DayItem>, _> =
                set.texts().iter().map(|text| text.parse()).collect();
            assert_eq!(again.map(DaySet::of).as_ref(), Ok(&set));
        }
        Err(error) => {
            is_clear(&error.problem);
            assert!(
                (1..=text.lines().count().max(1)).contains(&error.line),
                "line {} of {text:?}",
                error.line
            );
        }
    }
}

/// A definition reads back as itself from the text that is kept of it.
fn keeps(spec: &JobSpec) {
    let kept = to_canonical(spec);
    let again = from_canonical(&kept).expect("what was written is read");
    assert_eq!(to_canonical(&again), kept);
    assert_eq!(&again, spec);
}

/// A fixed share for the file and more for each kilobyte of it.
fn by_length(text: &str) -> Duration {
    most() + most() / 10 * u32::try_from(text.len() / 100).unwrap_or(u32::MAX)
}

fn file(text: &str) {
    match timed(text, by_length(text), || compile_text(text, "/nowhere/jobs.toml", &berlin())) {
        Ok(config) => config
            .jobs
            .values()
            .for_each(|job| keeps(&job.spec().expect("a stored job reads back"))),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn line(text: &str) {
    match timed(text, by_length(text), || job_from_json(text, &berlin())) {
        Ok(named) => {
            if named.start_in.is_none() {
                keeps(&named.spec);
            }
        }
        Err(problems) => assert!(!problems.is_empty()),
    }
}

fn definition(text: &str) {
    match timed(text, by_length(text), || from_canonical(text)) {
        Ok(spec) => keeps(&spec),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn reads_back<T: FromStr<Err = IdError> + Display + Debug + PartialEq>(text: &str) {
    match timed(text, most(), || text.parse::<T>()) {
        Ok(found) => {
            assert_eq!(found.to_string(), text);
            assert_eq!(text.parse::<T>().ok(), Some(found));
        }
        Err(error) => is_clear(&error),
    }
}

fn ids(text: &str) {
    reads_back::<JobName>(text);
    reads_back::<QueueName>(text);
    reads_back::<NodeName>(text);
    reads_back::<RunId>(text);
}

fn zone(text: &str) {
    match timed(text, most(), || text.parse::<ZoneName>()) {
        Ok(name) => {
            assert!(name.as_str().eq_ignore_ascii_case(text));
            assert_eq!(name.as_str().parse::<ZoneName>().as_ref(), Ok(&name));
            Zone::load(&name).expect("a name that was read has rules");
        }
        Err(error) => is_clear(&error),
    }
}

/// A request of the HTTP API: it is read, or refused with a status of its own.
fn request(text: &str) {
    let status = check_request(text);
    assert!(status.is_none_or(|status| [400, 404, 422].contains(&status)), "{status:?}: {text:?}");
}

fn address(text: &str) {
    match timed(text, most(), || Address::parse(text)) {
        Ok(found) => assert!(!found.shown().contains(['\n', '\u{1b}'])),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// What is asked, and behind a `|` when the answer was sent.
fn retry_after(text: &str) {
    let (asked, sent) = text.split_once('|').unwrap_or((text, "Sun, 06 Nov 1994 08:49:37 GMT"));
    let wait = timed(text, most(), || wait_asked(asked, Some(sent)));
    assert!(wait <= Some(Duration::from_secs(86_400)));
}

/// What parts the runs among lanes, gates and rates.
fn keys(text: &str) {
    reads_back::<Lane>(text);
    match timed(text, most(), || (text.parse::<UniqueKey>(), text.parse::<SharedKey>())) {
        (Ok(unique), Ok(shared)) => assert_eq!((unique.as_str(), shared.as_str()), (text, text)),
        (Err(unique), Err(shared)) => {
            is_clear(&unique);
            is_clear(&shared);
        }
        (unique, shared) => panic!("one key and no other: {unique:?} {shared:?}"),
    }
    match timed(text, most(), || text.parse::<Rate>()) {
        Ok(rate) => assert_eq!(rate.to_string().parse::<Rate>().ok(), Some(rate)),
        Err(error) => is_clear(&error),
    }
}

/// What daemon and keeper say to each other: frames, each with its kind before a `|` and the next behind a line's end; and the text
/// itself as what came over the socket.
fn wire(text: &str) {
    let mut framed = Vec::new();
    for line in text.lines() {
        let (kind, body) = line.split_once('|').unwrap_or(("0", line));
        let length = u32::try_from(body.len() + 1).unwrap_or(u32::MAX);
        framed.extend(length.to_le_bytes());
        framed.push(kind.parse().unwrap_or(0));
        framed.extend_from_slice(body.as_bytes());
    }
    for bytes in [framed.as_slice(), text.as_bytes()] {
        let mut left = bytes;
        while let Ok(Some(order)) =
            timed(text, by_length(text), || at_once(read_order(&mut { left })))
        {
            let frame = order_frame(&order).expect("it was not too long before");
            assert_eq!(at_once(read_order(&mut &*frame)).ok(), Some(Some(order)));
            left = behind_frame(left);
        }
        let mut left = bytes;
        while let Ok(Some(news)) =
            timed(text, by_length(text), || at_once(read_news(&mut { left })))
        {
            let said = format!("{news:?}");
            let frame = news_frame(news).expect("it was not too long before");
            let again = at_once(read_news(&mut &*frame)).expect("what was written is read");
            assert_eq!(again.map(|news| format!("{news:?}")), Some(said));
            left = behind_frame(left);
        }
    }
}

fn env_file(text: &str) {
    match timed(text, by_length(text), || env_file::parse(text)) {
        Ok(variables) => {
            for (name, value) in variables.iter().filter(|(_, value)| !value.contains(['\'', '\r']))
            {
                let again = env_file::parse(&format!("{name}='{value}'\n"))
                    .expect("what was read is read again");
                assert_eq!(again.get(name), Some(value));
            }
        }
        Err(error) => is_clear(&error),
    }
}

fn reference(text: &str) {
    let filled = timed(text, by_length(text), || {
        secret_reference::fill::<ReferenceError>(text, |name| Ok(format!("<{name}>")))
    });
    match secret_reference::check(text) {
        Ok(()) => {
            assert_eq!(filled.is_ok_and(|filled| filled != text), secret_reference::is_in(text));
        }
        Err(error) => {
            is_clear(&error);
            points_into(text, error.offset());
        }
    }
}

/// What a reading of bytes that are all there gives.
fn at_once<T>(reading: impl Future<Output = T>) -> T {
    match pin!(reading).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(read) => read,
        Poll::Pending => panic!("it waits for more than there is"),
    }
}

fn behind_frame(bytes: &[u8]) -> &[u8] {
    let (prefix, rest) = bytes.split_first_chunk::<4>().expect("a frame was read");
    let length = usize::try_from(u32::from_le_bytes(*prefix)).expect("a frame was read");
    rest.get(length..).expect("a frame was read")
}
