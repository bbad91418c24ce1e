//! The calls of the verb of an action.

use super::acted_names::ActedNames;
use super::action_field::ActionFieldKind;
use super::action_result::{ActionResult, Outcome};
use super::action_table::OperatorAction;
use crate::cli::embedded::CliFailure;
use crate::cli::embedded::verb_call::{VerbResult, call_verb};
use crate::dashboard::page_request::PageRequest;
use schedd_store::Store;

/// Carries out the action of a form that was sent. Fails if the only outcome is a failure; so nothing
/// was changed.
pub(crate) async fn carry_out(
    store: &Store,
    request: &PageRequest,
) -> Result<ActionResult, CliFailure> {
    let action = OperatorAction::named(request.target.as_deref().unwrap_or_default())?;
    let ActedNames { names, .. } = ActedNames::given(action, request)?;
    let at_once = if action.takes_many { names.len() } else { 1 };
    let mut result = ActionResult::of(action, request);
    let mut left = names.len();
    for names in names.chunks(at_once) {
        let VerbResult { document, errors, warnings, remarks } =
            call_verb(store, &words(action, request, names), false).await?;
        left -= names.len();
        result.outcomes.extend(document.map_or_else(Vec::new, |done| Outcome::all(action, done)));
        result.warnings.extend(warnings.into_iter().chain(remarks));
        let is_away = errors.iter().any(|error| error["kind"] == "unreachable");
        result.errors.extend(errors);
        if is_away && left > 0 {
            let text = format!("The rest was not tried: {left} {}", action.subject.plural());
            result.errors.push(serde_json::json!({"error": text}));
            break;
        }
    }
    result.warnings.sort_unstable();
    result.warnings.dedup();
    match (result.outcomes.as_slice(), result.errors.as_slice()) {
        ([], [only]) => Err(CliFailure::of_json(only)),
        ([], []) => Err(CliFailure::Failed(
            result.warnings.pop().unwrap_or_else(|| "the verb had no result".to_owned()),
        )),
        _ => Ok(result),
    }
}

/// Returns the words of the verb for these names.
fn words(action: &OperatorAction, request: &PageRequest, names: &[String]) -> Vec<String> {
    let settings = action.fields.iter().filter(|field| field.kind == ActionFieldKind::Setting);
    let settings = settings.filter_map(|field| {
        let value = Some(request.parameter(field.name)).filter(|value| !value.is_empty())?;
        Some(format!("{}={value}", field.name))
    });
    let verb = action.verb.iter().map(ToString::to_string);
    let flags = request.flags.iter().cloned();
    let names = std::iter::once("--".to_owned()).chain(names.iter().cloned());
    verb.chain(flags).chain(names).chain(settings).collect()
}
