//! Tests of the grammar of trouble.

use super::*;
use crate::config::FaultOperation;

fn read(text: &str) -> Result<Vec<Fault>, String> {
    let told = |problems: Vec<Problem>| problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n");
    TroubleTimeline::read_text("t", text).map(|timeline| timeline.0).map_err(told)
}

fn of(action: FaultAction) -> Fault {
    Fault { action, ..Fault::default() }
}

#[test]
fn lines_are_read_into_rules_with_their_times_and_requests() {
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
                at: FaultMoment::Request,
                first: 9,
                times: 1,
                outage: ms(1),
                delay: Span::from_us(3),
                ..of(PowerCut)
            },
        ),
        ("delay delay=20us every=3", Fault { delay: Span::from_us(20), every: 3, ..of(Delay) }),
    ] {
        assert_eq!(read(line), Ok(vec![expected]), "{line}");
    }
}

#[test]
fn a_return_ends_what_has_no_length_and_nothing_else() {
    let found = read(
        "# a night\nat=1s throttle iops=5 # slow\nat=2s for=9s error\n\nat=3s power-cut\nat=4s return\nat=5s error",
    )
    .unwrap();
    let ends: Vec<_> = found.iter().map(|fault| fault.until.as_s()).collect();
    assert_eq!(ends, [4.0, 11.0, 0.0, 0.0]);
    assert_eq!(found[2].outage, Span::from_s(1));
}

#[test]
fn wrong_lines_are_told_with_their_place_what_is_allowed_and_what_to_write() {
    for (line, found) in [
        ("at=2s stal for=1s", "there is no trouble stal, did you mean stall?; allowed: error, delay"),
        ("at=2s for=1s", "no kind of trouble; allowed: one of error"),
        ("at=2s stall error", "stall and error; allowed: one of"),
        ("at=2 for=1s stall", "at=2; allowed: at=TIME or at=request:NUMBER, as in at=2s"),
        ("for=1 stall", "for=1; allowed: for=TIME or for=NUMBERrequests, as in for=500ms"),
        ("at=2s stall", "stall has no end; allowed: for=TIME, as in for=500ms, or a later line at=TIME return"),
        ("at=2s for=3requests stall", "the length of stall; allowed: for=TIME"),
        ("at=request:3 for=1s link lanes=1", "link at a request; allowed: at=TIME"),
        ("at=2s for=1s stall factor=3", "factor=3; allowed: at, for, operation"),
        ("error rate=2", "rate=2; allowed: number from 0 to 1"),
        ("delay delay=20", "delay=20; allowed: a time with its unit"),
        ("at=request:3 return", "a return at no time; allowed: at=TIME return"),
        ("error first=3", "first=3; allowed: at, for, operation"),
    ] {
        let problem = read(&format!("\n{line}")).unwrap_err();
        assert!(problem.starts_with("t:2: ") && problem.contains(found), "{line}: {problem}");
    }
}

#[test]
fn a_rule_is_printed_as_the_line_that_it_is_read_from() {
    for line in [
        "at=2s for=500ms stall",
        "at=request:1000 for=20requests error operation=write",
        "at=request:7 for=1500us stall",
        "at=1s slow-down factor=10",
        "error rate=0.01",
        "at=3s for=1s retrain lanes=1 generation=3",
        "for=2ms throttle iops=100",
        "at=8s for=500ms power-cut",
        "delay every=3 delay=20us",
    ] {
        let fault = read(line).unwrap().remove(0);
        assert_eq!(fault.line(), line);
        assert_eq!(read(&fault.line()).unwrap(), [fault], "{line}");
    }
}

#[test]
fn lines_of_trouble_are_told_from_tables_of_rules() {
    for line in ["at=2s for=1s stall", "for=1s stall", "stall for=1s", "error rate=0.5", "lost-completion"] {
        assert!(is_line(line), "{line}");
    }
    for table in ["action = \"error\"", "{ action = \"error\" }", "every = 4, action = \"error\"", "eror", ""] {
        assert!(!is_line(table), "{table}");
    }
}
