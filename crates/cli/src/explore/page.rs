//! Explorer's page as this server sends it: the page asks the server for answers, instead of a WebAssembly module.

/// Scripts and style sheet of the explorer's page: the name in an `@include` line, and the text that replaces the line.
const PARTS: [(&str, &str); 8] = [
    ("page.css", include_str!("../../page/page.css")),
    ("simulator.js", include_str!("../../page/simulator.js")),
    ("plot.js", include_str!("../../page/plot.js")),
    ("ladder.js", include_str!("../../page/ladder.js")),
    ("examples.js", include_str!("../../page/examples.js")),
    ("settings.js", include_str!("../../page/settings.js")),
    ("desk.js", include_str!("../../page/desk.js")),
    ("page.js", include_str!("../../page/page.js")),
];
const PAGE: &str = include_str!("../../page/index.html");

/// Returns the explorer's page as one HTML document. The WebAssembly module is left out, so that the page asks the
/// server that it comes from.
pub(super) fn page() -> String {
    PAGE.lines().map(line).collect()
}

fn line(line: &str) -> String {
    match line.split_once("@include ") {
        Some(("", name)) => PARTS.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| *text).into(),
        _ if line == "@module" => String::new(),
        _ => format!("{line}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explorer_page_has_all_parts_and_no_unreplaced_placeholder() {
        let page = page();
        assert!(PARTS.iter().all(|(_, text)| page.contains(*text)));
        assert!(
            !page.lines().any(|line| line.starts_with('@') && (line.contains("include") || line.contains("module")))
        );
    }
}
