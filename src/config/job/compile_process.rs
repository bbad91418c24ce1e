//! The start of a job's process: `user`, `limits`, `umask`, `stdin` and `shell_program`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::policies::Policies;
use crate::config::file::account_here::account_lack;
use crate::config::file::kept_amounts::size;
use crate::config::key::origin::Origin;
use crate::config::syntax::known_keys;
use crate::config::syntax::problem::{Problems, quoted};
use crate::config::syntax::reader::{Spot, TableReader};
use crate::domain::job::job_spec::Action;
use crate::domain::job::notice::NoticeKind;
use crate::domain::job::process_limits::Limits;
use crate::domain::job::process_rules::{ProcessRules, RunAs, Started, Umask};

/// The process keys of a table. A key that the table does not name is empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ProcessStart {
    pub(crate) user: Option<RunAs>,
    limits: Limits,
    umask: Option<Umask>,
    stdin: Option<String>,
    shell_program: Option<PathBuf>,
}

impl ProcessStart {
    /// Returns the keys of `self`. Each missing key is taken from `below`. Limits are merged one by one.
    pub(crate) fn over(self, below: &Self) -> Self {
        Self {
            user: self.user.or_else(|| below.user.clone()),
            limits: self.limits.over(below.limits),
            umask: self.umask.or(below.umask),
            stdin: self.stdin.or_else(|| below.stdin.clone()),
            shell_program: self.shell_program.or_else(|| below.shell_program.clone()),
        }
    }

    /// Returns the rules that these keys make.
    pub(crate) fn rules(self) -> ProcessRules {
        ProcessRules {
            user: self.user,
            limits: self.limits,
            umask: self.umask,
            stdin: self.stdin.filter(|text| !text.is_empty()),
            shell_program: self.shell_program,
        }
    }
}

/// Compiles the process keys of `table`.
pub(crate) fn compile_starting(table: &TableReader<'_>, origin: Origin<'_>, problems: &mut Problems) -> ProcessStart {
    ProcessStart {
        user: table.get("user").and_then(|spot| compile_user(&spot, origin, problems)),
        limits: table.get("limits").map(|spot| compile_limits(&spot, problems)).unwrap_or_default(),
        umask: table.get("umask").and_then(|spot| compile_umask(&spot, problems)),
        stdin: table.get("stdin").and_then(|spot| spot.text("yes", problems)).map(str::to_owned),
        shell_program: table.get("shell_program").and_then(|spot| compile_shell_program(&spot, origin, problems)),
    }
}

fn compile_user(spot: &Spot<'_>, origin: Origin<'_>, problems: &mut Problems) -> Option<RunAs> {
    let run_as: RunAs = spot.parsed("backup", problems)?;
    if run_as.user() == "root" {
        let message =
            "found \"root\", wanted another user: where schedd runs as root, a job without user does too, and elsewhere none can";
        spot.fault(problems, message);
        return None;
    }
    // Hosts differ, so only the file's own host is asked. An account that is missing now may exist
    // later.
    if matches!(origin, Origin::File { .. })
        && let Some(lack) = account_lack(&run_as)
    {
        problems.warning(&spot.path, spot.span(), format!("{lack}: runs will fail to start"));
    }
    Some(run_as)
}

/// Notes a fault for each variable that the loader of programs obeys, if the job runs as another
/// user.
pub(crate) fn refuse_loader_variables(
    table: &TableReader<'_>,
    user: Option<&RunAs>,
    env: Option<&BTreeMap<String, String>>,
    problems: &mut Problems,
) {
    let found = env.into_iter().flat_map(BTreeMap::keys).find(|name| name.starts_with("LD_"));
    if let (Some(_), Some(name), Some(spot)) = (user, found, table.get("env").or_else(|| table.get("user"))) {
        spot.fault(problems, format!("{name} together with user: what the loader of programs obeys is refused for another user"));
    }
}

/// Notes rules of `table` itself that have no effect on its job. Rules in `[defaults]` are not
/// judged, because other jobs use these rules.
pub(crate) fn refuse_idle_rules(table: &TableReader<'_>, action: &Action, merged: &Policies, problems: &mut Problems) {
    // An action with a fault may start anything, so no rule can be called unused.
    let is_unknown = table.get("done_check").is_some_and(|_| merged.done_check.is_none())
        || merged.notices.are_faulty()
        || merged.slips.are_of(&["done_check"])
        || NoticeKind::ASKED.iter().any(|kind| merged.slips.are_of(&[kind.as_str()]));
    if is_unknown {
        return;
    }
    for key in Started::of(action, merged.done_check.as_ref(), merged.notices.actions()).idle_keys() {
        if let Some(spot) = table.get(key) {
            let message = format!(
                "an HTTP request starts no process: take {key} out, or make the request by a program, as shell = \"curl ...\""
            );
            spot.fault(problems, message);
        }
    }
}

fn compile_limits(spot: &Spot<'_>, problems: &mut Problems) -> Limits {
    let Some(table) = spot.table("a table such as { memory = \"512M\", cpu = 0.5, pids = 100 }", problems) else {
        return Limits::default();
    };
    table.refuse_other_keys(&[known_keys::LIMITS], &[], problems);
    Limits {
        memory: table.get("memory").and_then(|spot| compile_memory(&spot, problems)),
        cpu: table.get("cpu").and_then(|spot| compile_cpu(&spot, problems)),
        pids: table.get("pids").and_then(|spot| spot.integer(&Limits::PIDS, problems)),
        files: table.get("files").and_then(|spot| spot.integer(&Limits::FILES, problems)),
        nice: table.get("nice").and_then(|spot| spot.integer(&Limits::NICE, problems)),
    }
}

fn compile_memory(spot: &Spot<'_>, problems: &mut Problems) -> Option<u64> {
    const WORDS: &str = "1MiB to 1048576GiB";
    let bytes = size(spot, *Limits::MEMORY.end(), WORDS, problems)?;
    if Limits::MEMORY.contains(&bytes) { Some(bytes) } else { spot.wanted(problems, WORDS) }
}

fn compile_cpu(spot: &Spot<'_>, problems: &mut Problems) -> Option<u32> {
    let processors = spot.positive_number(1_000.0, "0.5", problems)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is more than 0 and at most a million")]
    let thousandths = (processors * 1_000.0).round() as u32;
    if Limits::CPU.contains(&thousandths) {
        Some(thousandths)
    } else {
        spot.wanted(problems, "processors such as 0.5, at least 0.01")
    }
}

fn compile_umask(spot: &Spot<'_>, problems: &mut Problems) -> Option<Umask> {
    // 0027 is not a number in TOML, and 27 means another mask.
    if spot.is_integer() {
        return spot.wanted(problems, "octal digits in quotes, such as \"0027\"");
    }
    spot.parsed("0027", problems)
}

fn compile_shell_program(spot: &Spot<'_>, origin: Origin<'_>, problems: &mut Problems) -> Option<PathBuf> {
    let path = PathBuf::from(spot.text("/bin/bash", problems)?);
    if !path.is_absolute() {
        return spot.wanted(problems, "an absolute path such as \"/bin/bash\", which is given -c and the line");
    }
    if matches!(origin, Origin::File { .. }) && !path.is_file() {
        let shown = quoted(&path.to_string_lossy());
        problems.warning(&spot.path, spot.span(), format!("no program {shown} on this host: runs will fail to start"));
    }
    Some(path)
}
