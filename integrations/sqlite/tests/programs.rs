//! The extension in real programs: SQLite's own, and Python's SQLite under power cuts.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The extension, as cargo has built it.
fn extension() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    ["libphaselink_sqlite.so", "libphaselink_sqlite.dylib"]
        .map(|name| folder.join(name))
        .into_iter()
        .find(|it| it.exists())
        .unwrap()
}

/// Says what is missing for a test; with CI set, that is a failure.
fn missing(what: &str) {
    assert!(std::env::var("CI").is_err(), "{what}");
    println!("{what}: not tested");
}

/// Output and errors of a script of SQLite's program; none without that program.
fn sqlite3_with_errors(script: &str) -> Option<(String, String)> {
    let program = Command::new("sqlite3").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut program) = program else {
        missing("sqlite3 is not installed");
        return None;
    };
    program.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = program.wait_with_output().unwrap();
    let [output, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Some((output, errors))
}

/// Output of a script of SQLite's program that makes no error; none without that program.
fn sqlite3(script: &str) -> Option<String> {
    let (output, errors) = sqlite3_with_errors(script)?;
    assert_eq!(errors, "");
    Some(output)
}

/// Script of a thousand transactions on a drive.
fn thousand_transactions(drive: &str) -> String {
    let extension = extension();
    let mut script = format!(
        ".load {}\n.open 'file:x.db?vfs=phaselink&drive={drive}'\npragma temp_store = memory;\n\
         create table t(key integer primary key, value text);\nselect phaselink_time_us(), phaselink_flushes();\n",
        extension.display()
    );
    for key in 0..1000 {
        script += &format!("insert into t values({key}, 'value {key}');\n");
    }
    script
        + "select phaselink_time_us(), phaselink_flushes();\nselect count(*), sum(length(value)) from t;\n\
              select phaselink_report();\n"
}

#[test]
fn flush_cost_of_a_thousand_transactions_differs_by_drive() {
    let drives = ["tlc-gen4", "tlc-gen5", "optane-p5800x", "dc-express"];
    let mut times = Vec::new();
    for drive in drives {
        let Some(text) = sqlite3(&thousand_transactions(drive)) else { return };
        let rows: Vec<&str> = text.lines().collect();
        let figures = |row: &str| -> Vec<f64> { row.split('|').map(|cell| cell.parse().unwrap()).collect() };
        let (before, after) = (figures(rows[0]), figures(rows[1]));
        assert_eq!(rows[2], "1000|8890", "{text}");
        println!(
            "{drive}: {:.0} us and {} flushes a transaction",
            (after[0] - before[0]) / 1000.0,
            (after[1] - before[1]) / 1000.0
        );
        times.push((after[0] - before[0], after[1] - before[1], text.contains("flushes, ")));
        assert_eq!(sqlite3(&thousand_transactions(drive)), Some(text), "the same again");
    }
    let [volatile, others @ ..] = &times[..] else { unreachable!() };
    assert!(volatile.1 >= 3000.0 && volatile.2, "{volatile:?}");
    assert!(others.iter().all(|other| other.1 == 0.0 && other.0 * 5.0 < volatile.0), "{times:?}");
}

/// Result of `power_cuts.py` with these arguments behind the extension; none without a Python that loads extensions.
fn power_cuts(arguments: &str) -> Option<String> {
    let can_load = |python: &&str| {
        let probe = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)";
        Command::new(python).args(["-c", probe]).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(can_load) else {
        missing("no Python loads SQLite extensions");
        return None;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/power_cuts.py");
    let arguments = arguments.split(' ');
    let output = Command::new(python).arg(script).arg(extension()).args(arguments.clone()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: String = String::from_utf8_lossy(&output.stdout).trim().into();
    println!("{}: {found}", arguments.collect::<Vec<_>>().join(" "));
    Some(found)
}

#[test]
fn sqlite_full_sync_loses_nothing_in_a_thousand_power_cuts() {
    for mode in ["wal", "truncate", "persist"] {
        if let Some(found) = power_cuts(&format!("{mode} full 1000")) {
            assert!(found.starts_with("clean after 1000") && !found.contains("lost"), "{mode}: {found}");
        }
    }
}

/// SQLite deletes the journal to commit, and syncs the directory only with EXTRA: with FULL, a journal that comes back takes the
/// last commit back, as a whole.
#[test]
fn deleted_journals_need_synchronous_extra_to_lose_nothing() {
    if let Some(found) = power_cuts("delete full 1000 allow-lost") {
        assert!(found.starts_with("clean after 1000"), "{found}");
    }
    if let Some(found) = power_cuts("delete extra 1000") {
        assert!(found.starts_with("clean after 1000") && !found.contains("lost"), "{found}");
    }
}

#[test]
fn sqlite_without_sync_is_detected() {
    for mode in ["delete", "wal"] {
        if let Some(found) = power_cuts(&format!("{mode} off 200")) {
            assert!(found.starts_with("caught"), "{mode}: {found}");
            let lines: Vec<&str> = found.lines().collect();
            let [_, losses @ .., files, replay] = &lines[..] else { panic!("{found}") };
            let has_rule = |line: &&str| line.contains("Flush command") || line.contains("in flight (NVM Express");
            assert!(!losses.is_empty() && losses.iter().all(has_rule), "{mode}: {found}");
            assert!(
                files.contains("x.db begins at 32768") && replay.contains("requests, with seed"),
                "{mode}: {found}"
            );
        }
    }
}

#[test]
fn unknown_or_missing_drive_name_refuses_to_open() {
    for uri in ["file:y.db?vfs=phaselink", "file:y.db?vfs=phaselink&drive=tlc-gen44"] {
        let script = format!(".load {}\n.open '{uri}'\n", extension().display());
        let Some((_, errors)) = sqlite3_with_errors(&script) else { return };
        assert!(errors.contains("needs a drive") || errors.contains("tlc-gen4"), "{errors}");
    }
}

#[test]
fn second_sqlite_connection_waits_for_the_first_transaction() {
    let Some(text) = sqlite3(&format!(
        ".load {}\n.open 'file:z.db?vfs=phaselink&drive=optane-p5800x'\ncreate table t(key);\n\
         .connection 1\n.open 'file:z.db?vfs=phaselink&drive=optane-p5800x'\ninsert into t values(1);\n\
         .connection 0\nselect count(*) from t;\npragma phaselink;\n",
        extension().display()
    )) else {
        return;
    };
    assert!(text.starts_with("1\noptane-p5800x: "), "{text}");
}

#[test]
fn sqlite_function_without_a_drive_explains_how_to_open_one() {
    let script = format!(".load {}\nselect phaselink_report();\n", extension().display());
    let Some((_, errors)) = sqlite3_with_errors(&script) else { return };
    assert!(errors.contains("not on a modelled drive: .open 'file:x.db?vfs=phaselink"), "{errors}");
}
