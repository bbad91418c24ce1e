//! The Lua scripts and their calls.
//!
//! The header of each script in `lua/` names its KEYS and ARGV. A call gives the same names in the
//! same order, and a debug build panics on a difference. No data is ever inserted into the text of
//! a script.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use redis::ToRedisArgs;

use super::redis_keys::Keys;
use super::shared_lua;
use crate::domain::queue::gate::Gate;

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

#[derive(Default)]
struct Header {
    keys: Vec<String>,
    item_keys: Vec<String>,
    args: Vec<String>,
    item_args: Vec<String>,
    has_gates: bool,
}

impl Script {
    fn new(name: &'static str, source: &'static str) -> Self {
        // Redis requires the shebang on the first line.
        let (shebang, body) = source.split_once('\n').unwrap_or((source, ""));
        let header = Header::read(source);
        let text = format!("{shebang}\n{}{body}", shared_lua::used_by(body));
        #[cfg(feature = "mutants")]
        let text = super::mutants::loaded(name, text);
        let sha = sha1_smol::Sha1::from(&text).digest().to_string();
        Self { name, text, sha, header }
    }

    /// Returns the Redis commands that the script may use, each once.
    pub(crate) fn commands(&self) -> Vec<&str> {
        let calls = self.text.split("redis.call('").skip(1);
        calls
            .filter_map(|rest| rest.split('\'').next())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }
}

impl Header {
    fn read(source: &str) -> Self {
        let mut header = Self::default();
        for line in source.lines().filter_map(|line| line.strip_prefix("-- ")) {
            let mut words = line.split_whitespace();
            let (Some(kind), Some(mut name)) = (words.next(), words.next()) else { continue };
            let list = match kind {
                "KEYS" => &mut header.keys,
                "KEYS*" => &mut header.item_keys,
                "ARGV" => &mut header.args,
                "ARGV*" => &mut header.item_args,
                "KEYS+" => {
                    header.has_gates = true;
                    continue;
                }
                _ => continue,
            };
            if name.bytes().all(|b| b.is_ascii_digit()) {
                name = words.next().unwrap_or_default();
            }
            list.push(name.trim_end_matches(':').to_owned());
        }
        header
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
            LazyLock::new(|| Script::new($name, include_str!(concat!("../../../lua/", $name, ".lua"))));)*

        /// Returns all scripts that schedd loads into Redis.
        #[cfg(any(test, feature = "mutants"))]
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
    RECORD_SERVER "record_server";
    REPAIR_COUNTS "repair_counts";
    REPAIR_GATE "repair_gate";
    REPAIR_JOB "repair_job";
    REPAIR_LEDGER_RANGE "repair_ledger_range";
    REPAIR_RUN "repair_run";
    REPAIR_SKIPPED_RANGE "repair_skipped_range";
    NOTE_EVENTS "note_events";
    NOTE_LANES "note_lanes";
    OPEN_GATE "open_gate";
    PAUSE_JOB "pause_job";
    PLANT_BACKFILL "plant_backfill";
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
    RESTORE_ENTRY "restore_entry";
    RESTORE_KEY "restore_key";
    REPORT_LOSS "report_loss";
    RESTORE_RUN "restore_run";
    RESUME_JOB "resume_job";
    RETRY_RUN "retry_run";
    RETURN_RUN "return_run";
    SET_QUEUE "set_queue";
    SKIP_RUN "skip_run";
    SPREAD_RUNS "spread_runs";
    SWITCH_QUEUE "switch_queue";
    TAKE_CHECK_TURN "take_check_turn";
    UNLIST_JOB_GATES "unlist_job_gates";
    WATCH_RUN "watch_run";
    WRITE_OUTPUT "write_output";
}

/// A call of a script. The keys and arguments are given by their names in the script's header, in
/// the order of the header.
pub(crate) struct Invocation {
    pub(crate) script: &'static Script,
    keys: Vec<Vec<u8>>,
    args: Vec<Vec<u8>>,
}

impl Invocation {
    pub(crate) fn new(script: &'static Script) -> Self {
        Self { script, keys: Vec::new(), args: Vec::new() }
    }

    /// Adds the key that the script's header calls `name`.
    #[must_use]
    pub(crate) fn key(mut self, name: &str, key: impl ToRedisArgs) -> Self {
        let header = &self.script.header;
        debug_assert_eq!(
            expected(&header.keys, &header.item_keys, self.keys.len()),
            Some(name),
            "KEYS of {}",
            self.script.name
        );
        self.keys.extend(key.to_redis_args());
        self
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
        self
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
        let key = self.keys.first().map(|key| String::from_utf8_lossy(key));
        let tag = key.as_deref().and_then(|key| key.split(':').next()).unwrap_or_default();
        format!("~{tag}:*")
    }

    /// Returns the command that runs the script by its SHA-1.
    pub(crate) fn command(&self) -> redis::Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.script.sha).arg(self.keys.len()).arg(&self.keys).arg(&self.args);
        command
    }
}

/// Returns the name that the header has for the next key or argument of a call. The call has
/// `given` keys or arguments so far. The names in `repeated` follow those in `fixed`, again and
/// again.
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

    fn numbers_used(text: &str, array: &str) -> BTreeSet<usize> {
        let open = format!("{array}[");
        text.match_indices(&open)
            .filter_map(|(at, _)| text[at + open.len()..].split(']').next()?.parse().ok())
            .collect()
    }

    #[test]
    fn every_lua_file_is_a_script_or_shared() {
        let files: BTreeSet<String> =
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/lua"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
        let mut known: BTreeSet<String> =
            all().iter().map(|script| format!("{}.lua", script.name)).collect();
        known.extend(["prelude.lua", "gates.lua", "ledger.lua"].map(str::to_owned));
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

    #[test]
    fn headers_number_their_keys_and_arguments_in_order_and_the_body_uses_no_others() {
        for script in all() {
            let source = own_text(script);
            for (kind, fixed, repeated) in [
                ("KEYS", &script.header.keys, &script.header.item_keys),
                ("ARGV", &script.header.args, &script.header.item_args),
            ] {
                for (at, name) in fixed.iter().enumerate() {
                    let line = format!("-- {kind} {} {name}", at + 1);
                    assert!(
                        source.lines().any(|l| l == line || l.starts_with(&format!("{line}:"))),
                        "{}: {line}",
                        script.name
                    );
                }
                let used = numbers_used(source, kind);
                let declared = if repeated.is_empty() { fixed.len() } else { usize::MAX };
                assert!(
                    used.iter().all(|n| *n >= 1 && *n <= declared),
                    "{} uses {kind} {used:?}",
                    script.name
                );
                if repeated.is_empty() {
                    let unused: Vec<_> = (1..=fixed.len()).filter(|n| !used.contains(n)).collect();
                    assert!(unused.is_empty(), "{} never uses {kind} {unused:?}", script.name);
                }
            }
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
            assert!(!own_text(script).contains("'PUBLISH'"), "{}", script.name);
        }
        let shared: String = shared_lua::PARTS.iter().map(|part| part.text.as_str()).collect();
        assert_eq!(shared.matches("'PUBLISH'").count(), 1, "only `wake_nodes` sends messages");
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
        for (word, mutant) in crate::store::server::mutants::Mutant::ALL {
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
