//! Crontabs as the parts of a jobs file: comments and jobs in the order of their lines.
//!
//! Invariant: each line with text is a comment, a setting or a job of the file, or a refused line
//! with a reason. A refused line is a comment of the file too.

use super::command_name::GivenNames;
use super::crontab_line::{CrontabLine, LinePlace, read_line};
use super::crontab_source::CrontabText;
use super::imported_job::{CrontabSettings, ImportedJob};
use schedd_schedule::time::zone::Zone;

/// A part of the written jobs file.
#[derive(Debug)]
pub(super) enum FilePart {
    Blank,
    Comment(String),
    /// The job with this index.
    Job(usize),
}

/// A line that is not carried over.
#[derive(Debug)]
pub(super) struct RefusedLine {
    pub(super) place: LinePlace,
    pub(super) text: String,
    pub(super) reason: String,
}

/// Crontabs as the parts of a jobs file.
#[derive(Debug, Default)]
pub(super) struct ImportedCrontab {
    pub(super) parts: Vec<FilePart>,
    pub(super) jobs: Vec<ImportedJob>,
    pub(super) refused: Vec<RefusedLine>,
    /// The remarks about all jobs, each once.
    pub(super) remarks: Vec<String>,
    /// The remarks about single lines. Each is also a comment at its line.
    pub(super) line_remarks: Vec<String>,
    names: GivenNames,
}

impl ImportedCrontab {
    /// Adds the lines of a crontab. `host_zone` is the zone in which cron counts.
    pub(super) fn add(&mut self, source: &CrontabText, host_zone: &Zone) {
        let mut settings = CrontabSettings::new(host_zone);
        let ends_well = source.text.is_empty() || source.text.ends_with(b"\n");
        let text = source.text.strip_suffix(b"\n").unwrap_or(&source.text);
        for (number, bytes) in (1_usize..).zip(text.split(|byte| *byte == b'\n')) {
            let place = LinePlace { crontab: source.name.clone(), number };
            let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
            let text = String::from_utf8_lossy(bytes).into_owned();
            let line = read_line(&text, source.column);
            let is_text = std::str::from_utf8(bytes).is_ok();
            match line {
                CrontabLine::Blank => self.parts.push(FilePart::Blank),
                CrontabLine::Comment(comment) => self.parts.push(FilePart::Comment(comment)),
                _ if !is_text => self.refuse(place, text, "the line is not UTF-8"),
                CrontabLine::Refused(reason) => self.refuse(place, text, reason),
                CrontabLine::Setting(name, value) => match settings.set(&name, &value) {
                    Ok(remark) => {
                        self.parts.push(FilePart::Comment(format!("# {}", text.trim())));
                        if let Some(remark) = remark {
                            self.remark_line(&place, remark);
                        }
                    }
                    Err(reason) => self.refuse(place, text, reason),
                },
                CrontabLine::Entry(entry) => {
                    let Some(name) =
                        self.names.give(&entry.command.line, source.drop_in.as_deref())
                    else {
                        self.refuse(place, text, "no name for the job is left");
                        continue;
                    };
                    match settings.job(name.clone(), place.clone(), source, entry) {
                        Ok(job) => self.put(job, &settings, source),
                        Err(reason) => {
                            self.names.take_back(&name);
                            self.refuse(place, text, reason);
                        }
                    }
                }
            }
        }
        if source.text.contains(&b'\r') {
            self.remark(format!("{}: line ends of Windows are left out", source.name));
        }
        if !ends_well {
            let name = &source.name;
            self.remark(format!(
                "{name}: the last line has no newline, so cron may ignore the line"
            ));
        }
    }

    fn put(&mut self, job: ImportedJob, settings: &CrontabSettings, source: &CrontabText) {
        if job.entry.is_unlogged {
            let remark = "the - before the minute is left out, because schedd records each run";
            self.remark_line(&job.place, remark);
        }
        let mut fields = job.entry.fields.iter().flat_map(|fields| fields.iter());
        if fields.any(|field| field.items.iter().any(|item| item.is_drawn)) {
            let remark = "~ became H: the value comes from the name of the job, and no longer changes when cron starts";
            self.remark_line(&job.place, remark);
        }
        let user = job.entry.user.as_ref().or(source.owner.as_ref());
        match user.map(String::as_str) {
            Some("root") => {
                self.remark("jobs of root have no user key, so they need a schedd that runs as root");
            }
            Some(_) => self.remark(
                "jobs with a user key need a schedd that runs as root, or [daemon] users with those users",
            ),
            None => {}
        }
        match &settings.mail {
            Some(mail) if mail.is_sent() => self.remark(
                "MAILTO became on_failure and on_success by /usr/sbin/sendmail: a failed run is mailed even without \
                 output, and a mail has the last 8 KiB of the output",
            ),
            Some(_) => {}
            None => self.remark(
                "without MAILTO, cron mails all output to the owner; schedd keeps the output (schedctl logs JOB) \
                 and sends no mail",
            ),
        }
        self.parts.push(FilePart::Job(self.jobs.len()));
        self.jobs.push(job);
    }

    fn refuse(&mut self, place: LinePlace, text: String, reason: impl Into<String>) {
        let reason = reason.into();
        let number = place.number;
        self.parts
            .push(FilePart::Comment(format!("# line {number} is not carried over: {reason}")));
        self.parts.push(FilePart::Comment(format!("#   {}", text.trim())));
        self.refused.push(RefusedLine { place, text, reason });
    }

    fn remark_line(&mut self, place: &LinePlace, remark: &str) {
        self.parts.push(FilePart::Comment(format!("# line {}: {remark}", place.number)));
        self.line_remarks.push(format!("{place}: {remark}"));
    }

    /// Adds a remark about all jobs, unless it was added before.
    pub(super) fn remark(&mut self, remark: impl Into<String>) {
        let remark = remark.into();
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// Adds the comment that a crontab begins here, for a file with several crontabs.
    pub(super) fn begin(&mut self, source: &CrontabText) {
        self.parts.push(FilePart::Blank);
        self.parts.push(FilePart::Comment(format!("# ---- {}", source.name)));
    }
}
