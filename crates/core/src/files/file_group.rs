//! The recognition of groups that contain only one user. With `umask 0002`, as on Fedora and
//! Ubuntu, the private group of a user can write each file that the user makes.

use std::fs::File;
use std::os::fd::AsRawFd as _;

use rustix::io::Errno;

/// Returns true if only the user `uid` may write the file or directory `opened` as its group `gid`.
/// Returns false if this is uncertain.
pub(super) fn is_private_group(gid: u32, uid: u32, opened: &File) -> bool {
    if has_access_list(opened) {
        return false;
    }
    let read = |path| std::fs::read_to_string(path).ok();
    let Some((passwd, group)) = read("/etc/passwd").zip(read("/etc/group")) else { return false };
    is_of_one_user(gid, uid, &passwd, &group)
}

/// Returns true if the file has an access list. In such a file, the group bits of the mode are the
/// mask of the list (acl(5)), not the rights of the group.
fn has_access_list(opened: &File) -> bool {
    // `fgetxattr` fails on a descriptor opened with `O_PATH`, so the path of the descriptor is
    // used.
    let place = format!("/proc/self/fd/{}", opened.as_raw_fd());
    let asked = rustix::fs::getxattr(place, "system.posix_acl_access", &mut [0_u8; 0]);
    !matches!(asked, Err(Errno::NODATA | Errno::NOTSUP))
}

/// Returns true if the group has the name of the user, is the user's first group, and has no other
/// member.
fn is_of_one_user(gid: u32, uid: u32, passwd: &str, groups: &str) -> bool {
    let users = passwd.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        Some((
            *fields.first()?,
            fields.get(2)?.parse::<u32>().ok()?,
            fields.get(3)?.parse::<u32>().ok()?,
        ))
    });
    let mut of_group = users.filter(|(_, _, first)| *first == gid);
    let (Some((user, id, _)), None) = (of_group.next(), of_group.next()) else { return false };
    let mut lines = groups.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let members = fields.get(3).copied().unwrap_or_default();
        (fields.get(2)?.parse() == Ok(gid)).then_some((*fields.first()?, members))
    });
    let (Some((name, members)), None) = (lines.next(), lines.next()) else { return false };
    id == uid
        && name == user
        && members.split(',').all(|member| member.is_empty() || member == user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_private_if_it_is_its_users_own_and_nobody_else_is_in_it() {
        let passwd = "root:x:0:0::/root:/bin/sh\nanna:x:1000:1000::/:/bin/sh\nbob:x:1001:1001::/:/bin/sh\neve:x:1002:100::/:/bin/sh\n\
                      max:x:1003:100::/:/bin/sh\nsvc:x:1004:1005::/:/bin/sh\n";
        let groups = "root:x:0:\nanna:x:1000:anna\nbob:x:1001:anna\nusers:x:100:\nother:x:1005:\nadm:x:4:anna\n";
        let is_private = |gid, uid| is_of_one_user(gid, uid, passwd, groups);
        assert!(is_private(0, 0) && is_private(1000, 1000));
        for (gid, uid, why) in [
            (1001, 1001, "another member"),
            (100, 1002, "the first group of two"),
            (1005, 1004, "another name"),
            (1000, 1001, "of another user"),
            (4, 1000, "nobody's first group"),
            (77, 1000, "unknown"),
        ] {
            assert!(!is_private(gid, uid), "{why}");
        }
    }
}
