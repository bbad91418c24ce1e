//! The names of metrics in the documentation, in the alerts and in the dashboard.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::ApiNode;
use crate::support::redis::TestRedis;

/// The endings of the samples of a counter or histogram.
const ENDINGS: [&str; 4] = ["_total", "_bucket", "_sum", "_count"];

fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The names in a text that begin like those of metrics.
fn named_in(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c: char| !is_name(c));
    words.filter(|word| word.starts_with("schedd_")).map(str::to_owned).collect()
}

#[test]
fn the_documentation_the_alerts_and_the_dashboard_name_the_metrics_that_exist() {
    let redis = TestRedis::start();
    let node = ApiNode::start(&redis, "");
    let scraped = node.scrape();
    let existing: BTreeSet<&str> = scraped.names().into_iter().collect();
    assert!(existing.len() > 25, "{existing:?}");
    for path in [
        "packaging/prometheus/schedd.rules.yml",
        "packaging/prometheus/schedd.rules.test.yml",
        "packaging/grafana/schedd.json",
        "docs/metrics.md",
    ] {
        let named = named_in(&text(path));
        assert!(named.len() > 10, "{path}: {named:?}");
        for name in named {
            let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
            // A counter is named with its ending, and a histogram also without one.
            let is_known =
                existing.contains(name.as_str()) || stem.is_some_and(|it| existing.contains(it));
            assert!(is_known, "{path}: no metric is named {name}");
        }
    }
    let documented = named_in(&text("docs/metrics.md"));
    for name in existing {
        let is_documented =
            documented.contains(name) || documented.contains(&format!("{name}_total"));
        assert!(is_documented, "docs/metrics.md lacks {name}");
    }
}
