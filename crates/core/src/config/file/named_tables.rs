//! The reader of a section that has one table for each name, such as `[jobs.NAME]`.

use crate::config::syntax::problem::{Problems, TextSpan};
use crate::config::syntax::reader::{Spot, TableReader};

/// Returns the tables of `[section.NAME]`, each with its name. A table with an invalid name has the
/// name `None`, and its fault was noted.
pub(crate) fn named_tables<'n, N>(
    root: &TableReader<'n>,
    section: &str,
    problems: &mut Problems,
) -> Vec<(Option<N>, TableReader<'n>)>
where
    N: std::str::FromStr<Err: std::fmt::Display>,
{
    let wanted = format!("a table: [{section}.NAME]");
    let Some(table) = root.get(section).and_then(|spot| spot.table(&wanted, problems)) else {
        return Vec::new();
    };
    let mut tables = Vec::new();
    for (name, name_span, spot) in table.entries() {
        let parsed = checked_name(name, &spot, name_span, problems);
        if let Some(table) = spot.table(&wanted, problems) {
            tables.push((parsed, table));
        }
    }
    tables
}

fn checked_name<N>(
    name: &str,
    spot: &Spot<'_>,
    span: Option<TextSpan>,
    problems: &mut Problems,
) -> Option<N>
where
    N: std::str::FromStr<Err: std::fmt::Display>,
{
    name.parse().map_err(|error: N::Err| problems.fault(&spot.path, span, error.to_string())).ok()
}
