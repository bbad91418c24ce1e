//! Mutated texts for tests: valid texts with random changes, to check that no parser panics or
//! reports a wrong position. The random seed is fixed, so each test run has the same mutants.

/// The pieces inserted into a text: characters that some parser treats specially, and characters
/// that no parser expects.
const PIECES: [&str; 26] = [
    "0",
    "9",
    "-1",
    "99999999999999999999",
    "1.5",
    ".",
    ":",
    "/",
    ",",
    "-",
    "+",
    "@",
    "*",
    "#",
    "(",
    " ",
    "\t",
    "\n",
    "T",
    "Z",
    "P",
    "am",
    "h",
    "\u{e9}",
    "\u{2212}",
    "\u{0}",
];

/// Calls `judge` with each of `count` mutants, and with the random generator that made them. A
/// mutant is a text of `good` with one to four random changes.
pub(crate) fn mutants_of(
    good: &[&str],
    count: usize,
    mut judge: impl FnMut(&str, &mut fastrand::Rng),
) {
    let mut random = fastrand::Rng::with_seed(4711);
    for number in 0..count {
        let mut text: Vec<char> =
            good.get(number % good.len()).copied().unwrap_or_default().chars().collect();
        for _ in 0..random.usize(1..=4) {
            let from = random.usize(0..=text.len());
            let until = random.usize(from..=text.len().min(from + 6));
            match random.u8(0..5) {
                0 => drop(text.drain(from..until)),
                1 => text
                    .splice(from..from, random.choice(PIECES).unwrap_or_default().chars())
                    .for_each(drop),
                2 => text
                    .splice(from..until, random.choice(PIECES).unwrap_or_default().chars())
                    .for_each(drop),
                3 => {
                    let part: Vec<char> = text.drain(from..until).collect();
                    let place = random.usize(0..=text.len());
                    text.splice(place..place, part).for_each(drop);
                }
                _ => {
                    let part: Vec<char> = random.choice(good).map_or_else(Vec::new, |other| {
                        other.chars().take(random.usize(0..12)).collect()
                    });
                    text.splice(from..from, part).for_each(drop);
                }
            }
        }
        judge(&text.into_iter().collect::<String>(), &mut random);
    }
}
