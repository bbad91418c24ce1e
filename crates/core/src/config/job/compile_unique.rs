//! The compiler of `unique` and `unique_for` of an added job. They set a key, the time for which
//! the job owns the key, and the effect of a second add with this key.

use std::time::Duration;

use serde_json::{Value, json};

use crate::config::key::json_sheet::{Form, Sheet};
use crate::config::key::origin::Origin;
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::{DurationBounds, Spot, TableReader};
use crate::domain::job::unique_rule::{Second, Unique};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::duration::format_duration;

/// The keys that only a job added by `schedctl add` may have.
pub(crate) const ADDED: &[&str] = &["unique", "unique_for"];
/// The keys of `unique = { ... }`.
pub(crate) const UNIQUE: &[&str] = &["key", "for", "mode", "max_wait"];

const WINDOW: DurationBounds =
    DurationBounds::millis(100, 365 * 86_400_000, "100ms to 365 days", "1h");

/// Compiles the keys `unique` and `unique_for` of a job, which decide what a second `schedctl add`
/// with the same unique key does. They are refused in a jobs file, because a job of a file exists
/// once, by its name.
pub(crate) fn compile_unique(
    table: &TableReader<'_>,
    origin: Origin<'_>,
    problems: &mut Problems,
) -> Option<Unique> {
    let (unique, window) = (table.get("unique"), table.get("unique_for"));
    if let Origin::File { .. } = origin {
        let message = "is only for schedctl add, because a job of a file exists once, by its name: \
                       remove the key, or add the job with schedctl add";
        for (key, spot) in [("unique", unique), ("unique_for", window)] {
            if let Some(spot) = spot {
                spot.fault(problems, format!("{key} {message}"));
            }
        }
        return None;
    }
    let Some(unique) = unique else {
        if let Some(window) = window {
            window.fault(
                problems,
                "found unique_for without unique: add a unique key such as \"customer-42\", or remove unique_for",
            );
        }
        return None;
    };
    let of_job = window.as_ref().map(|spot| spot.duration(&WINDOW, problems));
    if let Some(inner) = unique.as_table() {
        if let Some(window) = window {
            window.fault(problems, "unique_for cannot stand beside a table unique, wanted for = \"1h\" inside that table");
            return None;
        }
        return compile_table(&inner, problems);
    }
    let key = unique.parsed("customer-42", problems)?;
    Some(Unique { key, second: Second::Refused { window: of_job.flatten() } })
}

fn compile_table(table: &TableReader<'_>, problems: &mut Problems) -> Option<Unique> {
    #[derive(Clone, Copy)]
    enum Mode {
        Refuse,
        Debounce,
        Throttle,
    }
    let slips = table.refuse_other_keys(&[UNIQUE], &[], problems);
    let modes =
        [("refuse", Mode::Refuse), ("debounce", Mode::Debounce), ("throttle", Mode::Throttle)];
    let mode = match table.get("mode") {
        Some(spot) => spot.choice(&modes, problems),
        None => Some(Mode::Refuse),
    };
    let given = table.get("for");
    let window: Option<Option<Duration>> =
        given.as_ref().map(|spot| spot.duration(&WINDOW, problems));
    let key = if let Some(spot) = table.get("key") {
        spot.parsed("customer-42", problems)
    } else {
        if !slips.may_be(&["key"]) {
            problems.fault(
                &table.path,
                table.span.clone(),
                "found no key, wanted a key such as key = \"customer-42\"",
            );
        }
        None
    };
    let longest = table.get("max_wait");
    let max_wait = longest.as_ref().map(|spot| spot.duration(&WINDOW, problems));
    if let Some(spot) = &longest
        && matches!(mode, Some(Mode::Refuse | Mode::Throttle))
        && !slips.are_of(&["mode"])
    {
        spot.fault(
            problems,
            "max_wait has no effect without debounce: add mode = \"debounce\" or remove max_wait",
        );
        return None;
    }
    let second = match (mode?, window) {
        (Mode::Refuse, window) => Second::Refused { window: window.flatten() },
        (Mode::Debounce, None) => Second::Wins { max_wait: max_wait.flatten() },
        (Mode::Debounce, Some(_)) => {
            let message = "the key for has no effect with mode = \"debounce\", because the job owns \
                           its unique key until its run starts: \
                           remove the key for (--unique-for)";
            fault_of(given.as_ref(), table, message, problems);
            return None;
        }
        (Mode::Throttle, Some(window)) => Second::Dropped { window: window? },
        (Mode::Throttle, None) if slips.are_of(&["for"]) => return None,
        (Mode::Throttle, None) => {
            let message = "throttle needs the time in which a second add is dropped: \
                           add for = \"1h\" (--unique-for 1h)";
            fault_of(table.get("mode").as_ref(), table, message, problems);
            return None;
        }
    };
    Some(Unique { key: key?, second })
}

fn fault_of(
    spot: Option<&Spot<'_>>,
    table: &TableReader<'_>,
    message: &str,
    problems: &mut Problems,
) {
    match spot {
        Some(spot) => spot.fault(problems, message),
        None => problems.fault(&table.path, table.span.clone(), message),
    }
}

/// Notes a fault for a job that is no one-shot but has the mode `debounce` of `unique`. In this
/// mode a later add postpones the time of the job, so the job must have a single time.
pub(crate) fn refuse_unmoved(
    table: &TableReader<'_>,
    unique: Option<&Unique>,
    schedule: &Schedule,
    problems: &mut Problems,
) {
    let is_one_shot = matches!(schedule, Schedule::At(_)) || table.get("in").is_some();
    if unique.is_some_and(|unique| unique.second.is_debounce())
        && !is_one_shot
        && let Some(spot) = table.get("unique")
    {
        let message = "mode = \"debounce\" needs a single time of the job, which later adds postpone: \
                       add in (--in) or a single at (--at)";
        spot.fault(problems, message);
    }
}

/// Returns the unique key of a definition as JSON.
pub(crate) fn write_unique(unique: &Unique, form: Form) -> Value {
    let Unique { key, second } = unique;
    let (window, max_wait) =
        (second.window().map(format_duration), second.max_wait().map(format_duration));
    match form {
        Form::Shown => {
            json!({"key": key.as_str(), "mode": second.mode(), "for": window, "max_wait": max_wait})
        }
        Form::Stored if *second == (Second::Refused { window: None }) => key.as_str().into(),
        Form::Stored => {
            let mut out = Sheet::of([("key", key.as_str().into())]);
            if let Some(window) = window {
                out.put("for", window);
            }
            if let Some(longest) = max_wait {
                out.put("max_wait", longest);
            }
            if !matches!(second, Second::Refused { .. }) {
                out.put("mode", second.mode());
            }
            out.value()
        }
    }
}
