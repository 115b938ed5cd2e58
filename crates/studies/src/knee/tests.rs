use super::*;
use crate::report::Answer;
use phaselink_core::drive::Drive;
use phaselink_core::workload::{UnresolvedJobs, fio};

fn run_sequentially(count: usize, run: &(dyn Fn(usize) + Sync)) {
    (0..count).for_each(run);
}

fn study(question: &KneeQuestion, more: &[(&str, &str)]) -> Result<KneeStudy, phaselink_core::problem::Problems> {
    let options =
        [&[("rw", "randrw"), ("rwmixread", "70"), ("number_ios", "1500"), ("numjobs", "4"), ("iodepth", "32")], more];
    let written = UnresolvedJobs::new([fio::job_from_flags(&options.concat())?], |_| unreachable!("no trace"))?;
    question.study(&Drive::shipped("tlc-gen4").expect("a shipped drive"), written)
}

#[test]
fn latency_rises_with_load_and_the_knee_is_below_saturation() {
    let study = study(&KneeQuestion::default(), &[]).expect("a study");
    let answer = study.answer(&run_sequentially, &|| false).expect("no problem").expect("an answer");
    assert_eq!(answer.points.len() + 1, study.simulations());
    let p99: Vec<f64> = answer.points.iter().map(|point| point.ns("read_p99_ns").expect("p99")).collect();
    assert!(p99[11] > 1.3 * p99[0], "{p99:?}");
    let (knee, most) = (answer.knee_iops.expect("a knee"), answer.iops_max);
    assert!(knee <= most && most > 0.8 * answer.saturated_iops.expect("a closed loop"), "{knee} of {most}");
    let text = answer.text().within(100, str::to_owned, |table| table.to_string());
    assert!(text.contains("knee") && text.contains("tlc-gen4"), "{text}");
    assert!(answer.page().is_some_and(|page| page.contains("<svg") && page.contains("95 % intervals")));
}

#[test]
fn given_loads_run_in_order_and_overloads_are_reported() {
    let question = KneeQuestion { rates: String::from("20k,5M"), seed: 1 };
    let answer = study(&question, &[]).expect("a study").answer(&run_sequentially, &|| false).expect("no problem");
    let answer = answer.expect("an answer");
    let keeps_up: Vec<bool> = answer.points.iter().map(|point| point.keeps_up).collect();
    assert_eq!((keeps_up, answer.saturated_iops), (vec![true, false], None));
    let text = answer.text().within(100, str::to_owned, |table| table.to_string());
    assert!(text.contains("does not keep up"), "{text}");
}

#[test]
fn offered_rates_are_a_list_or_a_rising_range() {
    assert_eq!(parse_offered_rates("10k,50k").expect("two"), [10e3, 50e3]);
    let range = parse_offered_rates("10k:120k").expect("twelve");
    assert_eq!((range.len(), range[0], range[1], range[11]), (12, 10e3, 20e3, 120e3));
    for wrong in ["", "5", "9k,3k", "3k:1k", "x,y", "0,5", "1:2:3"] {
        assert!(parse_offered_rates(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn rate_limited_job_is_refused_for_a_knee() {
    let problems = study(&KneeQuestion::default(), &[("thinktime", "10")]).expect_err("a pace").to_string();
    assert!(problems.contains("a job with a pace of its own"), "{problems}");
}

#[test]
fn stopped_knee_study_returns_no_answer() {
    let study = study(&KneeQuestion::default(), &[]).expect("a study");
    assert!(study.answer(&run_sequentially, &|| true).expect("no problem").is_none());
}
