//! The search for the server that has the data of a namespace now.
//!
//! All Sentinels, or all known nodes of a cluster, are asked at the same time. Some may be cut off
//! from the others and know an old state. So the answer of the latest election counts.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use redis::ConnectionAddr;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

/// The time limit for the answer of one server.
const ANSWER_LIMIT: Duration = Duration::from_millis(800);
/// The time for which other answers are awaited after the first.
const PATIENCE: Duration = Duration::from_millis(100);

/// A server that may know the primary.
pub(super) struct Seed {
    pub(super) server: ConnectionAddr,
    pub(super) client: redis::Client,
}

/// The primary according to one server.
#[derive(Debug, PartialEq)]
pub(super) struct Primary {
    pub(super) server: ConnectionAddr,
    /// The number of the election that made the server the primary. Later elections have higher
    /// numbers.
    epoch: u64,
    /// All nodes of the cluster; empty from a Sentinel.
    pub(super) others: Vec<ConnectionAddr>,
}

/// The reason why a server names no primary.
struct Miss {
    /// True if the server answered. Then the reason says more than that of a server that is away.
    is_answer: bool,
    why: String,
}

impl Miss {
    fn of(error: &redis::RedisError) -> Self {
        match (error.code(), error.detail()) {
            (Some(code), Some(detail)) => Self { is_answer: true, why: format!("{code} {detail}") },
            _ => Self { is_answer: false, why: error.to_string() },
        }
    }

    fn in_answer(why: String) -> Self {
        Self { is_answer: true, why }
    }
}

/// Asks Sentinels for the server that they know as `master`. The error is the reason why no Sentinel
/// names a server.
pub(super) async fn ask_sentinels(seeds: Vec<Seed>, master: &str) -> Result<Primary, String> {
    let ask = async |seed: Seed, master: String| {
        let mut connection = connect(&seed).await?;
        let mut command = redis::cmd("SENTINEL");
        command.arg("MASTER").arg(&master);
        let fields: HashMap<String, String> =
            command.query_async(&mut connection).await.map_err(|error| Miss::of(&error))?;
        let field = |name: &str| fields.get(name).map_or("", String::as_str);
        let port =
            field("port").parse().map_err(|_| Miss::in_answer("the port is unknown".to_owned()))?;
        let epoch = field("config-epoch").parse().unwrap_or(0);
        Ok(Primary { server: at(&seed.server, field("ip"), port), epoch, others: Vec::new() })
    };
    let count = seeds.len();
    let asked = seeds.into_iter().map(|seed| ask(seed, master.to_owned()));
    latest(asked)
        .await
        .map_err(|why| format!("none of {count} Sentinels gives the primary {master:?}: {why}"))
}

/// Waits until a Sentinel announces another server for `master`, or the connection to the Sentinel ends.
/// Returns false at once if no Sentinel can be heard.
pub(super) async fn hear_switch(seeds: Vec<Seed>, master: &str) -> bool {
    for seed in seeds {
        let subscribing = async {
            let mut connection = seed.client.get_async_pubsub().await?;
            connection.subscribe("+switch-master").await?;
            Ok::<_, redis::RedisError>(connection)
        };
        let Ok(Ok(connection)) = tokio::time::timeout(ANSWER_LIMIT, subscribing).await else {
            continue;
        };
        let mut messages = connection.into_on_message();
        while let Some(message) = messages.next().await {
            // The message is the name, then the former and the new address.
            let text = message.get_payload::<String>().unwrap_or_default();
            if text.split(' ').next() == Some(master) {
                break;
            }
        }
        return true;
    }
    false
}

/// Asks nodes of a cluster which server has the keys of `slot`. The error is the reason why no node
/// names a server.
pub(super) async fn ask_nodes(seeds: Vec<Seed>, slot: u16) -> Result<Primary, String> {
    let ask = |seed: Seed| async move {
        let mut connection = connect(&seed).await?;
        let mut command = redis::cmd("CLUSTER");
        command.arg("NODES");
        let text: String =
            command.query_async(&mut connection).await.map_err(|error| Miss::of(&error))?;
        owner(&text, slot, &seed.server)
            .ok_or_else(|| Miss::in_answer(format!("no node of the cluster has the slot {slot}")))
    };
    let count = seeds.len();
    latest(seeds.into_iter().map(ask))
        .await
        .map_err(|why| format!("none of {count} nodes gives the primary of this namespace: {why}"))
}

async fn connect(seed: &Seed) -> Result<MultiplexedConnection, Miss> {
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER_LIMIT))
        .set_response_timeout(None);
    let connecting = seed.client.get_multiplexed_async_connection_with_config(&config);
    connecting.await.map_err(|error| Miss::of(&error))
}

/// Returns the answer with the highest epoch, of those that come soon after the first. If no server
/// names a primary, the error is the reason of a server that answered, else the last reason.
async fn latest(
    asked: impl Iterator<Item = impl Future<Output = Result<Primary, Miss>> + Send + 'static>,
) -> Result<Primary, String> {
    let mut open = JoinSet::new();
    for asking in asked {
        open.spawn(tokio::time::timeout(ANSWER_LIMIT, asking));
    }
    let mut best: Option<Primary> = None;
    let why = format!("no answer within {} ms", ANSWER_LIMIT.as_millis());
    let mut miss = Miss { is_answer: false, why };
    loop {
        let limit = if best.is_some() { PATIENCE } else { ANSWER_LIMIT };
        match tokio::time::timeout(limit, open.join_next()).await {
            Ok(Some(Ok(Ok(Ok(found))))) => {
                if best.as_ref().is_none_or(|best| found.epoch > best.epoch) {
                    best = Some(found);
                }
            }
            Ok(Some(Ok(Ok(Err(other))))) if !miss.is_answer => miss = other,
            // The time of a server, or of all other servers, is over.
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return best.ok_or(miss.why),
        }
    }
}

/// Returns the address of a server that `seed` names. It uses TLS if `seed` does.
fn at(seed: &ConnectionAddr, host: &str, port: u16) -> ConnectionAddr {
    let host = match seed {
        // A node that does not know its own address leaves the address empty.
        ConnectionAddr::Tcp(seed, _) | ConnectionAddr::TcpTls { host: seed, .. }
            if host.is_empty() =>
        {
            seed.clone()
        }
        _ => host.to_owned(),
    };
    match seed {
        ConnectionAddr::TcpTls { insecure, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: None }
        }
        _ => ConnectionAddr::Tcp(host, port),
    }
}

/// Returns the primary that has `slot` according to a reply of `CLUSTER NODES`. Returns `None` if no
/// primary has the slot, or if the primary has failed.
///
/// A line is `ID ADDRESS FLAGS PRIMARY PING PONG EPOCH LINK SLOT...`, where ADDRESS is
/// `IP:PORT@BUS,HOST` (<https://redis.io/commands/cluster-nodes>).
fn owner(text: &str, slot: u16, seed: &ConnectionAddr) -> Option<Primary> {
    let (mut found, mut others) = (None, Vec::new());
    for line in text.lines() {
        let mut words = line.split(' ');
        let (Some(place), Some(flags)) = (words.nth(1), words.next()) else { continue };
        let Some((_, server)) = server_of(place, seed) else { continue };
        let is_usable = |flag: &str| !["fail", "noaddr", "handshake"].contains(&flag);
        if !flags.split(',').all(is_usable) {
            continue;
        }
        let epoch = words.nth(3).and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
        let is_owner = flags.split(',').any(|flag| flag == "master")
            && words.skip(1).any(|slots| has_slot(slots, slot));
        if is_owner {
            found = Some((server.clone(), epoch));
        }
        others.push(server);
    }
    found.map(|(server, epoch)| Primary { server, epoch, others })
}

/// Returns the address of the node at `place`, an `IP:PORT`, according to a reply of `CLUSTER NODES`.
pub(super) fn node_at(text: &str, place: &str, seed: &ConnectionAddr) -> Option<ConnectionAddr> {
    let mut servers = text.lines().filter_map(|line| server_of(line.split(' ').nth(1)?, seed));
    servers.find(|(found, _)| *found == place).map(|(_, server)| server)
}

/// Returns the `IP:PORT` of a node and its address, from `IP:PORT@BUS,HOST`. The address has the name of
/// the host if `seed` uses TLS: certificates are for names rather than for addresses.
fn server_of<'a>(place: &'a str, seed: &ConnectionAddr) -> Option<(&'a str, ConnectionAddr)> {
    let (place, name) = place.split_once(',').unwrap_or((place, ""));
    let place = place.split_once('@').map_or(place, |(place, _)| place);
    let (ip, port) = place.rsplit_once(':')?;
    let by_name = matches!(seed, ConnectionAddr::TcpTls { .. }) && !["", "?"].contains(&name);
    Some((place, at(seed, if by_name { name } else { ip }, port.parse().ok()?)))
}

/// Returns true if a range such as `0-5460` or `7` has `slot`. A slot on its way to or from a node is
/// in brackets, and is no range.
fn has_slot(range: &str, slot: u16) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last) = (first.parse::<u16>(), last.parse::<u16>());
    matches!((first, last), (Ok(first), Ok(last)) if (first..=last).contains(&slot))
}

/// Returns the slot of the keys with this hash tag: CRC16 (XMODEM) modulo 16,384
/// (<https://redis.io/docs/reference/cluster-spec>).
pub(crate) fn slot_of(tag: &str) -> u16 {
    const SLOTS: u16 = 16_384;
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
a 127.0.0.1:7001@17001 myself,master - 0 0 3 connected 0-5460 5462 [5461->-b]
b 127.0.0.1:7002@17002,two.example master - 0 1 2 connected 5461 5463-10922
c :7003@17003 slave a 0 1 3 connected
d 127.0.0.1:7004@17004 master,fail - 0 1 1 connected 10923-16383
";

    fn found(slot: u16, seed: &ConnectionAddr) -> Option<(ConnectionAddr, u64)> {
        owner(NODES, slot, seed).map(|found| (found.server, found.epoch))
    }

    #[test]
    fn a_slot_belongs_to_the_primary_whose_ranges_have_it() {
        let seed = ConnectionAddr::Tcp("seed".to_owned(), 1);
        let at = |port| ConnectionAddr::Tcp("127.0.0.1".to_owned(), port);
        for (slot, port, epoch) in
            [(0, 7001, 3), (5460, 7001, 3), (5462, 7001, 3), (5461, 7002, 2), (9000, 7002, 2)]
        {
            assert_eq!(found(slot, &seed), Some((at(port), epoch)), "{slot}");
        }
        assert_eq!(found(16_383, &seed), None, "the node has failed");
        let others = owner(NODES, 0, &seed).unwrap().others;
        assert_eq!(others, [at(7001), at(7002), ConnectionAddr::Tcp("seed".to_owned(), 7003)]);
    }

    #[test]
    fn a_node_with_tls_is_reached_by_its_name() {
        let seed = ConnectionAddr::TcpTls {
            host: "seed".to_owned(),
            port: 1,
            insecure: false,
            tls_params: None,
        };
        let Some((ConnectionAddr::TcpTls { host, port, .. }, _)) = found(5461, &seed) else {
            panic!("no TLS")
        };
        assert_eq!((&*host, port), ("two.example", 7002));
        let asked = node_at(NODES, "127.0.0.1:7002", &seed);
        assert_eq!(asked, owner(NODES, 5461, &seed).map(|found| found.server));
    }

    #[test]
    fn slots_are_those_of_redis() {
        // By CLUSTER KEYSLOT of a server.
        for (tag, slot) in [("123456789", 12_739), ("schedd", 15_156), ("", 0)] {
            assert_eq!(slot_of(tag), slot, "{tag}");
        }
    }

    #[tokio::test]
    async fn the_answer_of_the_latest_election_counts() {
        let answer = |epoch| {
            let server = ConnectionAddr::Tcp("h".to_owned(), 1);
            Ok(Primary { server, epoch, others: Vec::new() })
        };
        let of = |answers: Vec<Result<Primary, Miss>>| {
            latest(answers.into_iter().map(std::future::ready))
        };
        let miss = |is_answer, why: &str| Err(Miss { is_answer, why: why.to_owned() });
        let all = vec![answer(2), answer(7), miss(false, "down"), answer(3)];
        assert_eq!(of(all).await.unwrap().epoch, 7);
        let none = vec![miss(false, "down"), miss(true, "unknown"), miss(false, "silent")];
        assert_eq!(of(none).await.unwrap_err(), "unknown");
    }
}
