//! Environment files: the reference in a job, and the parser of the file.
//!
//! The format is the format of systemd's `EnvironmentFile`. Each line is `NAME=VALUE`. A line that
//! begins with `#` or `;` is a comment. A quoted value may contain line ends. A backslash makes the
//! next character literal, and at the end of a line it continues the line. Variables are not
//! expanded.
//!
//! Invariant: an error names the line, but never shows its text, because the text may be part of a
//! secret.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The maximum length of an environment file, in bytes.
pub const LONGEST: usize = 1024 * 1024;

/// An environment file in a definition: an absolute path. A leading `-` means that the file may be
/// missing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnvFile {
    path: PathBuf,
    absence: Absence,
}

/// The effect of a missing environment file on an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Absence {
    /// A missing file is an error, so the attempt does not start.
    Fault,
    /// A missing file is allowed and counts as empty.
    Allowed,
}

/// The error for a text that is not the path of an environment file. The message does not show the
/// text, because the text may be a variable with a secret value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the text (not shown) is not a path, wanted an absolute path such as \"/etc/schedd/backup.env\" (write - before the path of an optional file)"
)]
pub struct EnvFileError;

impl EnvFile {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the effect of a missing file.
    pub fn absence(&self) -> Absence {
        self.absence
    }
}

impl FromStr for EnvFile {
    type Err = EnvFileError;

    fn from_str(text: &str) -> Result<Self, EnvFileError> {
        let (path, absence) = match text.strip_prefix('-') {
            Some(path) => (path, Absence::Allowed),
            None => (text, Absence::Fault),
        };
        if !path.starts_with('/') || path.contains('\0') {
            return Err(EnvFileError);
        }
        Ok(Self { path: PathBuf::from(path), absence })
    }
}

/// Formats the file as a definition names it: its path, with a leading `-` if the file may be
/// missing.
impl fmt::Display for EnvFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.absence == Absence::Allowed { "-" } else { "" };
        write!(f, "{mark}{}", self.path.display())
    }
}

/// Returns true if `name` can be the name of a variable: `[A-Za-z_][A-Za-z0-9_]*`.
pub fn is_variable_name(name: &str) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts_well && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The error for a line of an environment file that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct LineError {
    /// The line number, counted from 1.
    line: usize,
    why: &'static str,
}

/// Parses the variables of an environment file. If a variable appears twice, the result has its
/// last value.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, LineError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { rest: text.chars().peekable(), line: 1 };
    let mut variables = BTreeMap::new();
    while let Some(first) = reader.next() {
        match first {
            '#' | ';' => while reader.next().is_some_and(|c| c != '\n') {},
            c if c.is_whitespace() => {}
            c => {
                let line = reader.line;
                let name = reader
                    .name(c)
                    .ok_or(LineError { line, why: "the line has no =, wanted NAME=VALUE" })?;
                // A file that a shell can also read may have `export` before the name.
                let name = name.strip_prefix("export ").map_or(name.as_str(), str::trim_start);
                if !is_variable_name(name) {
                    let why = "the text before = is not a variable name, wanted letters, digits and _, without a digit first";
                    return Err(LineError { line, why });
                }
                let value = reader.value().ok_or(LineError {
                    line,
                    why: "a quote is not closed, or the file ends with \\; wanted a complete value",
                })?;
                if value.contains('\0') {
                    return Err(LineError {
                        line,
                        why: "the value has the character NUL, wanted a text without NUL",
                    });
                }
                variables.insert(name.to_owned(), value);
            }
        }
    }
    Ok(variables)
}

struct Reader<'t> {
    rest: std::iter::Peekable<std::str::Chars<'t>>,
    line: usize,
}

impl Reader<'_> {
    /// Returns the next character of the file. The line end `\r\n` counts as the one character
    /// `\n`.
    fn next(&mut self) -> Option<char> {
        let mut c = self.rest.next()?;
        if c == '\r' && self.rest.peek() == Some(&'\n') {
            c = self.rest.next()?;
        }
        self.line += usize::from(c == '\n');
        Some(c)
    }

    /// Returns the name before the `=` of a line that begins with `first`. Returns `None` if the
    /// line has no `=`.
    fn name(&mut self, first: char) -> Option<String> {
        if first == '=' {
            return Some(String::new());
        }
        let mut name = String::from(first);
        loop {
            match self.next()? {
                '\n' => return None,
                '=' => return Some(name.trim_end().to_owned()),
                c => name.push(c),
            }
        }
    }

    /// Returns the value after the `=` up to the end of the line. Returns `None` if the file ends
    /// within a quote or an escape.
    fn value(&mut self) -> Option<String> {
        let mut value = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return Some(value),
                Some('\'') => self.single(&mut value)?,
                Some('"') => self.double(&mut value)?,
                Some(c) if c.is_whitespace() => {}
                Some(c) => {
                    self.bare(c, &mut value)?;
                    return Some(value);
                }
            }
        }
    }

    fn single(&mut self, value: &mut String) -> Option<()> {
        loop {
            match self.next()? {
                '\'' => return Some(()),
                c => value.push(c),
            }
        }
    }

    fn double(&mut self, value: &mut String) -> Option<()> {
        loop {
            match self.next()? {
                '"' => return Some(()),
                '\\' => match self.next()? {
                    '\n' => {}
                    c @ ('"' | '\\' | '`' | '$') => value.push(c),
                    c => value.extend(['\\', c]),
                },
                c => value.push(c),
            }
        }
    }

    /// Reads a value without quotes that begins with `first`, and appends it to `value` without the
    /// blanks at its end. Returns `None` if the file ends with a backslash.
    fn bare(&mut self, first: char, value: &mut String) -> Option<()> {
        let (mut next, mut kept) = (Some(first), value.len());
        while let Some(c) = next.filter(|c| *c != '\n') {
            if c == '\\' {
                match self.next()? {
                    '\n' => {}
                    c => value.push(c),
                }
                kept = value.len();
            } else {
                value.push(c);
                if !c.is_whitespace() {
                    kept = value.len();
                }
            }
            next = self.next();
        }
        value.truncate(kept);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_variables_that_systemd_reads() {
        let text = "\u{feff}# comment = 1 \\\n; another\n\n  A=1\nB = two words  \r\nC=\nD='it is $HOME ${x} \\n'\nE=\"a \\\"b\\\" \\$c \\d\"\n\
            F=a\\\n  b\\ \nG=\"x\" 'y'\nH=has\"quotes\" # and this\nI='over\nlines'\nexport J=j\nK=a=b==\nA=last";
        let found = parse(text).unwrap();
        let wanted = [
            ("A", "last"),
            ("B", "two words"),
            ("C", ""),
            ("D", "it is $HOME ${x} \\n"),
            ("E", "a \"b\" $c \\d"),
            ("F", "a  b "),
            ("G", "xy"),
            ("H", "has\"quotes\" # and this"),
            ("I", "over\nlines"),
            ("J", "j"),
            ("K", "a=b=="),
        ];
        assert_eq!(
            found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect::<Vec<_>>(),
            wanted
        );
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn an_error_names_the_line_and_not_its_text() {
        for (text, line) in [
            ("A=1\nhunter2\nB=2", 2),
            ("hunter2", 1),
            ("\n\n=hunter2", 3),
            ("1hunter2=x", 1),
            ("hunter2 x=y", 1),
            ("A='x\ny'\nB=\"hunter2", 3),
            ("A=hunter2\\", 1),
            ("A=hunter2\0", 1),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("line {line}: ")) && !error.contains("hunter2"),
                "{text:?}: {error}"
            );
        }
    }

    #[test]
    fn a_path_is_absolute_and_may_be_allowed_to_be_missing() {
        let file: EnvFile = "-/etc/x.env".parse().unwrap();
        assert_eq!(
            (file.path(), file.absence(), file.to_string().as_str()),
            (Path::new("/etc/x.env"), Absence::Allowed, "-/etc/x.env")
        );
        assert_eq!("/etc/x.env".parse::<EnvFile>().unwrap().absence(), Absence::Fault);
        for text in ["", "-", "x.env", "--/x", "~/x", "/x\0"] {
            assert!(
                text.parse::<EnvFile>()
                    .unwrap_err()
                    .to_string()
                    .contains("wanted an absolute path"),
                "{text:?}"
            );
        }
    }

    #[test]
    fn no_text_causes_a_panic() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..20_000 {
            let parts = ["A", "=", "\\", "\n", "'", "\"", " ", "#", "\r", "é", "$", "export "];
            let text: String =
                (0..random.usize(0..12)).map(|_| *random.choice(&parts).unwrap()).collect();
            let _ = parse(&text);
        }
    }
}
