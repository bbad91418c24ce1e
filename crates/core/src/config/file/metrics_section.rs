//! The section `[metrics]`: the jobs that have series of their own in `GET /metrics`.

use crate::config::syntax::known_keys;
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::{Spot, TableReader};
use crate::domain::name::name_pattern::NamePattern;
use schedd_schedule::names::JobName;

/// The most jobs that have series of their own. Each series of each node costs memory in the
/// monitoring system.
pub const MOST_METRIC_JOBS: usize = 200;

/// The settings of `[metrics]`. Without a pattern no job has series of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetricsConfig {
    /// The names of the jobs that have series of their own, and patterns for such names.
    pub jobs: Vec<NamePattern>,
}

/// Compiles the section `[metrics]`. A key with a fault gets its default.
pub(crate) fn compile_metrics(table: &TableReader<'_>, problems: &mut Problems) -> MetricsConfig {
    table.refuse_other_keys(&[known_keys::METRICS], &[], problems);
    let jobs = table.get("jobs").map(|spot| patterns(&spot, problems)).unwrap_or_default();
    MetricsConfig { jobs }
}

fn patterns(spot: &Spot<'_>, problems: &mut Problems) -> Vec<NamePattern> {
    let Some(items) = spot.as_items() else {
        spot.wanted::<()>(problems, "a list such as [\"backup\", \"report-*\"]");
        return Vec::new();
    };
    let patterns: Vec<NamePattern> = items.filter_map(|item| pattern(&item, problems)).collect();
    if patterns.len() > MOST_METRIC_JOBS {
        let found = patterns.len();
        spot.fault(problems, format!("found {found} names, wanted at most {MOST_METRIC_JOBS}"));
    }
    patterns
}

fn pattern(spot: &Spot<'_>, problems: &mut Problems) -> Option<NamePattern> {
    let text = spot.text("report-*", problems)?;
    // A text that no name can match is a slip of the pen.
    if text.replace(['*', '?'], "a").parse::<JobName>().is_err() {
        return spot.wanted(problems, "the name of a job, or a pattern such as \"report-*\"");
    }
    Some(NamePattern::new(text))
}

#[cfg(test)]
mod tests {
    use crate::config::compile_text;
    use schedd_schedule::time::zone::Zone;

    #[test]
    fn names_and_patterns_of_jobs_are_taken_and_texts_that_match_no_name_refused() {
        let read = |jobs: &str| {
            compile_text(&format!("[metrics]\njobs = {jobs}\n"), "jobs.toml", &Zone::utc())
        };
        let config = read(r#"["backup", "report-*", "clean/web?"]"#).unwrap();
        assert!(config.metrics.jobs[1].matches("report-a"));
        for (jobs, wanted) in [
            (r#"["Backup"]"#, "wanted the name of a job, or a pattern such as \"report-*\""),
            (r#""backup""#, "wanted a list such as [\"backup\", \"report-*\"]"),
            ("[1]", "wanted a string such as \"report-*\""),
        ] {
            let error = read(jobs).unwrap_err().to_string();
            assert!(error.contains("metrics.jobs") && error.contains(wanted), "{error}");
        }
        let many = format!("[{}]", "\"a\",".repeat(201));
        assert!(
            read(&many).unwrap_err().to_string().contains("found 201 names, wanted at most 200")
        );
    }
}
