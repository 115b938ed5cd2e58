//! The front page and those of `docs/`: their blocks are run (`common/page.rs` says how), what they name exists, and those
//! that are made from tables of the program are up to date.
#![cfg(unix)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::common::page::{self, Block, blocks, compare};
use crate::common::{DOCS, ROOT, printed};
use serde_json::Value;

/// A test for each page, so that they run side by side.
macro_rules! pages {
    ($($test:ident = $name:literal)+) => {
        $(
            #[test]
            fn $test() {
                page::run(concat!("crates/cli/docs/", $name, ".md"));
            }
        )+

        const PAGES: &[&str] = &[$($name),+];
    };
}

pages! {
    tutorial = "tutorial" guide = "guide" model_my_drive = "model-my-drive" read_a_report = "read-a-report" tails = "tails"
    which_interface = "which-interface" serve_to_qemu = "serve-to-qemu" attach_over_the_network = "attach-over-the-network" several_hosts = "several-hosts" sweep_on_a_cluster = "sweep-on-a-cluster"
    fio = "fio" traces = "traces" hosts = "hosts" validation = "validation" media = "media" flash = "flash" sweep = "sweep" fit = "fit" data_sheet = "data-sheet" json = "json"
    dma = "dma" serve = "serve" crash = "crash" faults = "faults" torture = "torture" python = "python" library = "library" embed = "embed"
    my_database = "my-database" crash_in_virtual_time = "crash-in-virtual-time"
    explorer = "explorer" reports = "reports" ecc = "ecc" models = "models" one_request = "one-request" one_served_command = "one-served-command"
    adding_a_memory = "adding-a-memory" adding_a_protocol = "adding-a-protocol" adding_a_front_end = "adding-a-front-end"
    adding_a_policy = "adding-a-policy"
    cloud_volumes = "cloud-volumes"
    flash_drive = "flash-drive"
    zones = "zones"
    placement = "placement"
    key_value = "key-value"
    find_operation_decisions = "decisions" break_even_time = "break-even" gpu_storage = "gpu-storage" search_and_databases = "search-and-databases" what_if = "what-if" inference = "inference"
    flash_as_memory = "flash-as-memory"
    local_or_remote = "local-or-remote"
    export = "export"
}

#[test]
fn front_page_blocks_run() {
    page::run("README.md");
}

/// Pages that are made here.
const MADE: [&str; 2] = ["commands", "keys"];
/// Pages that are made by tests of the core, from tables that nobody else sees.
const MADE_BY_CORE: [&str; 1] = ["stages"];
/// Blocks that no test runs.
const NOT_RUN: usize = 12;

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The files with blocks: the front page, and those of the folder.
fn pages_with_blocks() -> Vec<String> {
    let made = MADE.iter().chain(&MADE_BY_CORE);
    let pages = PAGES.iter().chain(made).map(|name| format!("{DOCS}/{name}.md"));
    pages.chain([String::from("README.md")]).collect()
}

#[test]
fn pages_of_the_folder_are_tested_and_in_the_contents() {
    let entries = fs::read_dir(Path::new(ROOT).join(DOCS)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let found: BTreeSet<String> =
        names.filter(|name| name.ends_with(".md")).map(|name| format!("{DOCS}/{name}")).collect();
    let mut known: BTreeSet<String> = pages_with_blocks().into_iter().filter(|file| file.starts_with(DOCS)).collect();
    let contents = read(&format!("{DOCS}/SUMMARY.md"));
    for file in &known {
        assert!(contents.contains(&format!("]({})", &file[DOCS.len() + 1..])), "{file} is not in docs/SUMMARY.md");
    }
    known.insert(format!("{DOCS}/SUMMARY.md"));
    assert_eq!(found, known);
}

/// What keeps a block from being tested, if anything does.
fn problem(file: &str, block: &Block) -> Option<&'static str> {
    match block.kind() {
        "console" | "sh" | "usage" | "toml" | "json" => None,
        // The tests of the Python package run the Python examples of all pages.
        "python" => None,
        "c" => block.value("file").is_none().then_some("C is compiled by a command, as a file"),
        "rust" => {
            let name = file.strip_prefix("crates/cli/").unwrap_or(file);
            let includes = |source: &str| read(source).contains(name);
            let is_tried = includes("crates/cli/src/lib.rs") || includes("crates/embed/src/lib.rs");
            let is_tried = is_tried || includes("integrations/redb/src/lib.rs");
            let is_tried =
                is_tried || ["docs/adding-a-protocol.md", "docs/adding-a-policy.md", "docs/library.md"].contains(&name);
            (!is_tried).then_some("nothing compiles this page")
        }
        "text" => {
            let is_command = |line: &&str| line.starts_with("$ ") || line.starts_with("phaselink ");
            block.lines.iter().any(is_command).then_some("a text with a command")
        }
        _ => Some("not a kind of block that is tested"),
    }
}

#[test]
fn policy_page_code_equals_the_source() {
    let core = |file: &str| read(&format!("crates/core/src/{file}"));
    let sources = core("media/translation/policy/greedy.rs") + &core("config/policies.rs");
    let text = read(&format!("{DOCS}/adding-a-policy.md"));
    let code: Vec<String> =
        blocks(&text).iter().filter(|block| block.kind() == "rust").map(|block| block.text()).collect();
    assert_eq!(code.len(), 2);
    code.iter().for_each(|code| assert!(sources.contains(code), "not in the tree:\n{code}"));
}

#[test]
fn all_page_blocks_are_of_a_tested_kind() {
    let mut left_out = Vec::new();
    for file in pages_with_blocks() {
        let text = read(&file);
        for block in blocks(&text) {
            assert_eq!(problem(&file, &block), None, "{file}:{}", block.number);
            left_out.extend(block.value("not-run").map(|why| format!("{file}:{}: {why}", block.number)));
        }
    }
    assert_eq!(left_out.len(), NOT_RUN, "{}", left_out.join("\n"));
}

/// Lines that are code without a fence around it: indented behind a blank line, and part of no list.
fn unfenced_code_lines(text: &str) -> Vec<usize> {
    let (mut found, mut fenced, mut in_list, mut blank) = (Vec::new(), false, false, true);
    for (number, line) in text.lines().enumerate() {
        fenced ^= line.starts_with("```");
        if !fenced && blank && !in_list && line.starts_with("    ") {
            found.push(number + 1);
        }
        if !line.is_empty() && !line.starts_with(' ') {
            in_list = line.starts_with(|start: char| start.is_ascii_digit() || "-*".contains(start));
        }
        blank = line.is_empty();
    }
    found
}

#[test]
fn all_code_of_pages_is_fenced() {
    for file in pages_with_blocks() {
        assert_eq!(unfenced_code_lines(&read(&file)), [0; 0], "{file}");
    }
    assert_eq!(unfenced_code_lines("text\n\n    phaselink run\n\n- item\n\n    more of it\n"), [3]);
}

/// Commands of the program with their help.
fn commands() -> BTreeMap<String, String> {
    let help = printed("--help");
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names =
        list.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).filter(|name| !name.is_empty());
    names.filter(|name| *name != "help").map(|name| (name.into(), printed(&format!("{name} --help")))).collect()
}

/// What is wrong with a line `phaselink COMMAND ... --flag ...`: the words of another program behind a pipe or a quote count not.
fn wrong_command_word(line: &str, commands: &BTreeMap<String, String>) -> Option<String> {
    let mut words = line.split([' ', '`', '[', ']', '(', ')']).skip(1).skip_while(|word| word.starts_with('-'));
    let name = words.next()?;
    if name.is_empty() || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        return None;
    }
    let Some(help) = commands.get(name) else { return Some(format!("no command {name}")) };
    let own = words.take_while(|word| !word.contains(['|', ';', '\'', '"']));
    let flags = own.filter(|word| word.starts_with("--")).map(|word| word.split('=').next().unwrap_or(word));
    let flags = flags.map(|flag| flag.trim_end_matches(|end: char| !end.is_ascii_alphanumeric()));
    let is_known = |flag: &&str| help.split([' ', ',', '[', '=', '\n']).any(|word| word == *flag);
    flags.filter(|flag| !flag.is_empty()).find(|flag| !is_known(flag)).map(|flag| format!("no flag {flag} of {name}"))
}

#[test]
fn commands_and_flags_named_in_prose_exist() {
    let commands = commands();
    for file in pages_with_blocks() {
        let text = read(&file);
        let synopses: Vec<&str> =
            blocks(&text).into_iter().filter(|block| block.kind() == "usage").flat_map(|block| block.lines).collect();
        let spans = text.split('`').filter(|span| !span.contains("\n\n"));
        for line in spans.chain(synopses).filter(|line| line.starts_with("phaselink ")) {
            assert_eq!(wrong_command_word(&line.replace('\n', " "), &commands), None, "{file}: {line}");
        }
    }
    assert!(wrong_command_word("phaselink walk nvme", &commands).is_some());
    assert!(wrong_command_word("phaselink run nvme --bss 4k", &commands).is_some());
    assert!(wrong_command_word("phaselink run nvme --bs=4k -O direct=1", &commands).is_none());
}

#[test]
fn make_targets_named_in_pages_exist() {
    let makefile = read("Makefile");
    for file in pages_with_blocks() {
        for span in read(&file).split('`').filter_map(|span| span.strip_prefix("make ")) {
            let target = span.split([' ', '\n']).next().unwrap();
            assert!(makefile.contains(&format!("\n{target}:")), "{file}: make {target}");
        }
    }
}

/// `[`name`](….rs)`, of a text.
fn names_linked_to_files(text: &str) -> Vec<(&str, &str)> {
    let links = text.split("[`").skip(1).filter_map(|rest| rest.split_once("`](")?.into());
    links
        .filter_map(|(name, rest)| Some((name, rest.split(')').next()?)))
        .filter(|(_, file)| file.ends_with(".rs"))
        .collect()
}

/// Whether a file defines a function, a type or a module of this name.
fn defines_name(source: &str, name: &str) -> bool {
    let last = name.rsplit("::").next().unwrap().trim_end_matches("()");
    ["fn ", "struct ", "enum ", "trait ", "mod ", "macro_rules! ", "const "].iter().any(|kind| {
        source.match_indices(&format!("{kind}{last}")).any(|(place, found)| {
            !source[place + found.len()..].starts_with(|next: char| next.is_alphanumeric() || next == '_')
        })
    })
}

#[test]
fn functions_named_on_pages_are_in_the_named_files() {
    let mut seen = 0;
    for file in pages_with_blocks().into_iter().chain([String::from("ARCHITECTURE.md")]) {
        let folder = Path::new(&file).parent().unwrap().to_owned();
        let text = read(&file);
        for (name, source) in names_linked_to_files(&text).into_iter().filter(|(name, _)| !name.ends_with(".rs")) {
            let code = read(folder.join(source).to_str().unwrap());
            let owner = name.rsplit("::").nth(1).unwrap_or("");
            // A module may be a folder.
            let is_there = defines_name(&code, name) && code.contains(owner) || source.contains(&format!("/{name}/"));
            assert!(is_there, "{file}: {name} in {source}");
            seen += 1;
        }
    }
    assert!(seen >= 30, "{seen} functions");
    assert!(!defines_name("fn on_work_done() {}", "on_work"));
}

/// What heads a page that is made.
const RENEWED: &str = "<!-- Made by a test, from the program's own tables; `make snapshots` renews it. -->";

#[test]
fn commands_page_equals_the_help() {
    let name = "crates/cli/docs/commands.md";
    let mut text = format!(
        "# The command line\n\n{RENEWED}\n\nWhat `phaselink COMMAND --help` prints. A [drive](keys.md) is a name or a file; \
         jobs are fio's ([fio.md](fio.md)).\n"
    );
    for (command, help) in commands() {
        text += &format!("\n## {command}\n\n```text\n{}\n```\n", fenced(&help));
    }
    compare(name, &read(name), &text);
}

/// Help in a fence: examples are indented there, so that no line of it is taken for a command of the page.
fn fenced(help: &str) -> String {
    help.lines().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n").trim_end().into()
}

#[test]
fn keys_page_equals_the_schema() {
    let name = "crates/cli/docs/keys.md";
    let schema: Value = serde_json::from_str(&printed("check --schema")).unwrap();
    compare(name, &read(name), &keys(&schema));
}

fn keys(schema: &Value) -> String {
    let mut text = format!(
        "# Keys of a drive file\n\n{RENEWED}\n\nEvery key, what it may hold and what it means. The last word of a key is its unit. \
         `phaselink check --schema` prints the same as a JSON Schema, `phaselink check DRIVE` the keys of a drive with their values \
         and where these come from. [models.md](models.md) has the formulas that they go into.\n\nA file starts from a drive with \
         `preset`, and a section from a row of presets with a `preset` of its own; files may lie on each other \
         ([a drive of your own](model-my-drive.md)).\n\n## At the head\n\n"
    );
    let properties = schema["properties"].as_object().unwrap();
    let (sections, head): (Vec<_>, Vec<_>) = properties.iter().partition(|(_, schema)| schema["type"] == "object");
    text += &table(head.iter().copied());
    let presets: BTreeMap<&str, String> = ["dma", "host", "link", "media", "power", "root_complex", "stack"]
        .map(|section| (section, read(&format!("crates/core/presets/{section}.toml"))))
        .into();
    for (section, schema) in sections {
        text += &format!("\n## {section}\n\n{}.\n", about(schema).trim_end_matches('.'));
        text += &presets.get(section.as_str()).map_or(String::new(), |file| rows(section, file));
        text += "\n";
        text += &table(schema["properties"].as_object().unwrap().iter().filter(|(key, _)| *key != "preset"));
    }
    text
}

/// The presets of a section, and the file that has the source of each constant.
fn rows(section: &str, file: &str) -> String {
    let rows: toml::Table = file.parse().unwrap();
    let mut text = format!(
        "\nPresets ([{section}.toml](../../core/presets/{section}.toml) has the source of each constant):\n\n| preset | |\n|---|---|\n"
    );
    for (name, row) in rows {
        text += &format!("| `{name}` | {} |\n", row.get("summary").and_then(toml::Value::as_str).unwrap_or(""));
    }
    text
}

fn about(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or("")
}

/// Keys with what they may hold; those of the items of a list stand below it.
fn table<'a>(keys: impl Iterator<Item = (&'a String, &'a Value)>) -> String {
    let mut text = String::from("| key | default | allowed | |\n|---|---|---|---|\n");
    for (key, schema) in keys {
        text += &row(key, schema);
        let items = schema["items"]["properties"].as_object();
        for (item, schema) in items.into_iter().flatten() {
            text += &row(&format!("{key}[].{item}"), schema);
        }
    }
    text
}

fn row(key: &str, schema: &Value) -> String {
    let default = match &schema["default"] {
        Value::Null => String::new(),
        Value::Array(items) => (if items.is_empty() { "none" } else { "" }).into(),
        value => format!("`{value}`"),
    };
    format!("| `{key}` | {default} | {} | {} |\n", allowed(schema), about(schema).replace('|', "\\|"))
}

fn allowed(schema: &Value) -> String {
    let code = |value: &Value| format!("`{}`", value.to_string().trim_matches('"'));
    if let Some(choices) = schema["enum"].as_array() {
        return choices.iter().map(code).collect::<Vec<_>>().join(", ");
    }
    match (&schema["minimum"], &schema["maximum"], schema["type"].as_str()) {
        (Value::Number(least), Value::Number(most), _) if most.as_u64() == Some(u64::MAX) => format!("from {least} on"),
        (Value::Number(least), Value::Number(most), _) => format!("{least} to {most}"),
        (_, _, Some("number" | "integer")) => String::from("a number"),
        (_, _, Some("boolean")) => String::from("`true`, `false`"),
        (_, _, Some("array")) => String::from("a list"),
        (_, _, Some("string")) => String::from("text"),
        _ => String::from("a name, or the path of a file"),
    }
}
