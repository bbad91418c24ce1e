//! The name of a job, derived from the command of a crontab line.

use std::collections::BTreeSet;

use schedd_schedule::names::JobName;

/// Shell words that say nothing about the purpose of a line, so no job is named after them.
const GUARDS: &str = "[ [[ ! test cd command sleep true false : export set umask . source if while for case fi done esac";
/// Shell words that are followed by a command.
const OPENERS: &str = "if then else elif while until do ! { ( exec time nohup setsid";
/// Programs that start the program named behind their options. The number counts the arguments that
/// come before that program. The letters are options with a value.
const WRAPPERS: [(&str, usize, &str); 9] = [
    ("sudo", 0, "ugh"),
    ("nice", 0, "n"),
    ("ionice", 0, "cnp"),
    ("chronic", 0, ""),
    ("timeout", 1, "ks"),
    ("flock", 1, "wE"),
    ("env", 0, "u"),
    ("chpst", 0, "u"),
    ("cronic", 0, ""),
];
/// Programs whose first argument is the script that gives the name.
const INTERPRETERS: &str = "sh bash dash zsh ksh perl php python python3 ruby node";
/// The maximum length of a name without the number that makes it unique.
const LONGEST: usize = 50;

/// The names of the jobs of a file, each given once.
#[derive(Debug, Default)]
pub(super) struct GivenNames(BTreeSet<String>);

impl GivenNames {
    /// Returns a name for a job with this command that no other job has. `file` is the name of a
    /// file in `cron.d`, which becomes part of the name.
    pub(super) fn give(&mut self, command: &str, file: Option<&str>) -> Option<JobName> {
        let own = plain(&named_by(command));
        let own = if own.is_empty() { "job".to_owned() } else { own };
        let base = match file.map(plain) {
            Some(file) if own.contains(&file) || file.is_empty() => own,
            Some(file) if file.contains(&own) => file,
            Some(file) => format!("{file}-{own}"),
            None => own,
        };
        let base: String = base.chars().take(LONGEST).collect();
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let name =
            std::iter::once(base.clone()).chain(numbered).find(|name| !self.0.contains(name))?;
        self.0.insert(name.clone());
        name.parse().ok()
    }

    /// Frees the name of a job that is not in the file after all.
    pub(super) fn take_back(&mut self, name: &JobName) {
        self.0.remove(name.as_str());
    }
}

fn is_among(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|known| known == word)
}

fn basename(word: &str) -> &str {
    word.trim_end_matches('/').rsplit('/').next().unwrap_or(word)
}

/// Returns the part of a command that names it best: its first program that is no guard.
fn named_by(command: &str) -> String {
    let apart = command.replace("&&", "\n").replace("||", "\n").replace([';', '|'], "\n");
    let simple = apart.lines().filter_map(program_of);
    let mut found: Vec<(bool, String)> = simple.collect();
    // The sort is stable, so the first command that is no guard comes first.
    found.sort_by_key(|(is_guard, _)| *is_guard);
    found.into_iter().next().map(|(_, name)| name).unwrap_or_default()
}

/// Returns the name of a simple command, and whether it is only a guard.
fn program_of(simple: &str) -> Option<(bool, String)> {
    let unquoted =
        |word: &str| word.trim_matches(['"', '\'', '(', ')', '{', '}', '`', '&']).to_owned();
    let mut words =
        simple.split_ascii_whitespace().map(unquoted).filter(|word| !word.is_empty()).peekable();
    let is_assignment =
        |word: &str| word.split_once('=').is_some_and(|(name, _)| !name.contains(['/', '-', '$']));
    loop {
        let word = words.next()?;
        let program = basename(&word).to_owned();
        if is_among(OPENERS, &program) || is_assignment(&word) || word.starts_with(['<', '>', '-'])
        {
            continue;
        }
        if is_among(GUARDS, &program) {
            return Some((true, program));
        }
        if let Some((_, arguments, valued)) = WRAPPERS.iter().find(|(known, ..)| *known == program)
        {
            while let Some(option) = words.next_if(|word| word.starts_with('-')) {
                if option.len() == 2 && option.ends_with(|letter| valued.contains(letter)) {
                    words.next();
                }
            }
            words.by_ref().take(*arguments).for_each(drop);
            if words.peek().is_some() {
                continue;
            }
            return Some((false, program));
        }
        if program == "run-parts" {
            let directory = words.rfind(|word| word.starts_with('/'));
            return Some((false, directory.as_deref().map_or(&*program, basename).to_owned()));
        }
        if is_among(INTERPRETERS, &program) {
            let is_inline =
                |option: &str| option.ends_with(['c', 'e', 'r']) && !option.starts_with("--");
            let mut has_inline = false;
            while let Some(option) = words.next_if(|word| word.starts_with('-')) {
                has_inline |= is_inline(&option);
            }
            return match words.next() {
                Some(script) if !has_inline => Some((false, basename(&script).to_owned())),
                _ => Some((true, program)),
            };
        }
        return Some((false, program));
    }
}

/// Returns a text with only the signs of a name, without the ending of a script.
fn plain(text: &str) -> String {
    let text = text.to_lowercase();
    let endings = [".sh", ".py", ".pl", ".php", ".rb", ".bash"];
    let text = endings.iter().find_map(|end| text.strip_suffix(end)).unwrap_or(&text);
    let signs = text.chars().map(|sign| match sign {
        'a'..='z' | '0'..='9' | '_' => sign,
        _ => '-',
    });
    let signs: String = signs.collect();
    signs.trim_matches(['-', '_']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_from_the_program_behind_guards_and_wrappers() {
        for (command, name) in [
            ("/usr/local/bin/backup.sh --all", "backup"),
            ("cd / && run-parts --report /etc/cron.hourly", "cron-hourly"),
            (
                "test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }",
                "cron-daily",
            ),
            (
                "[ -x /usr/lib/php/sessionclean ] && if [ ! -d /run/systemd/system ]; then /usr/lib/php/sessionclean; fi",
                "sessionclean",
            ),
            (
                "test -x /usr/bin/certbot -a \\! -d /run/systemd/system && perl -e 'sleep int(rand(43200))' && certbot -q renew",
                "certbot",
            ),
            ("command -v debian-sa1 > /dev/null && debian-sa1 1 1", "debian-sa1"),
            ("SERVICE_MODE=1 /usr/lib/e2scrub_all_cron", "e2scrub_all_cron"),
            ("nice -n 10 ionice -c3 /opt/index --full", "index"),
            ("flock -n /tmp/lock timeout 5m php -f /var/www/Cron.php", "cron"),
            ("sudo -u www-data python3 /srv/a.py", "a"),
            ("echo \"$(date)\" >> /tmp/x", "echo"),
            ("/bin/sh -c 'echo x'", "sh"),
            (">/dev/null", "job"),
            ("\u{e9}t\u{e9}", "t"),
        ] {
            let given = GivenNames::default().give(command, None);
            assert_eq!(given.as_ref().map(JobName::as_str), Some(name), "{command}");
        }
    }

    #[test]
    fn names_are_unique_and_begin_with_the_file_in_cron_d() {
        let mut names = GivenNames::default();
        let mut give = |command: &str, file| names.give(command, file).unwrap().to_string();
        assert_eq!(give("/x/update.sh", Some("awstats")), "awstats-update");
        assert_eq!(give("/x/update.sh", Some("awstats")), "awstats-update-2");
        assert_eq!(give("certbot renew", Some("certbot")), "certbot");
        assert_eq!(give("/usr/bin/php", Some("php8-2")), "php8-2");
        assert_eq!(give(&"x".repeat(200), None), "x".repeat(50));
    }
}
