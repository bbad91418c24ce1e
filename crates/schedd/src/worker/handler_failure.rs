//! The results of a handler that are no success.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use schedd_core::domain::run::run_state::AskedNext;

/// The most characters of a reason that a run keeps.
const MOST_CHARS: usize = 8 * 1024;
/// The longest wait before the same attempt starts again: 30 days.
const LONGEST_AGAIN: Duration = Duration::from_secs(30 * 24 * 3_600);

/// The reason why a handler did not do its work. Any error becomes a failure by `?`, and so does a
/// text. The job's rules then decide about a retry.
///
/// ```
/// use std::time::Duration;
///
/// use schedd::{Again, Run, Stop};
///
/// async fn charge(order: String, run: Run) -> schedd::Result<()> {
///     let cents: u64 = order.parse()?; // an error: a retry by the job's rules
///     if cents == 0 {
///         return Err(Stop::because("the order has no price")); // no further attempt
///     }
///     if run.attempt() == 1 {
///         return Err(Again::after(Duration::from_secs(60))); // later, and no failure
///     }
///     Ok(())
/// }
/// # let _ = charge;
/// ```
pub struct Failure {
    text: String,
    asked: Option<AskedNext>,
}

/// The result of a handler.
///
/// ```
/// async fn greet(name: String, run: schedd::Run) -> schedd::Result<()> {
///     run.print(format_args!("Good morning, {name}"));
///     Ok(())
/// }
/// # let _ = greet;
/// ```
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// Returns the reason in words.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the choice of the handler about the next attempt.
    pub(super) fn asked(&self) -> Option<AskedNext> {
        self.asked
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { text: shortened(with_causes(&*error.into())), asked: None }
    }
}

/// Returns the first [`MOST_CHARS`] characters of a text.
pub(super) fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MOST_CHARS) {
        text.truncate(end);
    }
    text
}

/// Returns the text of an error and of its causes.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Some errors repeat the text of their cause.
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

/// A failure after which no further attempt can succeed.
///
/// ```
/// # use schedd::{Run, Stop};
/// async fn send(to: String, _: Run) -> schedd::Result<()> {
///     if to.is_empty() { Err(Stop::because("no address")) } else { Ok(()) }
/// }
/// # let _ = send;
/// ```
#[derive(Debug)]
pub struct Stop(());

impl Stop {
    /// Returns a failure that ends the run, whatever retries the job allows.
    ///
    /// ```
    /// # use schedd::Stop;
    /// assert_eq!(Stop::because("the order has no price").to_string(), "the order has no price");
    /// ```
    pub fn because(error: impl Into<Failure>) -> Failure {
        Failure { asked: Some(AskedNext::NoRetry), ..error.into() }
    }
}

/// A result that is neither a success nor a failure: the same attempt starts again later.
///
/// ```
/// # use schedd::{Again, Run};
/// async fn poll((): (), _: Run) -> schedd::Result<()> {
///     Err(Again::after(std::time::Duration::from_secs(5)))
/// }
/// # let _ = poll;
/// ```
#[derive(Debug)]
pub struct Again(());

impl Again {
    /// Returns the result by which the attempt starts again after `wait`, at most 30 days, with the same
    /// number. An at-most-once run does not start again: it ends as lost.
    ///
    /// ```
    /// # use schedd::Again;
    /// let later = Again::after(std::time::Duration::from_secs(60));
    /// assert_eq!(later.to_string(), "to be started again");
    /// ```
    pub fn after(wait: Duration) -> Failure {
        let asked = AskedNext::Again(wait.min(LONGEST_AGAIN));
        Failure { text: "to be started again".to_owned(), asked: Some(asked) }
    }
}
