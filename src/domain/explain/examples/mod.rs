//! For each sentence `explain` can say the facts that make it true. A finding without an example fails here.

mod became;
mod loss;
mod next;
mod planned;
mod rules;
mod saw;
mod scene;
mod timing;
mod told;
mod whole;

use std::collections::BTreeSet;

use super::{Facts, judge};

/// A finding's word, facts that lead to it, and its sentence.
type Example = (&'static str, fn() -> Facts, &'static str);

fn hold(codes: &[&'static str], examples: &[Example]) {
    for (code, facts, sentence) in examples {
        let facts = facts();
        let found: Vec<(&str, String)> = judge(&facts).iter().map(|found| (found.code(), found.sentence(&facts.zone))).collect();
        assert!(
            found.iter().any(|(word, said)| word == code && said == sentence),
            "{code}: wanted {sentence:?}, found {found:#?}"
        );
    }
    let wanted: BTreeSet<&str> = codes.iter().copied().collect();
    let shown: BTreeSet<&str> = examples.iter().map(|(code, ..)| *code).collect();
    assert_eq!(wanted, shown, "a sentence without an example");
}
