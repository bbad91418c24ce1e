//! `completions`: prints a script by which a shell asks schedctl for the words that may come next.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use anyhow::Context as _;
use clap::ValueEnum;
use clap_complete::env::{EnvCompleter, Zsh};

use super::completion::ASKED_BY;
use crate::cli::failure::CliFailure;
use crate::cli::render::Console;

const EXAMPLES: &str = "\
Examples:
  schedctl completions bash > ~/.local/share/bash-completion/completions/schedctl
  schedctl completions fish > ~/.config/fish/completions/schedctl.fish
  schedctl completions zsh > ~/.zfunc/_schedctl

The package installs these scripts. For an argument JOB or RUN, the shell offers names and ids from
the Redis that the command line names. If that Redis does not answer within half a second, nothing
is offered. For zsh, put the directory on fpath before compinit: fpath+=~/.zfunc";

/// Prints a shell completion script for verbs, flags, names of jobs and ids of runs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell to print the script for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// The completion script for Bash.
///
/// Bash also splits a line at `@`, `:` and `=`, which are part of ids, times and flags. The script
/// joins these pieces for schedctl. It removes the part before the current piece from each offered
/// word.
const BASH: &str = r#"_schedctl() {
    local -a words=()
    local i piece index=0 glue= breaks="${COMP_WORDBREAKS//[^@:=]/}"
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        piece="${COMP_WORDS[i]}"
        if [[ -n $breaks && i -gt 0 && ( -n $glue || $piece == [$breaks]* ) ]]; then
            words[${#words[@]}-1]+="$piece"
        else
            words+=("$piece")
        fi
        glue=
        [[ -n $breaks && -n $piece && -z ${piece//[$breaks]/} ]] && glue=1
        [[ i -eq COMP_CWORD ]] && index=$((${#words[@]} - 1))
    done
    local word="${words[index]}" prefix= line
    [[ -n $breaks && $word == *[$breaks]* ]] && prefix="${word%"${word##*[$breaks]}"}"
    COMPREPLY=()
    while IFS= read -r line; do
        [[ -n $line ]] && COMPREPLY+=("${line#"$prefix"}")
    done < <(_CLAP_COMPLETE_INDEX="$index" VARIABLE=bash schedctl -- "${words[@]}" 2>/dev/null; echo)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o nosort -F _schedctl schedctl 2>/dev/null || complete -o bashdefault -F _schedctl schedctl
"#;

const FISH: &str = r#"complete --keep-order --exclusive --command schedctl --arguments "(VARIABLE=fish schedctl -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token) 2>/dev/null)"
"#;

/// Prints the completion script of a shell.
pub(crate) fn completions(args: &CompletionsArgs, console: &mut Console) -> Result<u8, CliFailure> {
    if console.is_json() {
        return Err(CliFailure::Invalid(
            "completions prints a shell script, not JSON: remove --json".to_owned(),
        ));
    }
    let script = match args.shell {
        Shell::Bash => BASH.replace("VARIABLE", ASKED_BY),
        Shell::Fish => FISH.replace("VARIABLE", ASKED_BY),
        Shell::Zsh => {
            let mut script = Vec::new();
            Zsh.write_registration(ASKED_BY, "schedctl", "schedctl", "schedctl", &mut script)
                .context("the script of zsh cannot be written")?;
            String::from_utf8_lossy(&script).into_owned()
        }
    };
    console.bytes(script.as_bytes());
    Ok(0)
}
