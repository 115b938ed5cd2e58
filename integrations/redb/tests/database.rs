//! redb on modelled drives: commit latency, determinism, and power cuts.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};

use phaselink_embed::{Description, Span};
use phaselink_redb::Storage;
use redb::{Database, Durability, ReadableDatabase, TableDefinition, WriteTransaction};

const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("values");

/// Drives of the table: phase-change memory behind three interfaces, then drives that are or were sold.
const DRIVES: [&str; 8] =
    ["dc-express", "cxl", "nvme", "optane-p4800x", "optane-p5800x", "xl-flash", "tlc-gen5", "tlc-gen4"];

/// Transactions of which a figure of the table is the mean.
const TRANSACTIONS: u64 = 50;

/// Settings of a transaction: one flush, two flushes (two-phase commit), and none.
const SETTINGS: [fn(&mut WriteTransaction); 3] = [
    |_| {},
    |transaction| transaction.set_two_phase_commit(true),
    |transaction| transaction.set_durability(Durability::None).unwrap(),
];

fn open(name: &str) -> Storage {
    Storage::open(&Description::shipped(name).unwrap()).unwrap()
}

fn create(storage: &Storage) -> Result<Database, redb::DatabaseError> {
    Database::builder().create_with_backend(storage.backend())
}

/// Puts a value under all keys from `first` to `first + 3`.
fn put(database: &Database, first: u64, value: u64, set: fn(&mut WriteTransaction)) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    set(&mut transaction);
    {
        let mut table = transaction.open_table(TABLE)?;
        for key in first..first + 4 {
            let bytes = [value; 32].map(u64::to_le_bytes);
            table.insert(key, bytes.as_flattened())?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Times of transactions on a drive.
#[derive(Debug, PartialEq)]
struct Commits {
    mean: Span,
    /// Flushes of each transaction.
    flushes: f64,
    /// Number that depends on the picosecond at which each transaction ended (FNV-1a).
    digest: u64,
}

fn commits(name: &str, set: fn(&mut WriteTransaction)) -> Commits {
    let storage = open(name);
    let database = create(&storage).unwrap();
    put(&database, 0, 0, |_| {}).unwrap();
    let flushes = || {
        let rows = storage.with_drive(|drive| drive.summary());
        rows.iter().find(|row| row.kind.name() == "flush").map_or(0, |row| row.operations)
    };
    let (start, flushes_before) = (storage.now(), flushes());
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for round in 0..TRANSACTIONS {
        put(&database, round * 7 % 100, round, set).unwrap();
        for byte in storage.now().as_ps().to_le_bytes() {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    let mean = Span::from_ps(storage.now().since(start).as_ps() / TRANSACTIONS);
    Commits { mean, flushes: (flushes() - flushes_before) as f64 / TRANSACTIONS as f64, digest }
}

/// Table of commit latencies, as README.md has it.
fn table() -> String {
    let mut table = String::from(
        "| drive | commit (us) | its flushes | two-phase commit (us) | its flushes | without durability (us) |\n\
         |---|---:|---:|---:|---:|---:|\n",
    );
    for name in DRIVES {
        let [one, two, none] = SETTINGS.map(|set| commits(name, set));
        table += &format!(
            "| {name} | {:.2} | {:.1} | {:.2} | {:.1} | {:.2} |\n",
            one.mean.as_us(),
            one.flushes,
            two.mean.as_us(),
            two.flushes,
            none.mean.as_us()
        );
    }
    table
}

#[test]
fn redb_commit_latency_by_drive_matches_the_page() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let page = std::fs::read_to_string(file).unwrap();
    let table = table();
    if std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1") {
        let (before, rest) = page.split_once("| drive |").unwrap();
        let (_, after) = rest.split_once("\n\n").unwrap();
        std::fs::write(file, format!("{before}{table}\n{}", after.trim_start())).unwrap();
        return;
    }
    assert!(page.contains(&table), "README.md has another table than\n{table}");
}

#[test]
fn redb_transactions_repeat_to_the_picosecond() {
    for name in DRIVES {
        let [one, other] = [(); 2].map(|()| commits(name, SETTINGS[0]));
        assert_eq!(one, other, "{name}");
    }
    let digests = DRIVES.map(|name| commits(name, SETTINGS[0]).digest);
    let are_different = (1..DRIVES.len()).all(|place| !digests[..place].contains(&digests[place]));
    assert!(are_different, "{digests:x?}");
}

#[test]
fn redb_on_several_drives_is_refused() {
    let several = Description::shipped("nvme").unwrap().with("drives=2").unwrap();
    let problems = Storage::open(&several).err().expect("a problem").to_string();
    assert!(problems.contains("one drive with power cuts"), "{problems}");
}

/// Values that a database holds, by key; an error if it is damaged.
fn contents(storage: &Storage) -> Result<Vec<u64>, String> {
    let mut database = create(storage).map_err(|error| error.to_string())?;
    let is_whole = database.check_integrity().map_err(|error| error.to_string())?;
    let read = database.begin_read().map_err(|error| error.to_string())?;
    let table = read.open_table(TABLE).map_err(|error| error.to_string())?;
    let values = (0..4).map(|key| {
        let value = table.get(key).map_err(|error| error.to_string())?.ok_or(format!("key {key} is gone"))?;
        let value = value.value();
        let first: [u8; 8] = value[..8].try_into().map_err(|_| "a value is short")?;
        if value.chunks(8).any(|part| part != first) || value.len() != 256 {
            return Err(format!("the value of key {key} is torn"));
        }
        Ok(u64::from_le_bytes(first))
    });
    let values = values.collect::<Result<Vec<u64>, String>>()?;
    if is_whole { Ok(values) } else { Err(String::from("the check of integrity had to repair the database")) }
}

/// Commits values above `committed` until power fails, and returns the value that the database holds when it is opened again; an
/// error if a commit is lost or the database damaged.
fn power_cut(storage: &Storage, committed: u64, requests: u64, seed: u64) -> Result<u64, String> {
    let database = create(storage).map_err(|error| error.to_string())?;
    storage.fail_power_after(requests, seed);
    let mut last = committed;
    while put(&database, 0, last + 1, |_| {}).is_ok() {
        last += 1;
    }
    assert!(storage.has_failed());
    drop(database);
    storage.restart().map_err(|error| error.to_string())?;
    let values = contents(storage)?;
    // The transaction that was in flight may have been committed.
    let is_right = values.iter().all(|value| *value == values[0]) && (last..=last + 1).contains(&values[0]);
    if is_right { Ok(values[0]) } else { Err(format!("the database holds {values:?} after {last} was committed")) }
}

/// Cuts power `rounds` times in the middle of transactions, and returns the number of commits; an error with the number of the
/// first cut after which a commit is lost or the database damaged.
fn power_cuts(name: &str, rounds: u64, skips_sync: bool) -> Result<u64, (u64, String, Vec<String>)> {
    let storage = open(name);
    put(&create(&storage).unwrap(), 0, 0, |_| {}).unwrap();
    if skips_sync {
        storage.skip_sync();
    }
    let mut committed = 0;
    for round in 0..rounds {
        let requests = 1 + round.wrapping_mul(0x9e37_79b9) % 40;
        // redb panics on some kinds of damage.
        let cut = catch_unwind(AssertUnwindSafe(|| power_cut(&storage, committed, requests, round)));
        committed = cut.unwrap_or(Err("redb panicked".into())).map_err(|reason| {
            let cut = storage.last_cut().expect("power has failed");
            (round + 1, reason, cut.explanation())
        })?;
    }
    Ok(committed)
}

/// Power cuts of the long test: ten thousand, or what POWER_CUTS says.
fn rounds() -> u64 {
    std::env::var("POWER_CUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

#[test]
fn redb_survives_power_cuts_without_losing_commits() {
    for (name, rounds) in [("tlc-gen4", rounds() * 8 / 10), ("optane-p5800x", rounds() * 2 / 10)] {
        let commits = power_cuts(name, rounds, false).unwrap_or_else(|failure| panic!("{name}: {failure:?}"));
        println!("{name}: {rounds} power cuts, {commits} commits, none lost");
    }
}

#[test]
fn redb_backend_that_skips_sync_is_detected_in_100_power_cuts() {
    set_hook(Box::new(|_| {}));
    let (round, reason, explanation) = power_cuts("tlc-gen4", 100, true).expect_err("a lost commit");
    println!("without sync_data, tlc-gen4 is caught at power cut {round}: {reason}\n{}", explanation.join("\n"));
    let [losses @ .., replay] = &explanation[..] else { panic!("no explanation") };
    assert!(replay.contains("requests, with seed"), "{replay}");
    let has_rule = |line: &String| line.contains("Flush command") || line.contains("in flight (NVM Express");
    assert!(!losses.is_empty() && losses.iter().all(has_rule), "{losses:?}");
    assert!(losses.iter().any(|line| line.contains("buffer.power_loss_protection = false")), "{losses:?}");
    assert_eq!(power_cuts("tlc-gen4", 100, true), Err((round, reason, explanation)), "the same again");
}
