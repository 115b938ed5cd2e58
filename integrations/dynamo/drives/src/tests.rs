use super::*;

fn read(id: u64, bytes: u64) -> TransferJob {
    TransferJob { id, worker: 0, kind: TransferKind::Read, ready_ms: 0.0, bytes }
}

fn write(id: u64, bytes: u64) -> TransferJob {
    TransferJob { kind: TransferKind::Write, ..read(id, bytes) }
}

fn run(transfers: &mut DriveTransfers) -> Vec<CompletedJob> {
    let mut completed = Vec::new();
    while let Some(next_ms) = transfers.next_event_ms() {
        completed.extend(transfers.advance(next_ms));
    }
    completed
}

fn open(settings: &[&str]) -> DriveTransfers {
    let array =
        settings.iter().fold(DriveArray::new("optane-p5800x").unwrap(), |array, setting| array.with(setting).unwrap());
    array.open().unwrap()
}

#[test]
fn every_job_completes_once_with_all_its_bytes() {
    let mut transfers = open(&[]);
    (0..20).for_each(|id| transfers.submit(if id % 3 == 0 { write(id, 1_000_000) } else { read(id, 700_001) }));
    let mut ids: Vec<_> = run(&mut transfers).iter().map(|job| job.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..20).collect::<Vec<_>>());
    let drive_use = transfers.drive_use();
    assert_eq!(drive_use.written_bytes, 7 * 1_000_000u64.next_multiple_of(512));
    assert_eq!(drive_use.read_bytes, 13 * 700_001u64.next_multiple_of(512));
    assert!(!transfers.has_jobs_of(0) && transfers.next_event_ms().is_none());
}

#[test]
fn rate_of_a_large_job_is_that_of_the_drive() {
    let mut transfers = open(&[]);
    transfers.submit(read(1, 1 << 30));
    let gb_per_s = (1u64 << 30) as f64 / 1e6 / run(&mut transfers)[0].at_ms;
    assert!((6.0..8.0).contains(&gb_per_s), "{gb_per_s}");
}

#[test]
fn two_drives_halve_the_time_of_a_large_job() {
    let time_ms = |settings: &[&str]| {
        let mut transfers = open(settings);
        transfers.submit(read(1, 256 << 20));
        run(&mut transfers)[0].at_ms
    };
    let ratio = time_ms(&[]) / time_ms(&["drives=2"]);
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
}

#[test]
fn job_waits_until_it_is_ready() {
    let mut transfers = open(&[]);
    transfers.submit(TransferJob { ready_ms: 5.0, ..read(1, 4096) });
    assert_eq!(transfers.next_event_ms(), Some(5.0));
    assert!(transfers.advance(4.9).is_empty());
    let done = run(&mut transfers);
    assert!((5.0..5.1).contains(&done[0].at_ms), "{done:?}");
}

#[test]
fn reads_delay_writes_at_the_dies_of_flash() {
    let write_ms = |reads: u64| {
        let mut transfers = DriveArray::new("tlc-gen4").unwrap().open().unwrap();
        (0..reads).for_each(|id| transfers.submit(read(100 + id, 64 << 20)));
        transfers.submit(write(1, 512 << 20));
        run(&mut transfers).iter().find(|job| job.id == 1).unwrap().at_ms
    };
    let (among_reads_ms, alone_ms) = (write_ms(64), write_ms(0));
    assert!(among_reads_ms > 1.2 * alone_ms, "{among_reads_ms} {alone_ms}");
}

#[test]
fn cancelled_job_is_not_reported_and_others_complete() {
    let mut transfers = open(&[]);
    transfers.submit(read(1, 64 << 20));
    transfers.submit(read(2, 1 << 20));
    assert!(transfers.advance(0.1).is_empty());
    assert!(transfers.cancel(1) && !transfers.cancel(1) && !transfers.cancel(7));
    let ids: Vec<_> = run(&mut transfers).iter().map(|job| job.id).collect();
    assert_eq!(ids, [2]);
}

#[test]
fn results_do_not_depend_on_how_time_is_advanced() {
    let completions = |step_ms: Option<f64>| {
        let mut transfers = open(&["drives=2"]);
        (0..9).for_each(|id| transfers.submit(if id % 2 == 0 { read(id, 3 << 20) } else { write(id, 2 << 20) }));
        let mut completed = Vec::new();
        while let Some(next_ms) = transfers.next_event_ms() {
            let target_ms = step_ms.map_or(next_ms, |step_ms| transfers.now_ms() + step_ms);
            completed.extend(transfers.advance(target_ms));
        }
        completed
    };
    assert_eq!(completions(None), completions(Some(0.37)));
    assert_eq!(completions(None), completions(Some(50.0)));
}

#[test]
fn wear_counts_the_used_part_of_each_drive() {
    let array = DriveArray::new("optane-p5800x").unwrap().with("drives=2").unwrap().region_bytes(1 << 30);
    let mut transfers = array.open().unwrap();
    transfers.submit(write(1, 4 << 30));
    run(&mut transfers);
    transfers.advance(86_400e3 / 2.0);
    let writes_per_day = transfers.drive_use().drive_writes_per_day();
    assert!((writes_per_day - 4.0).abs() < 0.01, "{writes_per_day}");
}

#[test]
fn waiting_jobs_share_a_drive_equally() {
    let mut transfers = open(&[]);
    transfers.submit(read(1, 1 << 30));
    transfers.submit(read(2, 256 << 20));
    let completed = run(&mut transfers);
    assert_eq!(completed[0].id, 2);
    let ratio = completed[0].at_ms / completed[1].at_ms;
    assert!((ratio - 2.0 / 5.0).abs() < 0.01, "{ratio}");
}

fn staggered(transfers: &mut DriveTransfers) -> Vec<CompletedJob> {
    let mut completed = Vec::new();
    for id in 0..24 {
        completed.extend(transfers.advance(id as f64 * 12.0));
        let bytes = (7 << 20) * (1 + id * id % 11);
        let job = if id % 3 == 2 { write(id, bytes / 2) } else { read(id, bytes) };
        transfers.submit(TransferJob { ready_ms: transfers.now_ms() + 0.1, ..job });
    }
    completed.extend(run(transfers));
    completed.sort_by_key(|job| job.id);
    completed
}

#[test]
fn measured_rates_complete_jobs_when_commands_do() {
    for (drive, settings) in
        [("tlc-gen4", [].as_slice()), ("optane-p5800x", &["drives=2"]), ("tlc-gen4", &["fabric.preset=nvme-tcp-spdk"])]
    {
        let array = DriveArray::new(drive).unwrap().command_bytes(512 << 10);
        let array = settings.iter().fold(array, |array, setting| array.with(setting).unwrap());
        let by_commands = staggered(&mut array.open().unwrap());
        let by_rates = staggered(&mut array.by_measured_rates().open().unwrap());
        let ratios = by_commands.iter().zip(&by_rates).map(|(exact, fast)| {
            let began_ms = exact.id as f64 * 12.0;
            (fast.at_ms - began_ms) / (exact.at_ms - began_ms)
        });
        let ratios: Vec<_> = ratios.collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        assert_eq!(ratios.len(), 24);
        assert!(ratios.iter().all(|ratio| (0.75..1.1).contains(ratio)), "{drive} {settings:?}: {ratios:?}");
        assert!((0.9..1.05).contains(&mean), "{drive} {settings:?}: {mean}");
    }
}
