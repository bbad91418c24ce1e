//! The daemon's own standard output and error, closed, gone or unread: neither schedd nor its jobs are harmed.

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use serde_json::json;

use crate::support::daemon::{Schedd, ScheddBuilder};
use crate::support::eye::Eye;
use crate::support::host::program::write_program;
use crate::support::redis::TestRedis;
use schedd_core::domain::run::run_state::RunState;

/// Starts it, has it run `jobs` jobs that print, and stops it.
fn works_and_stops(redis: &TestRedis, schedd: ScheddBuilder, jobs: u32) {
    let eye = Eye::on(redis);
    let mut node = schedd.start();
    for number in 0..jobs {
        eye.add(
            &json!({"name": format!("n{number}"), "in": "0s", "shell": "echo out; echo err >&2"}),
        );
    }
    for number in 0..jobs {
        let run = eye.wait_for_history(&format!("n{number}"), 1).remove(0);
        assert_eq!(run.state, RunState::Succeeded);
        let output = eye.ask(eye.store().read_output(&run.run, 1)).unwrap().unwrap();
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
    }
    node.term();
    assert!(node.wait_exit().success());
}

#[test]
fn closed_outputs_harm_neither_schedd_nor_its_jobs() {
    let redis = TestRedis::start();
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let script = dir.path().join("schedd");
    write_program(
        &script,
        format!("#!/bin/sh\nexec {} \"$@\" >&- 2>&-\n", env!("CARGO_BIN_EXE_schedd")),
    );
    works_and_stops(&redis, Schedd::on(&redis).played_by(&script), 3);
}

#[test]
fn outputs_whose_reader_is_gone_harm_neither_schedd_nor_its_jobs() {
    let redis = TestRedis::start();
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    drop(reader);
    works_and_stops(&redis, Schedd::on(&redis).outputs(writer), 3);
}

#[test]
fn outputs_nobody_reads_hold_up_neither_schedd_nor_its_jobs() {
    let redis = TestRedis::start();
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    fcntl_setpipe_size(&writer, 4096).unwrap();
    // Each run is some 300 bytes of log.
    works_and_stops(&redis, Schedd::on(&redis).outputs(writer), 60);
    drop(reader);
}
