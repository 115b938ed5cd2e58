//! Length of functions: none has more than fifty lines, from its `fn` to its closing brace. Stored outputs (`expect!`) do not count.

use crate::sources::{Source, all, all_crate_sources};

/// Lines that a function may have.
const ALLOWED_LINES: usize = 50;

/// Functions that are too long. The format of the sources is checked, so that a function ends at the first brace in its own column.
fn find_long_functions(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        let lines: Vec<&str> = source.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if let Some(name) = parse_function_name(line)
                && let Some(length) = length(&lines[at..])
                && length > ALLOWED_LINES
            {
                found.push(format!("{}:{}: {name} has {length} lines", source.path, at + 1));
            }
        }
    }
    found
}

fn parse_function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_qualifier = |word: &str| {
        matches!(word, "pub" | "const" | "unsafe" | "async" | "extern" | "\"C\"" | "in") || word.starts_with("pub(")
    };
    before.split_whitespace().all(is_qualifier).then(|| rest.split(['(', '<']).next()).flatten()
}

/// Lines from a function's first to its last, if the function has a body of more than one line.
fn length(lines: &[&str]) -> Option<usize> {
    let first = lines.first()?;
    let indent = &first[..first.len() - first.trim_start().len()];
    if first.ends_with(';') || first.ends_with('}') {
        return None;
    }
    let (body, declaration) = (format!("{indent}}}"), format!("{indent})"));
    let end =
        lines.iter().skip(1).position(|line| *line == body || line.starts_with(&declaration) && line.ends_with(';'))?;
    let stored = count_stored_output_lines(&lines[..end + 2]);
    (lines[end + 1] == body).then_some(end + 2 - stored)
}

/// Lines of stored outputs, which stand between `[[r#"` and `"#]]`.
fn count_stored_output_lines(lines: &[&str]) -> usize {
    let mut inside = false;
    let is_stored = |line: &&&str| {
        let was_inside = inside && !line.contains("\"#]]");
        inside = (inside || line.ends_with("[[r#\"")) && !line.contains("\"#]]");
        was_inside
    };
    lines.iter().filter(is_stored).count()
}

#[test]
fn no_function_has_more_than_fifty_lines() {
    let mut sources = all_crate_sources();
    for folder in [
        "crates/house/tests",
        "crates/core/tests",
        "crates/studies/tests",
        "crates/embed/tests",
        "crates/embed-c/tests",
        "crates/serve/tests",
        "crates/cli/tests",
        "crates/client/tests",
        "benches",
        "fuzz/src",
    ] {
        sources.extend(all(folder));
    }
    crate::at_most(0, &find_long_functions(&sources));
}

#[test]
fn a_function_of_fifty_one_lines_is_found() {
    let planted = |lines: usize| {
        let body = "        a();\n".repeat(lines - 2);
        [Source::new(
            "x.rs",
            &format!("trait T {{\n    fn one() -> u8;\n    pub(crate) const fn f(\n{body}    }}\n}}\n"),
        )]
    };
    assert_eq!(find_long_functions(&planted(50)), [""; 0]);
    assert_eq!(find_long_functions(&planted(51)), ["x.rs:3: f has 51 lines"]);
    let stored = "fn f() {\n    expect![[r#\"\n".to_owned() + &"text\n".repeat(60) + "    \"#]]\n}\n";
    assert_eq!(find_long_functions(&[Source::new("x.rs", &stored)]), [""; 0]);
}
