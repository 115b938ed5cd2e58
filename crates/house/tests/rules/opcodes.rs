//! Commands of NVMe: how many files name an opcode, and how many name an operation of the rules. A new command should need the row
//! that describes it and the code that executes it.

use std::collections::BTreeSet;

use crate::limits::{Counted, Limits};
use crate::sources::Source;
use crate::touches::{count_files_with_paths, product_and_fuzz_sources};

/// Files with opcodes: constants of modules, or rows that begin with a name and a hexadecimal number.
const OPCODES: [&str; 2] =
    ["crates/core/src/protocol/nvme/spec/mod.rs", "crates/core/src/protocol/nvme/commands/mod.rs"];
/// Module to which rows outside a module belong.
const MODULE_OF_ROWS: &str = "opcode";
/// Folder of the enum of operations, and the enum.
const OPERATIONS: (&str, &str) = ("crates/core/src/protocol/nvme/", "Action");

/// Files that may name an opcode or operation: its row, and its execution.
const ALLOWED_FILES: usize = 2;

/// Paths of all opcodes of a file, with their modules.
fn opcode_paths(text: &str) -> BTreeSet<String> {
    let (mut found, mut module) = (BTreeSet::new(), MODULE_OF_ROWS);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("pub mod ") {
            module = rest.trim_end_matches(" {");
        } else if line == "}" {
            module = MODULE_OF_ROWS;
        }
        found.extend(parse_opcode_name(line.trim_start()).map(|name| format!("{module}::{name}")));
    }
    found
}

/// Name of the opcode that a line defines: `pub const READ: u8 = 0x02;`, `READ = 0x02`, `READ 0x02 ...`.
fn parse_opcode_name(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub const ").unwrap_or(line);
    let (name, rest) = line.split_at(line.find(|sign: char| !sign.is_ascii_uppercase() && sign != '_')?);
    let is_number = [": u8 = 0x", " = 0x", " 0x"].iter().any(|middle| rest.starts_with(middle));
    (name.len() > 1 && is_number).then_some(name)
}

/// Path of the file that defines an enum, and the paths of its variants.
fn find_enum_variants(folder: &str, name: &str, sources: &[Source]) -> Option<(String, BTreeSet<String>)> {
    let head = format!("enum {name} {{");
    let source = sources.iter().find(|source| source.path.starts_with(folder) && source.text.contains(&head))?;
    let (_, body) = source.text.split_once(&head)?;
    let column = body.lines().nth(1).map(|line| line.len() - line.trim_start().len())?;
    let rows = body.lines().skip(1).take_while(|line| line.len() >= column || line.trim().is_empty());
    let own = rows.filter_map(|line| line.get(column..).filter(|_| line[..column].trim().is_empty()));
    let names = own.filter(|row| row.starts_with(|sign: char| sign.is_ascii_uppercase()));
    let name_of = |row: &str| row.split(|sign: char| !sign.is_alphanumeric()).next().map(String::from);
    let paths = names.filter_map(name_of).map(|variant| format!("{name}::{variant}"));
    Some((source.path.clone(), paths.collect()))
}

fn touches(sources: &[Source], opcodes_in: &[&str]) -> Counted {
    let mut counts = Counted::new();
    for table in sources.iter().filter(|source| opcodes_in.contains(&source.path.as_str())) {
        counts.extend(count_files_with_paths(&opcode_paths(&table.text), &table.path, sources));
    }
    let (home, paths) = find_enum_variants(OPERATIONS.0, OPERATIONS.1, sources).expect("the enum of operations");
    counts.extend(count_files_with_paths(&paths, &home, sources));
    counts
}

#[test]
fn each_opcode_and_operation_is_named_in_few_source_files() {
    let counts = touches(&product_and_fuzz_sources(), &OPCODES);
    assert!(counts.len() > 40, "opcodes and operations are found: {counts:?}");
    Limits { table: "opcodes", allowed: ALLOWED_FILES, step: 1 }.hold(&counts);
}

#[test]
fn files_that_name_an_opcode_or_operation_variant_are_counted() {
    let table = "/// Opcodes.\npub mod opcode {\n    pub const READ: u8 = 0x02;\n}\n\npub mod admin {\n    \
                 pub const ABORT: u8 = 0x08;\n}\n\nrows! {\n    VERIFY 0x0c in Blocks { media: Read }\n}\n";
    let rules =
        "pub enum Action {\n    Read,\n    Write {\n        force: bool,\n    },\n}\n\nenum Other {\n    None,\n}\n";
    let planted = [
        Source::new("spec.rs", table),
        Source::new("crates/core/src/protocol/nvme/rules.rs", rules),
        Source::new("a.rs", "opcode::READ | opcode::VERIFY => Action::Write { force: Other::None }"),
        Source::new("b.rs", "match action { Action::Write { .. } => admin::ABORT, _ => other_admin::READ }"),
    ];
    let counts = touches(&planted, &["spec.rs"]);
    let counts: Vec<(&str, usize)> = counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    let expected =
        [("Action::Read", 1), ("Action::Write", 3), ("admin::ABORT", 2), ("opcode::READ", 2), ("opcode::VERIFY", 2)];
    assert_eq!(counts, expected);
}
