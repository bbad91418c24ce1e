//! A terminal of its own for a `schedctl` with screens and keys.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::ctl::Schedctl;
use crate::support::wait::{LONG, until};

/// A `schedctl` on a terminal of its own, with somebody at the keys.
pub(crate) struct TerminalSession {
    child: Child,
    keys: Option<ChildStdin>,
    seen: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl TerminalSession {
    /// Starts it on a terminal of so many columns and lines. Its number comes first, and after it ends its code and how the
    /// terminal is set.
    pub(crate) fn start(ctl: &Schedctl, (columns, rows): (u32, u32), args: &str) -> Self {
        let line = format!(
            "trap : INT; stty cols {columns} rows {rows}; before=$(stty -g); \
             sh -c 'echo number $$.; exec {program} {args}'; code=$?; \
             [ \"$before\" = \"$(stty -g)\" ] && echo restored; echo \"code $code.\"",
            program = env!("CARGO_BIN_EXE_schedctl"),
        );
        let mut command: Command = ctl.command_of("script");
        command.env("SHELL", "/bin/sh").args(["-qec", &line, "/dev/null"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut output, keeping) = (child.stdout.take().unwrap(), seen.clone());
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = output.read(&mut bytes)
                && count > 0
            {
                keeping.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Self { keys: child.stdin.take(), child, seen, reader: Some(reader) }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    /// How much was seen so far: what comes later is behind it.
    pub(crate) fn length(&self) -> usize {
        self.text().len()
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        self.wait_after(0, text);
    }

    #[track_caller]
    pub(crate) fn wait_after(&self, from: usize, text: &str) {
        until(&format!("{text:?} is seen; {:?}", self.text()), LONG, || {
            self.text().get(from..)?.contains(text).then_some(())
        });
    }

    pub(crate) fn press(&mut self, keys: &str) {
        let input = self.keys.as_mut().unwrap();
        input.write_all(keys.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    pub(crate) fn number(&self) -> i32 {
        let text = self.text();
        text.split("number ").nth(1).and_then(|rest| rest.split('.').next()?.parse().ok()).unwrap()
    }

    /// Sends it a signal from elsewhere.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.number()).unwrap(), signal).unwrap();
    }

    /// The letter of its state as the kernel has it.
    pub(crate) fn state(&self) -> String {
        let line =
            std::fs::read_to_string(format!("/proc/{}/stat", self.number())).unwrap_or_default();
        line.rsplit(") ").next().unwrap_or_default().to_owned()
    }

    /// All that was seen, once it has ended with this code and left the terminal as it was.
    #[track_caller]
    pub(crate) fn end(mut self, code: i32) -> String {
        self.wait_for(&format!("code {code}."));
        drop(self.keys.take());
        self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        let text = self.text();
        assert!(text.contains("restored"), "{text:?}");
        text
    }
}

impl Drop for TerminalSession {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
