//! How many next occurrences a second of one core are computed, by form of the schedule. Seconds are those this thread ran, so
//! that other work on the machine does not count.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use schedd_schedule::clock_changes::ClockChanges;
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_schedule::timetable::Timetable;

const FORMS: [&str; 12] = [
    "* * * * *",
    "*/15 * * * *",
    "0 3 * * *",
    "15 9-17 * * 1-5",
    "0 0 13 * 5",
    "0 0 29 2 *",
    "0 0 29 2 */7",
    "0 9 LW * *",
    "0 9 15W * *",
    "0 9 * * 5#2",
    "H H * * *",
    "@every 90s",
];
const EACH: Duration = Duration::from_millis(300);

/// How long this thread has run, less what it had at `begun`.
fn ran_since(begun: Duration) -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
        .saturating_sub(begun)
}

/// Steps through each schedule from 2026 on, again from there when it ends.
pub(crate) fn next() {
    let start = UnixMillis::from_timestamp("2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
    println!("{:<18}{:>16}{:>16}", "next calls a second", "UTC", "Europe/Berlin");
    for form in FORMS {
        let rates = ["UTC", "Europe/Berlin"].map(|zone| {
            let schedule = Schedule::of_cron(form)
                .unwrap()
                .for_job(&"backup".parse().unwrap(), ClockChanges::default());
            let table =
                Timetable::new(schedule, Zone::load(&zone.parse().unwrap()).unwrap(), start);
            let (begun, mut calls, mut at) = (ran_since(Duration::ZERO), 0_u32, start);
            while ran_since(begun) < EACH {
                for _ in 0..100 {
                    at = black_box(table.next_after(at)).unwrap_or(start);
                }
                calls += 100;
            }
            f64::from(calls) / ran_since(begun).as_secs_f64()
        });
        println!("{form:<19}{:>16.0}{:>16.0}", rates[0], rates[1]);
    }
    let (begun, mut read) = (ran_since(Duration::ZERO), 0_u32);
    while ran_since(begun) < EACH {
        for form in FORMS {
            black_box(Schedule::of_cron(form)).unwrap();
        }
        read += 12;
    }
    println!(
        "{:<19}{:>16.0}",
        "expressions read",
        f64::from(read) / ran_since(begun).as_secs_f64()
    );
}
