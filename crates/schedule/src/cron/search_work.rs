//! A counter of the steps of parsing and searching, for the tests that bound the number of steps.
//! The counter does nothing outside tests.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts a step of a parser or a search.
#[inline]
pub(super) fn step() {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

/// Returns the number of steps that `work` takes, and the result of `work`.
#[cfg(test)]
pub(crate) fn steps_of<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = STEPS.with(std::cell::Cell::get);
    let result = work();
    (STEPS.with(std::cell::Cell::get) - before, result)
}
