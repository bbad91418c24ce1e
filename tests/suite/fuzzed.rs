//! The fuzzer's targets as an ordinary test: every seed of the corpus, which also has what the fuzzer once found, and copies of
//! them damaged at random, the same at each run. `script/fuzz` looks further.

#[path = "../fuzz/targets.rs"]
mod targets;

use std::path::Path;

/// Copies of each target; fewer of those whose texts are whole files.
const COPIES: usize = 1_500;

#[test]
fn no_text_of_the_corpus_nor_a_damaged_copy_breaks_a_parser() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    for (name, judge) in targets::TARGETS {
        let seeds = targets::seeds(&corpus, name);
        let mut random = fastrand::Rng::with_seed(41);
        for seed in &seeds {
            judge(seed);
        }
        let copies = if seeds.iter().any(|seed| seed.contains('\n')) { COPIES / 5 } else { COPIES };
        for number in 0..copies {
            judge(&damaged(&seeds, number, &mut random));
        }
        let (took, text) = targets::slowest();
        println!("{name}: at most {} us, for {text:?}", took.as_micros());
    }
}

#[test]
fn every_target_has_seeds_and_all_seeds_a_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    let mut found: Vec<String> = std::fs::read_dir(&corpus)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut known: Vec<&str> = targets::TARGETS.iter().map(|(name, _)| *name).collect();
    found.sort_unstable();
    known.sort_unstable();
    assert_eq!(found, known);
}

/// One of `seeds` with one to three parts taken out, doubled, replaced by a sign, or by a part of another.
fn damaged(seeds: &[String], number: usize, random: &mut fastrand::Rng) -> String {
    const SIGNS: &str = "0123456789*/,;:.-+~@#|= \t\"[]{}TZPé\u{2212}\0";
    let signs: Vec<char> = SIGNS.chars().collect();
    let mut text: Vec<char> = seeds[number % seeds.len()].chars().collect();
    for _ in 0..random.usize(1..=3) {
        let from = random.usize(0..=text.len());
        let until = random.usize(from..=text.len().min(from + 8));
        match random.u8(0..4) {
            0 => drop(text.drain(from..until)),
            1 => {
                let part = text[from..until].to_vec();
                text.splice(from..from, part).for_each(drop);
            }
            2 => {
                let sign = signs[random.usize(..signs.len())];
                text.splice(from..until, [sign]).for_each(drop);
            }
            _ => {
                let other: Vec<char> =
                    seeds[random.usize(..seeds.len())].chars().take(20).collect();
                let cut = random.usize(0..=other.len());
                text.splice(from..until, other[cut..].iter().copied()).for_each(drop);
            }
        }
    }
    text.into_iter().collect()
}
