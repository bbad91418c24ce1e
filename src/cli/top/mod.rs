//! `top`: the jobs, runs and queues as they are now, drawn anew each second, with keys to act on them.
//!
//! - `lists` what was read; `model` what is shown and what the keys do; `view` and `pane_view` how it looks; `data` what is read; `wishes` what is done;
//!   `screen` the terminal
//!
//! Invariant: everything that happens comes through one channel, so the model changes in one place, and neither a Redis that is away
//! nor a slow one holds up a key.

mod data;
mod lists;
mod model;
mod pane_view;
mod screen;
#[cfg(test)]
mod tests;
mod view;
mod wishes;

use std::io::{ErrorKind, IsTerminal};
use std::time::Duration;

use anyhow::Context as _;
use futures_util::StreamExt;
use ratatui::crossterm::event::{self, Event};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook_tokio::Signals;
use tokio::sync::{mpsc, watch};

use super::args::Global;
use super::connect::connect;
use super::failure::Failure;
use super::render::Console;
use crate::domain::zone::Zone;
use crate::store::Store;
use lists::{Data, Subject};
use model::{Asked, Model, Wish};
use screen::Screen;
use view::Theme;

/// Between two readings.
const PAUSE: Duration = Duration::from_secs(1);
/// Things that may have happened and not been looked at.
const NEWS: usize = 64;

pub(super) const HELP: &str = "\
Example:
  schedctl top

Four lists, read anew each second: what is due, what runs, what ended, the queues. Keys: tab or 1-4
the list, arrows or j k the row, enter all about it with what it wrote, p pause or resume, r run
now, c cancel (asks), / filter, s sort (by time, name, state with trouble first), ? help, q quit. On
a small terminal one list is shown at a time. Of 100,000 jobs the next 200 are read; a filter that
is a whole name finds any job. Runs that tell people of others are left out (schedctl history
--notices).";

/// What has happened.
enum News {
    /// Something at the keyboard, or the terminal has another size.
    Terminal(Event),
    Read(Result<Box<Data>, Failure>),
    Detail(Subject, Vec<String>),
    Answered(Result<String, String>),
    /// A signal: the code to end with.
    Signal(u8),
}

/// Shows the whole until somebody leaves.
pub(super) async fn top(global: &Global, console: &mut Console) -> Result<u8, Failure> {
    refuse_without_terminal(console)?;
    let store = connect(global, console).await?;
    let theme = Theme {
        has_colour: console.has_colour(),
        is_unicode: is_unicode(),
        zone: Zone::of_host(),
        place: format!("schedd {} at {}", store.namespace(), store.address()),
    };
    let (sender, mut news) = mpsc::channel(NEWS);
    let (ask, asked) = watch::channel(Asked::default());
    listen(&sender)?;
    let mut screen = Screen::open()?;
    tokio::spawn(keep_reading(store.clone(), asked, theme.zone.clone(), console.plain_page(), sender.clone()));
    let terminal = sender.clone();
    // Not joined: it waits for a key, and ends with the process.
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if terminal.blocking_send(News::Terminal(event)).is_err() {
                return;
            }
        }
    });
    let mut model = Model::new();
    loop {
        model.page = view::page_of(screen.height()).max(1);
        if let Err(error) = screen.draw(|area, buffer| view::draw(&model, &theme, area, buffer)) {
            // The terminal has gone.
            return if error.kind() == ErrorKind::BrokenPipe { Ok(0) } else { Err(screen::failed(&error)) };
        }
        let Some(first) = news.recv().await else { return Ok(0) };
        let mut next = Some(first);
        while let Some(one) = next {
            match take(&mut model, one) {
                Some(Wish::Quit(code)) => return Ok(code),
                Some(wish) => carry_out(&store, wish, &sender),
                None => {}
            }
            next = news.try_recv().ok();
        }
        ask.send_if_modified(|asked| {
            let now = model.asked();
            let is_new = *asked != now;
            *asked = now;
            is_new
        });
    }
}

fn refuse_without_terminal(console: &Console) -> Result<(), Failure> {
    if console.is_json() {
        return Err(Failure::Invalid(
            "top --json: top is for a person at a terminal; list, history, queues and stats give JSON".to_owned(),
        ));
    }
    if !console.is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::Invalid(
            "top: wanted a terminal for its input and output; schedctl list --watch writes to anything".to_owned(),
        ));
    }
    if std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        return Err(Failure::Invalid(
            "top: TERM is dumb or not set, wanted a terminal that can be drawn on; schedctl list --watch needs none".to_owned(),
        ));
    }
    Ok(())
}

/// Whether the locale has more than ASCII.
fn is_unicode() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    set.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Has signals told.
fn listen(sender: &mpsc::Sender<News>) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT]).context("signals cannot be waited for")?;
    let sender = sender.clone();
    tokio::spawn(async move {
        while let Some(signal) = signals.next().await {
            let code = u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX);
            if sender.send(News::Signal(code)).await.is_err() {
                return;
            }
        }
    });
    Ok(())
}

fn take(model: &mut Model, news: News) -> Option<Wish> {
    match news {
        News::Terminal(Event::Key(key)) => return model.take_key(key),
        News::Terminal(_) => {}
        News::Read(Ok(data)) => model.take_data(*data),
        News::Read(Err(failure)) => model.take_silence(failure.lines().join("; ")),
        News::Detail(subject, lines) => model.take_detail(&subject, lines),
        News::Answered(answer) => model.take_answer(answer),
        News::Signal(code) => return Some(Wish::Quit(code)),
    }
    None
}

fn carry_out(store: &Store, wish: Wish, sender: &mpsc::Sender<News>) {
    let (store, sender) = (store.clone(), sender.clone());
    tokio::spawn(async move {
        let answer = wishes::carry_out(&store, wish).await.map_err(|failure| failure.lines().join("; "));
        // Whoever has left does not miss it.
        let _ = sender.send(News::Answered(answer)).await;
    });
}

/// Reads what is asked, each [`PAUSE`] and whenever something else is asked, until nobody wants it.
async fn keep_reading(
    store: Store,
    mut asked: watch::Receiver<Asked>,
    zone: Zone,
    mut page: Console,
    sender: mpsc::Sender<News>,
) {
    loop {
        let wanted = asked.borrow_and_update().clone();
        let read = data::read(&store, &wanted, &zone).await.map(Box::new);
        if sender.send(News::Read(read)).await.is_err() {
            return;
        }
        if let Some(subject) = wanted.detail {
            let read = data::read_detail(&store, &subject, &mut page).await;
            let lines = read.unwrap_or_else(|failure| failure.lines());
            if sender.send(News::Detail(subject, lines)).await.is_err() {
                return;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            changed = asked.changed() => if changed.is_err() { return },
        }
    }
}
