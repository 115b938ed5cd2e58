//! Commands of the pages of the documentation that need the extension: blocks with the word `integrations` behind the fence. A block
//! `console` has commands behind `$ `, each with what it prints; a block with `file=NAME` is a file for later commands. With
//! `UPDATE_EXPECT=1` in the environment, pages are written anew with what the commands print now.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGES: [&str; 2] = ["my-database", "crash-in-virtual-time"];

/// Returns a new folder with the extension, in which the commands of a page run.
fn folder(page: &str) -> PathBuf {
    let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(page);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    symlink(built.join("libphaselink_sqlite.so"), folder.join("libphaselink_sqlite.so")).unwrap();
    folder
}

/// Returns what a command prints, errors included.
fn printed(command: &str, folder: &Path) -> String {
    let output = Command::new("sh").args(["-c", &format!("( {command} ) 2>&1")]).current_dir(folder).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the lines of a page, with what its commands print now.
fn renewed(page: &str, text: &str) -> String {
    let folder = folder(page);
    let (mut renewed, mut lines) = (String::new(), text.lines());
    while let Some(line) = lines.next() {
        renewed += &format!("{line}\n");
        let Some(words) = line.strip_prefix("```").filter(|words| words.ends_with(" integrations")) else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if let Some(name) = words.split(' ').find_map(|word| word.strip_prefix("file=")) {
            fs::write(folder.join(name), block.join("\n") + "\n").unwrap();
            renewed += &(block.join("\n") + "\n");
        } else {
            assert!(words.starts_with("console "), "{page}: a block of commands is a console");
            for command in block.iter().filter_map(|line| line.strip_prefix("$ ")) {
                renewed += &format!("$ {command}\n{}", printed(command, &folder));
            }
        }
        renewed += "```\n";
    }
    renewed
}

/// True if the programs of the pages are there; with CI set, they have to be.
fn has_programs() -> bool {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let has_all = has("sqlite3") && has("/usr/bin/python3");
    assert!(has_all || std::env::var("CI").is_err(), "sqlite3 or /usr/bin/python3 is missing");
    has_all
}

#[test]
fn sqlite_page_commands_print_the_shown_output() {
    if !has_programs() {
        return println!("sqlite3 or /usr/bin/python3 is not installed: pages are not tested");
    }
    for page in PAGES {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../crates/cli/docs/{page}.md"));
        let text = fs::read_to_string(&file).unwrap();
        let renewed = renewed(page, &text);
        if std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1") {
            fs::write(&file, &renewed).unwrap();
            continue;
        }
        for (number, (shown, printed)) in text.lines().zip(renewed.lines()).enumerate() {
            assert_eq!(shown, printed, "{page}.md:{} (UPDATE_EXPECT=1 renews it)", number + 1);
        }
        assert_eq!(text, renewed, "{page}.md (UPDATE_EXPECT=1 renews it)");
    }
}
