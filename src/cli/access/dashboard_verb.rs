//! `dashboard`: a link that signs a browser in to the dashboard, once, within a minute.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use std::io::IsTerminal as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use super::token_place::token_file;
use super::token_verb::TokensFile;
use crate::cli::add::own_now;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::render::Console;
use crate::secrets::tokens::{TokenEntry, TokenRole, TokenText, sha256};
use schedd_core::config::ApiAddress;

/// The time within which the link must be used.
const LINK_LIFE: Duration = Duration::from_secs(60);
/// The time for which a browser stays signed in.
const SESSION_LIFE: Duration = Duration::from_secs(12 * 3_600);
/// The beginning of the names of the tokens of browsers.
const BROWSER: &str = "browser";

const DASHBOARD_EXAMPLES: &str = "\
Examples:
  schedctl dashboard
  schedctl dashboard --print
  schedctl dashboard --print --role viewer --url https://jobs.example.org

The link works once, for 60 seconds. The browser then stays signed in for 12 hours, or until its
token is revoked or that schedd stops. schedctl token list shows the token as browser-N. Only a user
who may write the file of tokens can make such a link. Give others a link with --role viewer, which
only reads, or --role operator, which also runs, stops, retries and pauses.";

/// Opens the dashboard in a browser that is signed in.
#[derive(Debug, clap::Args)]
#[command(after_help = DASHBOARD_EXAMPLES)]
pub(crate) struct DashboardArgs {
    /// Only print the link
    #[arg(long)]
    print: bool,
    /// Rights of the browser: viewer, operator or admin
    #[arg(long, value_name = "ROLE", default_value = "admin", value_parser = reader_role)]
    role: TokenRole,
    /// Address of the API as the browser sees it [default: that of SCHEDD_API or of the jobs file]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    place: TokensFile,
}

/// Makes a link and opens it. Returns the exit code.
pub(crate) fn dashboard(
    global: &Global,
    args: &DashboardArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let (file, api) = token_file(global, args.place.tokens_file.clone());
    let of_variable = std::env::var("SCHEDD_API").ok().and_then(|text| text.parse().ok());
    let base = match (&args.url, of_variable.or(api.listen)) {
        (Some(url), _) => browser_address(url)?,
        (None, Some(ApiAddress::Tcp(address))) => {
            let scheme = if api.tls.is_some() { "https" } else { "http" };
            format!("{scheme}://{address}{}", api.base_path)
        }
        (None, Some(ApiAddress::Unix(path))) => {
            return Err(CliFailure::Invalid(format!(
                "the API listens at the socket {}, which no browser opens; wanted [api] listen = \"127.0.0.1:7341\", or --url",
                path.display()
            )));
        }
        (None, None) => {
            return Err(CliFailure::Invalid(
                "no address of an API is known; wanted listen in [api] of the jobs file, SCHEDD_API, or --url".to_owned(),
            ));
        }
    };
    let now = own_now();
    // Links that nobody used, and sessions that ended, are of no use.
    let is_over = |token: &TokenEntry| token.name.starts_with(BROWSER) && token.is_expired(now);
    file.remove(is_over)?;
    let (code, token) = (TokenText::random()?, TokenText::random()?);
    file.add(|stock| TokenEntry {
        name: stock.free_name(BROWSER),
        role: args.role,
        sha256: sha256(token.as_str()),
        created_ms: now.as_i64(),
        expires_ms: Some(now.saturating_add(SESSION_LIFE).as_i64()),
        queues: Vec::new(),
        link_sha256: Some(sha256(code.as_str())),
        link_expires_ms: Some(now.saturating_add(LINK_LIFE).as_i64()),
    })?;
    let link = format!("{base}/login?code={}", code.as_str());
    if console.is_json() {
        console.json(&json!({"link": link}));
        return Ok(0);
    }
    let is_opened = !args.print && std::io::stdout().is_terminal() && open(&link);
    if is_opened {
        console.note("a browser opens the link, which works once");
    } else {
        console.line(&link);
    }
    Ok(0)
}

/// Returns the address to which the path of the link is added.
fn browser_address(text: &str) -> Result<String, CliFailure> {
    let url = reqwest::Url::parse(text).ok();
    let is_address = |url: &reqwest::Url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.query().is_none()
            && url.fragment().is_none()
    };
    if !url.as_ref().is_some_and(is_address) {
        return Err(CliFailure::Invalid(format!(
            "--url: found {text:?}, wanted the address of the API, such as https://jobs.example.org"
        )));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Returns the role with this name. Fails for the role of a worker, which reads no pages.
fn reader_role(text: &str) -> Result<TokenRole, String> {
    let role = text.parse().ok().filter(|role| *role != TokenRole::Worker);
    role.ok_or_else(|| format!("found {text:?}, wanted viewer, operator or admin"))
}

/// Asks the desktop to open a link. Returns false if there is none.
fn open(link: &str) -> bool {
    let has_screen =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let mut command = Command::new("xdg-open");
    command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    has_screen && command.status().is_ok_and(|status| status.success())
}
