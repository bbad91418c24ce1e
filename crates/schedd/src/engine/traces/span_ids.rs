//! The ids of the trace and the span of a run. They are derived from the id of the run, so that all
//! nodes and all attempts use the same ids.

use sha1_smol::Sha1;

use schedd_core::domain::run::trace_context::TraceContext;
use schedd_schedule::names::RunId;

/// Returns the span of `run` in `namespace`. `parent` is the trace of its job. A job without a trace
/// gives each of its runs a trace.
pub(super) fn context_of(
    namespace: &str,
    run: &RunId,
    parent: Option<TraceContext>,
) -> TraceContext {
    let [span, _] = halves(&format!("span {namespace} {run}"));
    if let Some(parent) = parent {
        return parent.with_span(span);
    }
    let [high, low] = halves(&format!("trace {namespace} {run}"));
    TraceContext::recorded((u128::from(high) << 64) | u128::from(low), span)
}

/// Returns the first 16 bytes of the SHA-1 of `text` as two numbers.
fn halves(text: &str) -> [u64; 2] {
    let digest = Sha1::from(text).digest().bytes();
    let number = |from: usize| {
        digest.iter().skip(from).take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
    };
    [number(0), number(8)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_the_same_span_in_its_own_trace_and_in_that_of_its_job() {
        let run: RunId = "backup@1790000000000".parse().unwrap();
        let own = context_of("schedd", &run, None);
        assert_eq!(own, context_of("schedd", &run, None));
        assert!(own.is_recorded());
        let parent = TraceContext::recorded(7, 8);
        let of_job = context_of("schedd", &run, Some(parent));
        assert_eq!((of_job.trace(), of_job.span()), (7, own.span()));
        for other in [
            context_of("other", &run, None),
            context_of("schedd", &"backup@1790000000001".parse().unwrap(), None),
        ] {
            assert!(other.trace() != own.trace() && other.span() != own.span());
        }
    }
}
