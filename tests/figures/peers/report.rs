//! The table of the bench with its ratios, the machine, and where schedd is behind.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use super::Bench;
use super::system::System;
use super::workload::SINGLE_ROWS;
use crate::percentile;

/// Which of two values is better, or that they are not compared.
#[derive(Clone, Copy)]
enum Better {
    More,
    Less,
    Neither,
}

/// A row: the name of its values, its title with the unit, its digits, which value is better, and the percentile shown.
type Row = (&'static str, &'static str, usize, Better, f64);

const fn more(name: &'static str, title: &'static str) -> Row {
    (name, title, 0, Better::More, 0.5)
}

const fn less(name: &'static str, title: &'static str, digits: usize) -> Row {
    (name, title, digits, Better::Less, 0.5)
}

const ROWS: [Row; 32] = [
    more("add.rate", "20,000 jobs added in bulk, a second"),
    more(SINGLE_ROWS[0], "5,000 jobs added one by one, a second"),
    more(SINGLE_ROWS[1], "20,000 jobs added one by one by 32 callers, a second"),
    less("add.bytes", "Redis bytes of a waiting program", 0),
    less("add.http_bytes", "Redis bytes of a waiting request", 0),
    less("add.us", "Redis us of an add", 1),
    less("handlers.us", "Redis us of claim and end, handlers", 1),
    less("http.us", "Redis us of claim and end, requests", 1),
    less("true.us", "Redis us of claim and end, programs", 1),
    more("handlers.rate", "20,000 handlers that do nothing due at once, a second"),
    more("http.rate", "5,000 requests due at once, a second"),
    more("true.rate", "2,000 `/bin/true` due at once, a second"),
    more("shell.rate", "the same as shell lines, a second"),
    less("late", "lateness at 10 a second, p50 ms", 2),
    ("late", "lateness at 10 a second, p99 ms", 2, Better::Less, 0.99),
    ("late", "the earliest of these, ms", 2, Better::Neither, 0.0),
    less("idle.after", "100,000 wait: seconds from start to idle", 0),
    less("idle.commands", "100,000 wait: Redis commands a second when idle", 1),
    less("idle.cpu", "100,000 wait: CPU % when idle", 2),
    less("idle.rss", "100,000 wait: RSS MiB when idle", 0),
    less("idle.million.after", "1,000,000 wait: seconds from start to idle", 0),
    less("idle.million.commands", "1,000,000 wait: Redis commands a second when idle", 1),
    less("idle.million.cpu", "1,000,000 wait: CPU % when idle", 2),
    less("idle.million.rss", "1,000,000 wait: RSS MiB when idle", 0),
    more("due.0", "1,000 requests due while none wait, a second"),
    more("due.100000", "1,000 requests due while 100,000 wait, a second"),
    more("due.1000000", "1,000 requests due while 1,000,000 wait, a second"),
    less("first.rust", "lines to a first worker, Rust", 0),
    less("first.python", "lines to a first worker, Python", 0),
    less("first.shell", "lines to a first worker, shell", 0),
    less("first.javascript", "lines to a first worker, JavaScript", 0),
    less("first.ruby", "lines to a first worker, Ruby", 0),
];

/// All that was measured.
pub(super) struct Report<'a> {
    pub(super) bench: &'a Bench,
    pub(super) values: BTreeMap<(&'static str, System), Vec<f64>>,
    pub(super) notes: Vec<String>,
}

impl Report<'_> {
    /// Returns the machine, the table and where schedd is behind. The columns are those of Markdown if `is_markdown`.
    pub(super) fn text(&self, is_markdown: bool) -> String {
        let title =
            |system: System| format!("{} {}", system.name(), system.version().unwrap_or_default());
        let head = std::iter::once("work".to_owned())
            .chain(System::ALL.map(|system| title(system).trim().to_owned()));
        let (mut lines, mut behind) = (vec![head.collect::<Vec<_>>()], Vec::new());
        for row in ROWS.iter().filter(|row| self.values.keys().any(|(name, _)| *name == row.0)) {
            let mut cells = vec![row.1.to_owned()];
            for system in System::ALL {
                let ratio = self.ratio(row, system);
                let shown = ratio.map(|ratio| {
                    let digits = [100.0, 10.0, 0.1].iter().filter(|limit| ratio < **limit).count();
                    format!(" ({})", number(ratio, digits))
                });
                let shown = shown.unwrap_or_default();
                let value = self.value(row, system).map(|value| number(value, row.2));
                let none = if system.version().is_err() { "not installed" } else { "-" };
                cells.push(value.map_or_else(|| none.to_owned(), |value| value + &shown));
                if system != System::Floor && ratio.is_some_and(|ratio| ratio < 0.995) {
                    behind.push(format!("- {}{shown}: {}", system.name(), row.1));
                }
            }
            lines.push(cells);
        }
        let mut notes = self.notes.clone();
        notes.extend(System::ALL.iter().filter_map(|system| {
            Some(format!("- {} is not installed: {:.80}", system.name(), system.version().err()?))
        }));
        behind.insert(0, format!("Peers are ahead in {} values (ratio):\n", behind.len()));
        let parts =
            [self.machine(), table(&lines, is_markdown), notes.join("\n"), behind.join("\n")];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        format!("{}\n", parts.join("\n\n"))
    }

    /// Returns the percentile of the row over all runs.
    fn value(&self, row: &Row, system: System) -> Option<f64> {
        let mut values = self.values.get(&(row.0, system))?.clone();
        values.sort_by(f64::total_cmp);
        Some(percentile(&values, row.4))
    }

    /// Returns how many times better schedd is: over 1 it is ahead.
    fn ratio(&self, row: &Row, system: System) -> Option<f64> {
        let own = self.value(row, System::Schedd).filter(|_| system != System::Schedd)?;
        let value = self.value(row, system)?;
        let ratio = match row.3 {
            Better::More => own / value,
            Better::Less => value / own,
            Better::Neither => return None,
        };
        ratio.is_finite().then_some(ratio)
    }

    /// Returns the date, the commit, the machine and the settings, a fact a line.
    fn machine(&self) -> String {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let field = |file: &str, name: &str| {
            let text = read(file);
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            line.split([':', '=']).nth(1).unwrap_or_default().trim().trim_matches('"').to_owned()
        };
        let output = |program: &str, args: &[&str]| {
            let output = Command::new(program)
                .args(args)
                .output()
                .map(|output| output.stdout)
                .unwrap_or_default();
            String::from_utf8_lossy(&output).trim().to_owned()
        };
        let server = output("redis-server", &["--version"]);
        let server =
            server.split(' ').find_map(|word| word.strip_prefix("v=")).unwrap_or("of another name");
        let kib: u64 =
            field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
        [
            format!(
                "- date: {}; schedd: {}",
                jiff::Zoned::now().date(),
                output("git", &["describe", "--always", "--dirty"])
            ),
            format!(
                "- machine: {} cores of {}, {} GiB; load at the end {}",
                std::thread::available_parallelism().map_or(0, usize::from),
                field("/proc/cpuinfo", "model name"),
                kib >> 20,
                read("/proc/loadavg").split(' ').next().unwrap_or_default()
            ),
            format!(
                "- system: {}, Linux {}",
                field("/etc/os-release", "PRETTY_NAME"),
                output("uname", &["-r"])
            ),
            format!(
                "- Redis {server} {}; medians of {} runs",
                if self.bench.is_durable {
                    "with appendfsync everysec"
                } else {
                    "without persistence"
                },
                self.bench.runs
            ),
        ]
        .join("\n")
    }
}

/// Returns a number with commas between thousands.
fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.find('.').map_or((text.as_str(), ""), |at| text.split_at(at));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let groups: Vec<&str> = whole
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap())
        .collect();
    format!("{sign}{}{rest}", groups.join(","))
}

/// Returns lines of cells in columns of equal width.
fn table(lines: &[Vec<String>], is_markdown: bool) -> String {
    let width =
        |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
    let mut rows: Vec<String> = Vec::new();
    for cells in lines {
        let cells =
            cells.iter().enumerate().map(|(column, cell)| format!("{cell:<0$}", width(column)));
        let cells: Vec<String> = cells.collect();
        rows.push(if is_markdown {
            format!("| {} |", cells.join(" | "))
        } else {
            cells.join("  ").trim_end().to_owned()
        });
    }
    if is_markdown {
        rows.insert(1, format!("|{}", "---|".repeat(lines[0].len())));
    }
    rows.join("\n")
}
