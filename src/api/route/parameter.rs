//! A parameter of a route, and the values that it takes.

use crate::api::api_problem::ApiProblem;
use schedd_core::domain::name::tag_filter::TagFilter;

/// A parameter of a route.
#[derive(Debug, Clone, Copy)]
pub(in crate::api) struct Parameter {
    pub(in crate::api) name: &'static str,
    /// The flag of the verb, or an empty text for a parameter of the API itself.
    pub(in crate::api) flag: &'static str,
    pub(in crate::api) kind: ParamKind,
    pub(in crate::api) meaning: &'static str,
    /// True if each request needs the parameter.
    pub(in crate::api) is_required: bool,
    /// The name of a parameter that a request may not have beside this one, or an empty text.
    pub(in crate::api) excludes: &'static str,
}

impl Parameter {
    pub(super) const fn new(
        name: &'static str,
        flag: &'static str,
        kind: ParamKind,
        meaning: &'static str,
    ) -> Self {
        Self { name, flag, kind, meaning, is_required: false, excludes: "" }
    }

    /// Returns the parameter as one that each request needs.
    pub(super) const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// Returns the meaning of the parameter, and which parameter it excludes.
    pub(in crate::api) fn description(&self) -> String {
        match self.excludes {
            "" => self.meaning.to_owned(),
            other => format!("{}; not with {other}", self.meaning),
        }
    }

    /// Returns the parameter as one that no request may have beside the parameter `other`.
    pub(super) const fn without(self, other: &'static str) -> Self {
        Self { excludes: other, ..self }
    }
}

/// Returns `problem` in the words of the API: with the names of `parameters` in place of the flags
/// of the verb.
pub(super) fn in_words_of(parameters: &[Parameter], problem: ApiProblem) -> ApiProblem {
    let with_flags = parameters.iter().filter(|parameter| !parameter.flag.is_empty());
    with_flags.fold(problem, |problem, parameter| problem.renaming(parameter.flag, parameter.name))
}

/// The kind of a parameter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) enum ParamKind {
    /// A text.
    Text,
    /// A text that may be given several times; in a body as a list of texts.
    Texts,
    /// A text for a time or a duration. In a query a `+` means a blank, so the `+` of an offset is
    /// restored.
    Time,
    /// A whole number from the first to the second number.
    Number(u32, u32),
    /// True or false. In a query `1` and an empty text are true, `0` is false.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Some of these words, separated by commas.
    Words(&'static [&'static str]),
    /// A tag. It may be given several times; in a body as a list of texts.
    Tags,
    /// All members of the body are words of the verb, such as `limit=3`.
    Settings,
}

impl ParamKind {
    /// Returns the description of a value of this kind, for a message.
    pub(in crate::api) fn wanted(self) -> String {
        match self {
            Self::Text => "a text".to_owned(),
            Self::Texts => "a text, or a list of texts".to_owned(),
            Self::Time => "a text with a time".to_owned(),
            Self::Number(least, u32::MAX) => format!("a whole number from {least}"),
            Self::Number(least, most) => format!("a whole number from {least} to {most}"),
            Self::Switch => "true or false".to_owned(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Words(words) => format!("some of {}, separated by commas", words.join(", ")),
            Self::Tags => "NAME or NAME=VALUE of a tag, or a list of them".to_owned(),
            Self::Settings => "a text, a number, true, false or null".to_owned(),
        }
    }

    /// Returns true if `text` is a value of this kind.
    pub(super) fn takes(self, text: &str) -> bool {
        match self {
            Self::Number(least, most) => {
                let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
                is_number && text.parse().is_ok_and(|number| (least..=most).contains(&number))
            }
            Self::Word(words) => words.contains(&text),
            Self::Words(words) => text.split(',').all(|word| words.contains(&word)),
            Self::Tags => text.parse::<TagFilter>().is_ok(),
            Self::Text | Self::Texts | Self::Time | Self::Switch | Self::Settings => true,
        }
    }
}
