//! A line of a crontab as a job, with the settings of the lines above it.

use super::crontab_line::{CrontabEntry, LinePlace};
use super::crontab_source::CrontabText;
use super::mail_notice::MailNotice;
use super::toml_text::toml_text;
use schedd_core::config;
use schedd_core::domain::job::env_file::is_variable_name;
use schedd_schedule::names::JobName;
use schedd_schedule::time::zone::{Zone, ZoneName};

/// A job made from a line of a crontab.
#[derive(Debug)]
pub(super) struct ImportedJob {
    pub(super) name: JobName,
    pub(super) place: LinePlace,
    pub(super) entry: CrontabEntry,
    /// The zone of the times.
    pub(super) zone: ZoneName,
    /// The keys of the job, each with a value of TOML.
    pub(super) keys: Vec<(&'static str, String)>,
}

/// The variables that hold for the next line of a crontab.
#[derive(Debug, Clone)]
pub(super) struct CrontabSettings {
    host_zone: ZoneName,
    /// The zone of `CRON_TZ`. The error is the reason why the zone is not known.
    zone: Option<Result<ZoneName, String>>,
    variables: Vec<(String, String)>,
    shell: Option<String>,
    home: Option<String>,
    /// `MAILTO`, if the crontab sets it.
    pub(super) mail: Option<MailNotice>,
    /// The minutes of `RANDOM_DELAY`.
    delay: u32,
}

impl CrontabSettings {
    /// Returns the settings at the start of a crontab.
    pub(super) fn new(host_zone: &Zone) -> Self {
        Self {
            host_zone: host_zone.name().clone(),
            zone: None,
            variables: Vec::new(),
            shell: None,
            home: None,
            mail: None,
            delay: 0,
        }
    }

    /// Adds a setting. The result is a remark about it, if it has one. The error is the reason why
    /// the setting is not carried over.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<Option<&'static str>, String> {
        let is_path = value.starts_with('/');
        match name {
            "MAILTO" => {
                self.mail = Some(MailNotice::none());
                self.mail = Some(MailNotice::read(value)?);
            }
            "CRON_TZ" if value.is_empty() => self.zone = None,
            "CRON_TZ" => {
                let zone = value.trim_start_matches(':').parse::<ZoneName>();
                let zone = zone.map_err(|error| error.to_string());
                self.zone = Some(zone.clone());
                zone?;
                return Ok(Some(
                    "CRON_TZ is the zone of the times below, as in cronie; Debian's cron ignores CRON_TZ",
                ));
            }
            "SHELL" if is_path => self.shell = Some(value.to_owned()),
            "HOME" if is_path => {
                self.home = Some(value.to_owned());
                self.put(name, value);
            }
            "SHELL" | "HOME" => {
                return Err(format!("{name} is {value:?}, wanted an absolute path"));
            }
            "LOGNAME" => {
                return Ok(Some("cron ignores LOGNAME in a crontab, so it is left out"));
            }
            "RANDOM_DELAY" => {
                self.delay = value
                    .parse()
                    .map_err(|_| format!("RANDOM_DELAY is {value:?}, wanted minutes"))?;
                return Ok(Some(
                    "RANDOM_DELAY became splay, as in cronie; Debian's cron ignores it",
                ));
            }
            _ if is_variable_name(name) => self.put(name, value),
            _ => {
                return Err(format!(
                    "{name:?} is no name of a variable, wanted letters, digits and _"
                ));
            }
        }
        Ok(None)
    }

    fn put(&mut self, name: &str, value: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Returns the job of a line below these settings. The error is the reason why there is none.
    pub(super) fn job(
        &self,
        name: JobName,
        place: LinePlace,
        source: &CrontabText,
        entry: CrontabEntry,
    ) -> Result<ImportedJob, String> {
        let zone = match &self.zone {
            None => self.host_zone.clone(),
            Some(Ok(zone)) => zone.clone(),
            Some(Err(why)) => return Err(format!("CRON_TZ above this line: {why}")),
        };
        let mut keys = vec![("cron", toml_text(&entry.cron)), ("tz", toml_text(zone.as_str()))];
        if self.delay > 0 {
            keys.push(("splay", format!("\"{}m\"", self.delay)));
        }
        // A job without a user runs as the user of schedd, because `user` cannot be root.
        let user = entry.user.as_ref().or(source.owner.as_ref()).filter(|user| *user != "root");
        keys.extend(user.map(|user| ("user", toml_text(user))));
        keys.push(("shell", toml_text(&entry.command.line)));
        keys.extend(entry.command.stdin.as_deref().map(|stdin| ("stdin", toml_text(stdin))));
        let mut variables = self.variables.clone();
        if zone != self.host_zone && !variables.iter().any(|(name, _)| name == "TZ") {
            // CRON_TZ moves the times of cron, but not the zone of the commands.
            variables.push(("TZ".to_owned(), self.host_zone.to_string()));
        }
        if !variables.is_empty() {
            // In `env` of a jobs file, `$${` stands for `${`.
            let pair = |(name, value): &(String, String)| {
                format!("{name} = {}", toml_text(&value.replace("${", "$${")))
            };
            let pairs = variables.iter().map(pair).collect::<Vec<_>>().join(", ");
            keys.push(("env", format!("{{ {pairs} }}")));
        }
        keys.extend(self.home.as_deref().map(|home| ("cwd", toml_text(home))));
        keys.extend(self.shell.as_deref().map(|shell| ("shell_program", toml_text(shell))));
        if let Some(mail) = self.mail.as_ref().filter(|mail| mail.is_sent()) {
            keys.push(("on_failure", self.notice(&mail.on_failure())));
            if !prints_nothing(&entry.command.line) {
                keys.push(("on_success", self.notice(&mail.on_success())));
            }
        }
        let job = ImportedJob { name, place, entry, zone, keys };
        job.check()?;
        Ok(job)
    }

    /// Returns a notification that runs `line` by a shell that knows the language of the line.
    fn notice(&self, line: &str) -> String {
        let shell = self.shell.as_deref().unwrap_or("/bin/sh");
        let is_like_sh = ["sh", "bash", "dash", "ksh", "zsh"]
            .iter()
            .any(|known| shell.ends_with(&format!("/{known}")));
        let line = toml_text(line);
        if is_like_sh {
            format!("{{ shell = {line} }}")
        } else {
            format!("{{ command = [\"/bin/sh\", \"-c\", {line}] }}")
        }
    }
}

impl ImportedJob {
    /// Fails with the reason why a jobs file cannot have this job.
    fn check(&self) -> Result<(), String> {
        let lines: Vec<String> =
            self.keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        let text = format!("[jobs.{}]\n{}", self.name, lines.concat());
        let Err(error) = config::compile_text(&text, "crontab", &Zone::utc()) else {
            return Ok(());
        };
        let problem = error.problems().first();
        Err(problem.map_or_else(|| error.to_string(), |problem| problem.message.clone()))
    }

    /// Returns the value of a key, if the job has the key.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.keys.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
    }
}

/// Returns true if a command throws all of its output away.
fn prints_nothing(command: &str) -> bool {
    let squeezed: String = command.split_ascii_whitespace().collect();
    [">/dev/null2>&1", "&>/dev/null"].iter().any(|end| squeezed.ends_with(end))
}
