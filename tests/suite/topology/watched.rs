//! A primary and its replica, with the Sentinels that watch both.

use super::place::Place;
use super::tcp_server::TcpServer;
use crate::support::wait::{LONG, until};

/// A primary, its replica, and the Sentinels that watch both.
///
/// The Sentinels come first, so that they end first. Otherwise a server of another test could get the
/// port of an ended server. Its Sentinels would then know one more, which they never forget.
pub(crate) struct Watched {
    pub(crate) sentinels: Vec<TcpServer>,
    pub(crate) servers: Vec<TcpServer>,
}

impl Watched {
    /// Starts all on this host.
    pub(crate) fn start() -> Self {
        let here = Place::here();
        Self::start_at(&[&here; 3])
    }

    /// Starts the primary and the replica at the first two places, and a Sentinel at each of three.
    pub(crate) fn start_at(places: &[&Place; 3]) -> Self {
        let primary = TcpServer::of_data(places[0], &[]);
        let port = primary.port.to_string();
        let replicaof = ["--replicaof", &places[0].address, &port];
        let replica = TcpServer::of_data(places[1], &replicaof);
        let sentinels = places.iter().map(|place| sentinel_of(&primary, place)).collect();
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
        let places = self.sentinels.iter().map(|one| format!("{:?}", one.address()));
        format!("sentinels = [{}]\nmaster = \"prime\"\n", places.collect::<Vec<_>>().join(", "))
    }

    /// Waits until the replica has all data of the primary.
    pub(crate) fn catch_up(&self) {
        let wait = ["WAIT", "1", "5000"];
        until("the replica has all", LONG, || {
            self.servers[0].ask::<u8>(&wait).ok().filter(|count| *count == 1)
        });
    }

    /// Starts the killed server again as an empty replica of another server.
    pub(crate) fn restart_as_replica(&mut self, killed: usize, primary: usize) {
        let primary = &self.servers[primary];
        let (place, port) = (primary.place.clone(), primary.port);
        self.servers[killed].restart_as_replica_of(&place, port);
    }

    /// Waits until all Sentinels name this server as the primary. A Sentinel that still names the former
    /// primary could make this server its replica again, once the former primary answers.
    pub(crate) fn until_named(&self, index: usize) {
        let address = self.servers[index].address();
        until("all Sentinels name the new primary", LONG, || {
            let names_it = |sentinel: &TcpServer| {
                let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "prime"];
                let named: redis::RedisResult<Vec<String>> = sentinel.ask(&words);
                named.is_ok_and(|named| named.join(":") == address)
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

/// Starts a Sentinel at `place` that watches `primary`.
pub(super) fn sentinel_of(primary: &TcpServer, place: &Place) -> TcpServer {
    TcpServer::start(place, |[port, _], dir| {
        let text = format!(
            "sentinel monitor prime {} {} 2\n\
             sentinel down-after-milliseconds prime 1000\n\
             sentinel failover-timeout prime 4000\n",
            primary.place.address, primary.port
        );
        std::fs::write(dir.join("sentinel.conf"), text).unwrap();
        let port = port.to_string();
        ["sentinel.conf", "--sentinel", "--port", &port].map(str::to_owned).to_vec()
    })
}
