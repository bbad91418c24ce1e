//! The compilers of `env`, `env_file` and `cwd`: the variables and the directory of a job's
//! processes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::config::key::json_sheet::{Form, text_or_list};
use crate::config::key::origin::Reading;
use crate::config::syntax::problem::{Problems, quoted};
use crate::config::syntax::reader::Spot;
use crate::domain::job::env_file::{Absence, EnvFile, is_variable_name};

/// The maximum number of files that `env_file` may list.
const MOST_FILES: usize = 16;

/// Compiles `env = { LANG = "C.UTF-8" }`.
pub(crate) fn compile_env(
    spot: &Spot<'_>,
    problems: &mut Problems,
) -> Option<BTreeMap<String, String>> {
    let table = spot.table("a table such as { LANG = \"C.UTF-8\" }", problems)?;
    let mut env = BTreeMap::new();
    for (name, name_span, value) in table.entries() {
        if !is_variable_name(name) {
            problems.fault(
                &value.path,
                name_span,
                "not a name for a variable, wanted letters, digits and _, with no digit at the start",
            );
        }
        // A variable with a faulty name is left out, so that no later message shows the name. The
        // name may contain the value.
        if let Some(text) = value.text("C.UTF-8", problems).filter(|_| is_variable_name(name)) {
            env.insert(name.to_owned(), text.to_owned());
        }
    }
    Some(env)
}

/// Compiles `env_file = "/etc/schedd/backup.env"`, or a list of files. The files themselves are
/// not read.
pub(crate) fn compile_env_files(
    spot: &Spot<'_>,
    reading: &mut Reading<'_>,
) -> Option<Vec<EnvFile>> {
    let problems = &mut *reading.problems;
    let spots: Vec<Spot<'_>> = match spot.as_items() {
        Some(items) => items.collect(),
        None => vec![spot.clone()],
    };
    if spots.len() > MOST_FILES {
        let count = spots.len();
        spot.fault(problems, format!("found {count} files, wanted at most {MOST_FILES} files"));
        return None;
    }
    let mut files = Vec::new();
    for spot in &spots {
        let file: Option<EnvFile> = spot.parsed("/etc/schedd/backup.env", problems);
        if let Some(file) = &file
            && reading.origin.is_file_of_this_host()
            && file.absence() == Absence::Fault
            && !file.path().exists()
        {
            let path = quoted(&file.path().to_string_lossy());
            problems.warning(
                &spot.path,
                spot.span(),
                format!("file {path} does not exist on this host, so runs here will fail to start"),
            );
        }
        files.push(file);
    }
    files.into_iter().collect()
}

/// Compiles the directory in which a process starts. `None` means that a fault was noted.
pub(crate) fn compile_cwd(spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<PathBuf> {
    let Reading { origin, problems, .. } = reading;
    let path = PathBuf::from(spot.text("/srv/report", problems)?);
    if !path.is_absolute() {
        return spot.wanted(problems, "an absolute path such as \"/srv/report\"");
    }
    if origin.is_file_of_this_host() && !path.is_dir() {
        problems.warning(
            &spot.path,
            spot.span(),
            format!(
                "directory {} does not exist on this host, so runs here will fail to start",
                quoted(&path.to_string_lossy())
            ),
        );
    }
    Some(path)
}

/// Returns texts by name, such as the variables of `env`, as a JSON object.
pub(crate) fn write_texts(texts: &BTreeMap<String, String>) -> Value {
    Value::Object(
        texts.iter().map(|(key, text)| (key.clone(), text.as_str().into())).collect::<Map<_, _>>(),
    )
}

/// Returns the list of `env_file` as JSON.
pub(crate) fn write_env_files(files: &[EnvFile], form: Form) -> Value {
    let texts = files.iter().map(ToString::to_string);
    match form {
        Form::Stored => text_or_list(texts),
        Form::Shown => texts.collect(),
    }
}
