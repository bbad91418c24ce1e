//! The shards of a namespace, and the shard of a job in a spread queue.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The shards of a namespace. Each shard is a namespace of its own, with a number from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShardMap {
    /// This number of shards at the address of the namespace, 1 to [`ShardMap::MOST`].
    Count(u32),
    /// A shard on each of these servers, `HOST:PORT`. 1 to [`ShardMap::MOST`] servers.
    Servers(Vec<String>),
}

/// The error of a text that describes no shards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {found:?}, wanted 'count N' or 'servers HOST:PORT HOST:PORT' with at most {most} shards, and perhaps 'after' with former counts",
    most = ShardMap::MOST
)]
pub struct ShardMapError {
    found: String,
}

impl ShardMap {
    /// The maximum number of shards.
    pub const MOST: u32 = 1_000;

    /// Returns the number of shards.
    pub fn count(&self) -> u32 {
        match self {
            Self::Count(count) => *count,
            Self::Servers(servers) => u32::try_from(servers.len()).unwrap_or(Self::MOST),
        }
    }

    /// Returns the server of a shard; `None` if the shard is at the address of the namespace.
    pub fn server(&self, shard: u32) -> Option<&str> {
        match self {
            Self::Count(_) => None,
            Self::Servers(servers) => servers.get(shard as usize).map(String::as_str),
        }
    }

    /// Returns the number of the shard for jobs with this key or name. Equal texts have equal shards.
    ///
    /// If the number of shards grows from n to m, the part (m - n) / m of all texts moves, and only
    /// to new shards.
    pub fn shard_of(&self, text: &str) -> u32 {
        shard_among(self.count(), text)
    }

    /// Returns the value of `shards` in a jobs file.
    pub fn toml(&self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Servers(servers) => format!("{servers:?}"),
        }
    }

    /// Returns true if this map can replace `former`: it has the former shards at their places, and
    /// perhaps more.
    pub fn extends(&self, former: &Self) -> bool {
        match (self, former) {
            (Self::Count(now), Self::Count(former)) => now >= former,
            (Self::Servers(now), Self::Servers(former)) => now.starts_with(former),
            _ => false,
        }
    }
}

/// The shards of a namespace as Redis records them: the present map, and the former counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardRecord {
    /// The present shards.
    pub map: ShardMap,
    /// The numbers of shards before each growth, in order of time.
    pub former: Vec<u32>,
}

impl ShardRecord {
    /// Returns the record after a growth of `former` to `map`, or the first record without `former`.
    pub fn grown(former: Option<Self>, map: ShardMap) -> Self {
        let counts = former.into_iter().flat_map(|record| {
            let last = record.map.count();
            record.former.into_iter().chain([last])
        });
        Self { map, former: counts.collect() }
    }

    /// Returns the shards that had jobs with this key or name before the last growth, without the
    /// present shard.
    pub fn former_shards_of(&self, text: &str) -> BTreeSet<u32> {
        let mut shards: BTreeSet<u32> =
            self.former.iter().map(|count| shard_among(*count, text)).collect();
        shards.remove(&self.map.shard_of(text));
        shards
    }
}

/// Returns the shard of a text among `count` shards, by jump consistent hash (Lamping and Veach 2014).
fn shard_among(count: u32, text: &str) -> u32 {
    let mut state = fnv_1a(text);
    let (mut shard, mut next) = (0, 0.0);
    while next < f64::from(count) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the loop ends before `next` exceeds the number of shards"
        )]
        {
            shard = next as u32;
        }
        state = state.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let divisor = u32::try_from(state >> 33).unwrap_or(u32::MAX);
        next = f64::from(shard + 1) * f64::from(1_u32 << 31) / (f64::from(divisor) + 1.0);
    }
    shard
}

/// Returns the 64-bit FNV-1a hash of a text.
fn fnv_1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Formats the map as a record has it: `count 8`, or `servers HOST:PORT HOST:PORT`.
impl fmt::Display for ShardMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "count {count}"),
            Self::Servers(servers) => write!(f, "servers {}", servers.join(" ")),
        }
    }
}

impl FromStr for ShardMap {
    type Err = ShardMapError;

    fn from_str(text: &str) -> Result<Self, ShardMapError> {
        let map = match text.split_once(' ') {
            Some(("count", count)) => count.parse().ok().map(Self::Count),
            Some(("servers", servers)) => {
                Some(Self::Servers(servers.split(' ').map(str::to_owned).collect()))
            }
            _ => None,
        };
        map.filter(|map| (1..=Self::MOST).contains(&map.count()))
            .ok_or_else(|| ShardMapError { found: text.to_owned() })
    }
}

/// Formats the record as Redis stores it: `count 8`, or after growth `count 8 after 3 5`.
impl fmt::Display for ShardRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.map)?;
        for (at, count) in self.former.iter().enumerate() {
            write!(f, "{} {count}", if at == 0 { " after" } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for ShardRecord {
    type Err = ShardMapError;

    fn from_str(text: &str) -> Result<Self, ShardMapError> {
        let (map, former) = text.split_once(" after ").unwrap_or((text, ""));
        let map: ShardMap = map.parse()?;
        let counts = former.split_whitespace().map(str::parse).collect::<Result<Vec<u32>, _>>();
        counts
            .ok()
            .filter(|counts| counts.iter().all(|count| (1..=map.count()).contains(count)))
            .map(|former| Self { map, former })
            .ok_or_else(|| ShardMapError { found: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_gets_an_equal_part_and_growth_moves_jobs_only_to_new_shards() {
        let texts: Vec<String> = (0..20_000).map(|number| format!("mail-{number}")).collect();
        let (five, eight) = (ShardMap::Count(5), ShardMap::Count(8));
        let mut counts = [0; 8];
        let mut moved = 0;
        for text in &texts {
            let (before, after) = (five.shard_of(text), eight.shard_of(text));
            counts[after as usize] += 1;
            assert!(before == after || after >= 5, "{text} moved from {before} to {after}");
            moved += usize::from(before != after);
        }
        assert!(counts.iter().all(|count| (2_300..=2_700).contains(count)), "{counts:?}");
        assert!((7_200..=7_800).contains(&moved), "{moved} moved, wanted 3/8 of 20,000");
    }

    #[test]
    fn the_shard_of_a_name_never_changes_because_stored_jobs_are_found_by_it() {
        // By the functions of the paper and of FNV-1a, written in another language.
        let shards = ["a", "mail-1", "welcome-42"].map(|text| ShardMap::Count(8).shard_of(text));
        assert_eq!(shards, [2, 0, 6]);
    }

    #[test]
    fn a_map_reads_back_and_a_damaged_map_is_refused() {
        let servers = ShardMap::Servers(vec!["a:1".to_owned(), "b:2".to_owned()]);
        for map in [ShardMap::Count(8), servers] {
            assert_eq!(map.to_string().parse(), Ok(map));
        }
        for text in ["", "8", "count", "count 0", "count 1001", "count -1", "list a"] {
            assert!(text.parse::<ShardMap>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_record_keeps_the_former_counts_and_so_knows_where_a_job_may_still_be() {
        let first = ShardRecord::grown(None, ShardMap::Count(3));
        assert_eq!(first.to_string(), "count 3");
        let grown = ShardRecord::grown(Some(first.clone()), ShardMap::Count(5));
        let grown = ShardRecord::grown(Some(grown), ShardMap::Count(8));
        assert_eq!(grown.to_string(), "count 8 after 3 5");
        assert_eq!(grown.to_string().parse(), Ok(grown.clone()));
        for number in 0..1_000 {
            let name = format!("mail-{number}");
            assert!(first.former_shards_of(&name).is_empty());
            let mut wanted: BTreeSet<u32> =
                [3, 5].map(|count| ShardMap::Count(count).shard_of(&name)).into();
            wanted.remove(&grown.map.shard_of(&name));
            assert_eq!(grown.former_shards_of(&name), wanted, "{name}");
        }
        for text in ["count 3 after x", "count 3 after 4", "count 3 after 0", "after 3"] {
            assert!(text.parse::<ShardRecord>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_map_extends_another_only_if_former_shards_keep_their_places() {
        let servers = |text: &str| format!("servers {text}").parse::<ShardMap>().unwrap();
        assert!(ShardMap::Count(5).extends(&ShardMap::Count(3)));
        assert!(!ShardMap::Count(3).extends(&ShardMap::Count(5)));
        assert!(servers("a:1 b:1").extends(&servers("a:1")));
        assert!(!servers("b:1 a:1").extends(&servers("a:1")));
        assert!(!servers("a:1").extends(&ShardMap::Count(1)));
    }
}
