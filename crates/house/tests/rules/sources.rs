//! Source files of the workspace: whole, and without their tests and comments.

use std::fs;
use std::path::{Path, PathBuf};

/// Crates to which all rules apply, by their folders below `crates/`.
pub(crate) const CRATES: [&str; 11] =
    ["core", "studies", "embed", "embed-c", "serve", "cli", "phaselink", "ring", "client", "python", "wasm"];

/// One source file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Path from the folder that was read, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Source {
        Source { path: String::from(path), text: String::from(text) }
    }

    /// Path of the file's module from the root of its crate.
    pub(crate) fn module(&self) -> Vec<String> {
        let parts = self.path.trim_end_matches(".rs").split('/');
        parts.filter(|part| !matches!(*part, "lib" | "main" | "mod")).map(String::from).collect()
    }

    fn without_tests_and_comments(&self) -> Source {
        Source::new(&self.path, &strip_comments(strip_tests(&self.text)))
    }
}

/// Root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Text of a file of the repository.
pub(crate) fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Every Rust file below a folder of the repository, in the order of their paths.
pub(crate) fn all(folder: &str) -> Vec<Source> {
    let base = root().join(folder);
    let (mut found, mut open) = (Vec::new(), vec![base.clone()]);
    while let Some(folder) = open.pop() {
        for path in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let name = path.strip_prefix(&base).expect("below the base").to_string_lossy().replace('\\', "/");
                found.push(Source { path: name, text: fs::read_to_string(&path).expect("a source file") });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(!found.is_empty(), "{folder} holds sources");
    found
}

/// Every file of all crates below their `src` folders, with paths from the root of the repository.
pub(crate) fn all_crate_sources() -> Vec<Source> {
    let of_crate = |name: &&str| {
        let folder = format!("crates/{name}/src");
        all(&folder).into_iter().map(move |source| Source::new(&format!("{folder}/{}", source.path), &source.text))
    };
    CRATES.iter().flat_map(of_crate).collect()
}

/// Sources below a folder that are compiled into a product, without tests and comments.
pub(crate) fn product(folder: &str) -> Vec<Source> {
    let sources = all(folder);
    let tests: Vec<String> = sources.iter().flat_map(test_module_paths).collect();
    let is_test = |path: &str| tests.iter().any(|test| path.starts_with(test));
    sources.iter().filter(|source| !is_test(&source.path)).map(Source::without_tests_and_comments).collect()
}

/// Paths without ending of the modules that a file declares for tests alone.
fn test_module_paths(source: &Source) -> Vec<String> {
    let declared = source.text.split("#[cfg(test)]\n").skip(1).filter_map(|rest| {
        let name = rest.lines().next()?.split("mod ").nth(1)?.strip_suffix(';')?;
        Some([source.module(), vec![String::from(name)]].concat().join("/"))
    });
    declared.collect()
}

/// Text before the first test module of a file, which stands last in every file. Single items for tests may stand before it.
fn strip_tests(text: &str) -> &str {
    let is_module = |line: &str| line.contains("mod ") && line.ends_with('{');
    let is_inline = |start: &usize| text[*start..].lines().nth(1).is_some_and(is_module);
    let starts = text.match_indices("#[cfg(test)]\n").map(|(start, _)| start);
    starts.filter(is_inline).min().map_or(text, |start| &text[..start])
}

/// Text without what follows `//` in a line, unless a quote stands before it.
pub(crate) fn strip_comments(text: &str) -> String {
    let code = |line: &str| match line.find("//") {
        Some(at) if !line[..at].contains('"') => String::from(&line[..at]),
        _ => String::from(line),
    };
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}

#[test]
fn tests_and_comments_are_stripped_from_product_sources() {
    let text = "use a; // b\nfn f() { \"//\" }\n#[cfg(test)]\nmod tests {\n    use c;\n}\n";
    let source = Source::new("x.rs", text).without_tests_and_comments();
    assert_eq!(source.text, "use a; \nfn f() { \"//\" }");
    let item = "#[cfg(test)]\nfn g() {\n}\nfn h() {}\n#[cfg(test)]\nmod tests {\n}\n";
    assert_eq!(strip_tests(item), "#[cfg(test)]\nfn g() {\n}\nfn h() {}\n");
    let head = Source::new("media/mod.rs", "#[cfg(test)]\nmod tests;\n#[cfg(test)]\npub(crate) mod samples;\n");
    assert_eq!(test_module_paths(&head), ["media/tests", "media/samples"]);
}
