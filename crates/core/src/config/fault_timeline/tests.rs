//! Tests of the syntax of timelines of faults.

use super::*;
use crate::config::FaultOperation;
use crate::random::Random;

fn read(text: &str) -> Result<Vec<Fault>, String> {
    let told = |problems: Vec<Problem>| problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n");
    FaultTimeline::read_text("t", text).map(|timeline| timeline.0).map_err(told)
}

fn of(action: FaultAction) -> Fault {
    Fault { action, ..Fault::default() }
}

#[test]
fn timeline_lines_become_rules_with_times_and_requests() {
    use FaultAction::*;
    let (ms, s) = (Span::from_ms, Span::from_s);
    for (line, expected) in [
        ("at=2s for=500ms stall", Fault { from: s(2), until: ms(2500), ..of(Stall) }),
        ("at=request:1000 for=20requests error", Fault { first: 1000, times: 20, ..of(Error) }),
        ("error at=request:7", Fault { first: 7, times: 1, ..of(Error) }),
        ("at=request:7 for=1.5ms stall", Fault { first: 7, lasts: Span::from_us(1500), ..of(Stall) }),
        ("slow-down factor=10 at=1s", Fault { from: s(1), factor: 10.0, ..of(SlowDown) }),
        ("error rate=0.01 operation=read", Fault { probability: 0.01, operation: FaultOperation::Read, ..of(Error) }),
        ("lost-completion timeout=1s", Fault { timeout: s(1), ..of(DropCompletion) }),
        (
            "at=3s for=1s link lanes=1 generation=3",
            Fault { from: s(3), until: s(4), lanes: 1, generation: 3, ..of(Retrain) },
        ),
        ("throttle iops=100 mib_per_s=2.5", Fault { rate_iops: 100.0, rate_mib_per_s: 2.5, ..of(Throttle) }),
        ("at=8s for=500ms power-cut", Fault { from: s(8), outage: ms(500), ..of(PowerCut) }),
        (
            "at=request:9 for=1ms power-cut delay=3us",
            Fault {
                at: PowerCutMoment::Request,
                first: 9,
                times: 1,
                outage: ms(1),
                delay: Span::from_us(3),
                ..of(PowerCut)
            },
        ),
        ("at=request:9 from=2s until=4s error", Fault { first: 9, from: s(2), until: s(4), ..of(Error) }),
        ("delay delay=20us every=3", Fault { delay: Span::from_us(20), every: 3, ..of(Delay) }),
    ] {
        assert_eq!(read(line), Ok(vec![expected]), "{line}");
    }
}

#[test]
fn return_line_ends_only_events_without_length() {
    let found = read(
        "# a night\nat=1s throttle iops=5 # slow\nat=2s for=9s error\n\nat=3s power-cut\nat=4s return\nat=5s error",
    )
    .unwrap();
    let ends: Vec<_> = found.iter().map(|fault| fault.until.as_s()).collect();
    assert_eq!(ends, [4.0, 11.0, 0.0, 0.0]);
    assert_eq!(found[2].outage, Span::from_s(1));
}

#[test]
fn wrong_timeline_lines_are_reported_with_the_allowed_form() {
    for (line, found) in [
        ("at=2s stal for=1s", "there is no fault stal, did you mean stall?; allowed: error, delay"),
        ("at=2s for=1s", "no kind of fault; allowed: one of error"),
        ("at=2s stall error", "stall and error; allowed: one of"),
        ("at=2 for=1s stall", "at=2; allowed: at=TIME or at=request:NUMBER, as in at=2s"),
        ("for=1 stall", "for=1; allowed: for=TIME or for=NUMBERrequests, as in for=500ms"),
        ("at=2s stall", "stall has no end; allowed: for=TIME, as in for=500ms, or a later line at=TIME return"),
        ("at=2s for=3requests stall", "the length of stall; allowed: for=TIME"),
        ("at=request:3 for=1s link lanes=1", "link at a request; allowed: at=TIME"),
        ("at=2s for=1s stall factor=3", "factor=3; allowed: at, for, operation"),
        ("error rate=2", "rate=2; allowed: number from 0 to 1"),
        ("delay delay=20", "delay=20; allowed: a time with its unit"),
        ("for=request:5 error", "for=request:5; allowed: for=5requests, which is a count of requests"),
        ("at=20requests error", "at=20requests; allowed: at=request:20, which is the number of a request"),
        ("at=2s from=1s error", "a second beginning or end; allowed: from=TIME with at=request:NUMBER"),
        ("for=2s until=3s error", "a second beginning or end; allowed: from=TIME"),
        ("at=request:3 return", "a return at no time; allowed: at=TIME return"),
        ("error first=3", "first=3; allowed: at, for, operation"),
    ] {
        let problem = read(&format!("\n{line}")).unwrap_err();
        assert!(problem.starts_with("t:2: ") && problem.contains(found), "{line}: {problem}");
    }
}

#[test]
fn fault_rule_prints_as_the_line_it_was_read_from() {
    for line in [
        "at=2s for=500ms stall",
        "at=request:1000 for=20requests error operation=write",
        "at=request:1000 error operation=write",
        "at=request:7 for=1500us stall",
        "at=request:1 for=5ms error",
        "at=request:1 for=5ms stall",
        "at=request:3 throttle until=4s iops=5",
        "at=request:3 slow-down factor=10",
        "at=request:3 for=1requests slow-down factor=10",
        "at=request:5 for=2requests error from=2s until=4s",
        "at=request:5 error until=4s",
        "at=request:4 for=1ms power-cut from=100us",
        "at=1s slow-down factor=10",
        "for=1requests error",
        "error rate=0.01",
        "at=3s for=1s retrain lanes=1 generation=3",
        "at=3s for=1s retrain lanes=1 outage=20us",
        "at=3s for=1s starve-credits direction=to-device",
        "at=2s remove",
        "at=2s for=3us reset",
        "for=2ms throttle iops=100",
        "at=8s for=500ms power-cut",
        "delay every=3 delay=20us",
        "at=0.001ns for=1ns stall",
    ] {
        let fault = read(line).unwrap_or_else(|wrong| panic!("{wrong}")).remove(0);
        assert_eq!(fault.line(), line);
        assert_eq!(read(&fault.line()).unwrap(), [fault], "{line}");
    }
    let returned = read("at=request:5 throttle iops=5\nat=4s return").unwrap().remove(0);
    assert_eq!(returned.line(), "at=request:5 throttle until=4s iops=5");
    assert_eq!(read(&returned.line()).unwrap(), [returned]);
}

/// Function that sets a key of a fault rule to a number.
type FaultKeySetter = fn(&mut Fault, u64);

/// Returns a fault rule with random values in random keys, as a drive file may have it.
fn random_fault_rule(random: &mut Random) -> Fault {
    let action = FaultAction::ALL[(random.bits() % 24) as usize];
    let moment = [PowerCutMoment::Time, PowerCutMoment::Event, PowerCutMoment::Request][(random.bits() % 3) as usize];
    let mut fault = of(action);
    if fault.takes("at") {
        fault.at = moment;
    }
    let set: [(&str, FaultKeySetter); 9] = [
        ("first", |fault, number| fault.first = number),
        ("every", |fault, number| fault.every = number),
        ("times", |fault, number| fault.times = number),
        ("from_us", |fault, number| fault.from = Span::from_us(number)),
        ("until_us", |fault, number| fault.until = Span::from_us(1000 + number)),
        ("for_us", |fault, number| fault.lasts = Span::from_us(number)),
        ("outage_us", |fault, number| fault.outage = Span::from_us(number)),
        ("factor", |fault, number| fault.factor = number as f64),
        ("thread", |fault, number| fault.thread = number as u16),
    ];
    for (key, set) in set {
        if fault.takes(key) && random.bits().is_multiple_of(2) {
            set(&mut fault, 1 + random.bits() % 9);
        }
    }
    fault
}

#[test]
fn random_fault_rule_reads_back_from_its_printed_form() {
    let mut random = Random::stream(1, "lines of trouble");
    let mut lines = 0;
    for _ in 0..20_000 {
        let fault = random_fault_rule(&mut random);
        let line = fault.line();
        if line.starts_with('{') {
            continue;
        }
        lines += 1;
        let found = read_line(&Place::whole("t"), &line);
        assert!(
            matches!(found, Ok(FaultTimelineLine::Event { fault: ref found, .. }) if *found == fault),
            "{line}: {fault:?}"
        );
    }
    assert!(lines > 13_000, "{lines} of 20,000 rules are lines");
    let fault = Fault { first: 2, times: 3, lasts: Span::from_us(5), ..of(FaultAction::Error) };
    assert_eq!(fault.line(), "{ action = \"error\", first = 2, times = 3, for_us = 5 }");
}

#[test]
fn fault_lines_are_distinguished_from_rule_tables() {
    for line in [
        "at=2s for=1s stall",
        "for=1s stall",
        "stall for=1s",
        "error rate=0.5",
        "lost-completion",
        "rate=0.5 error",
        "factor=3 slow-down at=1s",
        "rate=0.5 eror",
        "return",
    ] {
        assert!(is_line(line), "{line}");
    }
    for table in [
        "action = \"error\"",
        "{ action = \"error\" }",
        "every = 4, action = \"error\"",
        "action=\"error\",at=\"time\"",
        "every=4",
        "eror",
        "",
    ] {
        assert!(!is_line(table), "{table}");
    }
}
