//! The fields of the form of an action.

/// A field of a form. Its name is that of a parameter of the action's route, which stands for a flag
/// of the verb or for a setting.
#[derive(Debug)]
pub(super) struct ActionField {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    /// The values that the field takes, in words.
    pub(super) hint: &'static str,
    pub(super) kind: ActionFieldKind,
}

/// The kind of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionFieldKind {
    /// A text for a flag of the verb.
    Text,
    /// A flag without a value.
    Switch,
    /// The value of a setting, which the verb takes as `NAME=VALUE` behind the name of its target.
    Setting,
    /// A text that selects what is previewed. The form that acts has it hidden.
    Window,
}

impl ActionField {
    pub(super) const fn new(
        kind: ActionFieldKind,
        name: &'static str,
        label: &'static str,
        hint: &'static str,
    ) -> Self {
        Self { name, label, hint, kind }
    }

    pub(super) fn is_switch(&self) -> bool {
        self.kind == ActionFieldKind::Switch
    }

    /// Returns true if the field belongs to the form of the preview.
    pub(super) fn is_of_preview(&self) -> bool {
        self.kind == ActionFieldKind::Window
    }
}
