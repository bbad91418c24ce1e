//! A primary and its replica, with the Sentinels that watch both.

use super::tcp_server::TcpServer;
use crate::support::wait::{LONG, until};

/// A primary, its replica, and the Sentinels that watch both.
pub(crate) struct Watched {
    pub(crate) servers: Vec<TcpServer>,
    pub(crate) sentinels: Vec<TcpServer>,
}

impl Watched {
    pub(crate) fn start() -> Self {
        let primary = TcpServer::of_data(&[]);
        let port = primary.port.to_string();
        let replica = TcpServer::of_data(&["--replicaof", "127.0.0.1", &port]);
        let sentinels: Vec<TcpServer> = (0..3).map(|_| sentinel_of(primary.port)).collect();
        let watched = Self { servers: vec![primary, replica], sentinels };
        watched.until_complete();
        watched
    }

    /// Waits until all Sentinels know each other, the primary and a replica.
    pub(crate) fn until_complete(&self) {
        until("all Sentinels know each other and the replica", LONG, || {
            let knows_all = |sentinel: &TcpServer| {
                let known: Vec<String> = sentinel.ask(&["SENTINEL", "MASTER", "prime"]).ok()?;
                let value = |name| {
                    let at = known.iter().position(|word| word == name)?;
                    known.get(at + 1).cloned()
                };
                let found = (value("num-other-sentinels")?, value("num-slaves")?, value("flags")?);
                (found == ("2".to_owned(), "1".to_owned(), "master".to_owned())).then_some(())
            };
            self.sentinels.iter().all(|one| knows_all(one).is_some()).then_some(())
        });
    }

    pub(crate) fn section(&self) -> String {
        let ports = self.sentinels.iter().map(|one| format!("\"127.0.0.1:{}\"", one.port));
        format!("sentinels = [{}]\nmaster = \"prime\"\n", ports.collect::<Vec<_>>().join(", "))
    }

    /// Waits until the replica has all data of the primary.
    pub(crate) fn catch_up(&self) {
        let wait = ["WAIT", "1", "5000"];
        until("the replica has all", LONG, || {
            self.servers[0].ask::<u8>(&wait).ok().filter(|count| *count == 1)
        });
    }

    /// Waits until all Sentinels name this server as the primary. A Sentinel that still names the former
    /// primary could make this server its replica again, once the former primary answers.
    pub(crate) fn until_named(&self, index: usize) {
        let port = self.servers[index].port.to_string();
        until("all Sentinels name the new primary", LONG, || {
            let names_it = |sentinel: &TcpServer| {
                let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "prime"];
                let place: redis::RedisResult<Vec<String>> = sentinel.ask(&words);
                place.is_ok_and(|place| place.get(1) == Some(&port))
            };
            self.sentinels.iter().all(names_it).then_some(())
        });
    }

    pub(crate) fn until_promoted(&self, index: usize) {
        until("the replica is the primary", LONG, || {
            let role: Vec<redis::Value> = self.servers[index].ask(&["ROLE"]).ok()?;
            (role[0] == redis::Value::BulkString(b"master".to_vec())).then_some(())
        });
    }
}

fn sentinel_of(primary: u16) -> TcpServer {
    TcpServer::start(|[port, _], dir| {
        let text = format!(
            "sentinel monitor prime 127.0.0.1 {primary} 2\n\
             sentinel down-after-milliseconds prime 1000\n\
             sentinel failover-timeout prime 4000\n"
        );
        std::fs::write(dir.join("sentinel.conf"), text).unwrap();
        let port = port.to_string();
        ["sentinel.conf", "--sentinel", "--port", &port].map(str::to_owned).to_vec()
    })
}
