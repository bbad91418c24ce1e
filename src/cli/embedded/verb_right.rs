//! The right that each verb needs.

use crate::cli::verbs::Verb;

/// The right that a verb needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VerbRight {
    Read,
    Operate,
    /// Sees values that may be secret.
    Admin,
    /// Defines jobs.
    Define,
    /// The verb runs only on the host where it is typed, and needs no Redis.
    Local,
    /// The verb needs a terminal of its own.
    Interactive,
}

/// Returns the right that a verb needs.
pub(crate) fn right_of(verb: &Verb) -> VerbRight {
    match verb {
        Verb::Next(args) if args.reads_file() => VerbRight::Local,
        Verb::Next(args) if args.changes() => VerbRight::Operate,
        Verb::Doctor(args) if !args.only_reads() => VerbRight::Operate,
        Verb::Top(args) if args.acts() => VerbRight::Operate,
        Verb::Top(args) if args.reads() => VerbRight::Read,
        Verb::Next(_)
        | Verb::Doctor(_)
        | Verb::List(_)
        | Verb::Show(_)
        | Verb::History(_)
        | Verb::Explain(_)
        | Verb::Logs(_)
        | Verb::Describe(_)
        | Verb::Queues(_)
        | Verb::Stats
        | Verb::Nodes
        | Verb::Groups(_)
        | Verb::DataLoss
        | Verb::Graph(_)
        | Verb::Acl(_) => VerbRight::Read,
        Verb::Run(_)
        | Verb::Rerun(_)
        | Verb::Backfill(_)
        | Verb::Cancel(_)
        | Verb::Retry(_)
        | Verb::Purge(_)
        | Verb::Pause(_)
        | Verb::Resume(_)
        | Verb::Queue(_) => VerbRight::Operate,
        Verb::Export(_) | Verb::Diff(_) => VerbRight::Admin,
        Verb::Add(_) | Verb::Apply(_) => VerbRight::Define,
        Verb::Check(_)
        | Verb::Import(_)
        | Verb::Completions(_)
        | Verb::Token(_)
        | Verb::Work(_)
        | Verb::Dashboard(_) => VerbRight::Local,
        Verb::Top(_) => VerbRight::Interactive,
    }
}
