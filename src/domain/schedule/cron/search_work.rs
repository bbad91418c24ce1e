//! Counts the steps of parsing and searching, for the tests that bound their number. It does
//! nothing outside tests.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts a step.
#[inline]
pub(super) fn step() {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

/// Returns how many steps `work` takes, and its result.
#[cfg(test)]
pub(crate) fn steps_of<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = STEPS.with(std::cell::Cell::get);
    let result = work();
    (STEPS.with(std::cell::Cell::get) - before, result)
}
