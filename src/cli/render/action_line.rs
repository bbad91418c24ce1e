//! The action of a job as text on one line.

use schedd_core::domain::job::job_spec::Action;
use schedd_core::domain::job::process_rules::ProcessRules;

/// Returns the job's action as text on one line.
pub(crate) fn action_line(action: &Action, rules: &ProcessRules) -> String {
    match action {
        Action::Command(words) => {
            words.iter().map(|word| quoted_word(word)).collect::<Vec<_>>().join(" ")
        }
        Action::Shell(line) => format!("{} -c {}", quoted_word(&rules.shell()), quoted_word(line)),
        Action::Http(request) => format!("{} {}", request.method, request.url),
        Action::Handler(call) => format!("handler {}", call.handler),
    }
}

/// Quotes a word for a shell, if the word needs quotes.
fn quoted_word(word: &str) -> String {
    let is_plain = !word.is_empty()
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&b));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_reads_as_a_shell_would_take_it() {
        let words = ["/bin/echo", "a b", "it's", ""].map(str::to_owned).to_vec();
        assert_eq!(
            action_line(&Action::Command(words), &ProcessRules::default()),
            r"/bin/echo 'a b' 'it'\''s' ''"
        );
    }
}
