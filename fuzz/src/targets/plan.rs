//! Targets that read plans of sweeps, and reproductions with the published results.

use phaselink_core::workload::{fio, trace};
use phaselink_studies::reproduce::Reproduction;
use phaselink_studies::sweep::search::PriceList;
use phaselink_studies::sweep::{Files, Plan, Sweep};

use super::text;
use crate::Target;

/// Checks that any text is a plan or refused, and that each of its points can be described, and resolves or says why
/// not.
pub(super) const SWEEP: Target = Target { name: "sweep", run: sweep, seeds: sweeps };

/// Checks that any two texts are a reproduction or refused.
pub(super) const REPRODUCTION: Target = Target { name: "reproduction", run: reproduction, seeds: reproductions };

/// Number of points of a plan that are checked.
const POINTS: usize = 4;
/// Line between a plan and its published results.
const BORDER: &str = "\n----\n";

fn sweep(input: &[u8]) {
    let _ = PriceList::parse("fuzz.costs.toml", &text(input));
    let plan = match Plan::parse("fuzz.toml", &text(input)) {
        Ok(plan) => plan,
        Err(problems) => return assert!(!problems.0.is_empty() && !problems.to_string().is_empty()),
    };
    let points = plan.points();
    assert!(points > 0, "a plan without points is refused");
    assert!(!plan.describe(0).is_empty() && !plan.describe(points - 1).is_empty());
    let files = files(&plan);
    let Ok(sweep) = Sweep::new(plan, files) else { return };
    let mut resolver = sweep.resolver();
    for point in (0..points).take(POINTS) {
        let hash = resolver.check(point);
        assert_eq!(hash.is_ok(), resolver.check(point).is_ok());
    }
}

/// Returns valid files for all that a plan names.
fn files(plan: &Plan) -> Files {
    let drive = || (String::from("fuzz.toml"), String::from("preset = 'nvme'\n"));
    let trace = trace::parse("log", "fio version 3 iolog\n0 d add\n5 d read 0 4096\n").expect("a fair trace");
    let job = fio::parse("fuzz.fio", "[a]\nrw=randread\nnumber_ios=5\n").expect("a fair job");
    Files {
        drives: plan.unshipped_drives().iter().map(|wanted| (wanted.name.to_owned(), drive())).collect(),
        traces: plan.wanted_traces().into_iter().map(|name| (name, trace.clone())).collect(),
        job: plan.job_file_of_plan().map(|_| job),
        ..Files::default()
    }
}

fn reproduction(input: &[u8]) {
    let text = text(input);
    let (plan, expected) = text.split_once(BORDER).unwrap_or((&text, ""));
    match Reproduction::load("fuzz", plan, expected) {
        Ok(read) => assert_eq!(read.paper(), "fuzz"),
        Err(problems) => assert!(!problems.0.is_empty() && !problems.to_string().is_empty()),
    }
}

fn sweeps() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../../examples/lanes-and-latency.sweep.toml").to_vec(),
        b"drive = 'nvme'\njob = { rw = 'randrw', number_ios = 5 }\n[[axis]]\nkey = 'job.iodepth'\nrange = [1, 9, 4]\n"
            .to_vec(),
        b"job = { rw = 'read', number_ios = 5 }\n[[axis]]\nkey = 'drive'\nvalues = ['nvme', 'moneta']\n".to_vec(),
    ]
}

fn reproductions() -> Vec<Vec<u8>> {
    macro_rules! paper {
        ($name:literal) => {
            [
                include_str!(concat!("../../../crates/studies/reproductions/", $name, "/plan.toml")),
                include_str!(concat!("../../../crates/studies/reproductions/", $name, "/expected.csv")),
            ]
        };
    }
    [paper!("capi-pcm-openpower"), paper!("pss-ibm-nvmw14")]
        .map(|[plan, expected]| [plan, BORDER, expected].concat().into())
        .to_vec()
}
