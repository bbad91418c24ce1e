//! The places for requests with bodies of lines: remote verbs and bulk requests. One token gets at
//! most half of them, so that others find a place too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::api_problem::ApiProblem;

/// The maximum number of these requests. Each may need a thread, for its body or for a slow reader,
/// and 1 MiB for the first line. The runs of the node use the same threads, of which tokio starts at
/// most 512.
const MOST: usize = 128;
/// The maximum number of these requests of one sender.
const MOST_OF_ONE: usize = MOST / 2;
/// The time after which a sender may try again, s.
const AGAIN: u32 = 5;

/// The places that are taken, by the name of the sender.
#[derive(Debug, Clone, Default)]
pub(super) struct LinePlaces {
    taken: Arc<Mutex<HashMap<String, usize>>>,
}

/// A place, which is free again when this value is dropped.
#[derive(Debug)]
pub(super) struct RequestPlace {
    places: LinePlaces,
    by: String,
}

impl LinePlaces {
    /// Takes a place for a request of the sender `by`. Fails (503) if all places are taken, or all that
    /// one sender gets.
    pub(super) fn take(&self, by: &str) -> Result<RequestPlace, ApiProblem> {
        let mut taken = self.taken();
        let all: usize = taken.values().sum();
        let own = taken.get(by).copied().unwrap_or_default();
        let (most, whose) = if all >= MOST {
            (MOST, "")
        } else if own >= MOST_OF_ONE {
            (MOST_OF_ONE, " of this token")
        } else {
            taken.insert(by.to_owned(), own + 1);
            return Ok(RequestPlace { places: self.clone(), by: by.to_owned() });
        };
        let detail = format!(
            "{most} remote verbs and bulk requests{whose} are open, which is the most; try again later"
        );
        Err(ApiProblem::busy(detail, AGAIN))
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RequestPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(own) = taken.get_mut(&self.by) {
            *own = own.saturating_sub(1);
        }
        taken.retain(|_, own| *own > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sender_gets_half_of_the_places_and_gives_them_back() {
        let places = LinePlaces::default();
        let take = |by: &str| places.take(by);
        let mut first: Vec<RequestPlace> = (0..MOST_OF_ONE).map(|_| take("a").unwrap()).collect();
        assert_eq!(take("a").unwrap_err().status(), 503);
        let second: Vec<RequestPlace> = (0..MOST_OF_ONE).map(|_| take("b").unwrap()).collect();
        assert_eq!(take("c").unwrap_err().status(), 503, "all places are taken");
        first.pop();
        let third = take("c").unwrap();
        assert_eq!(take("a").unwrap_err().status(), 503);
        drop((first, second, third));
        assert!(places.taken().is_empty());
    }
}
