//! `next --set`: sets the time of the next run of a job.

use serde_json::{Value, json};

use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::jobs::pause_resume::not_defined;
use crate::cli::jobs::target::{definition_of, find_job, job_name};
use crate::cli::local_zone::local_zone;
use crate::cli::render::{Console, rfc3339, shown};
use schedd::engine::planning::next_time;
use schedd_schedule::names::JobName;
use schedd_schedule::time::zone::Zone;
use schedd_store::{NextReply, Store};

/// Sets the time before which the next run of `job` does not start. A local time is a time in
/// `zone`, else in the zone of this host. JSON has the time in `zone`, else in the zone of the job.
/// Returns the exit code.
pub(super) async fn set(
    global: &Global,
    job: &str,
    time: &str,
    zone: Option<Zone>,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let name = job_name(job)?;
    let store = connect(global, console).await?.place_of_job(&name).await?;
    let definition = definition_of(find_job(&store, &name).await?)?;
    let own = zone.clone().unwrap_or_else(|| definition.timetable.zone().clone());
    let zone = zone.unwrap_or_else(local_zone);
    let within = definition.spec.next_within;
    let at = next_time::read_next(time, store.now().await?, &zone, within)
        .map_err(|why| CliFailure::Invalid(format!("--set: {why}")))?;
    let mut names = vec![name.clone()];
    if definition.spec.is_on_each_node() {
        let live = store.list_instances(&name).await?;
        names = live.into_iter().map(|(_, record)| record.name).collect();
    }
    if names.is_empty() {
        return Err(CliFailure::Conflict(format!(
            "job {name} runs on each node, and no node that serves its queue has taken it; \
             see schedctl nodes"
        )));
    }
    let (mut set, mut code): (Vec<Value>, u8) = (Vec::new(), 0);
    for name in &names {
        let reply = next_time::set_next(&store, name, at, None).await?;
        let (result, run) = match &reply {
            NextReply::Postponed(run) => ("postponed", run.as_ref().map(ToString::to_string)),
            NextReply::Planted(run) => ("planned", Some(run.to_string())),
            NextReply::Turn(_) => ("turn", None),
            NextReply::Paused => {
                let failure = CliFailure::Conflict(format!(
                    "job {name} is paused, so it has no next run; schedctl resume {name} resumes it"
                ));
                code = code.max(console.failure(&failure));
                continue;
            }
            NextReply::Unknown | NextReply::Lost | NextReply::Stale => {
                let failure = no_more_runs(&store, name).await;
                code = code.max(console.failure(&failure));
                continue;
            }
        };
        if console.is_json() {
            let next_due = rfc3339(at, &own);
            set.push(json!({"job": name.as_str(), "result": result, "run_id": run, "next_due": next_due}));
        } else {
            console.line(&sentence(name, &reply, &shown(at, &zone)));
        }
    }
    if console.is_json() {
        match set.len() {
            0 => {}
            1 => console.json(&set.remove(0)),
            _ => console.json(&set),
        }
    }
    Ok(code)
}

/// Returns the failure for a job that does not exist, is over, or allows no further run.
async fn no_more_runs(store: &Store, name: &JobName) -> CliFailure {
    let live = store.read_job(name).await.ok().flatten().is_some_and(|job| job.is_live());
    if live {
        return CliFailure::Conflict(format!(
            "job {name} allows no run at that time: it has one fixed time, or reached max_runs or end"
        ));
    }
    not_defined(store, name).await
}

fn sentence(name: &JobName, reply: &NextReply, at: &str) -> String {
    match reply {
        NextReply::Postponed(Some(run)) => format!("job {name}: run {run} starts at {at}"),
        NextReply::Postponed(None) => {
            format!("job {name}: the next run starts no earlier than {at}")
        }
        NextReply::Turn(group) => format!("job {name}: the next turn of group {group} is at {at}"),
        _ => format!("job {name}: a run is planned at {at}, beside the schedule"),
    }
}
