//! A parameter of a route.

/// A parameter of a route.
#[derive(Debug, Clone, Copy)]
pub(in crate::api) struct Parameter {
    pub(in crate::api) name: &'static str,
    /// The flag of the verb, or an empty text for a parameter of the API itself.
    pub(in crate::api) flag: &'static str,
    pub(in crate::api) kind: ParamKind,
    pub(in crate::api) meaning: &'static str,
}

/// The kind of a parameter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) enum ParamKind {
    /// A text.
    Text,
    /// A whole number.
    Number,
    /// True or false. In a query `1` and an empty text are true, `0` is false.
    Switch,
    /// A text that may be given several times; in a body a list of texts.
    Texts,
    /// All members of the body are words of the verb, such as `limit=3`.
    Settings,
}

impl ParamKind {
    /// Returns the description of a value of this kind, for a message.
    pub(super) const fn wanted(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Number => "a whole number",
            Self::Switch => "true or false",
            Self::Texts => "a text or a list of texts",
            Self::Settings => "an object",
        }
    }
}
