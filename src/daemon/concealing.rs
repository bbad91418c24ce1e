//! Removes a password from the arguments of this process, because every user of the host can read
//! these arguments in the process list.
//!
//! The program executes itself again in the same process. The Redis URL is then in the environment
//! of the process, which only its own user and root can read. Invariant: the program executes
//! itself at most once more, before it has started a thread or opened a connection.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::{env, io};

use schedd_core::config::has_password;

const FLAG: &str = "--redis";

/// The arguments of this process without the Redis URL, and the URL.
pub(super) struct Concealed {
    program: OsString,
    rest: Vec<OsString>,
    url: String,
}

impl Concealed {
    /// Returns the arguments of this process without `--redis` and its URL, and the URL separately.
    /// Returns `None` if `--redis` is missing or its URL has no password.
    pub(super) fn from_args() -> Option<Self> {
        Self::of(env::args_os())
    }

    fn of(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut args = args.into_iter();
        let program = args.next()?;
        let (mut rest, mut url) = (Vec::new(), None);
        while let Some(arg) = args.next() {
            let text = arg.to_str().unwrap_or_default();
            if text == FLAG {
                url = Some(args.next()?.into_string().ok()?);
            } else if let Some(given) =
                text.strip_prefix(FLAG).and_then(|given| given.strip_prefix('='))
            {
                url = Some(given.to_owned());
            } else {
                rest.push(arg);
            }
        }
        url.filter(|url| has_password(url)).map(|url| Self { program, rest, url })
    }

    /// Executes this program again in this process, with the Redis URL in the environment instead
    /// of the arguments. Returns only if that fails, with the error.
    pub(super) fn begin_anew(self) -> io::Error {
        match env::current_exe() {
            // The process keeps its name, because other nodes recognize a live schedd by this name.
            Ok(file) => Command::new(file)
                .arg0(self.program)
                .args(self.rest)
                .env("SCHEDD_REDIS_URL", self.url)
                .exec(),
            Err(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(args: &[&str]) -> Option<(Vec<String>, String)> {
        let concealed = Concealed::of(args.iter().map(OsString::from))?;
        Some((
            concealed.rest.iter().map(|arg| arg.to_str().unwrap().to_owned()).collect(),
            concealed.url,
        ))
    }

    #[test]
    fn only_an_address_with_a_password_is_taken_out() {
        let url = "redis://u:p@h/";
        for args in [
            &["schedd", "--redis", url, "--node", "n"][..],
            &["schedd", "--node", "n", &format!("--redis={url}")],
        ] {
            assert_eq!(of(args), Some((vec!["--node".to_owned(), "n".to_owned()], url.to_owned())));
        }
        for args in [
            &["schedd"][..],
            &["schedd", "--redis", "redis://h/"],
            &["schedd", "--redis"],
            &["schedd", "--redis", "redis://:${credential:x}@h"],
        ] {
            assert_eq!(of(args), None, "{args:?}");
        }
    }
}
