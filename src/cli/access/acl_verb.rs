//! `acl`: the rights that schedd needs in Redis.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use serde_json::json;

use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::render::Console;
use schedd_store::{Rights, acl_line};

const ACL_EXAMPLES: &str = "\
Examples:
  schedctl acl
  schedctl acl --read-only --user viewer
  schedctl acl --shards
  schedctl --redis redis://admin@db1 --namespace prod acl >> /etc/redis/users.acl

Put a password in place of PASSWORD, and give the line to Redis: in its file of users (aclfile), or
without the word user as redis-cli ACL SETUSER ... The line has the commands that this version of
schedd uses. The server's version decides about some of them.";

/// The options of `acl`.
#[derive(Debug, clap::Args)]
#[command(after_help = ACL_EXAMPLES)]
pub(crate) struct AclArgs {
    /// Only the rights of the verbs that read
    #[arg(long)]
    read_only: bool,
    /// Also the keys and channels of all shards of the namespace
    #[arg(long)]
    shards: bool,
    /// Name of the user
    #[arg(long, value_name = "NAME", default_value = "schedd", value_parser = user_name)]
    user: String,
}

/// Prints the line of an ACL file for the connected server. Returns the exit code.
pub(crate) async fn acl(
    global: &Global,
    args: &AclArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let store = connect(global, console).await?;
    let rights = if args.read_only { Rights::ReadOnly } else { Rights::All };
    let server = store.findings().await?.server;
    let of_shards = format!("{}.*", store.namespace());
    let mut namespaces = vec![store.namespace()];
    if args.shards {
        namespaces.push(&of_shards);
    }
    let line = acl_line(&args.user, &namespaces, rights, &server, store.is_in_cluster());
    if console.is_json() {
        console.json(&json!({ "user": args.user, "line": line }));
    } else {
        console.line(&line);
    }
    Ok(0)
}

fn user_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(format!("found {text:?}, wanted a name without spaces, such as schedd"));
    }
    Ok(text.to_owned())
}
