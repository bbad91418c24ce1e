//! What is said of a program that is missing, too old, or ends at once.

use schedd_programs::private_redis::{Access, PrivateServer, ProgramSearch};

use super::{State, fake_program};

#[tokio::test]
async fn without_a_program_one_is_reported_what_to_install() {
    let state = State::new();
    let empty = tempfile::tempdir().unwrap();
    let search = ProgramSearch::only_in(vec![empty.path().to_owned()]);
    let error = PrivateServer::start_with(&state.dir, Access::User, search).await.unwrap_err();
    let wanted = "no redis-server was found; install redis-server (Debian: apt-get install redis-server) or give --redis URL";
    assert_eq!(error.to_string(), wanted);
}

#[tokio::test]
async fn a_program_too_old_or_without_a_version_is_named() {
    for (name, line, wanted) in [
        ("redis-server", "Redis server v=6.2.14 sha=0:0", "is version 6.2.14, wanted 7.0 or newer"),
        ("valkey-server", "Valkey server v=7.1.9 sha=0:0", "is version 7.1.9, wanted 7.2 or newer"),
        ("redis-server", "hello", "--version printed \"hello\", wanted a version"),
    ] {
        let state = State::new();
        let (dir, search) = fake_program(name, line);
        let error = PrivateServer::start_with(&state.dir, Access::User, search)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(dir.path().join(name).to_str().unwrap()) && error.contains(wanted),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_server_that_ends_at_once_is_reported_with_its_last_words() {
    let state = State::new();
    let (_keep, search) = fake_program("redis-server", "Redis server v=7.0.0");
    let error =
        PrivateServer::start_with(&state.dir, Access::User, search).await.unwrap_err().to_string();
    assert!(
        error.contains(
            "ended (exit status: 0) before it answered: Redis server v=7.0.0; see the log file "
        ),
        "{error}"
    );
}
