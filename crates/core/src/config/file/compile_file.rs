//! The compiler of a whole `jobs.toml`. The result is a [`Config`], or the list of every problem in
//! the text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::api_section::compile_api;
use super::compile_pools::{Memberships, compile_groups, compile_queues, refuse_strangers};
use super::kept_amounts::{HistoryConfig, OutputConfig, compile_history, compile_output};
use super::metrics_section::compile_metrics;
use super::named_tables::named_tables;
use super::node_serving::compile_serving;
use super::redis_section::{RedisConfig, compile_redis};
use super::secret_exposure::{Provenance, judge_secrets};
use super::sections::{Config, DaemonConfig, compile_daemon};
use crate::config::canonical::stored_job::StoredJob;
use crate::config::job::compile_action::JOB_ACTION;
use crate::config::job::compile_job::{JobContext, compile_job};
use crate::config::job::compile_unique::ADDED;
use crate::config::job::job_keys::{OWN, RULES};
use crate::config::job::job_rules::{Rules, refuse_contradictions};
use crate::config::key::file_host::FileHost;
use crate::config::key::origin::{Origin, Reading};
use crate::config::key::table_key::names;
use crate::config::schedule::compile_calendars::compile_calendars;
use crate::config::schedule::compile_parents::FileChains;
use crate::config::schedule::compile_schedule::{DTSTART, SCHEDULE};
use crate::config::syntax::compile_references::refuse_faulty_references;
use crate::config::syntax::config_error::ConfigError;
use crate::config::syntax::known_keys;
use crate::config::syntax::problem::{Problems, one_of, sort_by_place};
use crate::config::syntax::reader::{Spot, TableReader};
use crate::config::syntax::redaction::Secrecy;
use crate::config::syntax::text_node;
use schedd_schedule::names::{GroupName, JobName, QueueName};
use schedd_schedule::time::zone::Zone;

/// The most jobs of one file. A node keeps the jobs of its file in memory.
pub(crate) const MAX_JOBS: usize = 100_000;

/// Compiles the text of a jobs file. Fails with every problem in the text.
///
/// `file_name` appears in messages, and relative paths of calendar files start at its directory.
/// `host_zone` is the zone of local times if the file names no zone.
pub fn compile_text(text: &str, file_name: &str, host_zone: &Zone) -> Result<Config, ConfigError> {
    compile_file(text, (FileHost::Here, file_name), host_zone, &Provenance::private())
}

/// Compiles the text of a jobs file that another host sent with the files that it names, by path.
/// Nothing on this host is looked at. Fails with every problem in the text.
pub fn compile_sent_text(
    text: &str,
    file_name: &str,
    files: &BTreeMap<String, String>,
    host_zone: &Zone,
) -> Result<Config, ConfigError> {
    compile_file(text, (FileHost::Other(files), file_name), host_zone, &Provenance::private())
}

/// Compiles the text of a jobs file of `host`. Fails with every problem in the text. `provenance`
/// says who can read and write the file. That decides whether a secret in the text is a fault, a
/// warning or allowed.
pub(crate) fn compile_file(
    text: &str,
    (host, file_name): (FileHost<'_>, &str),
    host_zone: &Zone,
    provenance: &Provenance,
) -> Result<Config, ConfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut problems = Problems::default();
    let config = match text_node::from_toml(text) {
        Ok((tree, duplicates)) => {
            problems.faults = duplicates;
            let place = (host, file_name);
            Spot::root(&tree, Secrecy::File)
                .as_table()
                .map(|root| compile_root(&root, place, host_zone, provenance, &mut problems))
        }
        Err(faults) => {
            problems.faults = faults;
            None
        }
    };
    sort_by_place(&mut problems.faults);
    sort_by_place(&mut problems.warnings);
    match config {
        Some(config) if problems.faults.is_empty() => {
            Ok(Config { warnings: problems.warnings, ..config })
        }
        _ => Err(ConfigError::in_text(file_name, text, problems.faults)),
    }
}

/// Compiles only `[redis]` of a file whose other sections may have faults. Returns `None` if
/// `[redis]` has a fault, or if it cannot be found because the TOML is broken.
pub(crate) fn compile_redis_alone(text: &str, provenance: &Provenance) -> Option<RedisConfig> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // A file with broken TOML has no `[redis]` if no line begins like `[redis]`.
    let may_name_one = text.lines().any(|line| {
        line.trim_start().trim_start_matches(['[', ' ', '\t', '"', '\'']).starts_with("redis")
    });
    if !may_name_one {
        return Some(RedisConfig::default());
    }
    let (tree, duplicates) = text_node::from_toml(text).ok()?;
    let mut problems = Problems { faults: duplicates, ..Problems::default() };
    let table = Spot::root(&tree, Secrecy::File)
        .as_table()?
        .get("redis")?
        .table("a table: [redis]", &mut problems)?;
    let redis = compile_redis(&table, FileHost::Here, &mut problems);
    let is_refused = redis.url.as_ref().is_some_and(|url| provenance.refuses(url).is_some());
    (problems.faults.is_empty() && !is_refused).then_some(redis)
}

fn compile_root(
    root: &TableReader<'_>,
    (host, file_name): (FileHost<'_>, &str),
    host_zone: &Zone,
    provenance: &Provenance,
    problems: &mut Problems,
) -> Config {
    let slips =
        root.refuse_other_keys(&[known_keys::SECTIONS], known_keys::LATER_SECTIONS, problems);
    // Returns true if all names that a section declares are known. Otherwise a job that names an
    // undeclared queue or group gets no fault.
    let is_whole = |section: &str| {
        !slips.are_of(&[section]) && root.get(section).is_none_or(|spot| spot.as_table().is_some())
    };
    let section = |name: &str, problems: &mut Problems| {
        let spot = root.get(name)?;
        spot.table(&format!("a table: [{name}]"), problems)
    };
    judge_secrets(root, provenance, problems);
    let redis = section("redis", problems).map(|table| compile_redis(&table, host, problems));
    let api = section("api", problems).map(|table| compile_api(&table, problems));
    let metrics = section("metrics", problems).map(|table| compile_metrics(&table, problems));
    let history = section("history", problems).map(|table| compile_history(&table, problems));
    let output = section("output", problems).map(|table| compile_output(&table, problems));
    let queues = compile_queues(root, problems);
    // A queue with faulty settings still counts as declared, so that its jobs get no second fault.
    let declared: BTreeSet<QueueName> =
        queues.keys().cloned().chain([QueueName::default_queue()]).collect();
    let groups = compile_groups(root, problems);
    let declared_groups: BTreeSet<GroupName> = groups.keys().cloned().collect();
    let daemon = section("daemon", problems);
    let serving = daemon
        .as_ref()
        .map(|table| compile_serving(table, is_whole("queues").then_some(&declared), problems));
    let daemon = daemon.map(|table| compile_daemon(&table, problems));
    let calendars = compile_calendars(root, (host, file_name), host_zone, problems);
    let origin = Origin::File {
        host,
        queues: is_whole("queues").then_some(&declared),
        groups: is_whole("groups").then_some(&declared_groups),
        calendars: is_whole("calendars").then_some(&calendars),
    };
    let defaults = section("defaults", problems)
        .map(|table| compile_defaults(&table, origin, problems))
        .unwrap_or_default();
    let context =
        JobContext { name: None, defaults: &defaults, host_zone: Some(host_zone), origin };
    let (jobs, members) = compile_jobs(root, context, problems);
    refuse_strangers(root, &groups, &members, problems);
    Config {
        redis: redis.unwrap_or_else(RedisConfig::default),
        daemon: daemon.unwrap_or_else(DaemonConfig::default),
        serving: serving.unwrap_or_default(),
        api: api.unwrap_or_default(),
        metrics: metrics.unwrap_or_default(),
        history: history.unwrap_or_else(HistoryConfig::default),
        output: output.unwrap_or_else(OutputConfig::default),
        queues,
        groups,
        jobs: Arc::new(jobs),
        is_blank: root.entries().next().is_none(),
        warnings: Vec::new(),
    }
}

fn compile_defaults(table: &TableReader<'_>, origin: Origin<'_>, problems: &mut Problems) -> Rules {
    let allowed = names(RULES);
    let misplaced = [SCHEDULE, &[DTSTART], &names(OWN), JOB_ACTION, &["in"], ADDED].concat();
    let slips = table.refuse_keys_beyond(&[&allowed], &misplaced, known_keys::LATER_JOB, problems);
    for (key, key_span, spot) in table.entries().filter(|(key, ..)| misplaced.contains(key)) {
        let message = format!(
            "{key} cannot have a default: write {key} in [jobs.NAME]; [defaults] may have {}",
            one_of(&allowed)
        );
        problems.fault(&spot.path, key_span, message);
    }
    let rules = Rules::read(table, slips, &Rules::default(), &mut Reading::new(origin, problems));
    refuse_faulty_references(table, problems);
    refuse_contradictions(table, &rules, problems);
    rules
}

fn compile_jobs(
    root: &TableReader<'_>,
    context: JobContext<'_>,
    problems: &mut Problems,
) -> (BTreeMap<JobName, StoredJob>, Memberships) {
    let (mut jobs, mut members) = (BTreeMap::new(), Memberships::new());
    let mut chains = FileChains::default();
    let given = root.get("jobs").and_then(|spot| Some(spot.as_table()?.entries().count()));
    if let Some(given) = given.filter(|given| *given > MAX_JOBS) {
        problems.fault(
            "jobs",
            None,
            format!("found {given} jobs, wanted at most {MAX_JOBS} in one file"),
        );
        return (jobs, members);
    }
    for (name, table) in named_tables::<JobName>(root, "jobs", problems) {
        let name = name.and_then(|name| {
            name.for_people()
                .map_err(|error| problems.fault(&table.path, table.span.clone(), error.to_string()))
                .ok()
        });
        let spec = compile_job(&table, JobContext { name: name.as_ref(), ..context }, problems);
        let Some(name) = name else { continue };
        // The group of a job is recorded even if other keys of the job have faults. A job whose
        // group cannot be read is left out.
        let own = table.get("group").map(|spot| spot.as_text().and_then(|text| text.parse().ok()));
        if own != Some(None) {
            members.insert(
                name.clone(),
                own.flatten().or_else(|| context.defaults.spec.group.clone()),
            );
        }
        chains.declare(&name);
        if let Some(spec) = spec {
            chains.add(&name, spec.schedule.parents(), spec.is_on_each_node());
            jobs.insert(name, StoredJob::of(&spec));
        }
    }
    let table = root.get("jobs");
    chains.refuse_broken(table.as_ref().and_then(Spot::as_table).as_ref(), problems);
    (jobs, members)
}
