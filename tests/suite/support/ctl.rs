//! Calls of `schedctl` as an operator would make them, with nothing of the caller's environment.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::redis::TestRedis;

/// An environment from which to call `schedctl`.
pub(crate) struct Schedctl {
    program: PathBuf,
    home: TempDir,
    vars: Vec<(String, String)>,
}

/// The result of a call.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Schedctl {
    /// Calls that find `redis` through the environment.
    pub(crate) fn on(redis: &TestRedis) -> Self {
        Self::alone().env("SCHEDD_REDIS_URL", &redis.url())
    }

    /// Calls without any Redis in the environment.
    pub(crate) fn alone() -> Self {
        let home = tempfile::Builder::new().prefix("schedctl-test-").tempdir_in("/tmp").unwrap();
        Self { program: env!("CARGO_BIN_EXE_schedctl").into(), home, vars: Vec::new() }
    }

    pub(crate) fn namespace(self, namespace: &str) -> Self {
        self.env("SCHEDD_NAMESPACE", namespace)
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.vars.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Replaces the program that is called.
    pub(crate) fn played_by(mut self, program: &Path) -> Self {
        program.clone_into(&mut self.program);
        self
    }

    /// The directory of the calls, which is their HOME too.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Returns a call that is not started yet, with nothing on its standard input.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        self.settle(&mut command);
        command.args(args);
        command
    }

    /// Returns a call of another program, in the same directory and environment.
    pub(crate) fn command_of(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        self.settle(&mut command);
        command
    }

    fn settle(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.home.path())
            .envs(self.vars.iter().cloned())
            .current_dir(self.home.path())
            .stdin(Stdio::null());
    }

    /// Runs `schedctl` to its end. A death by signal gives the code 128 + signal, as in a shell.
    pub(crate) fn run(&self, args: &[&str]) -> Finished {
        Finished::of(self.command(args).output().unwrap())
    }

    /// Runs `schedctl` with this on its standard input.
    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> Finished {
        let file = self.home.path().join("input");
        std::fs::write(&file, input).unwrap();
        let mut command = self.command(args);
        Finished::of(command.stdin(std::fs::File::open(&file).unwrap()).output().unwrap())
    }

    /// Runs `schedctl` on a terminal. Standard output is what an operator would see, with a
    /// terminal's line ends.
    pub(crate) fn run_on_terminal(&self, args: &[&str]) -> Finished {
        self.run_after("true", args)
    }

    /// Runs `schedctl` on a terminal where the operator types this answer.
    pub(crate) fn answer_on_terminal(&self, args: &[&str], answer: &str) -> Finished {
        let file = self.home.path().join("answer");
        std::fs::write(&file, answer).unwrap();
        Finished::of(
            self.on_terminal("true", args)
                .stdin(std::fs::File::open(&file).unwrap())
                .output()
                .unwrap(),
        )
    }

    /// Runs `schedctl` on a terminal of this many columns.
    pub(crate) fn run_on_terminal_of(&self, columns: u32, args: &[&str]) -> Finished {
        self.run_after(&format!("stty cols {columns}"), args)
    }

    fn run_after(&self, preparation: &str, args: &[&str]) -> Finished {
        Finished::of(self.on_terminal(preparation, args).output().unwrap())
    }

    fn on_terminal(&self, preparation: &str, args: &[&str]) -> Command {
        let quoted: Vec<String> =
            args.iter().map(|arg| format!("'{}'", arg.replace('\'', r"'\''"))).collect();
        let line = format!("{preparation}; '{}' {}", self.program.display(), quoted.join(" "));
        let mut command = Command::new("script");
        self.settle(&mut command);
        command.env("SHELL", "/bin/sh").args(["-qec", &line, "/dev/null"]);
        command
    }
}

impl Finished {
    pub(crate) fn of(output: std::process::Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        Self {
            code: output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap()),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Asserts this code and, unless it is 0, a single error line, or JSON object with
    /// `--json`, that contains each of `words`.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        let lines: Vec<&str> =
            self.stderr.lines().filter(|line| !line.starts_with("schedctl: warning: ")).collect();
        assert!(
            matches!(lines.as_slice(), [line] if line.starts_with("schedctl: ") || line.starts_with("{\"error\":")),
            "not one line: {self:?}"
        );
        let document = serde_json::from_str::<serde_json::Value>(&self.stderr).ok();
        let error = document
            .as_ref()
            .map_or(self.stderr.as_str(), |error| error["error"].as_str().unwrap());
        for word in words {
            assert!(error.contains(word), "{word:?} is not said: {self:?}");
        }
    }

    /// Asserts the code 0.
    #[track_caller]
    pub(crate) fn good(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
    /// Returns the JSON document on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("no JSON document ({error}): {self:?}"))
    }
}
