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

use super::{Facts, judge};

/// A finding's word, facts that lead to it, and its sentence.
type Example = (&'static str, fn() -> Facts, &'static str);

fn hold(examples: &[Example]) {
    for (code, facts, sentence) in examples {
        let facts = facts();
        let found: Vec<(&str, String)> = judge(&facts).iter().map(|found| (found.code, found.text.clone())).collect();
        assert!(
            found.iter().any(|(word, said)| word == code && said == sentence),
            "{code}: wanted {sentence:?}, found {found:#?}"
        );
    }
}
