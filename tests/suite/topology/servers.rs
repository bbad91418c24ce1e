//! A server that schedd refuses, and a server whose password is changed while jobs run.

use super::failover_scene::FailoverScene;
use super::place::Place;
use super::tcp_server::TcpServer;
use crate::support::ctl::Schedctl;

#[test]
fn a_server_without_scripts_is_refused_with_what_is_wanted() {
    for command in ["EVALSHA", "SCRIPT"] {
        let server = TcpServer::of_data(&Place::here(), &["--rename-command", command, ""]);
        let url = format!("redis://127.0.0.1:{}", server.port);
        let add = ["--redis", &url, "add", "--in", "1h", "--shell", "true"];
        Schedctl::alone().run(&add).refused(69, &["runs no Lua scripts", "Redis 7.0"]);
    }
}

#[test]
fn a_password_is_changed_while_jobs_run_and_no_run_is_lost() {
    let server = TcpServer::of_data(&Place::here(), &[]);
    let plain = format!("redis://127.0.0.1:{}", server.port);
    let line = Schedctl::alone().run(&["--redis", &plain, "acl", "--user", "jobs"]).good().stdout;
    let rights = line.trim().strip_prefix("user jobs ").unwrap().replace(">PASSWORD", ">first");
    let mut user = vec!["ACL", "SETUSER", "jobs"];
    user.extend(rights.split(' '));
    let () = server.ask(&user).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("url");
    let write = |password: &str| {
        let url = format!("redis://jobs:{password}@127.0.0.1:{}", server.port);
        std::fs::write(&file, url).unwrap();
    };
    write("first");
    let scene = FailoverScene::start(&format!("url_file = {file:?}\n"));
    for (old, new) in [("first", "second"), ("second", "third")] {
        let () = server.ask(&["ACL", "SETUSER", "jobs", &format!(">{new}")]).unwrap();
        write(new);
        let () = server.ask(&["ACL", "SETUSER", "jobs", &format!("<{old}")]).unwrap();
        let cut: u32 = server.ask(&["CLIENT", "KILL", "USER", "jobs"]).unwrap();
        assert!(cut > 1, "two nodes were connected");
        scene.until_beats();
        scene.ctl.run(&["list"]).good();
    }
    scene.assert_all_done_once();
}
