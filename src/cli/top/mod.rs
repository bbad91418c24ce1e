//! `top`: the current jobs, runs and queues, redrawn each second, with keys to act on them.
//!
//! - `top_lists`: the data that was read; `top_data`: the reading of that data
//! - `top_source`: the Redis or the API that the data comes from
//! - `top_model`: the state of the screen and the meaning of the keys
//! - `top_actions`: actions on jobs, runs and queues
//! - `screen_view` and `pane_view`: drawing; `theme`: styles; `screen`: the terminal
//!
//! Invariant: every event comes through one channel, so the model changes in one place. A slow or
//! missing source does not delay the reaction to keys.

mod pane_view;
mod screen;
mod screen_view;
mod theme;
mod top_actions;
mod top_data;
mod top_lists;
mod top_model;
mod top_source;
#[cfg(test)]
mod top_tests;

use std::io::{ErrorKind, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::StreamExt;
use ratatui::crossterm::event::{self, Event};
use serde::de::DeserializeOwned;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook_tokio::Signals;
use tokio::sync::{mpsc, watch};

use super::connect::connect;
use super::failure::CliFailure;
use super::global::Global;
use super::render::Console;
use screen::TopScreen;
use theme::Theme;
use top_lists::TopData;
use top_model::{Model, TopAction, TopRequest};
pub(crate) use top_source::TopSource;

/// The time between two reads of the data.
const PAUSE: Duration = Duration::from_secs(1);
/// The maximum number of events that may wait in the channel.
const NEWS: usize = 64;

pub(crate) const TOP_HELP: &str = "\
Example:
  schedctl top

Four lists are read again each second: due jobs, running runs, ended runs, queues. On a small
terminal, one list is shown at a time. Only the next 200 jobs are read; a filter that is a complete
name finds any job. Runs that deliver notices are left out (schedctl history --notices lists them).

Keys: tab or 1-4 select a list, arrows or j k select a row, enter shows all details with the output,
p pauses or resumes the job or queue, r runs the job now, c cancels the run (asks first), / filters
the rows, s sorts the rows (by time, name, or state with problems first), ? shows help, q quits.

With --api, the token needs the role operator to pause, run and cancel.";

/// An event that changes the model of `top`.
enum News {
    /// A pressed key, or a new size of the terminal.
    Terminal(Event),
    Read(Result<Box<TopData>, CliFailure>),
    Answered(Result<String, String>),
    /// A signal, with the exit code for this signal.
    Signal(u8),
}

/// The flags of `top`, which only the `top` of another host gives.
#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// Print the data of one refresh, for a request in JSON
    #[arg(long, hide = true, value_name = "REQUEST", value_parser = from_json::<TopRequest>)]
    data: Option<TopRequest>,
    /// Carry out one action, given in JSON
    #[arg(long, hide = true, value_name = "ACTION", conflicts_with = "data", value_parser = from_json::<TopAction>)]
    act: Option<TopAction>,
}

impl TopArgs {
    /// Returns true if the verb only prints the data of one refresh.
    pub(crate) fn reads(&self) -> bool {
        self.data.is_some()
    }

    /// Returns true if the verb only carries out one action.
    pub(crate) fn acts(&self) -> bool {
        self.act.is_some()
    }
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Shows the screen of `top`, or does what the flags ask for. Returns the exit code.
pub(crate) async fn top(
    global: &Global,
    args: &TopArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let source = TopSource::of_redis(connect(global, console).await?, console);
    if let Some(request) = &args.data {
        let data = serde_json::to_value(source.read(request).await?);
        console.json(&data.context("the data cannot be printed")?);
        return Ok(0);
    }
    if let Some(action) = &args.act {
        console.line(&source.carry_out(action).await?);
        return Ok(0);
    }
    Box::pin(show_screen(source, console)).await
}

/// Shows the screen of `top` until the user quits. Returns the exit code. Fails if the source cannot
/// be read at first.
pub(crate) async fn show_screen(source: TopSource, console: &Console) -> Result<u8, CliFailure> {
    refuse_without_terminal(console)?;
    let theme =
        Theme { has_colour: console.has_colour(), is_unicode: is_unicode(), place: source.words() };
    let source = Arc::new(source);
    let mut model = Model::new();
    model.take_data(source.read(&TopRequest::default()).await?);
    let (sender, mut news) = mpsc::channel(NEWS);
    let (ask, asked) = watch::channel(TopRequest::default());
    listen(&sender)?;
    let mut screen = TopScreen::open()?;
    tokio::spawn(keep_reading(source.clone(), asked, sender.clone()));
    let terminal = sender.clone();
    // The thread is not joined, because it waits for a key. It ends with the process.
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if terminal.blocking_send(News::Terminal(event)).is_err() {
                return;
            }
        }
    });
    loop {
        model.page = screen_view::page_of(screen.height()).max(1);
        if let Err(error) =
            screen.draw(|area, buffer| screen_view::draw(&model, &theme, area, buffer))
        {
            // The terminal is gone.
            return if error.kind() == ErrorKind::BrokenPipe {
                Ok(0)
            } else {
                Err(screen::failed(&error))
            };
        }
        let Some(first) = news.recv().await else { return Ok(0) };
        let mut next = Some(first);
        while let Some(one) = next {
            match take(&mut model, one) {
                Some(TopAction::Quit(code)) => return Ok(code),
                Some(action) => carry_out(&source, action, &sender),
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

fn refuse_without_terminal(console: &Console) -> Result<(), CliFailure> {
    if console.is_json() {
        return Err(CliFailure::Invalid(
            "top --json: top needs a terminal; list, history, queues and stats print JSON"
                .to_owned(),
        ));
    }
    if !console.is_terminal() || !std::io::stdin().is_terminal() {
        return Err(CliFailure::Invalid(
            "top: wanted a terminal for input and output; schedctl list --watch needs no terminal"
                .to_owned(),
        ));
    }
    if std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        return Err(CliFailure::Invalid(
            "top: TERM is dumb or not set, wanted a terminal that can be drawn on; schedctl list --watch needs no such terminal".to_owned(),
        ));
    }
    Ok(())
}

/// Returns true if the locale uses UTF-8.
fn is_unicode() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    set.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Starts a task that sends an event to `sender` for each signal that this process receives.
fn listen(sender: &mpsc::Sender<News>) -> Result<(), CliFailure> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT]).context("cannot listen for signals")?;
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

fn take(model: &mut Model, news: News) -> Option<TopAction> {
    match news {
        News::Terminal(Event::Key(key)) => return model.take_key(key),
        News::Terminal(_) => {}
        News::Read(Ok(data)) => model.take_data(*data),
        News::Read(Err(failure)) => model.take_silence(failure.lines().join("; ")),
        News::Answered(answer) => model.take_answer(answer),
        News::Signal(code) => return Some(TopAction::Quit(code)),
    }
    None
}

fn carry_out(source: &Arc<TopSource>, action: TopAction, sender: &mpsc::Sender<News>) {
    let (source, sender) = (source.clone(), sender.clone());
    tokio::spawn(async move {
        let answer = source.carry_out(&action).await.map_err(|failure| failure.lines().join("; "));
        // A failed send needs no report, because then the user has quit.
        let _ = sender.send(News::Answered(answer)).await;
    });
}

/// Reads the requested data each [`PAUSE`], and at once if the request changes. Ends when the
/// receiver is gone.
async fn keep_reading(
    source: Arc<TopSource>,
    mut asked: watch::Receiver<TopRequest>,
    sender: mpsc::Sender<News>,
) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            changed = asked.changed() => if changed.is_err() { return },
        }
        let wanted = asked.borrow_and_update().clone();
        let read = source.read(&wanted).await.map(Box::new);
        if sender.send(News::Read(read)).await.is_err() {
            return;
        }
    }
}
