//! The variables of a job's processes: those in its text, and the files with more of them.

use std::collections::BTreeMap;

use crate::config::key::origin::Origin;
use crate::config::syntax::problem::{Problems, quoted};
use crate::config::syntax::reader::Spot;
use crate::domain::job::env_file::{Absence, EnvFile, is_variable_name};

/// The maximum number of files that `env_file` may list.
const MOST_FILES: usize = 16;

/// Compiles `env = { LANG = "C.UTF-8" }`.
pub(crate) fn compile_env(spot: &Spot<'_>, problems: &mut Problems) -> Option<BTreeMap<String, String>> {
    let table = spot.table("a table such as { LANG = \"C.UTF-8\" }", problems)?;
    let mut env = BTreeMap::new();
    for (name, name_span, value) in table.entries() {
        if !is_variable_name(name) {
            problems.fault(&value.path, name_span, "not a variable's name, wanted letters, digits and _, no digit first");
        }
        // A variable with a faulty name is left out, so that no later message shows it: the name
        // may contain the value.
        if let Some(text) = value.text("C.UTF-8", problems).filter(|_| is_variable_name(name)) {
            env.insert(name.to_owned(), text.to_owned());
        }
    }
    Some(env)
}

/// Compiles `env_file = "/etc/schedd/backup.env"`, or a list of files. The files themselves are
/// not read.
pub(crate) fn compile_env_files(spot: &Spot<'_>, origin: Origin<'_>, problems: &mut Problems) -> Option<Vec<EnvFile>> {
    let spots: Vec<Spot<'_>> = match spot.as_items() {
        Some(items) => items.collect(),
        None => vec![spot.clone()],
    };
    if spots.len() > MOST_FILES {
        return spot.wanted(problems, format_args!("at most {MOST_FILES} files"));
    }
    let mut files = Vec::new();
    for spot in &spots {
        let file: Option<EnvFile> = spot.parsed("/etc/schedd/backup.env", problems);
        if let (Some(file), Origin::File { .. }) = (&file, origin)
            && file.absence() == Absence::Fault
            && !file.path().exists()
        {
            let path = quoted(&file.path().to_string_lossy());
            problems.warning(&spot.path, spot.span(), format!("no file {path} on this host: runs will fail to start"));
        }
        files.push(file);
    }
    files.into_iter().collect()
}
