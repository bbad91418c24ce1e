//! The page in place of a page that was refused: how to sign in, or why it cannot be shown.

use askama::Template;

use crate::cli::embedded::CliFailure;
use crate::dashboard::layout::Layout;
use crate::dashboard::page_text::page_text;
use crate::dashboard::shown_text::ShownText;
use crate::dashboard::view_choices::ViewChoices;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'r> {
    layout: Layout<'r>,
    /// The page that the reader wanted.
    wanted: &'r str,
    /// The reason why a link did not sign the reader in. `None` if no link was used.
    detail: Option<ShownText>,
}

#[derive(Template)]
#[template(path = "refusal.html")]
struct RefusalPage<'r> {
    layout: Layout<'r>,
    status: u16,
    title: &'r str,
    detail: ShownText,
}

/// Returns the page for a request that was refused with this status: for 401 how to sign in.
pub(in crate::dashboard) fn refusal(
    base: &str,
    status: u16,
    title: &str,
    detail: &str,
    address: &str,
    choices: &ViewChoices,
) -> Result<String, CliFailure> {
    let layout = Layout { base, address, section: "", role: None, choices, now: None };
    let detail = ShownText::new(detail);
    if status == 401 {
        let is_link = address.starts_with("/login");
        let wanted = if is_link { "/" } else { address };
        return page_text(&SignInPage { layout, wanted, detail: is_link.then_some(detail) });
    }
    page_text(&RefusalPage { layout, status, title, detail })
}
