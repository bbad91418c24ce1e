//! Tests of the model of `top` by keys, and of its view by cells.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::screen_view::{draw, page_of};
use super::theme::Theme;
use super::top_lists::{Head, Pane, Row, TopData, TopList, TopSubject};
use super::top_model::{Mode, Model, TopAction};
use crate::cli::render::Colour;
use schedd_schedule::names::{JobName, RunId};

fn name(text: &str) -> JobName {
    text.parse().unwrap()
}

fn run(text: &str) -> RunId {
    text.parse().unwrap()
}

fn row(subject: TopSubject, run: Option<RunId>, cells: &[&str], colour: Colour) -> Row {
    Row { subject, run, cells: cells.iter().map(|cell| (*cell).to_owned()).collect(), colour }
}

fn due(job: &str, left: &str) -> Row {
    let planned = run(&format!("{job}@1790000000000"));
    row(
        TopSubject::Job(name(job)),
        Some(planned),
        &[left, "09-21 14:13:20", "scheduled", "default", job],
        Colour::Plain,
    )
}

fn data(jobs: &[&str]) -> TopData {
    let ended = run("report@1780000000000");
    let lists = [
        TopList { rows: jobs.iter().map(|job| due(job, "5m")).collect(), total: 100_000 },
        TopList {
            rows: vec![row(
                TopSubject::Run(run("backup@1780000000000")),
                Some(run("backup@1780000000000")),
                &["1m 5s", "web-1", "2", "key customer 7", "backup@1780000000000"],
                Colour::Plain,
            )],
            total: 1,
        },
        TopList {
            rows: vec![row(
                TopSubject::Run(ended.clone()),
                None,
                &["3s ago", "failed", "2s", "report@1780000000000", "exit code 3"],
                Colour::Red,
            )],
            total: 1,
        },
        TopList {
            rows: vec![row(
                TopSubject::Queue("default".parse().unwrap()),
                None,
                &["open", "0", "-", "1", "-", "2", "default"],
                Colour::Plain,
            )],
            total: 1,
        },
    ];
    let head = Head {
        nodes: 2,
        gone_nodes: 1,
        nodes_at_limit: 0,
        jobs: 100_000,
        running: 1,
        scheduled: 99_000,
        waiting: 0,
        ended: [("succeeded", 41), ("failed", 1), ("lost", 0)]
            .map(|(state, count)| (state.to_owned(), count))
            .to_vec(),
        lag: Some(Duration::from_secs(75)),
        memory: Some(3 << 20),
    };
    let time = "Thu 2026-05-28 20:26:50 UTC".to_owned();
    TopData { time, head, lists, detail: None }
}

fn model(jobs: &[&str]) -> Model {
    let mut model = Model::new();
    model.take_data(data(jobs));
    model
}

/// Presses keys: `>` is tab, `!` is enter, `~` is escape. Returns the action of the last key.
fn press(model: &mut Model, keys: &str) -> Option<TopAction> {
    let mut action = None;
    for key in keys.chars() {
        let code = match key {
            '>' => KeyCode::Tab,
            '!' => KeyCode::Enter,
            '~' => KeyCode::Esc,
            key => KeyCode::Char(key),
        };
        action = model.take_key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    action
}

fn theme() -> Theme {
    let place = "namespace prod at redis://10.0.0.5:6379/0".to_owned();
    Theme { has_colour: true, is_unicode: true, place }
}

fn seen(model: &Model, theme: &Theme, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(model, theme, frame.area(), frame.buffer_mut())).unwrap();
    let buffer = terminal.backend().buffer();
    let line =
        |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

#[test]
fn what_is_chosen_stays_chosen_while_the_list_moves() {
    let mut model = model(&["a", "b", "c"]);
    press(&mut model, "jj");
    model.take_data(data(&["c", "x", "a", "b"]));
    assert_eq!(press(&mut model, "r"), Some(TopAction::Run(name("c"))));
    // If the selected object is gone, the object at its position is selected.
    model.take_data(data(&["y", "z"]));
    assert_eq!(press(&mut model, "r"), Some(TopAction::Run(name("y"))));
    model.take_data(data(&[]));
    assert_eq!(press(&mut model, "r"), None);
    assert!(matches!(&model.message, Some(Err(why)) if why.contains("no rows")));
}

#[test]
fn what_a_key_acted_on_stays_chosen_though_nobody_had_moved() {
    let mut model = model(&["a", "b"]);
    assert_eq!(press(&mut model, "p"), Some(TopAction::Switch(TopSubject::Job(name("a")))));
    model.take_data(data(&["b", "a"]));
    assert_eq!(press(&mut model, "r"), Some(TopAction::Run(name("a"))));
}

#[test]
fn a_run_is_cancelled_only_after_a_yes_to_that_very_run() {
    let mut model = model(&["a"]);
    for no in ["n", "~", "!", "q"] {
        assert_eq!(press(&mut model, ">c"), None);
        assert!(
            matches!(&model.mode, Mode::Confirm(asked) if *asked == run("backup@1780000000000"))
        );
        assert_eq!(press(&mut model, no), None);
        assert_eq!(model.mode, Mode::Browse);
        press(&mut model, "1");
    }
    press(&mut model, "2c");
    let mut other = data(&["a"]);
    other.lists[1].rows.clear();
    model.take_data(other);
    assert_eq!(press(&mut model, "y"), Some(TopAction::Cancel(run("backup@1780000000000"))));
    assert_eq!(press(&mut model, "3c"), None);
    assert!(matches!(&model.message, Some(Err(why)) if why.contains("report@1780000000000")));
    press(&mut model, "1c");
    assert!(matches!(&model.mode, Mode::Confirm(asked) if *asked == run("a@1790000000000")));
}

#[test]
fn keys_act_on_the_job_of_what_is_chosen() {
    let mut model = model(&["a"]);
    assert_eq!(press(&mut model, "p"), Some(TopAction::Switch(TopSubject::Job(name("a")))));
    assert_eq!(model.asked().kept, [name("a")], "a paused job is shown wherever it stands");
    assert_eq!(press(&mut model, "2p"), Some(TopAction::Switch(TopSubject::Job(name("backup")))));
    assert_eq!(press(&mut model, "3r"), Some(TopAction::Run(name("report"))));
    assert_eq!(
        press(&mut model, "4p"),
        Some(TopAction::Switch(TopSubject::Queue("default".parse().unwrap())))
    );
    assert_eq!(press(&mut model, "4r"), None);
    assert!(matches!(&model.message, Some(Err(why)) if why.contains("a queue cannot be run")));
    let turn = model.asked().turn;
    model.take_answer(Ok("done".to_owned()));
    assert!(model.asked().turn > turn, "what was done is to be seen at once");
    assert_eq!(press(&mut model, "q"), Some(TopAction::Quit(0)));
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(model.take_key(ctrl_c), Some(TopAction::Quit(130)));
}

#[test]
fn a_filter_narrows_every_list_and_finds_a_job_by_its_whole_name() {
    let mut model = model(&["alpha", "beta", "q"]);
    press(&mut model, "/beq");
    assert_eq!(model.rows(Pane::Due).len(), 0);
    let backspace = KeyEvent::new(KeyCode::Backspace, KeyModifiers::NONE);
    assert_eq!(model.take_key(backspace), None);
    assert_eq!(press(&mut model, "ta!"), None);
    assert_eq!(model.rows(Pane::Due).len(), 1);
    assert_eq!(model.asked().kept, [name("beta")]);
    assert_eq!(press(&mut model, "r"), Some(TopAction::Run(name("beta"))));
    assert!(seen(&model, &theme(), 80, 24).last().unwrap().contains("only rows with \"beta\""));
    press(&mut model, "~");
    assert_eq!((model.rows(Pane::Due).len(), model.asked().kept.len()), (3, 0));
    press(&mut model, "/FAILED!");
    assert_eq!((model.rows(Pane::Recent).len(), model.rows(Pane::Due).len()), (1, 0));
}

#[test]
fn lists_are_sorted_by_time_by_name_and_by_state_with_trouble_first() {
    let ended = |job: &str, state: &str, colour| {
        row(
            TopSubject::Run(run(&format!("{job}@1780000000000"))),
            None,
            &["3s ago", state, "2s", job, ""],
            colour,
        )
    };
    let mut data = data(&["b", "a"]);
    data.lists[Pane::Recent as usize].rows = vec![
        ended("d", "succeeded", Colour::Plain),
        ended("c", "timed_out", Colour::Red),
        ended("b", "skipped", Colour::Yellow),
        ended("a", "failed", Colour::Red),
        ended("e", "failed", Colour::Red),
    ];
    let mut model = Model::new();
    model.take_data(data);
    let jobs = |model: &Model, pane: Pane| -> String {
        model.rows(pane).iter().filter_map(|row| row.subject.job()).map(JobName::as_str).collect()
    };
    for (recent, due, message) in [
        ("dcbae", "ba", "3 Recent (5 of 1) "),
        ("abcde", "ab", ", by name) "),
        ("aecbd", "ba", ", by state) "),
    ] {
        assert_eq!(
            (jobs(&model, Pane::Recent), jobs(&model, Pane::Due)),
            (recent.to_owned(), due.to_owned())
        );
        let shown = seen(&model, &theme(), 80, 24).join("\n");
        assert!(shown.contains(message), "{shown}");
        press(&mut model, "s");
    }
    assert_eq!(jobs(&model, Pane::Recent), "dcbae", "by time again");
}

#[test]
fn one_thing_is_shown_in_full_until_somebody_goes_back() {
    let mut model = model(&["a"]);
    model.page = page_of(24);
    press(&mut model, "!");
    assert_eq!(model.asked().detail, Some(TopSubject::Job(name("a"))));
    assert!(seen(&model, &theme(), 80, 24).contains(&"reading".to_owned()));
    let lines: Vec<String> = (0..50).map(|n| format!("line {n}")).collect();
    model.take_detail(&TopSubject::Job(name("other")), vec!["not this".to_owned()]);
    model.take_detail(&TopSubject::Job(name("a")), lines);
    press(&mut model, "jjj");
    let screen = seen(&model, &theme(), 80, 24);
    assert_eq!((screen[2].as_str(), screen[3].as_str()), ("a", "line 3"));
    press(&mut model, "G");
    let at_end = |model: &Model, from: u32, to: u32| {
        let screen = seen(model, &theme(), 80, 24);
        assert_eq!(
            (screen[3].as_str(), screen[22].as_str()),
            (format!("line {from}").as_str(), format!("line {to}").as_str())
        );
    };
    at_end(&model, 30, 49);
    // A view at the end follows new lines; a view scrolled up does not.
    let more = |count: u32| (0..count).map(|n| format!("line {n}")).collect::<Vec<_>>();
    model.take_detail(&TopSubject::Job(name("a")), more(60));
    at_end(&model, 40, 59);
    press(&mut model, "k");
    model.take_detail(&TopSubject::Job(name("a")), more(70));
    at_end(&model, 39, 58);
    // With fewer lines than before something is still visible.
    model.take_detail(&TopSubject::Job(name("a")), vec!["short".to_owned()]);
    assert!(seen(&model, &theme(), 80, 24).contains(&"short".to_owned()));
    press(&mut model, "~");
    assert_eq!(model.asked().detail, None);
}

#[test]
fn eighty_columns_show_all_four_lists_one_below_the_other() {
    let screen = seen(&model(&["nightly", "weekly"]), &theme(), 80, 24);
    let rule = |title: &str| format!("{title} {}", "─".repeat(79 - title.len()));
    assert_eq!(screen[0], "Thu 2026-05-28 20:26:50 UTC  namespace prod at redis://10.0.0.5:6379/0");
    assert_eq!(
        screen[1],
        "2 nodes  1 gone  1 running  lag 1m 15s  99000 scheduled  100000 jobs  41 succee…"
    );
    assert_eq!(screen[2], rule("1 Due (2 of 100000)"));
    assert_eq!(screen[3], "IN  DUE             STATE      QUEUE    JOB");
    assert_eq!(screen[4], "5m  09-21 14:13:20  scheduled  default  nightly");
    assert!(
        screen.contains(&rule("2 Running (1)")) && screen.contains(&rule("4 Queues (1)")),
        "{screen:#?}"
    );
    assert!(
        screen.contains(&"FOR    NODE   ATTEMPT  PLACE AT        RUN".to_owned()),
        "{screen:#?}"
    );
    assert!(
        screen.contains(&"1m 5s  web-1  2        key customer 7  backup@1780000000000".to_owned()),
        "{screen:#?}"
    );
    assert!(
        screen.contains(&"3s ago  failed  2s    report@1780000000000  exit code 3".to_owned()),
        "{screen:#?}"
    );
    assert!(screen[23].starts_with("? help  q quit"), "{}", screen[23]);
}

#[test]
fn a_wide_terminal_has_the_lists_side_by_side() {
    let screen = seen(&model(&["nightly"]), &theme(), 200, 50);
    assert!(
        screen[2].starts_with("1 Due (1 of 100000) ─") && screen[2].contains("2 Running (1) ─"),
        "{}",
        screen[2]
    );
    assert!(
        screen
            .iter()
            .any(|line| line.starts_with("3 Recent (1) ─") && line.contains("4 Queues (1) ─"))
    );
    assert!(
        screen.iter().any(|line| line.contains("nightly") && line.contains("backup@1780000000000"))
    );
}

#[test]
fn a_small_terminal_shows_one_list_and_what_matters_most() {
    let mut small = model(&["nightly"]);
    let screen = seen(&small, &theme(), 30, 10);
    assert_eq!(screen[0], "2 nodes  1 gone  1 running  l…");
    assert!(screen[1].starts_with("1 Due (1 of 100000) ─"), "{screen:#?}");
    assert_eq!(
        (screen[2].as_str(), screen[3].as_str()),
        ("IN  STATE      JOB", "5m  scheduled  nightly")
    );
    press(&mut small, ">");
    let screen = seen(&small, &theme(), 30, 10);
    assert_eq!(screen[3], "1m 5s  web-1  backup@17800000…", "{screen:#?}");
    assert!(screen[1].starts_with("2 Running"), "{screen:#?}");
}

#[test]
fn no_size_and_no_state_is_too_small_or_too_odd_to_be_drawn() {
    for width in [0, 1, 2, 5, 19, 20, 30, 60, 129, 130, 300] {
        for height in [0, 1, 2, 3, 5, 17, 18, 20, 24, 60] {
            for keys in ["", "?", "!", "/abc", ">c", ">>>>", "s"] {
                let mut model = model(&["a", "b"]);
                press(&mut model, keys);
                let area = ratatui::layout::Rect::new(0, 0, width, height);
                let mut buffer = ratatui::buffer::Buffer::empty(area);
                draw(&model, &theme(), area, &mut buffer);
                draw(&Model::new(), &theme(), area, &mut buffer);
            }
        }
    }
}

#[test]
fn a_redis_that_is_away_is_reported_and_what_was_known_stays() {
    let mut model = model(&["nightly"]);
    model.take_silence("Redis at redis://h: no answer\u{1b}".to_owned());
    let screen = seen(&model, &theme(), 80, 24);
    assert_eq!(screen[0], "Redis at redis://h: no answer\\u{1b}");
    assert!(screen.iter().any(|line| line.contains("nightly")));
    model.take_data(data(&["nightly"]));
    assert!(seen(&model, &theme(), 80, 24)[0].starts_with("Thu 2026-05-28"));
}

#[test]
fn the_chosen_row_of_a_long_list_stays_visible() {
    let jobs: Vec<String> = (0..100).map(|n| format!("j{n:02}")).collect();
    let mut model = model(&jobs.iter().map(String::as_str).collect::<Vec<_>>());
    press(&mut model, &"j".repeat(60));
    assert!(seen(&model, &theme(), 30, 10).iter().any(|line| line.contains("j60")));
    press(&mut model, "g");
    assert!(seen(&model, &theme(), 30, 10).iter().any(|line| line.contains("j00")));
    press(&mut model, "sG");
    assert!(seen(&model, &theme(), 30, 10).iter().any(|line| line.contains("j99")));
}

#[test]
fn without_colours_and_beyond_ascii_nothing_is_drawn_that_was_not_asked_for() {
    let plain = Theme { has_colour: false, is_unicode: false, ..theme() };
    let model = model(&["nightly"]);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(&model, &plain, frame.area(), frame.buffer_mut())).unwrap();
    let cells = terminal.backend().buffer().content();
    assert!(cells.iter().all(|cell| cell.symbol().is_ascii()));
    assert!(cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
}
