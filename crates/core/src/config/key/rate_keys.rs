//! The keys of a rate limit: `rate` and `burst` of a queue or of a concurrency key.

use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::TableReader;
use crate::config::syntax::typos::Slips;
use crate::domain::queue::rate::{MOST_RUNS, Rate};

/// Compiles `rate` and `burst` of a table. `slips` are the table's unknown keys.
pub(crate) fn compile_rate(
    table: &TableReader<'_>,
    slips: &Slips,
    problems: &mut Problems,
) -> Option<Rate> {
    let burst = table.get("burst");
    let Some(rate) = table.get("rate") else {
        if let Some(burst) = burst.filter(|_| !slips.are_of(&["rate"])) {
            burst.fault(
                problems,
                "burst has no effect without a rate: add a rate such as rate = \"100/1m\", or remove burst",
            );
        }
        return None;
    };
    let rate: Option<Rate> = rate.parsed("100/1m", problems);
    let burst = burst.and_then(|spot| spot.integer(&(1..=MOST_RUNS), problems));
    rate.map(|rate| burst.map_or(rate, |burst| rate.with_burst(burst)))
}
