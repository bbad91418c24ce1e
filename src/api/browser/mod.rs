//! Answers for browsers: the pages of the dashboard, their assets, and refusals as pages.

mod asset_answer;
mod choices_answer;
mod compression;
mod html_answer;
mod page_answer;
mod page_reader;

pub(super) use asset_answer::asset;
pub(super) use choices_answer::choose;
pub(super) use html_answer::put_html;
pub(super) use page_answer::page;
pub(super) use page_reader::PageReader;
