use super::*;
use crate::report::{Answer, Table};
use phaselink_core::drive_file::{Described, KeyOverride, refuse_files};
use phaselink_core::problem::{Problems, all};
use phaselink_core::workload::Trace;
use phaselink_core::workload::trace::{Format, TraceRequests};

const US: u64 = 1_000_000;

fn at(us: u64) -> Time {
    Time::from_ps(us * US)
}

fn recorded(times_us: &[u64]) -> Vec<TimedTraceRequest> {
    let entry = |(place, us): (u64, &u64)| TimedTraceRequest {
        at: at(*us),
        io: Io { op: Op::Read, offset: place * 4096, bytes: 4096 },
    };
    (0..).zip(times_us).map(entry).collect()
}

fn quiet_drive(name: &str) -> Drive {
    let mut drive = Drive::shipped(name).unwrap();
    drive.host.variation = 0.0;
    drive
}

#[test]
fn request_depends_on_the_last_completion_before_it() {
    let requests = recorded(&[0, 5, 30, 30, 70]);
    let done = [at(20), at(10), at(60), at(50), at(80)];
    let found: Vec<_> =
        infer_dependences(&requests, &done).iter().map(|it| (it.waits_for, it.pause.as_ps() / US)).collect();
    assert_eq!(found, [(None, 0), (None, 5), (Some(0), 10), (Some(0), 10), (Some(2), 10)]);
}

#[test]
fn replay_on_the_recorded_drive_takes_the_recorded_time() {
    let drive = AttachedDrive::new(&quiet_drive("optane-p5800x"), 1);
    let requests = recorded(&[0, 100, 103, 250, 400, 400, 400]);
    let open = drive.replay_at_recorded_times(&requests).unwrap();
    let dependent = drive.replay(&infer_dependences(&requests, &open.done)).unwrap();
    assert_eq!(open, dependent);
}

#[test]
fn replay_keeps_pauses_and_replaces_waits() {
    let [slow, fast] = ["tlc-gen4", "optane-p5800x"].map(|name| AttachedDrive::new(&quiet_drive(name), 1));
    let requests = recorded(&[0, 1000, 2000, 3000]);
    let open = slow.replay_at_recorded_times(&requests).unwrap();
    let dependent = infer_dependences(&requests, &open.done);
    let pauses: Span = dependent.iter().map(|it| it.pause).sum();
    for drive in [&slow, &fast] {
        let replayed = drive.replay(&dependent).unwrap();
        assert_eq!(replayed.elapsed, pauses + replayed.waited);
        assert_eq!(replayed.latencies[0].requests, 4);
    }
    assert!(fast.replay(&dependent).unwrap().elapsed < open.elapsed);
}

#[test]
fn flush_takes_time_only_with_a_volatile_buffer() {
    let mut requests = recorded(&[0, 1000, 2000]);
    requests[0].io.op = Op::Write;
    requests[1].io = Io::flush();
    let flush_s = |name: &str| {
        let drive = AttachedDrive::new(&quiet_drive(name), 1);
        let replayed = drive.replay_at_recorded_times(&requests).unwrap();
        assert_eq!(replayed.latencies.map(|it| it.requests), [1, 1, 1]);
        replayed.latencies[2].seconds
    };
    assert!(flush_s("tlc-gen4") > 1e-4, "{}", flush_s("tlc-gen4"));
    assert_eq!(flush_s("tlc-gen5"), 0.0);
}

#[test]
fn windows_cover_a_short_recording_and_sample_a_long_one() {
    let recording: TraceRequests = recorded(&(0..1000).map(|us| 10 * us).collect::<Vec<_>>()).into_iter().collect();
    let whole = windows(&recording, 1000, 8, 1);
    assert_eq!((whole.len(), whole[0].requests.len(), whole[0].recorded), (1, 1000, Span::from_us(9990)));
    let drawn = windows(&recording, 80, 8, 1);
    assert_eq!((drawn.len(), total_window_requests(&drawn)), (8, 80));
    assert!(
        drawn.iter().all(|window| window.requests[0].at == Time::ZERO && window.recorded == Span::from_us(100)),
        "{drawn:?}"
    );
    assert_ne!(drawn, windows(&recording, 80, 8, 2));
}

#[test]
fn bootstrap_weights_sum_to_the_number_of_windows() {
    assert_eq!(bootstrap_weights(5, 0, 1), [1.0; 5]);
    for draw in 1..20 {
        assert_eq!(bootstrap_weights(5, draw, 1).iter().sum::<f64>(), 5.0);
    }
    assert_ne!(bootstrap_weights(5, 1, 1), bootstrap_weights(5, 2, 1));
}

/// Returns the study of lone reads of 4 KiB, 100 us apart, that were recorded on a drive without latency.
fn study(question: WhatIfQuestion, names: &[&str]) -> Result<WhatIfStudy, Problems> {
    let requests: TraceRequests = recorded(&(0..200).map(|read| 100 * read).collect::<Vec<_>>()).into_iter().collect();
    let trace = Trace { format: Format::MsrCambridge, device: String::from("disk"), requests, left_out: Vec::new() };
    let recording = Recording { file: "t.csv", trace: &trace, drive: RecordedDrive::Instant };
    question.study(recording, |stack| {
        let stack = KeyOverride::parse(&format!("stack.preset={stack}"))?;
        all(names.iter().map(|words| {
            let (name, set) = words.split_once(' ').unwrap_or((words, "drives=1"));
            Described::shipped(name, &[stack.clone(), KeyOverride::parse(set)?], refuse_files)
        }))
    })
}

#[test]
fn speed_up_is_relative_to_the_present_drive_and_ranks_faster_first() {
    let question = WhatIfQuestion { stack: vec![String::from("linux-6")], ..Default::default() };
    let study = study(question, &["tlc-gen4", "optane-p5800x"]).unwrap();
    let each = |count: usize, replay: &(dyn Fn(usize) + Sync)| (0..count).for_each(replay);
    let answer = study.answer(&each).unwrap();
    let verdicts: Vec<_> = answer.ranked.iter().map(|one| (one.drive.as_str(), one.pays)).collect();
    assert_eq!(verdicts, [("optane-p5800x", DrivePays::Yes), ("tlc-gen4", DrivePays::Now)]);
    let now = &answer.ranked[1];
    assert!([now.gain, now.gain_low, now.gain_high].iter().all(|gain| (gain - 1.0).abs() < 1e-9), "{now:?}");
    let text = answer.text().within(100, str::to_owned, Table::to_string);
    assert!(text.starts_with("On tlc-gen4 with linux-6, requests are in flight for "), "{text}");
    assert!(text.contains("It would pay: optane-p5800x with linux-6 makes it "), "{text}");
}

#[test]
fn skipped_replays_give_no_answer() {
    let question = WhatIfQuestion { stack: vec![String::from("linux-6")], ..Default::default() };
    let study = study(question, &["tlc-gen4"]).unwrap();
    assert!(study.answer(&|_, _| ()).is_none());
}

#[test]
fn drive_without_interrupts_is_refused_for_sleeping_threads() {
    let question = WhatIfQuestion { stack: vec![String::from("linux-6")], ..Default::default() };
    let told = study(question, &["tlc-gen4 nvme.interrupts=false"]).map(drop).unwrap_err().to_string();
    assert!(told.contains("threads of tlc-gen4 wait for interrupts, which the drive does not raise"), "{told}");
}

#[test]
fn replay_with_a_thread_that_never_wakes_returns_nothing() {
    let sleeping = ["stack.preset=linux-6", "nvme.interrupts=false"].map(|set| KeyOverride::parse(set).unwrap());
    let drive = Described::shipped("tlc-gen4", &sleeping, refuse_files).unwrap().into_drive();
    assert!(AttachedDrive::new(&drive, 1).replay_at_recorded_times(&recorded(&[0])).is_none());
}

#[test]
fn invalid_questions_and_unsuitable_present_drives_are_refused() {
    let told = |question: WhatIfQuestion, names: &[&str]| study(question, names).map(drop).unwrap_err().to_string();
    let wrong = WhatIfQuestion { draws: 19, requests: 99, stack: Vec::new(), ..Default::default() };
    let all = told(wrong, &["tlc-gen4"]);
    for problem in ["--draws 19; allowed: 20 to 10000", "--requests 99; allowed: 100 to", "--stack is empty"] {
        assert!(all.contains(problem), "{problem}: {all}");
    }
    let several = told(WhatIfQuestion::default(), &["tlc-gen4 drives=2"]);
    assert!(
        several.contains(
            "tlc-gen4 stands for 2 drives, and a recording is of one; allowed: a drive that it fits, with --now"
        ),
        "{several}"
    );
}
