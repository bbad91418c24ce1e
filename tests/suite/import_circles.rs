//! Import circles between the source files: sets of files of which each needs all the others, so that none can be read alone.
//!
//! A file imports another file by a `use` or by a path in its code. A path is followed through re-exports to the file that
//! defines its item. A re-export from a child is no import of the child. Code under `#[cfg(test)]` does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The texts of the files by their modules, such as `schedd_store::runs::claims`.
type Texts = BTreeMap<String, String>;

/// The files that each file imports, by their modules.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Returns the length of the comment, text or character that `code` begins with.
fn skipped(code: &str) -> Option<usize> {
    if code.starts_with("//") {
        return Some(code.find('\n').unwrap_or(code.len()));
    }
    let raw =
        code.strip_prefix('r').map(|raw| (raw, raw.len() - raw.trim_start_matches('#').len()));
    if let Some((raw, hashes)) = raw.filter(|(raw, hashes)| raw[*hashes..].starts_with('"')) {
        let end = format!("\"{}", "#".repeat(hashes));
        return raw[hashes + 1..].find(&end).map(|at| hashes + 2 + at + end.len());
    }
    let quote = code.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let is_lifetime =
        quote == '\'' && !code.starts_with("'\\") && code.chars().nth(2) != Some('\'');
    let mut is_escaped = false;
    let end = code.char_indices().skip(1).find(|(_, c)| {
        let is_end = *c == quote && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_end
    });
    end.filter(|_| !is_lifetime).map(|(at, _)| at + 1)
}

/// Returns the code without comments, texts and test items, and the names of its test modules.
fn code_of(text: &str) -> (String, Vec<String>) {
    const TEST: &str = "#[cfg(test)]";
    let (mut code, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let length = skipped(rest);
        code.extend(length.is_none().then_some(first));
        rest = &rest[length.unwrap_or(first.len_utf8())..];
    }
    let mut modules = Vec::new();
    while let Some(at) = code.find(TEST) {
        let mut depth = 0;
        let end = code[at..].find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0 && matches!(c, '}' | ';')
        });
        let item: String = code.drain(at..end.map_or(code.len(), |end| at + end + 1)).collect();
        let module = item.trim_start_matches(TEST).trim().strip_prefix("mod ");
        modules.extend(module.map(|rest| rest.trim_end_matches(';').to_owned()));
    }
    (code, modules)
}

/// Appends the paths of a `use` tree to `paths`, each with the name that it gets.
fn flatten(tree: &str, before: &str, paths: &mut Vec<(String, String)>) {
    let Some((prefix, rest)) = tree.split_once('{') else {
        let (path, alias) = tree.trim().split_once(" as ").unwrap_or((tree.trim(), ""));
        let path = format!("{before}{path}").trim_end_matches("::self").to_owned();
        let name =
            if alias.is_empty() { path.rsplit("::").next().unwrap_or_default() } else { alias };
        return paths.extend((!name.is_empty()).then(|| (path.clone(), name.to_owned())));
    };
    let mut depth = 0;
    let parts = rest.trim_end().trim_end_matches('}').split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    parts.for_each(|part| flatten(part, &format!("{before}{}", prefix.trim()), paths));
}

/// Returns the whole path of `path` in the file `module`, with the name of its crate. Returns `None` if it leads to no crate of
/// the project.
fn whole(texts: &Texts, module: &str, path: &str) -> Option<String> {
    let below =
        |module: &str, path: &str| format!("{module}::{path}").trim_start_matches("::").to_owned();
    let first = |path: &str| path.split("::").next().unwrap_or_default().to_owned();
    if let Some(rest) = path.strip_prefix("crate::") {
        return Some(below(&first(module), rest));
    }
    if texts.contains_key(&first(path)) {
        return Some(path.to_owned());
    }
    let (mut at, mut rest) = (module, path.strip_prefix("self::").unwrap_or(path));
    while let Some(above) = rest.strip_prefix("super::") {
        (at, rest) = (at.rsplit_once("::").map_or("", |(parent, _)| parent), above);
    }
    let is_child = || texts.contains_key(&below(module, &first(path)));
    (rest != path || is_child()).then(|| below(at, rest))
}

/// Returns the file that defines the item of a whole path. `names` has the imported names of each file.
fn defining(
    texts: &Texts,
    names: &BTreeMap<(String, String), String>,
    path: &str,
) -> Option<String> {
    let mut module = path;
    while !texts.contains_key(module) {
        module = module.rsplit_once("::")?.0;
    }
    let rest = path[module.len()..].trim_start_matches("::");
    let (name, behind) = rest.split_once("::").unwrap_or((rest, ""));
    match names.get(&(module.to_owned(), name.to_owned())) {
        Some(target) => {
            defining(texts, names, format!("{target}::{behind}").trim_end_matches("::"))
        }
        None => Some(module.to_owned()),
    }
}

/// Returns which files import which.
fn imports(texts: &Texts) -> Imports {
    let (mut codes, mut test_modules) = (BTreeMap::new(), BTreeSet::new());
    for (module, text) in texts {
        let (code, modules) = code_of(text);
        test_modules.extend(modules.iter().map(|name| format!("{module}::{name}")));
        codes.insert(module.clone(), code);
    }
    let is_test = |module: &str| {
        test_modules.iter().any(|test| module == test || module.starts_with(&format!("{test}::")))
    };
    let (mut names, mut paths) = (BTreeMap::new(), Vec::new());
    for (module, code) in codes.iter().filter(|(module, _)| !is_test(module)) {
        let mut statements = code.as_str();
        while !statements.is_empty() {
            let (statement, behind) = statements.split_once(';').unwrap_or((statements, ""));
            statements = behind;
            let line = statement.rmatch_indices("use ").map(|(at, _)| at).find(|at| {
                let before = statement[..*at].rsplit('\n').next().unwrap_or_default().trim();
                before.is_empty() || before.starts_with("pub")
            });
            let (other, tree) = line
                .map_or((statement, ""), |at| (&statement[..at], &statement[at + "use ".len()..]));
            let (mut used, is_public) =
                (Vec::new(), other.trim_end().ends_with("pub") || other.trim_end().ends_with(')'));
            flatten(tree, "", &mut used);
            for (path, name) in used {
                let Some(path) = whole(texts, module, &path) else { continue };
                names.insert((module.clone(), name), path.clone());
                paths.push((module.clone(), path, is_public));
            }
            let words = other
                .split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
                .filter(|word| word.contains("::"));
            let inline = words.filter_map(|word| whole(texts, module, word));
            paths.extend(inline.map(|path| (module.clone(), path, false)));
        }
    }
    let mut imports = Imports::new();
    for (module, path, is_public) in paths {
        let Some(target) = defining(texts, &names, &path) else { continue };
        let is_facade = is_public && target.starts_with(&format!("{module}::"));
        if target != module && !is_facade {
            imports.entry(module).or_default().insert(target);
        }
    }
    imports
}

/// Returns all circles: the largest sets of files of which each leads to each by imports.
fn circles(imports: &Imports) -> BTreeSet<BTreeSet<&str>> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for module in imports.keys() {
        let (mut seen, mut open) = (BTreeSet::new(), vec![module.as_str()]);
        while let Some(next) = open.pop() {
            open.extend(
                imports
                    .get(next)
                    .into_iter()
                    .flatten()
                    .map(String::as_str)
                    .filter(|target| seen.insert(*target)),
            );
        }
        reached.insert(module, seen);
    }
    let mut circles = BTreeSet::new();
    for (module, seen) in reached.iter().filter(|(module, seen)| seen.contains(*module)) {
        let leads_back =
            |other: &&str| reached.get(other).is_some_and(|others| others.contains(module));
        circles.insert(seen.iter().copied().filter(leads_back).collect());
    }
    circles
}

/// Appends the texts of the Rust files below `dir` by their modules.
fn read(dir: &Path, module: &str, texts: &mut Texts) {
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let own = if name == "mod" || name == "lib" {
            module.to_owned()
        } else {
            format!("{module}::{name}").trim_start_matches("::").to_owned()
        };
        if path.is_dir() {
            read(&path, &own, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.insert(own, fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn no_source_files_import_each_other_in_a_circle() {
    let mut texts = BTreeMap::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    read(&root.join("src"), "schedd_programs", &mut texts);
    for package in fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap()) {
        let name = package.file_name().to_string_lossy().into_owned();
        let library = if name == "schedd" { name } else { format!("schedd_{name}") };
        read(&package.path().join("src"), &library, &mut texts);
    }
    assert!(texts.len() > 500, "{} files", texts.len());
    let imports = imports(&texts);
    if let Some(circle) = circles(&imports).into_iter().next() {
        let within = |module: &str| {
            imports[module]
                .iter()
                .filter(|target| circle.contains(target.as_str()))
                .collect::<Vec<_>>()
        };
        let lines: Vec<String> =
            circle.iter().map(|module| format!("{module} imports {:?}", within(module))).collect();
        panic!("import circle:\n{}", lines.join("\n"));
    }
}

fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let texts =
        files.iter().map(|(module, text)| (format!("schedd::{module}"), (*text).to_owned()));
    let texts = texts.chain([("schedd".to_owned(), String::new())]).collect();
    let short = |module: &str| module.trim_start_matches("schedd::").to_owned();
    circles(&imports(&texts))
        .into_iter()
        .map(|circle| circle.into_iter().map(short).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn a_circle_is_found_through_facades_trees_and_paths() {
    let facade = ("a", "mod b;\nmod c;\n\npub use b::{B, F};\npub(crate) use c::C;\n");
    assert_eq!(
        circles_of(&[facade, ("a::b", "use crate::x::{y::Z, W};\n"), ("a::c", "use super::B;\n")]),
        [""; 0]
    );
    let (tree, path) = (
        ("a::b", "use crate::{a::{C as D}, x::Y};\n"),
        ("a::c", "fn f() -> u8 {\n    super::b::g()\n}\n"),
    );
    assert_eq!(circles_of(&[facade, tree, path]), ["a::b a::c"]);
    assert_eq!(circles_of(&[facade, tree, ("a::c", "use super::b::g as h;\n")]), ["a::b a::c"]);
    assert_eq!(
        circles_of(&[("a", "mod b;\n\nuse b::B;\n"), ("a::b", "use super::Settings;\n")]),
        ["a a::b"]
    );
    assert_eq!(
        circles_of(&[
            ("a", "mod b;\n\nfn f() {\n    b::g()\n}\n"),
            ("a::b", "use super::Settings;\n")
        ]),
        ["a a::b"]
    );
}

#[test]
fn comments_texts_and_tests_make_no_circle() {
    let used = ("a", "use crate::b::B;\n");
    for text in [
        "/// See [`crate::a::A`].\n",
        "const T: &str = \"\\\" crate::a::A\";\nconst C: char = '\"';\n",
        "const T: &str = r#\" \" crate::a::A\"#;\n",
        "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n    fn f() {}\n}\n",
        "#[cfg(test)]\nmod b_tests;\n",
        "fn f<'a>(text: &'a str) -> &'a str {\n    text\n}\n",
    ] {
        let tests = ("b::b_tests", "use super::B;\nuse crate::a::A;\n");
        assert_eq!(circles_of(&[used, ("b", text), tests]), [""; 0], "{text}");
    }
    assert_eq!(circles_of(&[used, ("b", "#[cfg(test)]\nuse x::y;\nuse crate::a::A;\n")]), ["a b"]);
}
