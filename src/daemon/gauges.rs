//! Reads the load of the host and the memory that is free for this process and its jobs.
//!
//! Free memory is the memory that the kernel reports as available on the host. If the cgroup
//! (version 2) of this process has a limit with less memory left, the smaller amount counts. This
//! is needed in a container, where the memory of the host is not the limit. The page cache of the
//! cgroup counts as free, because the kernel can release it.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

const CGROUPS: &str = "/sys/fs/cgroup";

/// Returns the load average of one minute, or `None` if the host does not report a load.
pub(super) fn load() -> Option<f64> {
    parse_load(&read_to_string("/proc/loadavg").ok()?)
}

/// Returns the free memory in bytes, or `None` if the host does not report its memory.
pub(super) fn free_memory() -> Option<u64> {
    let of_host = read_to_string("/proc/meminfo").ok().and_then(|text| parse_available(&text));
    let own = read_to_string("/proc/self/cgroup").ok().and_then(|text| parse_own_cgroup(&text));
    let of_cgroup = own.and_then(|own| below_limit(Path::new(CGROUPS), &own));
    of_host.into_iter().chain(of_cgroup).min()
}

fn parse_load(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok().filter(|load: &f64| load.is_finite())
}

fn parse_available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the path of this process' cgroup (version 2) below the cgroup mount. `text` is the
/// content of `/proc/self/cgroup`. Returns `None` if this content names no such cgroup.
fn parse_own_cgroup(text: &str) -> Option<PathBuf> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(PathBuf::from(path.trim_start_matches('/')))
}

/// Returns how many more bytes of memory the cgroup `own` may use before it or an ancestor reaches
/// its limit. Returns `None` if no limit is set.
fn below_limit(mount: &Path, own: &Path) -> Option<u64> {
    own.ancestors().filter_map(|path| left_in(&mount.join(path))).min()
}

fn left_in(cgroup: &Path) -> Option<u64> {
    let number = |name: &str| read_to_string(cgroup.join(name)).ok()?.trim().parse::<u64>().ok();
    let (most, used) = (number("memory.max")?, number("memory.current")?);
    let stat = read_to_string(cgroup.join("memory.stat")).unwrap_or_default();
    let cache = stat
        .lines()
        .find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse().ok())
        .unwrap_or(0);
    Some(most.saturating_sub(used.saturating_sub(cache)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_reports_is_read() {
        assert_eq!(parse_load("9.10 4.05 3.11 2/345 678\n"), Some(9.1));
        assert_eq!(parse_load(""), None);
        assert_eq!(
            parse_available("MemTotal: 8000 kB\nMemFree: 5 kB\nMemAvailable:    4000 kB\n"),
            Some(4_096_000)
        );
        assert_eq!(parse_available("MemTotal: 8000 kB\n"), None);
        assert!(load().is_some() && free_memory().is_some(), "this host tells both");
    }

    #[test]
    fn the_nearest_limit_of_a_cgroup_counts_and_cache_is_free() {
        let mount = tempfile::tempdir().unwrap();
        let put = |path: &str, name: &str, text: &str| {
            let dir = mount.path().join(path);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join(name), text).unwrap();
        };
        for (path, most, used, stat) in [
            ("", "max\n", "9000\n", ""),
            ("a", "5000\n", "4000\n", "anon 5\ninactive_file 700\n"),
            ("a/b", "max\n", "3000\n", ""),
            ("c", "100\n", "300\n", ""),
        ] {
            put(path, "memory.max", most);
            put(path, "memory.current", used);
            put(path, "memory.stat", stat);
        }
        let own = |text: &str| parse_own_cgroup(text).unwrap();
        assert_eq!(below_limit(mount.path(), &own("12:pids:/x\n0::/a/b\n")), Some(1_700));
        assert_eq!(below_limit(mount.path(), &own("0::/")), None);
        assert_eq!(below_limit(mount.path(), &own("0::/c")), Some(0));
        assert_eq!(parse_own_cgroup("12:pids:/x\n"), None);
    }
}
