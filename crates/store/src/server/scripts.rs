//! The Lua scripts and their calls.
//!
//! The header of each script in `lua/` names its KEYS and ARGV. A call gives the same names in the
//! same order, and a debug build panics on a difference. No data is ever inserted into the text of
//! a script.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use redis::ToRedisArgs;

use super::redis_keys::{KeyOwner, Keys};
use super::script_header::{Header, HeaderKey};
use super::shared_lua;
use crate::runs::successor::Successor;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{JobName, QueueName, RunId};

/// A script as loaded into Redis, with its parsed header.
pub(crate) struct Script {
    /// The name of the script's file and of the store method that runs the script.
    pub(crate) name: &'static str,
    /// The text of the script, including the shared code.
    pub(crate) text: String,
    /// The SHA-1 by which Redis knows the script.
    pub(crate) sha: String,
    header: Header,
}

impl Script {
    fn new(name: &'static str, source: &'static str) -> Self {
        // Redis requires the shebang on the first line.
        let (shebang, body) = source.split_once('\n').unwrap_or((source, ""));
        let header = Header::read(source);
        let named = header.prologue(body) + body;
        let text = format!("{shebang}\n{}{named}", shared_lua::used_by(&named));
        #[cfg(feature = "mutants")]
        let text = super::mutants::loaded(name, text);
        let sha = sha1_smol::Sha1::from(&text).digest().to_string();
        Self { name, text, sha, header }
    }

    /// Returns the Redis commands that the script may use, each once.
    pub(crate) fn commands(&self) -> Vec<&str> {
        let calls = self.text.split("call('").skip(1);
        calls
            .filter_map(|rest| rest.split('\'').next())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// Returns true if Redis lets the script only read.
    pub(crate) fn only_reads(&self) -> bool {
        self.text.lines().next().is_some_and(|flags| flags.contains("no-writes"))
    }
}

/// Loads every script, so that the process ends at once if a mutant does not find its pieces of
/// text. Otherwise that error would end only one task, and the chaos checker would count this as
/// the mutant's effect.
#[cfg(feature = "mutants")]
pub fn load_all() {
    all();
}

/// Returns a duration in whole milliseconds, as scripts expect durations.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

macro_rules! scripts {
    ($($constant:ident $name:literal;)*) => {
        $(pub(crate) static $constant: LazyLock<Script> =
            LazyLock::new(|| Script::new($name, include_str!(concat!("../../../../lua/", $name, ".lua"))));)*

        /// Returns all scripts that schedd loads into Redis.
        pub(crate) fn all() -> Vec<&'static Script> {
            vec![$(&*$constant),*]
        }
    };
}

scripts! {
    ADD_JOBS "add_jobs";
    APPLY_JOB "apply_job";
    BEAT_NODE "beat_node";
    BEGIN_EPOCH "begin_epoch";
    CANCEL_RUN "cancel_run";
    CLAIM_PLAIN_RUNS "claim_plain_runs";
    CLAIM_RUNS "claim_runs";
    DECLARE_SECTION "declare_section";
    DISCARD_ENTRIES "discard_entries";
    DROP_BACKFILL "drop_backfill";
    DROP_FIELDS "drop_fields";
    FINISH_PLAIN_RUNS "finish_plain_runs";
    FINISH_RUN "finish_run";
    FORGET_JOBS "forget_jobs";
    FORGET_LANES "forget_lanes";
    FORGET_NODES "forget_nodes";
    FORGET_OUTPUTS "forget_outputs";
    FORGET_RUNS "forget_runs";
    FORGET_UNIQUES "forget_uniques";
    INSPECT_JOB "inspect_job";
    INSPECT_RUNS "inspect_runs";
    JUDGE_DEADLINE "judge_deadline";
    LEAVE_NODE "leave_node";
    LIST_BEHIND "list_behind";
    LIST_JOB_GATES "list_job_gates";
    LIST_DUE "list_due";
    READ_PAGE "read_page";
    RECORD_SERVER "record_server";
    REPAIR_CHAIN "repair_chain";
    REPAIR_COUNTS "repair_counts";
    REPAIR_GATE "repair_gate";
    REPAIR_JOB "repair_job";
    REPAIR_LEDGER_RANGE "repair_ledger_range";
    REPAIR_RUN "repair_run";
    REPAIR_SKIPPED_RANGE "repair_skipped_range";
    NOTE_BACKLOG "note_backlog";
    NOTE_EVENTS "note_events";
    NOTE_LANES "note_lanes";
    NOTE_PROGRESS "note_progress";
    OPEN_GATE "open_gate";
    PAUSE_JOB "pause_job";
    PLANT_BACKFILL "plant_backfill";
    PLANT_CHILD "plant_child";
    PLANT_MANUAL "plant_manual";
    PLANT_NOTICE "plant_notice";
    PLANT_REBOOT "plant_reboot";
    PULL_SCORES_BACK "pull_scores_back";
    QUARANTINE_KEY "quarantine_key";
    QUARANTINE_RUN "quarantine_run";
    QUEUE_BACKFILL "queue_backfill";
    RECOVER_RUN "recover_run";
    REMOVE_JOB "remove_job";
    RENEW_LEASES "renew_leases";
    RENEW_LEASES_IN_MOVE "renew_leases_in_move";
    REPLACE_MARK "replace_mark";
    RESTORE_ENTRY "restore_entry";
    RESTORE_KEY "restore_key";
    REPORT_LOSS "report_loss";
    RESTORE_RUN "restore_run";
    RESUME_JOB "resume_job";
    RETRY_RUN "retry_run";
    RETURN_RUN "return_run";
    SET_NEXT "set_next";
    SET_QUEUE "set_queue";
    SKIP_RUN "skip_run";
    SPREAD_RUNS "spread_runs";
    SWITCH_QUEUE "switch_queue";
    TAKE_CHECK_TURN "take_check_turn";
    UNLIST_JOB_GATES "unlist_job_gates";
    WATCH_RUN "watch_run";
    WRITE_OUTPUT "write_output";
}

/// A call of a script, with the keys and arguments in the order of the script's header.
///
/// The keys of the namespace are added by themselves. The keys of a job, run, lane or queue are
/// added when the call gets this owner, as well as the arguments `id`, `due_ms` and `job_name`.
/// `key` and `arg` add each other key and argument when it is next.
pub(crate) struct Invocation {
    pub(crate) script: &'static Script,
    /// The commands that Redis executes before the script. Their failure does not stop the script.
    pub(crate) before: Vec<redis::Cmd>,
    prefix: String,
    owners: Owners,
    /// The number of keys that the present section has. A section is the keys of the call, or of
    /// one item.
    given: usize,
    is_item: bool,
    /// The number of arguments of the call at the end of the present section.
    args_end: usize,
    keys: Vec<Vec<u8>>,
    args: Vec<Vec<u8>>,
}

/// The owners of the next keys, as the names of keys contain them, and the due time of the run.
#[derive(Default)]
struct Owners {
    job: Option<String>,
    run: Option<String>,
    due: Option<String>,
    lane: Option<String>,
    job_lane: Option<String>,
    queue: Option<String>,
}

impl Invocation {
    pub(crate) fn new(script: &'static Script, keys: &Keys) -> Self {
        let call = Self {
            script,
            before: Vec::new(),
            prefix: keys.whole(""),
            owners: Owners::default(),
            given: 0,
            is_item: false,
            args_end: script.header.args.len(),
            keys: Vec::new(),
            args: Vec::new(),
        };
        call.fill()
    }

    /// Sends `commands` in one pipeline with the script, and before it.
    #[must_use]
    pub(crate) fn after(mut self, commands: Vec<redis::Cmd>) -> Self {
        self.before = commands;
        self
    }

    /// Begins the keys of the next item, which get their own owners.
    #[must_use]
    pub(crate) fn item(mut self) -> Self {
        debug_assert!(self.is_complete(), "KEYS of {}", self.script.name);
        self.owners = Owners::default();
        (self.given, self.is_item) = (0, true);
        self.args_end = self.args.len() + self.script.header.item_args.len();
        self.fill()
    }

    /// Adds the keys of `job` as far as they are next.
    #[must_use]
    pub(crate) fn of_job(mut self, job: &JobName) -> Self {
        self.owners.job = Some(job.to_string());
        self.fill()
    }

    /// Adds the key of `run`, and the keys of its job unless `of_job` named another job.
    #[must_use]
    pub(crate) fn of_run(mut self, run: &RunId) -> Self {
        self.owners.run = Some(run.to_string());
        self.owners.due = Some(run.due().as_i64().to_string());
        self.owners.job.get_or_insert_with(|| run.job().to_string());
        self.fill()
    }

    /// Adds the keys of `lane` and of its queue.
    #[must_use]
    pub(crate) fn of_lane(mut self, lane: &Lane) -> Self {
        self.owners.lane = Some(lane.to_string());
        self.of_queue(lane.queue())
    }

    /// Adds the due set of the job's own lane.
    #[must_use]
    pub(crate) fn of_job_lane(mut self, lane: &Lane) -> Self {
        self.owners.job_lane = Some(lane.to_string());
        self.fill()
    }

    /// Adds the keys of `queue`.
    #[must_use]
    pub(crate) fn of_queue(mut self, queue: &QueueName) -> Self {
        self.owners.queue = Some(queue.to_string());
        self.fill()
    }

    /// Adds the key that the script's header calls `name`.
    #[must_use]
    pub(crate) fn key(mut self, name: &str, key: impl ToRedisArgs) -> Self {
        let wanted = self.next_key().map(|key| &*key.name);
        debug_assert_eq!(wanted, Some(name), "KEYS of {}", self.script.name);
        self.keys.extend(key.to_redis_args());
        self.given += 1;
        self.fill()
    }

    /// Adds the argument that the script's header calls `name`.
    #[must_use]
    pub(crate) fn arg(mut self, name: &str, value: impl ToRedisArgs) -> Self {
        let header = &self.script.header;
        debug_assert_eq!(
            expected(&header.args, &header.item_args, self.args.len()),
            Some(name),
            "ARGV of {}",
            self.script.name
        );
        self.args.extend(value.to_redis_args());
        self.fill_args();
        self
    }

    /// Adds the argument `name`: the text of `value`, or an empty text for None.
    #[must_use]
    pub(crate) fn optional(self, name: &str, value: Option<impl ToString>) -> Self {
        self.arg(name, value.map_or_else(String::new, |value| value.to_string()))
    }

    /// Adds the arguments `name`, `name_due` and `name_ready`: the id, due time and ready time of the
    /// run `next`. For None, they are an empty text and zeros.
    #[must_use]
    pub(crate) fn successor(self, name: &str, next: Option<&Successor>) -> Self {
        self.optional(name, next.map(|next| &next.run))
            .arg(&format!("{name}_due"), next.map_or(0, |next| next.run.due().as_i64()))
            .arg(&format!("{name}_ready"), next.map_or(0, |next| next.ready.as_i64()))
    }

    /// Adds the keys of these gates after all other keys. Adds nothing if there are no gates.
    #[must_use]
    pub(crate) fn gate_keys(mut self, keys: &Keys, gates: &[Gate]) -> Self {
        debug_assert!(self.script.header.has_gates, "{} has no gates", self.script.name);
        if gates.is_empty() {
            return self;
        }
        self.keys.push(keys.gate_timers().into_bytes());
        for gate in gates {
            self.keys.extend(keys.of_gate(gate).into_iter().map(String::into_bytes));
        }
        self
    }

    /// Returns the ACL pattern that covers the call's keys. All keys of a namespace share a hash
    /// tag.
    pub(crate) fn keys_wanted(&self) -> String {
        format!("~{}*", self.prefix)
    }

    /// Returns the command that runs the script by its SHA-1.
    pub(crate) fn command(&self) -> redis::Cmd {
        debug_assert!(self.is_complete(), "KEYS of {}", self.script.name);
        debug_assert!(self.has_all_args(), "ARGV of {}", self.script.name);
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.script.sha).arg(self.keys.len()).arg(&self.keys).arg(&self.args);
        command
    }

    /// Returns true if the script reads the clock.
    pub(crate) fn takes_now(&self) -> bool {
        self.script.header.args.first().is_some_and(|arg| arg == "now")
    }

    fn section(&self) -> &'static [HeaderKey] {
        let header = &self.script.header;
        if self.is_item { &header.item_keys } else { &header.keys }
    }

    fn next_key(&self) -> Option<&'static HeaderKey> {
        self.section().get(self.given)
    }

    fn is_complete(&self) -> bool {
        self.given == self.section().len()
    }

    fn has_all_args(&self) -> bool {
        let per_item = self.script.header.item_args.len();
        let beyond = self.args.len().checked_sub(self.args_end);
        beyond == Some(0)
            || !self.is_item && beyond.is_some_and(|n| per_item > 0 && n % per_item == 0)
    }

    /// Adds the next keys up to the first key whose owner is not known.
    fn fill(mut self) -> Self {
        while let Some(HeaderKey { name, owner: Some(owner), .. }) = self.next_key() {
            let owners = &self.owners;
            let (family, owner) = match owner {
                KeyOwner::Namespace => (&**name, Some("")),
                KeyOwner::Job(family) => (*family, owners.job.as_deref()),
                KeyOwner::Run => ("run", owners.run.as_deref()),
                KeyOwner::Lane => ("due", owners.lane.as_deref()),
                KeyOwner::JobLane => ("due", owners.job_lane.as_deref()),
                KeyOwner::Queue(family) => (*family, owners.queue.as_deref()),
            };
            let Some(owner) = owner else { break };
            let between = if owner.is_empty() { "" } else { ":" };
            self.keys.push([&*self.prefix, family, between, owner].concat().into_bytes());
            self.given += 1;
        }
        self.fill_args();
        self
    }

    /// Adds the next arguments as far as they are parts of the present section and name its run or
    /// job.
    fn fill_args(&mut self) {
        let header = &self.script.header;
        while self.args.len() < self.args_end {
            let owners = &self.owners;
            let value = match expected(&header.args, &header.item_args, self.args.len()) {
                Some("id") => owners.run.as_ref(),
                Some("due_ms") => owners.due.as_ref(),
                Some("job_name") => owners.job.as_ref(),
                _ => None,
            };
            let Some(value) = value else { break };
            self.args.push(value.clone().into_bytes());
        }
    }
}

/// Returns the name that the header has for the next argument of a call. The call has `given`
/// arguments so far. The names in `repeated` follow those in `fixed`, again and again.
fn expected<'a>(fixed: &'a [String], repeated: &'a [String], given: usize) -> Option<&'a str> {
    match fixed.get(given) {
        Some(name) => Some(name),
        None if repeated.is_empty() => None,
        None => repeated.get((given - fixed.len()) % repeated.len()).map(String::as_str),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text of the script without its shared code.
    fn own_text(script: &Script) -> &str {
        // The shared code has no comments, and the header of a script begins with a comment.
        &script.text[script.text.find("\n-- ").unwrap() + 1..]
    }

    #[test]
    fn every_lua_file_outside_the_shared_folder_is_a_script() {
        let files: BTreeSet<String> =
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../lua"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| name != "shared")
                .collect();
        let known: BTreeSet<String> =
            all().iter().map(|script| format!("{}.lua", script.name)).collect();
        assert_eq!(files, known);
    }

    #[test]
    fn every_shared_part_has_a_name_and_a_use() {
        for part in shared_lua::PARTS.iter() {
            assert!(!part.names.is_empty(), "{}", part.text);
            let is_used = all().iter().any(|script| script.text.contains(&part.text));
            assert!(is_used, "no script uses {:?}", part.names);
        }
    }

    #[test]
    fn every_script_opens_with_flags_a_sentence_and_a_guard() {
        for script in all() {
            let lines: Vec<&str> = script.text.lines().collect();
            assert!(lines[0].starts_with("#!lua"), "{}: {}", script.name, lines[0]);
            let source = own_text(script);
            let header: Vec<&str> =
                source.lines().take_while(|line| line.starts_with("--")).collect();
            assert!(
                header.iter().any(|line| line.starts_with("-- Guard: ")),
                "{} has no guard",
                script.name
            );
            assert!(
                header.iter().any(|line| line.starts_with("-- Reply ")),
                "{} has no reply",
                script.name
            );
            assert!(
                header.iter().any(|line| line.starts_with("-- Reply wrong_type")),
                "{} checks no types",
                script.name
            );
        }
    }

    /// Returns the code of the script without its header and comments.
    fn own_code(script: &Script) -> String {
        let lines = own_text(script).lines();
        lines.filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n")
    }

    fn is_word_in(code: &str, word: &str) -> bool {
        code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|found| found == word)
    }

    #[test]
    fn every_name_of_a_header_is_used_and_means_nothing_else() {
        for script in all() {
            let (header, code) = (&script.header, own_code(script));
            let shared = shared_lua::used_by(&code);
            for arg in header.args.iter().filter(|arg| *arg != "now") {
                assert!(is_word_in(&code, arg), "{} does not use {arg}", script.name);
                let is_shared =
                    shared_lua::PARTS.iter().any(|part| part.names.contains(&arg.as_str()));
                assert!(!is_shared, "{arg} of {} is the name of shared code", script.name);
            }
            for key in header.keys.iter().chain(&header.item_keys) {
                let name = format!(".{}", key.name);
                let is_used =
                    code.contains(&name) || shared.contains(&name) || code.contains("KEYS[");
                assert!(key.kind.is_some(), "{}: {name} has no type", script.name);
                assert!(is_used, "{} does not use {name}", script.name);
            }
            let of_items = header.item_keys.iter().map(|key| &key.name).chain(&header.item_args);
            let mut names: Vec<_> =
                header.keys.iter().map(|key| &key.name).chain(of_items).collect();
            names.sort();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{}: {names:?}", script.name);
        }
    }

    #[test]
    fn every_word_a_body_answers_stands_in_its_header() {
        for script in all() {
            let source = own_text(script);
            let declared: BTreeSet<&str> = source
                .lines()
                .filter_map(|line| line.strip_prefix("-- Reply "))
                .filter_map(|rest| rest.split([':', ' ']).next())
                .collect();
            for (at, _) in source.match_indices("return {'") {
                let word = source[at + "return {'".len()..].split('\'').next().unwrap();
                assert!(
                    declared.contains(word),
                    "{} answers {word:?}, which its header does not name",
                    script.name
                );
            }
        }
    }

    #[test]
    fn no_script_sends_a_message_without_counting_the_change() {
        for script in all() {
            assert!(!own_text(script).contains("'SPUBLISH'"), "{}", script.name);
        }
        let shared: String = shared_lua::PARTS.iter().map(|part| part.text.as_str()).collect();
        // `note_change` publishes to those who follow events. No node waits for its messages.
        let senders = "only `wake_nodes` and `note_change` send messages";
        assert_eq!(shared.matches("'SPUBLISH'").count(), 2, "{senders}");
    }

    #[test]
    fn no_script_reads_the_clock_twice() {
        for script in all() {
            let source = own_text(script);
            assert!(source.matches("clock(").count() <= 1, "{}", script.name);
            assert!(!source.contains("'TIME'"), "{}", script.name);
        }
    }

    #[cfg(feature = "mutants")]
    #[test]
    fn every_piece_of_a_script_is_there_once_and_its_mutant_differs() {
        for (word, mutant) in crate::server::mutants::Mutant::ALL {
            let mut is_of_a_script = false;
            for script in all() {
                let broken = mutant.broken(script.name, script.text.clone());
                let is_named = mutant.pieces().iter().any(|(name, ..)| *name == script.name);
                assert_eq!(broken != script.text, is_named, "{word} in {}", script.name);
                is_of_a_script |= is_named;
            }
            assert_eq!(
                is_of_a_script,
                !mutant.pieces().is_empty(),
                "{word} names a script there is not"
            );
        }
    }
}
