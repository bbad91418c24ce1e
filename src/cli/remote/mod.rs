//! `schedctl --api`: verbs that a schedd on another host runs, on a host without Redis.
//!
//! The words of the verb go to the API of that schedd, and the output comes back as it is written. So
//! each verb has the same flags, texts and exit codes as with a Redis. Verbs that need no Redis run
//! here. `top` draws its screen here, from data that it asks of the API.

pub(crate) mod api_client;
mod remote_output;

use std::ffi::OsString;

use super::embedded::remote_call::files_of;
use super::embedded::remote_verb::RemoteVerb;
use super::embedded::verb_right::{VerbRight, right_of};
use super::failure::CliFailure;
use super::render::Console;
use super::top::{TopSource, show_screen};
use super::verbs::{CliArgs, Verb};
use api_client::ApiClient;
use schedd_core::config;

/// Returns the address of the API that the flags or the environment name, if the verb goes there.
pub(crate) fn address_for(args: &CliArgs) -> Option<String> {
    let variable = std::env::var("SCHEDD_API_URL").ok().filter(|text| !text.is_empty());
    let chooses_redis = args.global.redis.is_some() || args.global.jobs.is_some();
    let address = args.global.api.clone().or_else(|| variable.filter(|_| !chooses_redis))?;
    (right_of(&args.verb) != VerbRight::Local).then_some(address)
}

/// Sends a verb to the API at `address`, and prints its output. Returns the exit code.
pub(crate) async fn run(
    args: &CliArgs,
    address: &str,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let client = ApiClient::new(&args.global, address)?;
    if right_of(&args.verb) == VerbRight::Interactive {
        return Box::pin(show_screen(TopSource::of_api(client, console), console)).await;
    }
    let words: Vec<String> =
        std::env::args_os().skip(1).map(utf8_word).collect::<Result<_, _>>()?;
    let words = words_to_send(words.into_iter())?;
    let mut remote = RemoteVerb::on(console, words);
    for path in files_of(&args.verb) {
        let text = std::fs::read_to_string(&path).map_err(|error| {
            CliFailure::Config(vec![format!("{path}: the file cannot be read: {error}")])
        })?;
        let (calendars, warnings) = config::calendars_of(&text, &path)
            .map_err(|problem| CliFailure::Config(vec![problem]))?;
        for warning in warnings {
            console.warn(&format!("{path}: {warning}"));
        }
        remote.files.extend(calendars);
        remote.files.insert(path, text);
    }
    let reads_input = matches!(&args.verb, Verb::Add(args) if args.reads_lines());
    let answer = client.send(&remote, reads_input).await?;
    remote_output::print(answer, console).await
}

/// Returns a word of the command line as text. Fails if it is not UTF-8, because a request holds only
/// text.
fn utf8_word(word: OsString) -> Result<String, CliFailure> {
    word.into_string().map_err(|word| {
        let word = word.to_string_lossy();
        CliFailure::Invalid(format!(
            "argument {word:?}: found bytes that are not UTF-8, which --api cannot send; wanted UTF-8"
        ))
    })
}

/// Returns the words of the command line without the flags of the API, and with the content in place
/// of each `@FILE`.
fn words_to_send(mut words: impl Iterator<Item = String>) -> Result<Vec<String>, CliFailure> {
    const OF_API: [&str; 2] = ["--api", "--token-file"];
    /// The flags of `add` whose value may be the name of a file.
    const FILE_FLAGS: [&str; 3] = ["--body", "--stdin-text", "--payload"];
    let mut sent = Vec::new();
    while let Some(word) = words.next() {
        if word == "--" {
            sent.push(word);
            sent.extend(words);
            break;
        }
        let (flag, value) =
            word.split_once('=').map_or((&*word, None), |(flag, value)| (flag, Some(value)));
        if OF_API.contains(&flag) {
            if value.is_none() {
                words.next();
            }
            continue;
        }
        if FILE_FLAGS.contains(&flag) {
            let text = value.map(str::to_owned).or_else(|| words.next()).unwrap_or_default();
            let text = match text.strip_prefix('@') {
                None => text,
                Some(path) => std::fs::read_to_string(path).map_err(|error| {
                    CliFailure::Invalid(format!("{flag} {text:?} cannot be read: {error}"))
                })?,
            };
            if text.starts_with('@') {
                return Err(CliFailure::Invalid(format!(
                    "{flag}: found a text that begins with @, which --api cannot send; wanted add --stdin"
                )));
            }
            sent.push(format!("{flag}={text}"));
            continue;
        }
        sent.push(word);
    }
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn the_flags_of_the_api_are_not_sent_but_words_of_the_command_are() {
        let sent =
            |line: &str| words_to_send(line.split(' ').map(str::to_owned)).unwrap().join(" ");
        assert_eq!(sent("--api http://h list --token-file=f --wide"), "list --wide");
        assert_eq!(sent("add --in 1s -- x --api y"), "add --in 1s -- x --api y");
        assert_eq!(sent("show body --json"), "show body --json");
        assert_eq!(sent("pause body=1 stdin-text"), "pause body=1 stdin-text");
        assert_eq!(sent("add --body x --stdin-text=y"), "add --body=x --stdin-text=y");
    }

    #[test]
    fn a_word_that_is_not_utf_8_is_refused_in_one_line() {
        let failure = utf8_word(OsString::from_vec(b"a\xff".to_vec())).unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(failure.lines()[0].contains(": found bytes"), "{failure:?}");
    }
}
