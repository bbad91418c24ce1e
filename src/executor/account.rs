//! The user a job's process runs as: the user of this process, or another user if this node may
//! change users.
//!
//! Invariant: a job that names a user never runs as root. A job runs only as a user that this
//! node's own file allows, and only in a group of that user. Nothing in Redis can widen these
//! rules.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::time::Duration;

use nix::unistd::{Group, User, getgrouplist};
use rustix::thread::CapabilitySet;
use tokio::sync::Semaphore;

use schedd_core::domain::job::process_rules::RunAs;
use schedd_keeper::Owner;

/// The maximum time to look up a user, because the host may have to ask a directory server.
const LOOK_UP: Duration = Duration::from_secs(10);

/// The limit of user look-ups that run at the same time.
static LOOKING_UP: Semaphore = Semaphore::const_new(16);

/// The account of the user that a job runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) user: String,
    pub(super) home: String,
    /// The login shell of another user. `None` for the user of this process.
    pub(super) shell: Option<String>,
    /// The ids that the processes of the job have to take; `None` if they have the right ids
    /// already.
    pub(super) owner: Option<Owner>,
}

impl Account {
    /// Returns the account of the user of this process, from `/etc/passwd`, or else from the
    /// variables USER and HOME.
    pub(super) fn of_this_process() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
        Self::in_passwd(&passwd, uid).unwrap_or_else(|| Self {
            user: variable("USER").unwrap_or_else(|| uid.to_string()),
            home: variable("HOME").unwrap_or_else(|| "/".to_owned()),
            shell: None,
            owner: None,
        })
    }

    fn in_passwd(passwd: &str, uid: u32) -> Option<Self> {
        passwd.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let (user, home) = ((*fields.first()?).to_owned(), (*fields.get(5)?).to_owned());
            (fields.get(2)?.parse::<u32>() == Ok(uid)).then_some(Self {
                user,
                home,
                shell: None,
                owner: None,
            })
        })
    }
}

/// Returns the result of `look_up`, run on a separate thread.
///
/// A directory server that does not answer blocks at most as many threads as [`LOOKING_UP`] allows.
async fn looked_up<T: Send + 'static>(
    look_up: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let looking = async {
        let place = LOOKING_UP.acquire().await;
        tokio::task::spawn_blocking(move || {
            let found = look_up();
            drop(place);
            found
        })
        .await
    };
    match tokio::time::timeout(LOOK_UP, looking).await {
        Ok(found) => found.map_err(|error| format!("the look-up of the user failed: {error}")),
        Err(_) => Err(format!("the look-up of the user took longer than {LOOK_UP:?}")),
    }
}

/// The users that jobs of a node may run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MayRunAs {
    uid: u32,
    can_change: bool,
    listed: Option<BTreeSet<String>>,
}

impl MayRunAs {
    /// Returns the users that this process can become and that the node's jobs file allows. `users`
    /// is the list in that file, or `None` if the file has no list.
    pub fn of_this_process(users: Option<BTreeSet<String>>) -> Self {
        // The capability CAP_KILL is needed too: a process that cannot be stopped must not be
        // started.
        let needed = CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL;
        let can_change =
            rustix::thread::capabilities(None).is_ok_and(|own| own.effective.contains(needed));
        Self { uid: rustix::process::geteuid().as_raw(), can_change, listed: users }
    }

    /// Returns the reason why no job can run as another user on this host. Returns `None` if some
    /// job can.
    pub fn nobody(&self) -> Option<String> {
        let uid = self.uid;
        match (self.can_change, &self.listed) {
            (false, _) => Some(format!(
                "schedd has uid {uid} and cannot switch to another user, wanted root, or CAP_SETUID, CAP_SETGID and CAP_KILL"
            )),
            (true, None) if uid != 0 => Some(format!(
                "schedd has uid {uid} and the node has no [daemon] users, wanted a list of the users that jobs may run as"
            )),
            (true, _) => None,
        }
    }

    /// Returns the rules of a process that has the user id `uid` and cannot change users.
    #[cfg(test)]
    pub(super) fn of_uid(uid: u32) -> Self {
        Self { uid, can_change: false, listed: None }
    }

    /// Returns true if this process is root. A job that names a user must never run as root
    /// instead.
    pub(super) fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Returns the users that jobs may name, as text: `*` for all users, else a list with commas.
    /// Returns `None` if jobs may not name a user.
    pub fn words(&self) -> Option<String> {
        if self.nobody().is_some() {
            return None;
        }
        let listed = self.listed.as_ref();
        Some(listed.map_or_else(
            || "*".to_owned(),
            |users| users.iter().cloned().collect::<Vec<_>>().join(","),
        ))
    }

    /// Returns the account of the user that `run_as` names. Returns `None` if no user is named.
    ///
    /// The error is the reason why the account does not exist or is not allowed. A job with a user
    /// must not set a variable `LD_*`, so such a name in the job's variables `own` is an error too.
    pub(super) async fn account(
        &self,
        run_as: Option<&RunAs>,
        own: &BTreeMap<String, String>,
    ) -> Result<Option<Account>, String> {
        let Some(run_as) = run_as else { return Ok(None) };
        // `LD_` variables in the definition were refused earlier, but an env_file may contain such
        // variables.
        if let Some(name) = own.keys().find(|name| name.starts_with("LD_")) {
            return Err(format!(
                "env {name} is not allowed together with user, because the dynamic loader obeys LD_ variables"
            ));
        }
        let (may, wanted) = (self.clone(), run_as.clone());
        let account = looked_up(move || may.look_up(&wanted)).await.flatten();
        account.map(Some).map_err(|why| format!("user {run_as}: {why}"))
    }

    /// Returns the uid of the user that `run_as` names. `None` if the user cannot be found, or if
    /// no job may run as that user on this host.
    pub(super) async fn id_of(&self, run_as: &RunAs) -> Option<u32> {
        let (may, wanted) = (self.clone(), run_as.clone());
        let account = looked_up(move || may.look_up(&wanted)).await.ok()?.ok()?;
        account.owner.map(|owner| owner.uid)
    }

    fn look_up(&self, run_as: &RunAs) -> Result<Account, String> {
        let name = run_as.user();
        let not_looked_up = |errno: nix::Error| format!("the look-up failed: {}", errno.desc());
        let user =
            User::from_name(name).map_err(not_looked_up)?.ok_or("this host has no such user")?;
        let c_name = CString::new(name).map_err(|error| error.to_string())?;
        let groups = getgrouplist(&c_name, user.gid).map_err(not_looked_up)?;
        let gid = match run_as.group() {
            None => user.gid,
            Some(group) => {
                let gid = Group::from_name(group)
                    .map_err(not_looked_up)?
                    .ok_or(format!("this host has no group {group}"))?
                    .gid;
                // This node's file allows users, not groups. So a job may not gain the rights of a
                // group that its user is not in.
                if !groups.contains(&gid) {
                    return Err(format!(
                        "the user is not a member of group {group} on this host, wanted a group of the user"
                    ));
                }
                gid
            }
        };
        let is_self =
            user.uid.as_raw() == self.uid && gid.as_raw() == rustix::process::getegid().as_raw();
        let owner = if is_self {
            None
        } else {
            self.allow(name, user.uid.as_raw())?;
            let groups = groups.into_iter().map(nix::unistd::Gid::as_raw).collect();
            Some(Owner { uid: user.uid.as_raw(), gid: gid.as_raw(), groups })
        };
        let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
        Ok(Account { user: user.name, home: text(user.dir), shell: Some(text(user.shell)), owner })
    }

    fn allow(&self, name: &str, uid: u32) -> Result<(), String> {
        if uid == 0 {
            return Err(
                "the user has uid 0, wanted a user other than root (if schedd runs as root, a job without user runs as root)"
                    .to_owned(),
            );
        }
        if let Some(why) = self.nobody() {
            return Err(why);
        }
        match &self.listed {
            Some(users) if !users.contains(name) => {
                Err("the user is not in [daemon] users of this node; add the user there, or use a listed user".to_owned())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_the_line_of_the_uid() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\nsvc:x:1001:7::/srv/svc:/bin/false\n";
        let svc = Account {
            user: "svc".to_owned(),
            home: "/srv/svc".to_owned(),
            shell: None,
            owner: None,
        };
        assert_eq!(Account::in_passwd(passwd, 1001), Some(svc));
        assert_eq!(Account::in_passwd(passwd, 5), None);
    }

    #[test]
    fn who_may_be_named_is_for_this_host_to_say() {
        let may = |uid, can_change, users: Option<&[&str]>| MayRunAs {
            uid,
            can_change,
            listed: users.map(|users| users.iter().map(|user| (*user).to_owned()).collect()),
        };
        let refused = |may: MayRunAs, uid| may.allow("backup", uid).err();
        assert_eq!(refused(may(0, true, None), 34), None);
        assert_eq!(refused(may(999, true, Some(&["backup"])), 34), None);
        for (may, uid, words) in [
            (may(0, true, None), 0, "uid 0"),
            (may(0, true, Some(&["www-data"])), 34, "not in [daemon] users"),
            (may(0, true, Some(&[])), 34, "not in [daemon] users"),
            (may(999, true, None), 34, "has no [daemon] users"),
            (may(999, false, Some(&["backup"])), 34, "cannot switch to another user"),
            (may(0, false, None), 34, "cannot switch to another user"),
        ] {
            let why = refused(may, uid).unwrap();
            assert!(why.contains(words), "{why}");
        }
        assert_eq!(may(0, true, None).words().as_deref(), Some("*"));
        assert_eq!(may(5, true, Some(&["b", "a"])).words().as_deref(), Some("a,b"));
        assert_eq!(may(5, true, None).words(), None);
    }
}
