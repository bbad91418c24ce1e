//! A line `NAME = VALUE` of a crontab, with the quotes and blanks of crontab(5).

/// Returns the name and the value of a setting. Returns `None` if cron does not read the line as a
/// setting.
///
/// Quotes of either kind may surround the name and the value. Blanks around an unquoted value are no
/// part of it. Nothing in a value is replaced: `$PATH` stays `$PATH`.
pub(super) fn read_setting(line: &str) -> Option<(String, String)> {
    let (name, rest) = match opened_quote(line) {
        Some(quote) => {
            let (name, rest) = line[1..].split_once(quote)?;
            (name, rest)
        }
        None => line.split_at(line.find(|c: char| c == '=' || c.is_ascii_whitespace())?),
    };
    if name.is_empty() || name.contains('=') {
        return None;
    }
    let value = rest.trim_start().strip_prefix('=')?.trim();
    let value = match opened_quote(value) {
        Some(quote) => {
            let (value, behind) = value[1..].split_once(quote)?;
            behind.is_empty().then_some(value)?
        }
        None => value,
    };
    Some((name.to_owned(), value.to_owned()))
}

fn opened_quote(text: &str) -> Option<char> {
    text.chars().next().filter(|sign| matches!(sign, '"' | '\''))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_read_with_its_quotes_and_blanks() {
        for (line, name, value) in [
            ("PATH=/usr/bin:/bin", "PATH", "/usr/bin:/bin"),
            ("PATH = /opt/bin:$PATH  ", "PATH", "/opt/bin:$PATH"),
            ("GREETING = \"  it's me \" ", "GREETING", "  it's me "),
            ("A='say \"x\"'", "A", "say \"x\""),
            ("\"B\"=1", "B", "1"),
            ("MAILTO=", "MAILTO", ""),
            ("MAILTO=\"\"", "MAILTO", ""),
            ("C=a b = c", "C", "a b = c"),
        ] {
            assert_eq!(read_setting(line), Some((name.to_owned(), value.to_owned())), "{line}");
        }
        for line in ["* * * * * A=b c", "@daily A=b", "A=\"b\" c", "A=\"b", "A b", "=x", ""] {
            assert_eq!(read_setting(line), None, "{line}");
        }
    }
}
