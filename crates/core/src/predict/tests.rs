//! What holds for a request of which nothing but its data is known.

use super::{Form, Parts, predict, predict_job, text};
use crate::drive::Drive;
use crate::workload::Job;

#[test]
fn a_request_without_a_closed_form_has_bounds_and_no_latency() {
    let drive = Drive::shipped("nvme-polled").unwrap();
    let job = Job::named("any");
    let bare = predict_job(&Parts::new(&drive), &job, Form::of_data);
    assert_eq!((bare.alone_ns(), bare.saturation_depth(), bare.loaded().least_ns), (None, None, None));
    let mut prediction = predict(&drive, &[job]);
    // Whatever the protocol, it cannot need less than its data does.
    assert!(bare.bottleneck().bound_iops() >= prediction.jobs[0].bottleneck().bound_iops());
    for demand in &bare.demands {
        let whole = prediction.jobs[0].demands.iter().find(|other| other.resource == demand.resource).unwrap();
        assert!(demand.busy_ns <= whole.busy_ns, "{}", demand.resource);
    }
    prediction.jobs = vec![bare];
    assert!(text(&prediction).contains("no closed form of its latency"));
}
