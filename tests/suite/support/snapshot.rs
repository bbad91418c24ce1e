//! The whole content of a Redis as readable text. Two snapshots are equal if and only if nothing
//! changed between them.

use std::collections::BTreeMap;

use redis::{Connection, RedisResult};

/// Returns each key with its type and its content.
pub(crate) fn snapshot(connection: &mut Connection) -> RedisResult<BTreeMap<String, String>> {
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(connection)?;
    if keys.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut pipeline = redis::pipe();
    for key in &keys {
        pipeline.cmd("TYPE").arg(key);
    }
    let kinds: Vec<String> = pipeline.query(connection)?;
    let mut pipeline = redis::pipe();
    for (key, kind) in keys.iter().zip(&kinds) {
        match kind.as_str() {
            "string" => pipeline.cmd("MGET").arg(key),
            "list" => pipeline.cmd("LRANGE").arg(key).arg(0).arg(-1),
            "zset" => pipeline.cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES"),
            "hash" => pipeline.cmd("HGETALL").arg(key),
            other => panic!("a {other} in the test's Redis"),
        };
    }
    let contents: Vec<Vec<Vec<u8>>> = pipeline.query(connection)?;
    let shown = |((key, kind), items): ((&Vec<u8>, &String), Vec<Vec<u8>>)| {
        (key.escape_ascii().to_string(), shown(kind, items))
    };
    Ok(keys.iter().zip(&kinds).zip(contents).map(shown).collect())
}

fn shown(kind: &str, mut items: Vec<Vec<u8>>) -> String {
    if kind == "hash" {
        let fields: BTreeMap<&Vec<u8>, &Vec<u8>> =
            items.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect();
        items =
            fields.into_iter().flat_map(|(field, value)| [field.clone(), value.clone()]).collect();
    }
    let shown: Vec<String> = items.iter().map(|item| item.escape_ascii().to_string()).collect();
    format!("{kind} {}", shown.join(" "))
}
