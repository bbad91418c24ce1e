//! The refusal of a filter, which its form shows with what the reader typed.

use crate::cli::embedded::CliFailure;
use crate::dashboard::shown_text::ShownText;

/// Returns the reason why a filter is refused, with the labels of the form in place of the flags of
/// the verb. Fails with `failure` if the filter is not at fault.
pub(super) fn refused_filter(
    failure: CliFailure,
    labels: &[(&str, &str)],
) -> Result<ShownText, CliFailure> {
    match &failure {
        CliFailure::Invalid(_) | CliFailure::Pointed { .. } | CliFailure::NotFound(_) => {
            let text = failure.lines().join("; ");
            let renamed = labels.iter().fold(text, |text, (flag, label)| text.replace(flag, label));
            Ok(ShownText::new(&renamed))
        }
        _ => Err(failure),
    }
}
