//! Tests of malformed expressions: no expression makes the parser panic, or takes more than a
//! bounded number of steps.

use crate::cron::{CronExpr, period_of, search_work};
use crate::time::zone::{Zone, ZoneName};

#[test]
fn the_longest_and_the_rarest_expressions_take_bounded_work() {
    let full = |item: &str| item.repeat(980 / item.len()).trim_end_matches(',').to_owned();
    let mut hardest = 0;
    for text in [
        format!("0 0 0 1 1 * {}", full("*,")),
        format!("0 0 0 1 1 * {}", full("1970-2099,")),
        format!("{} * * * *", full("*,")),
        format!("{} * * * *", full("H/2,")),
        format!("0 0 * * {}", full("5#5,")),
        "0 0 */31 * 5L".to_owned(),
        "0 0 31W 4,6,9,11 *".to_owned(),
        "0 0 29W 2 */7".to_owned(),
        "59 59 23 29W 2 ? 2096".to_owned(),
    ] {
        let (steps, read) = search_work::steps_of(|| text.parse::<CronExpr>());
        hardest = hardest.max(steps);
        if let Ok(expr) = read {
            let zone = Zone::load(&"Africa/Casablanca".parse::<ZoneName>().unwrap()).unwrap();
            hardest = hardest.max(search_work::steps_of(|| expr.first_from(&zone, 0)).0);
        }
    }
    // The hardest text has 500 items of 130 years each. A step takes a few nanoseconds there, and
    // at most a microsecond in the search for a date.
    assert!((60_000..70_000).contains(&hardest), "{hardest}");
}

#[test]
fn a_damaged_expression_is_read_or_refused_and_never_a_panic() {
    let whole = [
        "30 2 * * *",
        "*/15 0-23/2 1,15 * MON-FRI",
        "0 0 12 L-3 1-12/3 ? 2026-2040/2",
        "H(0-29)/10 H 15W * 5#2,SUNL",
        "@yearly",
        "@every 1h30m",
        "0 22-2 LW NOV-FEB 7",
        "5/10 * ? * 5L",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    let signs: Vec<char> = "0123456789*/,-?LWH#()@ \tMONJANé\0\u{202e}".chars().collect();
    let mut read = 0;
    for _ in 0..20_000 {
        let mut text: Vec<char> = random.choice(&whole).unwrap().chars().collect();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(0..=text.len());
            match random.u8(0..3) {
                0 if at < text.len() => drop(text.remove(at)),
                1 if at < text.len() => text[at] = *random.choice(&signs).unwrap(),
                _ => text.insert(at, *random.choice(&signs).unwrap()),
            }
        }
        let text: String = text.into_iter().collect();
        let (steps, parsed) = search_work::steps_of(|| text.parse::<CronExpr>());
        assert!(steps < 70_000, "{text:?} took {steps} steps");
        match parsed {
            Ok(expr) => {
                read += 1;
                assert!(
                    expr.first_from(&Zone::utc(), 0).is_some(),
                    "{text:?} was taken and never comes"
                );
                assert!(period_of(&text).is_none());
            }
            Err(error) => {
                assert!(
                    error.offset <= text.len() && text.is_char_boundary(error.offset),
                    "{error:?}"
                );
                assert!(!error.to_string().contains(['\n', '\0']), "{error:?}");
                let _ = period_of(&text);
            }
        }
    }
    assert!(
        (500..10_000).contains(&read),
        "{read} of the damaged expressions are valid: the test needs enough of both kinds"
    );
}
