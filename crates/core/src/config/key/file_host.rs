//! The host whose files and accounts a jobs file names.
//!
//! Invariant: the text of another host opens no file here, and no message about the text depends on
//! the files and accounts of this host. Otherwise whoever may send a text could look at this host.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::config::syntax::problem::quoted;
use crate::files;
use crate::files::{OpenError, Owners, Way};

/// The maximum size of an iCalendar file, in bytes.
const MAX_CALENDAR_BYTES: u64 = 4 * 1024 * 1024;

/// The host whose files and accounts a jobs file names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileHost<'a> {
    /// This host.
    Here,
    /// Another host, which sent these files with the jobs file, by path.
    Other(&'a BTreeMap<String, String>),
}

impl FileHost<'_> {
    /// Returns true if the named files are on this host.
    pub(crate) fn is_here(self) -> bool {
        matches!(self, Self::Here)
    }

    /// Returns the text of an iCalendar file, and the reason why another user may have written the
    /// file. Fails with the rest of a sentence about the file.
    pub(crate) fn calendar(self, path: &Path) -> Result<(String, Option<String>), String> {
        let Self::Other(sent) = self else { return read_calendar(path) };
        let absent = "did not come with the request, wanted schedctl of the version of this schedd";
        let text = sent.get(&*path.to_string_lossy()).ok_or(absent)?;
        Ok((text.clone(), None))
    }
}

/// Returns the path of the iCalendar file that the jobs file `file_name` calls `name`. Relative paths
/// start at the directory of the jobs file.
pub(crate) fn calendar_path(file_name: &str, name: &str) -> PathBuf {
    let directory = Path::new(file_name).parent();
    directory.map_or_else(|| PathBuf::from(name), |directory| directory.join(name))
}

/// Reads the iCalendar files that the jobs file `file_name` with this text names, by path. The second
/// part is the warnings about them. Fails with one line. A text that is no TOML names no files.
pub fn calendars_of(
    text: &str,
    file_name: &str,
) -> Result<(BTreeMap<String, String>, Vec<String>), String> {
    let root: toml::Table =
        text.strip_prefix('\u{feff}').unwrap_or(text).parse().unwrap_or_default();
    let tables = root.get("calendars").and_then(toml::Value::as_table);
    let names = tables.into_iter().flat_map(toml::Table::values);
    let (mut files, mut warnings) = (BTreeMap::new(), Vec::new());
    for name in names.filter_map(|table| table.get("file")?.as_str()) {
        let path = calendar_path(file_name, name);
        let shown = quoted(&path.to_string_lossy());
        let (text, doubt) =
            read_calendar(&path).map_err(|why| format!("{file_name}: file {shown} {why}"))?;
        warnings.extend(doubt.map(|doubt| doubt_of_calendar(&path, &doubt)));
        files.insert(path.to_string_lossy().into_owned(), text);
    }
    Ok((files, warnings))
}

/// Returns the warning about an iCalendar file that another user may have written.
pub(crate) fn doubt_of_calendar(path: &Path, doubt: &str) -> String {
    let shown = quoted(&path.to_string_lossy());
    format!("another user may write {shown} and so change when jobs run: {doubt}")
}

/// Reads an iCalendar file of this host. Fails if the file is not a regular file or has more than
/// [`MAX_CALENDAR_BYTES`].
fn read_calendar(path: &Path) -> Result<(String, Option<String>), String> {
    let cannot = |error: std::io::Error| format!("cannot be read: {error}");
    let owners = Owners::of_this_process();
    let opened = files::open(path, &owners, Way::Links).map_err(|error| match error {
        OpenError::Io(error) => cannot(error),
        OpenError::Kind(_) => "is not a regular file, wanted an iCalendar file".to_owned(),
    })?;
    if let Some(doubt) = opened.doubt.as_ref().filter(|_| owners.are_of_root()) {
        return Err(format!(
            "may be written by another user, so jobs of root cannot use the file: {doubt}"
        ));
    }
    let mut bytes = Vec::new();
    opened.file.take(MAX_CALENDAR_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MAX_CALENDAR_BYTES {
        return Err("has more than 4 MiB, wanted at most 4 MiB".to_owned());
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| "is not UTF-8, wanted an iCalendar file".to_owned())?;
    Ok((text, opened.doubt))
}
