//! The header of a Lua script: the table of its keys and arguments.
//!
//! The table gives Rust the order of a call's keys and arguments. It gives Lua the names: the keys
//! as fields of `k`, and the arguments as local variables. The loader also writes the check of the
//! keys' types.
//!
//! - `-- Keys: a, b:hash (a note), c:any`: the keys. The type follows from the name of the key's
//!   family, or stands after the colon. The script itself deals with the type of an `any` key.
//! - `-- Keys of each item: ...`: the keys that follow, once for each item of a call.
//! - `-- Gates: ...`: the keys of the gates in the argument `gates` are the last keys.
//! - `-- Args: ...` and `-- Args of each item: ...`: the arguments. With `now`, the script reads the
//!   clock: `now` in ms and `micros`.

use std::fmt::Write;

use super::redis_keys::KeyOwner;
use schedd_core::domain::consistency::{FAMILIES, SINGLE_KEYS};

/// The keys and arguments that the header of a script names.
#[derive(Default)]
pub(super) struct Header {
    pub(super) keys: Vec<HeaderKey>,
    pub(super) item_keys: Vec<HeaderKey>,
    pub(super) args: Vec<String>,
    pub(super) item_args: Vec<String>,
    pub(super) has_gates: bool,
}

/// A key that a header names.
pub(super) struct HeaderKey {
    pub(super) name: String,
    /// The owner of the key, from which its full name follows. `None` if the caller gives the key.
    pub(super) owner: Option<KeyOwner>,
    /// The Redis type that the key must have, or `any`. `None` if the header names neither a type
    /// nor a known family.
    pub(super) kind: Option<String>,
}

impl Header {
    /// Reads the header of `source`: the comment before the first empty line.
    pub(super) fn read(source: &str) -> Self {
        let mut header = Self::default();
        for (title, text) in sections(source) {
            match title {
                "Keys" => header.keys = names_in(&text).map(HeaderKey::read).collect(),
                "Keys of each item" => {
                    header.item_keys = names_in(&text).map(HeaderKey::read).collect();
                }
                "Gates" => header.has_gates = true,
                "Args" => header.args = names_in(&text).collect(),
                "Args of each item" => header.item_args = names_in(&text).collect(),
                _ => {}
            }
        }
        header
    }

    /// Returns the Lua code that names the keys and arguments for `body` and checks the types of
    /// the keys.
    pub(super) fn prologue(&self, body: &str) -> String {
        let mut code = String::new();
        if !self.keys.is_empty() {
            let keys = fields("KEYS", self.keys.iter().map(|key| &*key.name), "");
            let _ = writeln!(code, "local k = {{{keys}}}");
        }
        for (at, arg) in self.args.iter().enumerate() {
            let _ = match &**arg {
                "now" => writeln!(code, "local now, micros = clock(ARGV[{}])", at + 1),
                name => writeln!(code, "local {name} = ARGV[{}]", at + 1),
            };
        }
        let types = types_of(&self.keys);
        if !types.is_empty() {
            let _ = writeln!(code, "local bad = wrong_type({{{types}}})");
            code.push_str("if bad then return bad end\n");
        }
        if self.has_gates {
            code.push_str("k.gates = gates_of(gates)\n");
        }
        self.name_items(body, &mut code);
        code
    }

    /// Adds the functions by which `body` reads the items of a call.
    fn name_items(&self, body: &str, code: &mut String) {
        let (keys, args) = (self.item_keys.len(), self.item_args.len());
        let (first_key, first_arg) = (self.keys.len(), self.args.len());
        if keys + args == 0 {
            return;
        }
        let _ = match args {
            0 => writeln!(code, "local item_count = (#KEYS - {first_key}) / {keys}"),
            _ => writeln!(code, "local item_count = (#ARGV - {first_arg}) / {args}"),
        };
        if body.contains("item_args()") {
            let _ = writeln!(
                code,
                "local function item_args() return unpack(ARGV, {}) end",
                first_arg + 1
            );
        }
        if body.contains("item(") {
            let key_fields = fields("KEYS", self.item_keys.iter().map(|key| &*key.name), "i + ");
            let arg_fields = fields("ARGV", self.item_args.iter().map(String::as_str), "o + ");
            let _ = write!(
                code,
                "local of_all = {{__index = k}}
local function item(at)
  local i, o = {first_key} + (at - 1) * {keys}, {first_arg} + (at - 1) * {args}
  return setmetatable({{{key_fields}{arg_fields}}}, of_all)
end
"
            );
        }
        if body.contains("wrong_item_type(") {
            let types = types_of(&self.item_keys);
            let _ = write!(
                code,
                "local function wrong_item_type(at)
  local k = item(at)
  return wrong_type({{{types}}})
end
"
            );
        }
    }
}

impl HeaderKey {
    fn read(text: String) -> Self {
        let (name, kind) = match text.split_once(':') {
            Some((name, kind)) => (name.to_owned(), Some(kind.to_owned())),
            None => (text, None),
        };
        let kind = kind.or_else(|| type_of(&name).map(str::to_owned));
        Self { owner: KeyOwner::of(&name), name, kind }
    }
}

/// Returns the sections of a header: the title before a colon, and the text up to the next section.
fn sections(source: &str) -> Vec<(&str, String)> {
    let mut sections: Vec<(&str, String)> = Vec::new();
    for line in source.lines().take_while(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("--  ") {
            if let Some((_, text)) = sections.last_mut() {
                text.push_str(rest);
            }
        } else if let Some((title, text)) =
            line.strip_prefix("-- ").and_then(|rest| rest.split_once(':'))
        {
            sections.push((title, text.to_owned()));
        }
    }
    sections
}

/// Returns the names in a list, without the notes in parentheses.
fn names_in(text: &str) -> impl Iterator<Item = String> {
    let mut depth = 0_u32;
    let bare: String = text
        .chars()
        .filter(|c| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => return depth == 0,
            }
            false
        })
        .collect();
    bare.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>().into_iter()
}

/// Returns the Redis type of the key `name` by its family. A name such as `old_due` has the type of
/// `due`.
fn type_of(name: &str) -> Option<&'static str> {
    let find = |name: &str| {
        let known = SINGLE_KEYS.iter().chain(&FAMILIES).find(|(known, _)| *known == name);
        known.map(|(_, kind)| *kind)
    };
    find(name).or_else(|| find(name.rsplit_once('_')?.1))
}

/// Returns Lua fields: each name with its element of `array`. `from` is the Lua text before the
/// position in the list.
fn fields<'a>(array: &str, names: impl Iterator<Item = &'a str>, from: &str) -> String {
    names.enumerate().fold(String::new(), |mut text, (at, name)| {
        let _ = write!(text, "{name} = {array}[{from}{}], ", at + 1);
        text
    })
}

/// Returns the Lua list of the checked keys and their types.
fn types_of(keys: &[HeaderKey]) -> String {
    keys.iter().fold(String::new(), |mut text, key| {
        // A wrong type of the counters of changes must not stop a change, see `count_change`.
        if let Some(kind) = key.kind.as_ref().filter(|kind| *kind != "any" && key.name != "nudge") {
            let _ = write!(text, "k.{}, '{kind}', ", key.name);
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_keys_and_arguments_and_notes_are_left_out() {
        let header = Header::read(
            "#!lua\n-- Does a thing.\n-- Guard: none, or\n--   all.\n-- Keys: run, old_due (of the lane (as read), or\n--   none), key:any\n-- Keys of each item: job\n-- Args: now, id\n-- Args of each item: lane, by (or '')\n\n-- Args: no\n",
        );
        let names = |keys: &[HeaderKey]| {
            keys.iter().map(|key| (key.name.clone(), key.kind.clone())).collect::<Vec<_>>()
        };
        let typed = |name: &str, kind: &str| (name.to_owned(), Some(kind.to_owned()));
        assert_eq!(
            names(&header.keys),
            [typed("run", "hash"), typed("old_due", "zset"), typed("key", "any")]
        );
        assert_eq!(names(&header.item_keys), [typed("job", "hash")]);
        assert_eq!((header.args, header.item_args.len()), (vec!["now".into(), "id".into()], 2));
    }
}
