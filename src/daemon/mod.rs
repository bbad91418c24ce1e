//! The process `schedd` from start to stop (layer 4 of the layers in `src/lib.rs`).
//!
//! The steps of a start are: arguments, log, jobs file, address of the HTTP API, Redis, node name,
//! keeper, loops. Then the process handles signals until a stop. An error in the arguments or the
//! file ends the process before anything is started. If Redis is out of reach, the process waits for
//! Redis. The service manager is notified of each step.

mod cgroup_setup;
mod concealing;
mod config_watch;
mod daemon_args;
mod fixed_settings;
mod gauges;
mod host_facts;
mod logging;
mod node_api;
mod notify_socket;
mod setup;
mod setup_failure;
mod signals;
mod status;
mod systemd;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use tracing::{info, warn};

use cgroup_setup::CgroupSetup;
use concealing::Concealed;
use config_watch::{ConfigWatch, JobsFile};
use daemon_args::DaemonArgs;
pub use daemon_args::command;
use logging::Log;
use node_api::NodeApi;
use setup::Redis;
use setup_failure::SetupFailure;
use signals::{SignalRequest, Signals};
use systemd::ServiceManager;

use crate::executor::{Executors, MayRunAs};
use crate::secrets::Credentials;
use schedd::engine::{EngineSettings, NodeEngines, Removal};
use schedd_core::config;
use schedd_core::config::Config;
use schedd_core::domain::run::excerpt::OutputBounds;
use schedd_keeper::{Keeper, KeeperSettings, this_program};
use schedd_schedule::time::zone::Zone;
use schedd_store::{Keys, Store};

/// The size of the stack of each thread. Requests of the HTTP API are parsed like a command line, and
/// the parser needs more than the 2 MiB of a usual thread in a debug build.
const STACK_BYTES: usize = 8 * 1024 * 1024;

/// Runs the daemon with the arguments of this process until a signal stops it.
pub fn main() -> ExitCode {
    let args = match daemon_args::read() {
        Ok(args) => args,
        Err(code) => return code,
    };
    let log = match logging::start(args.log_format, args.log_level)
        .context("schedd cannot start its log")
    {
        Ok(log) => log,
        Err(error) => return SetupFailure::from(error).report(),
    };
    if let Some(concealed) = Concealed::from_args() {
        warn!(
            "--redis has a password, which every user of this host can read in the process list. schedd now removes the password from that list. Use [redis] url_file, ${{credential:NAME}} or SCHEDD_REDIS_URL instead of --redis."
        );
        log.flush();
        let error = concealed.begin_anew();
        warn!(
            "The Redis password is still in the process list, because schedd cannot execute itself again without it: {error}."
        );
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build();
    let runtime = match runtime.context("schedd cannot start its async runtime") {
        Ok(runtime) => runtime,
        Err(error) => return SetupFailure::from(error).report(),
    };
    let manager = ServiceManager::from_env();
    let ran = runtime.block_on(run(args, &manager, &log));
    // Threads that block on a name lookup or a file system are not waited for.
    runtime.shutdown_background();
    manager.close();
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if log.is_structured() => failure.logged(),
        Err(failure) => {
            drop(log);
            failure.report()
        }
    }
}

async fn run(args: DaemonArgs, manager: &ServiceManager, log: &Log) -> Result<(), SetupFailure> {
    let open_files = setup::raise_open_files();
    let mut signals = Signals::listen().context("schedd cannot listen for signals")?;
    let host_zone = Zone::of_host();
    let files = JobsFile::new(args.jobs.clone());
    let (read, watch) = tokio::select! {
        read = files.read_at_start(&host_zone) => read?,
        () = signals.stop() => return Ok(()),
    };
    let file = File { files, watch, read };
    let config = match &file.read {
        Some(config) => config.clone(),
        None => config::compile_text("", "no file", &host_zone).map_err(SetupFailure::config)?,
    };
    let keys = Keys::new(&args.namespace).map_err(SetupFailure::usage)?;
    manager.waiting("Looking for Redis".to_owned());
    // The cgroup is set up before any child process starts, because a child starts in the cgroup of
    // its parent.
    let cgroups = CgroupSetup::take(setup::incarnation()).await;
    let api = NodeApi::listen(&args, &config).await;
    let redis = tokio::select! {
        redis = Redis::find(&args, &config) => redis.map(Some),
        // A private server that is still reading its data keeps running, and the next daemon uses
        // it.
        () = signals.stop() => Ok(None),
    };
    let redis = match redis {
        Ok(Some(redis)) => redis,
        ended => {
            api.stop().await;
            return ended.map(drop);
        }
    };
    let store = Store::new(redis.address(), keys).map_err(SetupFailure::redis)?;
    // From here on, each end of the process also stops a private server, as the last step.
    let job_variables = redis.variables(&args.namespace, file.files.path());
    let place = ConfigPlace { cgroups, open_files, host_zone, job_variables, log, api: &api };
    let served = serve(&args, file, config, &store, place, &mut signals, manager).await;
    api.stop().await;
    redis.stop().await;
    served
}

/// The jobs file, the watch on the file, and the content at the start. The content is `None` if no
/// file exists.
struct File {
    files: JobsFile,
    watch: ConfigWatch,
    read: Option<Config>,
}

/// The parts of this process that are ready before it serves jobs: the cgroups, the soft limit of open
/// files of jobs, the host's time zone, the variables of jobs for `schedctl`, the log and the API.
struct ConfigPlace<'p> {
    cgroups: CgroupSetup,
    open_files: Option<u64>,
    host_zone: Zone,
    job_variables: BTreeMap<String, String>,
    log: &'p Log,
    api: &'p NodeApi,
}

async fn serve(
    args: &DaemonArgs,
    file: File,
    config: Config,
    store: &Store,
    ConfigPlace { cgroups, open_files, host_zone, job_variables, log, api }: ConfigPlace<'_>,
    signals: &mut Signals,
    manager: &ServiceManager,
) -> Result<(), SetupFailure> {
    let incarnation = cgroups.incarnation.clone();
    let host = host_facts::facts();
    let (wanted, naming) = args.node_name(&host.host);
    let chosen = args.serving();
    let serving = chosen.over(&config.serving.serving, &wanted);
    let announced = tokio::select! {
        announced = setup::announce(store, &wanted, naming, &incarnation, &host, &serving, manager) => announced?,
        () = signals.stop() => return Ok(()),
    };
    let (node, started_at) = (announced.node, announced.now);
    log.name_node(&node);
    let ended_mark = setup::ended_mark(&node);
    let output = OutputBounds { head: config.output.head, tail: config.output.tail };
    let keeper = Keeper::start(KeeperSettings {
        program: this_program().context("schedd cannot find its own program file")?,
        ended_file: ended_mark.clone(),
        node: node.as_str().to_owned(),
        incarnation: incarnation.clone(),
        lease: config.daemon.lease,
        output,
        delegation: cgroups.delegation.clone(),
        open_files,
    })
    .await
    .map_err(SetupFailure::other)?;
    let executors = Executors::new(
        keeper.clone(),
        Credentials::of_this_process(),
        MayRunAs::of_this_process(config.daemon.users.clone()),
        setup::results(),
    )
    .map_err(SetupFailure::other)?
    .with_variables(job_variables);
    info!(
        node = %node,
        redis = store.address(),
        namespace = store.namespace(),
        server = announced.server,
        version = env!("CARGO_PKG_VERSION"),
        "Started."
    );
    cgroups.log();
    let journal_of = {
        let node = node.clone();
        Box::new(move |store: &Store| setup::journal(store, &node))
    };
    let settings = EngineSettings {
        node,
        incarnation,
        started_at,
        host,
        ended_mark,
        tick: config.daemon.tick,
        lease: config.daemon.lease,
        shutdown_grace: config.daemon.shutdown_grace,
        output,
        serving: chosen,
        worker: None,
        no_cgroups: cgroups.lacks(),
    };
    let engine = NodeEngines::start(
        store.clone(),
        Arc::new(executors),
        journal_of,
        settings,
        host_zone.clone(),
        file.read.as_ref(),
    );
    api.open(store, &host_zone, &engine);
    manager.up(engine.status_view());
    attend(file, config, &engine, Arc::new(host_zone), signals, manager).await;
    manager.stopping(engine.longest_stop());
    engine.stop(signals.stop()).await;
    keeper.stop().await;
    info!("Stopped.");
    Ok(())
}

/// Reloads the jobs file when the file changes or on SIGHUP, until a signal requests a stop.
async fn attend(
    File { files, mut watch, .. }: File,
    mut config: Config,
    engine: &NodeEngines,
    host_zone: Arc<Zone>,
    signals: &mut Signals,
    manager: &ServiceManager,
) {
    let mut asked_again = None;
    let running = config.clone();
    loop {
        let removal = if let Some(removal) = asked_again.take() {
            removal
        } else {
            tokio::select! {
                asked = signals.next() => match asked {
                    SignalRequest::Stop => return,
                    SignalRequest::Reload => Removal::Allowed,
                },
                () = watch.changed() => Removal::Refused,
            }
        };
        if removal == Removal::Allowed {
            manager.reloading();
        }
        let reading = async {
            if removal == Removal::Allowed {
                // Without this call, the watch would report the same change again. SIGHUP allows
                // the removal of all jobs, but a reload by the watch does not.
                watch.note().await;
                // A system update may have changed the time zone data.
                engine.take_zone_data();
            }
            files.read_again(&host_zone).await
        };
        let mut reading = std::pin::pin!(reading);
        // The file system may hang, so a signal still stops the process meanwhile. A second SIGHUP
        // causes a reload after this one.
        let read = loop {
            tokio::select! {
                read = &mut reading => break read,
                asked = signals.next() => match asked {
                    SignalRequest::Stop => return,
                    SignalRequest::Reload => asked_again = Some(Removal::Allowed),
                },
            }
        };
        match read {
            Ok(Some(new)) if removal == Removal::Refused && new.is_emptied_of(&config) => {
                warn!(
                    jobs = config.jobs.len(),
                    "jobs.toml is empty now. This node keeps its earlier jobs and settings. To accept the empty file, send SIGHUP to schedd (systemctl reload schedd)."
                );
                engine.report_config_error(
                    "jobs.toml is empty now, so the node keeps its earlier jobs and settings until SIGHUP".to_owned(),
                );
            }
            Ok(Some(new)) => {
                if let Some(changed_settings) = fixed_settings::differing(&running, &new) {
                    warn!("{changed_settings}. Changed settings take effect at the next start.");
                }
                engine.configure(&new, removal);
                config = new;
            }
            Ok(None) => info!("No jobs file was found, so the reload changed nothing."),
            Err(error) => {
                warn!(
                    "jobs.toml was refused. This node keeps its earlier jobs and settings: {error}"
                );
                engine.report_config_error(error);
            }
        }
        if removal == Removal::Allowed {
            manager.reloaded();
        }
    }
}
