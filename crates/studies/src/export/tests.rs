use super::*;
use crate::report::Answer;
use phaselink_core::drive::Drive;
use phaselink_core::problem::Problems;

fn in_turn(count: usize, run: &(dyn Fn(usize) + Sync)) {
    (0..count).for_each(run);
}

fn question() -> ExportQuestion {
    ExportQuestion {
        bs: vec![4096, 16_384, 65_536],
        iodepth: vec![1, 4, 16],
        rwmixread: vec![100.0, 70.0],
        ios: 3000,
        ..ExportQuestion::default()
    }
}

fn answer(question: &ExportQuestion) -> ExportAnswer {
    let study = question.study(&Drive::shipped("tlc-gen4").expect("a shipped drive")).expect("a study");
    study.answer(&in_turn, &|| false).expect("no problem").expect("an answer")
}

#[test]
fn latency_table_returns_its_conditions_and_refuses_others() {
    let answer = answer(&question());
    assert_eq!(answer.conditions.len(), 18);
    let table = answer.table(table::Level::InFlight, 70.0, "write").expect("writes");
    let simulated = answer
        .conditions
        .iter()
        .find(|condition| (condition.read_percent, condition.bytes, condition.in_flight) == (70.0, 16_384, 4));
    let p50_ns = simulated.and_then(|condition| condition.writes.as_ref()).expect("writes").ns[12];
    assert_eq!((answer.percents[12], table.ns(16_384.0, 4.0, 0.5)), (50.0, Some(p50_ns)));
    for (bytes, in_flight) in [(4095.0, 4.0), (65_537.0, 4.0), (4096.0, 0.0), (4096.0, 17.0)] {
        assert_eq!(table.ns(bytes, in_flight, 0.5), None);
    }
    assert!(answer.table(table::Level::Load, 100.0, "write").is_none());
}

#[test]
fn other_loads_are_checked_against_simulation() {
    let answer = answer(&question());
    let reads: Vec<&LoadCheck> = answer.checks.iter().filter(|check| check.direction == "read").collect();
    assert_eq!((answer.loads.len(), answer.checks.len(), reads.len()), (36, 18, 12));
    for check in reads.iter().filter(|check| check.read_percent == 100.0) {
        let [by_load, by_in_flight] = [check.by_load, check.by_in_flight].map(|of| of.errors(check.simulated)[0]);
        assert!(by_load.abs() < 0.1 && by_in_flight.abs() < 0.15, "{check:?}");
    }
    let axes: Vec<(&str, f64, usize)> =
        answer.left_out.iter().map(|check| (check.axis, check.percent, check.conditions)).collect();
    let levels =
        [("in_flight", 50.0, 9), ("in_flight", 99.0, 9), ("load_percent", 50.0, 36), ("load_percent", 99.0, 36)];
    assert_eq!(axes, [&levels[..], &[("bytes", 50.0, 27), ("bytes", 99.0, 27)]].concat());
    let text = answer.text().within(100, str::to_owned, |table| table.to_string());
    assert!(text.starts_with("tlc-gen4: latencies at 18 conditions and 36 loads"), "{text}");
}

#[test]
fn export_forms_name_drive_axes_and_missing_requests() {
    // A value that is given twice counts once.
    let twice = ExportQuestion { rwmixread: vec![70.0, 100.0, 70.0], ..question() };
    let answer = answer(&ExportQuestion { bs: vec![4096], iodepth: vec![2, 1, 2], ios: 1000, ..twice });
    let [(_, json), (_, csv), (_, header), (_, python)] = answer.files();
    assert!(
        json.contains("\"verb\": \"export\"") && csv.starts_with("read_percent,direction,bytes,in_flight,"),
        "{csv}"
    );
    // Two mixes contain reads and one writes, which makes three tables, each with two numbers of requests in flight and
    // six loads.
    assert_eq!(csv.lines().count(), 1 + 3 * (2 + 6));
    assert!(header.contains("phaselink_in_flight[2] = {1, 2};") && header.contains("-1, -1"));
    assert!(python.contains("READ_PERCENTS = [100, 70]\n") && python.contains("None]"));
    assert!([&header, &python].iter().all(|text| text.contains("tlc-gen4") && !text.contains('@')));
}

#[test]
fn out_of_range_export_values_are_refused_together() {
    let study = |question: ExportQuestion| question.study(&Drive::shipped("nvme").expect("a shipped drive")).map(drop);
    let wrong = ExportQuestion { rwmixread: vec![101.0], ios: 10, rw: String::from("read"), ..question() };
    let Err(Problems(problems)) = study(wrong) else { panic!("a study") };
    assert_eq!(problems.len(), 3, "{problems:?}");
    let many = ExportQuestion { iodepth: (1..=800).collect(), ..question() };
    assert!(study(many).is_err_and(|problems| problems.to_string().contains("conditions: 4800")));
}
