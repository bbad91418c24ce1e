//! The whole content of a Redis as readable text. Two snapshots are equal if and only if nothing
//! changed between them.

use std::collections::BTreeMap;

use redis::Connection;

/// Returns each key with its type and its content.
pub(crate) fn snapshot(connection: &mut Connection) -> BTreeMap<String, String> {
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(connection).unwrap();
    keys.into_iter()
        .map(|key| (key.escape_ascii().to_string(), held_by(connection, &key)))
        .collect()
}

fn held_by(connection: &mut Connection, key: &[u8]) -> String {
    let kind: String = redis::cmd("TYPE").arg(key).query(connection).unwrap();
    let mut read = |command: &str, more: &[&str]| -> Vec<Vec<u8>> {
        redis::cmd(command).arg(key).arg(more).query(connection).unwrap()
    };
    let items = match kind.as_str() {
        "string" => read("MGET", &[]),
        "list" => read("LRANGE", &["0", "-1"]),
        "zset" => read("ZRANGE", &["0", "-1", "WITHSCORES"]),
        "hash" => {
            let flat = read("HGETALL", &[]);
            let fields: BTreeMap<&Vec<u8>, &Vec<u8>> =
                flat.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect();
            fields.into_iter().flat_map(|(field, value)| [field.clone(), value.clone()]).collect()
        }
        other => panic!("a {other} in the test's Redis"),
    };
    let shown: Vec<String> = items.iter().map(|item| item.escape_ascii().to_string()).collect();
    format!("{kind} {}", shown.join(" "))
}
