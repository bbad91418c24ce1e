//! The command of a crontab line, and the text behind `%` that the command reads.

/// A command and its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandParts {
    /// The line for the shell.
    pub(super) line: String,
    /// The text on the standard input, if the line has a `%` with a text behind it.
    pub(super) stdin: Option<String>,
}

/// Splits a command at its first `%`. Each later `%` is a newline, and `\%` is the sign itself.
///
/// Fails for `\\%` before the first `%`: crons disagree whether its `%` ends the command.
pub(super) fn split_at_percent(text: &str) -> Result<CommandParts, String> {
    let (mut line, mut input) = (String::new(), None);
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        if sign == '\\' && signs.next_if_eq(&'%').is_some() {
            if line.ends_with('\\') && input.is_none() {
                return Err(
                    "the command has \\\\%, which crons read differently: write \\% for the sign %, or % for a newline"
                        .to_owned(),
                );
            }
            input.as_mut().unwrap_or(&mut line).push('%');
        } else if sign == '%' {
            match &mut input {
                Some(input) => input.push('\n'),
                None => input = Some(String::new()),
            }
        } else {
            input.as_mut().unwrap_or(&mut line).push(sign);
        }
    }
    let stdin = input.filter(|input| !input.is_empty()).map(|mut input| {
        // cron ends the last line of the input.
        if !input.ends_with('\n') {
            input.push('\n');
        }
        input
    });
    Ok(CommandParts { line, stdin })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percent_begins_the_input_unless_a_backslash_is_before_it() {
        for (text, line, stdin) in [
            ("date +\\%F", "date +%F", None),
            ("cat", "cat", None),
            ("cat%", "cat", None),
            ("cat %a", "cat ", Some("a\n")),
            ("mail joe%Hi,%%Bye \\% now%", "mail joe", Some("Hi,\n\nBye % now\n")),
            ("sed 's/\\./x/' \\\\n", "sed 's/\\./x/' \\\\n", None),
            ("cat%a\\\\%b", "cat", Some("a\\%b\n")),
        ] {
            let parts = split_at_percent(text).unwrap();
            assert_eq!((parts.line.as_str(), parts.stdin.as_deref()), (line, stdin), "{text}");
        }
        assert!(split_at_percent("echo \\\\%").unwrap_err().contains("differently"));
    }
}
