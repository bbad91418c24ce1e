//! `token`: makes, lists and revokes the tokens of the HTTP API.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::token_place::token_file;
use crate::cli::add::own_now;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::local_zone::local_zone;
use crate::cli::render::{Cell, Console, Table, rfc3339, shown};
use crate::secrets::tokens::{TokenEntry, TokenFile, TokenRole, TokenText, sha256};
use schedd_schedule::names::{NodeName, QueueName};
use schedd_schedule::time::duration::parse_duration;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;

pub(crate) const TOKEN_HELP: &str = "\
Examples:
  schedctl token new --role viewer --name grafana
  schedctl token new --role operator --expires 90d
  schedctl token new --role worker --queues mail,thumbs
  schedctl token list
  schedctl token revoke grafana

A token is printed once, and the file of tokens has only its SHA-256. A running schedd reads the
file again when it changes. Roles: viewer reads everything but the values of secrets; operator also
runs, stops, retries and pauses; admin also defines jobs, where [api] define = true; worker claims
runs of its queues. The file is that of --tokens-file, else SCHEDD_TOKENS_FILE, else tokens_file of
[api] in the jobs file, else /etc/schedd/api-tokens, or tokens in the state directory of a user.";

/// The verbs of `token`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    /// Make a token and print it once
    New {
        /// Rights of the token: viewer, operator, admin or worker
        #[arg(long, value_name = "ROLE")]
        role: TokenRole,
        /// Name of the token, which is recorded with each change [default: the role and a number]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Queues of a worker, separated by commas [default: all]
        #[arg(long, value_name = "QUEUES", value_delimiter = ',')]
        queues: Vec<QueueName>,
        /// Time after which the token ends, such as 90d [default: never]
        #[arg(long, value_name = "DURATION")]
        expires: Option<String>,
        #[command(flatten)]
        place: TokensFile,
    },
    /// List the tokens
    List {
        #[command(flatten)]
        place: TokensFile,
    },
    /// Revoke tokens, which ends at once what they permit
    Revoke {
        /// Names of tokens
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        place: TokensFile,
    },
}

/// The flag for the file of tokens.
#[derive(Debug, clap::Args)]
pub(crate) struct TokensFile {
    /// File of the tokens
    #[arg(long, value_name = "FILE", env = "SCHEDD_TOKENS_FILE")]
    pub(super) tokens_file: Option<PathBuf>,
}

/// Runs a verb of `token`. Returns the exit code.
pub(crate) fn token(
    global: &Global,
    verb: &TokenVerb,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    match verb {
        TokenVerb::New { role, name, queues, expires, place } => {
            let now = own_now();
            let lifetime = expires.as_deref().map(parse_duration).transpose();
            let lifetime =
                lifetime.map_err(|error| CliFailure::Invalid(format!("--expires: {error}")))?;
            if lifetime.is_some_and(|lifetime| lifetime.is_zero()) {
                let what = "--expires: found 0s, wanted a longer time, such as 90d";
                return Err(CliFailure::Invalid(what.to_owned()));
            }
            if !queues.is_empty() && *role != TokenRole::Worker {
                return Err(CliFailure::Invalid(format!(
                    "--queues: found the role {role}, wanted --role worker: only a worker is bound to queues"
                )));
            }
            let (file, _) = token_file(global, place.tokens_file.clone());
            let name = name.as_deref().map(token_name).transpose()?;
            let text = TokenText::random()?;
            let expires_at = lifetime.map(|lifetime| now.saturating_add(lifetime));
            let name = file.add(|stock| TokenEntry {
                name: name.unwrap_or_else(|| stock.free_name(role.as_str())),
                role: *role,
                sha256: sha256(text.as_str()),
                created_ms: now.as_i64(),
                expires_ms: expires_at.map(UnixMillis::as_i64),
                queues: queues.iter().map(ToString::to_string).collect(),
                link_sha256: None,
                link_expires_ms: None,
            })?;
            if console.is_json() {
                console.json(&json!({
                    "name": name,
                    "role": role.as_str(),
                    "token": text.as_str(),
                    "expires_at": expires_at.map(|at| rfc3339(at, &Zone::utc())),
                }));
            } else {
                console.note(&format!(
                    "token {name} with the role {role} is in {}; it is shown only now",
                    file.path().display()
                ));
                console.line(text.as_str());
            }
            Ok(0)
        }
        TokenVerb::List { place } => {
            let (file, _) = token_file(global, place.tokens_file.clone());
            list(&file, console)?;
            Ok(0)
        }
        TokenVerb::Revoke { names, place } => {
            let (file, _) = token_file(global, place.tokens_file.clone());
            let gone = file.remove(|token| names.contains(&token.name))?;
            if console.is_json() {
                console.json(
                    &gone
                        .iter()
                        .map(|token| json!({"name": token.name, "result": "revoked"}))
                        .collect::<serde_json::Value>(),
                );
            } else {
                for token in &gone {
                    console.line(&format!("token {} revoked", token.name));
                }
            }
            let unknown: Vec<&String> =
                names.iter().filter(|name| gone.iter().all(|token| token.name != **name)).collect();
            match unknown.first() {
                None => Ok(0),
                Some(name) => Err(CliFailure::NotFound(format!(
                    "no token {name} in {}; schedctl token list shows all tokens",
                    file.path().display()
                ))),
            }
        }
    }
}

/// Returns the name of a token. It is written into audit logs, so it obeys the rule for node names.
fn token_name(text: &str) -> Result<String, CliFailure> {
    let parsed = text.parse::<NodeName>();
    parsed.map(|name| name.to_string()).map_err(|error| {
        CliFailure::Invalid(format!(
            "--name: {}",
            error.to_string().replace("node name", "token name")
        ))
    })
}

fn list(file: &TokenFile, console: &mut Console) -> Result<(), CliFailure> {
    let stock = file.tokens()?;
    let tokens = &stock.tokens;
    let path = file.path().display();
    let at = |ms: i64| UnixMillis::new(ms).unwrap_or(UnixMillis::EPOCH);
    if console.is_json() {
        let document = tokens.iter().map(|token| {
            json!({
                "name": token.name,
                "role": token.role.as_str(),
                "queues": token.queues,
                "created_at": rfc3339(at(token.created_ms), &Zone::utc()),
                "expires_at": token.expires_ms.map(|end| rfc3339(at(end), &Zone::utc())),
                "expired": token.is_expired(own_now()),
            })
        });
        console.json(&document.collect::<serde_json::Value>());
        return Ok(());
    }
    if tokens.is_empty() {
        console
            .note(&format!("no tokens in {path}; make one with schedctl token new --role viewer"));
        return Ok(());
    }
    console.note(&format!("tokens in {path}:"));
    let zone = local_zone();
    let row = |token: &TokenEntry| {
        let expires = token.expires_ms.map_or_else(
            || "never".to_owned(),
            |end| {
                let ended = if token.is_expired(own_now()) { " (ended)" } else { "" };
                format!("{}{ended}", shown(at(end), &zone))
            },
        );
        let queues = Some(token.queues.join(",")).filter(|queues| !queues.is_empty());
        let created = shown(at(token.created_ms), &zone);
        [
            Cell::new(&token.name),
            Cell::new(token.role.as_str()),
            Cell::maybe(queues),
            Cell::new(created),
            Cell::new(expires),
        ]
    };
    let rows: Vec<[Cell; 5]> = tokens.iter().map(row).collect();
    Table::new(["NAME", "ROLE", "QUEUES", "CREATED", "EXPIRES"]).page(&rows, console);
    Ok(())
}
