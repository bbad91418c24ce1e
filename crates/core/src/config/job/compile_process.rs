//! The compilers of `user`, `limits`, `umask`, `stdin` and `shell_program`, which decide how a
//! job's process starts.

use std::path::PathBuf;

use serde_json::Value;

use crate::config::file::account_here::account_lack;
use crate::config::file::kept_amounts::size;
use crate::config::key::json_sheet::{Form, Sheet};
use crate::config::key::key_kind::{Custom, IntegerKind, Maybe};
use crate::config::key::origin::Reading;
use crate::config::key::table_key::{TableKey, key, names, read_keys, write_keys};
use crate::config::syntax::problem::{Problems, quoted};
use crate::config::syntax::reader::Spot;
use crate::domain::job::process_limits::Limits;
use crate::domain::job::process_rules::{RunAs, Umask};
use crate::domain::name::byte_size::format_size;

/// The keys of `limits = { ... }`.
pub(crate) const LIMITS: &[TableKey<Limits>] = &[
    key!(
        "memory",
        memory,
        Maybe(Custom(
            |spot, reading| compile_memory(spot, reading.problems),
            |bytes, _| format_size(*bytes).into()
        ))
    ),
    key!(
        "cpu",
        cpu,
        Maybe(Custom(
            |spot, reading| compile_cpu(spot, reading.problems),
            |cpu, _| write_cpu(*cpu)
        ))
    ),
    key!("pids", pids, Maybe(IntegerKind(Limits::PIDS))),
    key!("files", files, Maybe(IntegerKind(Limits::FILES))),
    key!("nice", nice, Maybe(IntegerKind(Limits::NICE))),
];

/// Compiles the key `limits` of a job. Returns `None` if any limit is faulty.
pub(crate) fn read_limits(
    spot: &Spot<'_>,
    reading: &mut Reading<'_>,
    limits: &mut Limits,
) -> Option<()> {
    let table = spot
        .table("a table such as { memory = \"512M\", cpu = 0.5, pids = 100 }", reading.problems)?;
    table.refuse_other_keys(&[&names(LIMITS)], &[], reading.problems);
    read_keys(LIMITS, &table, reading, limits).faulty.is_empty().then_some(())
}

/// Returns the limits of a definition as JSON, only the limits that are set.
pub(crate) fn write_limits(limits: &Limits) -> Value {
    if *limits == Limits::default() {
        return Value::Null;
    }
    let mut out = Sheet::default();
    write_keys(LIMITS, limits, &Limits::default(), Form::Stored, &mut out);
    out.value()
}

fn write_cpu(thousandths: u32) -> Value {
    if thousandths.is_multiple_of(1_000) {
        (thousandths / 1_000).into()
    } else {
        (f64::from(thousandths) / 1_000.0).into()
    }
}

/// Compiles the user, and the optional group, of a job's processes. `None` means that a fault was
/// noted.
pub(crate) fn compile_user(spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<RunAs> {
    let Reading { origin, problems, .. } = reading;
    let run_as: RunAs = spot.parsed("backup", problems)?;
    if run_as.user() == "root" {
        let message = "found \"root\", wanted another user: \
                       if schedd runs as root, a job without user runs as root";
        spot.fault(problems, message);
        return None;
    }
    // Only a jobs file is checked against the accounts of this host. A missing account is a
    // warning, because an operator may create the account later.
    if origin.is_file_of_this_host()
        && let Some(lack) = account_lack(&run_as)
    {
        let message = format!("{lack}, so runs here will fail to start");
        problems.warning(&spot.path, spot.span(), message);
    }
    Some(run_as)
}

fn compile_memory(spot: &Spot<'_>, problems: &mut Problems) -> Option<u64> {
    const WORDS: &str = "1MiB to 1048576GiB";
    let bytes = size(spot, *Limits::MEMORY.end(), WORDS, problems)?;
    if Limits::MEMORY.contains(&bytes) { Some(bytes) } else { spot.wanted(problems, WORDS) }
}

fn compile_cpu(spot: &Spot<'_>, problems: &mut Problems) -> Option<u32> {
    let processors = spot.positive_number(1_000.0, "0.5", problems)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number is more than 0 and at most a million"
    )]
    let thousandths = (processors * 1_000.0).round() as u32;
    if Limits::CPU.contains(&thousandths) {
        Some(thousandths)
    } else {
        spot.wanted(problems, "a number of processors such as 0.5, at least 0.01")
    }
}

/// Compiles the umask of a job's processes, a text such as `"0027"`. `None` means that a fault was
/// noted.
pub(crate) fn compile_umask(spot: &Spot<'_>, problems: &mut Problems) -> Option<Umask> {
    // An integer is refused, because TOML has no number 0027 and the decimal number 27 is another
    // mask.
    if spot.is_integer() {
        return spot.wanted(problems, "octal digits in quotes, such as \"0027\"");
    }
    spot.parsed("0027", problems)
}

/// Compiles the program that runs the line of `shell`. `None` means that a fault was noted.
pub(crate) fn compile_shell_program(spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<PathBuf> {
    let Reading { origin, problems, .. } = reading;
    let path = PathBuf::from(spot.text("/bin/bash", problems)?);
    if !path.is_absolute() {
        return spot.wanted(
            problems,
            "the absolute path of a shell that accepts -c and a command line, such as \"/bin/bash\"",
        );
    }
    if origin.is_file_of_this_host() && !path.is_file() {
        let shown = quoted(&path.to_string_lossy());
        problems.warning(
            &spot.path,
            spot.span(),
            format!("program {shown} does not exist on this host, so runs here will fail to start"),
        );
    }
    Some(path)
}
