//! Replays of a short trace: what drives change in it, and that their two levels of detail agree.

use std::io::Write;
use std::path::PathBuf;

use phaselink_dynamo::DriveArray;
use phaselink_dynamo_replay::{EngineTiers, Replayed, TierRates, rates_alone, replay_with_drives, replay_with_rates};

/// Writes a trace of conversations: each user comes back when the others' blocks have displaced those of the user from
/// accelerator memory and host memory.
fn trace_of_returning_users(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("phaselink-{name}-{}.jsonl", std::process::id()));
    let mut file = std::fs::File::create(&path).unwrap();
    for number in 0..120u64 {
        let (user, turn) = (number % 30, number / 30);
        let blocks = 8 + 4 * turn;
        let ids: Vec<_> = (0..blocks).map(|block| (user * 100 + block).to_string()).collect();
        let (timestamp, length) = (number * 900, blocks * 512);
        let ids = ids.join(", ");
        writeln!(
            file,
            r#"{{"timestamp": {timestamp}, "input_length": {length}, "output_length": 50, "hash_ids": [{ids}]}}"#
        )
        .unwrap();
    }
    path
}

/// Returns an engine whose memories hold the blocks of few users.
fn engine() -> EngineTiers {
    let memories =
        EngineTiers { accelerator_bytes: 6_000_000_000, host_bytes: 4_000_000_000, ..EngineTiers::small_model() };
    EngineTiers { storage_bytes: 100_000_000_000, speedup: 4.0, ..memories }
}

fn p99_ms(replayed: &Replayed) -> f64 {
    replayed.figure("p99_ttft_ms").unwrap()
}

fn array() -> DriveArray {
    DriveArray::new("tlc-gen4").unwrap().command_bytes(128 << 10)
}

#[test]
fn command_after_command_is_slower_than_bytes_divided_by_bandwidth() {
    let trace = trace_of_returning_users("depth");
    let rates = rates_alone(&array()).unwrap();
    let plain = replay_with_rates(&trace, &engine(), rates, 1.0).unwrap();
    let deep = replay_with_drives(&trace, &engine(), &array().by_measured_rates(), 1.0).unwrap();
    let shallow = replay_with_drives(&trace, &engine(), &array().depth(1).by_measured_rates(), 1.0).unwrap();
    let (plain, deep, shallow) = (p99_ms(&plain), p99_ms(&deep), p99_ms(&shallow));
    assert!((0.8..1.5).contains(&(deep / plain)), "{plain} {deep}");
    assert!(shallow > 2.0 * plain, "{plain} {shallow}");
}

#[test]
fn measured_rates_give_the_times_that_commands_do() {
    let trace = trace_of_returning_users("detail");
    let by_commands = replay_with_drives(&trace, &engine(), &array(), 1.0).unwrap();
    let by_rates = replay_with_drives(&trace, &engine(), &array().by_measured_rates(), 1.0).unwrap();
    for figure in ["mean_ttft_ms", "p99_ttft_ms"] {
        let ratio = by_rates.figure(figure).unwrap() / by_commands.figure(figure).unwrap();
        assert!((0.95..1.05).contains(&ratio), "{figure}: {ratio}");
    }
    let (commands, rates) = (by_commands.drives.unwrap(), by_rates.drives.unwrap());
    assert_eq!((commands.read_bytes, commands.written_bytes), (rates.read_bytes, rates.written_bytes));
    assert!(commands.read_bytes > 10_000_000_000, "{commands:?}");
    assert_eq!(commands.failed_commands, 0);
}

#[test]
fn replay_with_drives_is_the_same_twice() {
    let trace = trace_of_returning_users("twice");
    let replay = || replay_with_drives(&trace, &engine(), &array().by_measured_rates(), 2.0).unwrap();
    let (first, second) = (replay(), replay());
    assert_eq!(first.drives, second.drives);
    assert_eq!(p99_ms(&first), p99_ms(&second));
}

#[test]
fn drives_of_a_host_and_remote_drives_serve_a_tier() {
    let trace = trace_of_returning_users("several");
    let replay = |settings: &[&str]| {
        let array = settings.iter().fold(array(), |array, setting| array.with(setting).unwrap());
        replay_with_drives(&trace, &engine(), &array.by_measured_rates(), 1.0).unwrap()
    };
    let four = replay(&["drives=4"]);
    assert_eq!(four.drives.unwrap().drives, 4);
    let (local, remote) = (replay(&[]), replay(&["fabric.preset=nvme-tcp-kernel"]));
    assert!(p99_ms(&four) < p99_ms(&local));
    assert!(p99_ms(&local) < p99_ms(&remote), "{} {}", p99_ms(&local), p99_ms(&remote));
}

#[test]
fn tier_larger_than_the_drives_is_refused() {
    let trace = trace_of_returning_users("large");
    let large = EngineTiers { storage_bytes: 3_000_000_000_000, ..engine() };
    let error = replay_with_drives(&trace, &large, &array(), 1.0).unwrap_err().to_string();
    assert!(error.contains("take more drives or a smaller tier"), "{error}");
    let unlimited = TierRates { read_gb_per_s: 0.0, write_gb_per_s: 0.0 };
    assert!(replay_with_rates(&trace, &large, unlimited, 1.0).unwrap().drives.is_none());
}
