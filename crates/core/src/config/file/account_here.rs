//! The check that a job's user exists on this host, and belongs to the group the job names.

use std::ffi::CString;

use nix::unistd::{Group, User, getgrouplist};

use crate::config::syntax::problem::quoted;
use crate::domain::job::process_rules::RunAs;

/// Returns the reason why this host cannot run processes as `run_as`. Returns `None` if the host
/// can do so, or if the answer is unknown.
pub fn account_lack(run_as: &RunAs) -> Option<String> {
    let name = run_as.user();
    let Some(user) = User::from_name(name).ok()? else {
        return Some(format!("this host has no user {}", quoted(name)));
    };
    let group = run_as.group()?;
    let Some(found) = Group::from_name(group).ok()? else {
        return Some(format!("this host has no group {}", quoted(group)));
    };
    let groups = getgrouplist(&CString::new(name).ok()?, user.gid).ok()?;
    let is_in = groups.contains(&found.gid);
    (!is_in).then(|| {
        format!("user {} is not a member of group {} on this host", quoted(name), quoted(group))
    })
}
