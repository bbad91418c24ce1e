//! The shell lines that need no shell: a program and plain arguments.
//!
//! Invariant: [`words`] splits a line only if `sh` would execute exactly these words. The keeper
//! first executes the first word as a program. If this fails, the keeper starts the shell with the
//! line, so messages and exit codes are those of the shell.

use schedd::attempts::Attempt;
use schedd_core::domain::job::job_spec::Action;
use schedd_keeper::Variables;

/// The words that a shell does not search in `PATH`: keywords, and built-in commands of dash, bash,
/// ksh and busybox.
const OWN_WORDS: &str = "case coproc do done elif else esac fi for function if in namespace select then time \
    until while . : alias autoload bg bind break builtin caller cd chdir command compgen complete \
    compopt continue declare dirs disown echo enable enum eval exec exit export false fc fg float \
    functions getconf getopts hash help history integer jobs kill let local logout mapfile nameref \
    newgrp noglob popd print printf pushd pwd read readarray readonly redirect return set shift \
    shopt sleep source stop suspend test times trap true type typeset ulimit umask unalias unset \
    unsetenv vmap vpath wait whence";

/// The variables from which a shell takes options, functions or files.
const READ_BY_SHELLS: [&str; 5] = ["BASH_", "BASHOPTS", "ENV", "POSIX", "SHELLOPTS"];

/// Returns the words of a shell line if `/bin/sh` would execute exactly these words as one program
/// in the environment `env`. Returns `None` if the attempt has no such line.
pub(super) fn without_shell(attempt: &Attempt, env: &Variables) -> Option<Vec<String>> {
    match &attempt.action {
        Action::Shell(line) if attempt.process.shell_program.is_none() => words(line, env),
        _ => None,
    }
}

/// Returns the words of `line` if a shell with the environment `env` would execute exactly these
/// words, as a program with its arguments. Returns `None` if the line needs a shell.
fn words(line: &str, env: &Variables) -> Option<Vec<String>> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" \t_@+,./:=-".contains(&byte);
    if !line.bytes().all(is_plain) || !env.0.keys().all(|name| is_passed_on(name)) {
        return None;
    }
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    // A shell takes a line that begins with `-` or `+` for options.
    let first = words.first().filter(|first| !first.starts_with(['-', '+']))?;
    // In dash, `%` in the PATH has a special meaning.
    let is_searched = !first.contains('/')
        && !OWN_WORDS.split_ascii_whitespace().any(|word| word == *first)
        && env.0.get("PATH").is_some_and(|path| !path.is_empty() && !path.contains('%'));
    if !first.contains('/') && !is_searched || words.iter().any(|word| is_assignment(word)) {
        return None;
    }
    Some(words.into_iter().map(str::to_owned).collect())
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.is_empty()
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| is_name(name.strip_suffix('+').unwrap_or(name)))
}

/// Returns true if a shell passes a variable with this name to its programs, and does not use the
/// variable itself.
fn is_passed_on(name: &str) -> bool {
    is_name(name) && !READ_BY_SHELLS.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn with(variables: &[(&str, &str)]) -> Variables {
        let path = [("PATH", "/usr/bin:/bin")].into_iter();
        let all = path.chain(variables.iter().copied());
        Variables(all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    #[test]
    fn only_a_program_with_plain_arguments_needs_no_shell() {
        for (line, count) in [
            ("/bin/true", 1),
            (" ls  -l\t--sort=time /tmp ", 4),
            ("./a.sh a,b c:d e@f +1", 5),
            ("backup --level=3", 2),
        ] {
            assert_eq!(words(line, &with(&[])).map(|words| words.len()), Some(count), "{line}");
        }
        for line in [
            "",
            " ",
            "true",
            "echo a",
            ". ./file",
            ": a",
            "cd /tmp",
            "if",
            "time ls",
            "A=1 ls",
            "A+=1 ls",
            "-x",
            "+x a",
            "dd if=/dev/zero",
            "ls *",
            "ls ?",
            "ls [a]",
            "ls {a,b}",
            "ls ~",
            "ls $A",
            "ls `a`",
            "ls 'a'",
            "ls \"a\"",
            "ls \\a",
            "ls;ls",
            "ls|ls",
            "ls&",
            "ls>a",
            "ls<a",
            "ls #a",
            "!ls",
            "ls !a",
            "(ls)",
            "ls\nls",
            "ls %1",
            "ls ^a",
            "ls é",
            "\u{a0}ls",
            "ls\r",
            "ls\u{b}a",
            "ls\u{c}a",
        ] {
            assert_eq!(words(line, &with(&[])), None, "{line}");
        }
    }

    #[test]
    fn an_environment_that_a_shell_would_use_or_change_needs_the_shell() {
        for name in
            ["BASH_ENV", "BASH_FUNC_ls%%", "ENV", "SHELLOPTS", "POSIXLY_CORRECT", "a-b", "1a", ""]
        {
            assert_eq!(words("ls", &with(&[(name, "x")])), None, "{name}");
        }
        for path in ["", "/opt%builtin:/bin"] {
            assert_eq!(words("ls", &with(&[("PATH", path)])), None, "{path}");
            assert!(words("/bin/ls", &with(&[("PATH", path)])).is_some());
        }
        assert_eq!(words("ls", &Variables(BTreeMap::new())), None);
        assert!(words("ls", &with(&[("GREETING", "a b; c")])).is_some());
    }
}
