//! Predictions as text: stages of a lone request, limits of resources, and throughput and latency at the job's queue
//! depth.

use std::fmt::Write;

use super::{JobPrediction, Prediction, stages_of_mean_flash_read};
use crate::report::table::{Table, bar};
use crate::results::units;
use phaselink_core::closed_form::flash::FlashReadMean;
use phaselink_core::closed_form::{Certainty, Class, Latency};
use phaselink_core::request::DataDirection;

const BAR_WIDTH: usize = 30;

/// Returns a prediction as text, in lines of at most 100 columns for names of ordinary length. The time of a lone
/// request comes first, its mean where that is known.
pub fn text(prediction: &Prediction) -> String {
    let of_job = |job: &JobPrediction| {
        let named = if prediction.jobs.len() > 1 { format!("Job {}.\n", job.name) } else { String::new() };
        let classes = job.workload.classes.iter().zip(job.latencies.iter().zip(&job.flash_reads)).enumerate();
        let each = classes.map(|(place, (class, (latency, read)))| {
            let request = match place {
                0 => format!("On {}, a lone {}", prediction.drive, request_class_text(class)),
                _ => format!("A lone {}", request_class_text(class)),
            };
            lone_latency_text(&request, latency.as_ref().zip(Some(read.as_ref())), &prediction.stack_stages) + "\n"
        });
        format!("{named}{}{}\n{}", each.collect::<String>(), limits(job), loaded(job))
    };
    prediction.jobs.iter().map(of_job).collect::<Vec<_>>().join("\n")
}

/// Returns a class of requests as text, such as `read of 4,096 bytes`, with its share if there are other classes.
fn request_class_text(class: &Class) -> String {
    let direction = if class.direction == DataDirection::Read { "read" } else { "write" };
    match class.share {
        1.0 => format!("{direction} of {} bytes", units::grouped(class.bytes.into())),
        share => format!("{direction} of {} bytes ({})", units::grouped(class.bytes.into()), units::percent(share)),
    }
}

/// Returns the time of a lone request, which `request` names, in sentences and a table of its stages.
fn lone_latency_text(request: &str, latency: Option<(&Latency, Option<&FlashReadMean>)>, stack: &[String]) -> String {
    let Some((latency, read)) = latency else {
        return format!(
            "{request}: no closed form of its latency, as the driver splits it into commands that overlap.\n"
        );
    };
    let stages = read.map_or_else(|| latency.stages.clone(), |read| stages_of_mean_flash_read(latency, read));
    let (total, least) = (stages.total(), units::span(latency.stages.total()));
    let certainty = match (latency.certainty, read) {
        (Certainty::AtLeast(why), Some(read)) => {
            format!(
                "{} on average\n{}\nNone takes less than {least}: {why}",
                units::span(total),
                read_origin_sentence(read)
            )
        }
        (Certainty::AtLeast(why), None) => format!("at least {least}: {why}"),
        (Certainty::Exact, _) => format!("{} exactly", units::span(total)),
        (Certainty::Mean(why), _) => format!("{} on average: {why}", units::span(total)),
    };
    let mut table = Table::new().left("stage").right("ns").right("share").left("");
    for (stage, span) in stages.named(stack) {
        let share = span.as_ns() / total.as_ns();
        table.row([stage.to_string(), format!("{:.1}", span.as_ns()), units::percent(share), bar(share, BAR_WIDTH)]);
    }
    table.group();
    table.row(["total".to_string(), format!("{:.1}", total.as_ns()), units::percent(1.0)]);
    format!("{request} takes {certainty}\n{table}")
}

/// Returns where a mean read of flash finds its data as text, such as `The cells have 99.9 % of the data, and the write
/// buffer the rest. A page takes 39.4 us, 45.0 us or 50.6 us, with equal shares.`
fn read_origin_sentence(read: &FlashReadMean) -> String {
    let mut times: Vec<String> = read.pages.iter().map(|page| units::span(*page)).collect();
    times.dedup();
    let page = match &times[..] {
        [others @ .., last] if !others.is_empty() => {
            format!("A page takes {} or {last}, with equal shares", others.join(", "))
        }
        all => format!("A page takes {}", all.join(", ")),
    };
    let together = match read.pages_together {
        1 => String::new(),
        pages => format!("; {pages} pages are read at a time"),
    };
    let share = match read.cells_share {
        1.0 => String::from("The cells have all data."),
        share => format!("The cells have {} of the data, and the write buffer the rest.", units::percent(share)),
    };
    format!("{share}\n{page}{together}.")
}

fn limits(job: &JobPrediction) -> Table {
    let mut table = Table::new().left("limit").right("of it").right("ns each").right("at most, 1/s").right("GB/s");
    for demand in &job.demands {
        let iops = demand.saturation_iops();
        table.row([
            demand.resource.clone(),
            format!("{:.0}", demand.servers),
            format!("{:.1}", demand.busy_ns),
            units::count(iops),
            gigabytes(job, iops),
        ]);
    }
    table
}

fn loaded(job: &JobPrediction) -> String {
    let loaded = job.loaded();
    let mut text = format!("Bottleneck: {}", job.bottleneck().resource);
    if let Some(depth) = job.saturation_depth() {
        let _ = write!(text, ", busy all the time from {:.1} requests outstanding on", depth.max(1.0));
    }
    let _ = write!(
        text,
        ".\nWith {} outstanding: at most {} requests/s, {} GB/s",
        units::grouped(job.workload.outstanding),
        units::count(loaded.most_iops),
        gigabytes(job, loaded.most_iops),
    );
    if let Some(least_ns) = loaded.least_ns {
        let _ = write!(text, "; at least {} on average", units::quantity(least_ns / 1e9, "s"));
    }
    if let Some(balanced) = loaded.balanced_iops.filter(|balanced| *balanced < loaded.most_iops * 0.999) {
        let _ = write!(text, ".\nWith queues as random as in theory still about {} requests/s", units::count(balanced));
    }
    text.push_str(".\n");
    text
}

fn gigabytes(job: &JobPrediction, iops: f64) -> String {
    let gigabytes = iops * job.workload.mean_bytes() / 1e9;
    if gigabytes < 0.0995 { format!("{gigabytes:.4}") } else { format!("{gigabytes:.2}") }
}

/// Returns the predictions for several drives as one table, with a row for each job of each drive.
pub fn table(predictions: &[Prediction]) -> String {
    let mut table = Table::new().left("drive").left("job").right("alone").left("").left("bottleneck").right("1/s");
    table = table.right("GB/s").right("from depth").right("at depth").right("1/s").right("GB/s");
    for prediction in predictions {
        for job in &prediction.jobs {
            table.row(line(&prediction.drive, job));
        }
    }
    table.to_string()
}

fn line(drive: &str, job: &JobPrediction) -> [String; 11] {
    let alone = job.alone_ns().map_or(String::from("unknown"), |ns| units::quantity(ns / 1e9, "s"));
    let depth = job.saturation_depth().map_or(String::from("unknown"), |depth| format!("{:.1}", depth.max(1.0)));
    let (bound, most) = (job.bottleneck().saturation_iops(), job.loaded().most_iops);
    [
        drive.to_string(),
        job.name.clone(),
        alone,
        String::from(certainty_phrase(job)),
        job.bottleneck().resource.clone(),
        units::count(bound),
        gigabytes(job, bound),
        depth,
        units::grouped(job.workload.outstanding),
        units::count(most),
        gigabytes(job, most),
    ]
}

/// Returns words for the certainty of the job's latencies of lone requests: the least certain of "exactly", "on
/// average" and "at least".
fn certainty_phrase(job: &JobPrediction) -> &'static str {
    let certainties = job.latencies.iter().flatten().map(|latency| latency.certainty);
    let worth = |certainty| match certainty {
        Certainty::Exact => 0,
        Certainty::Mean(_) => 1,
        Certainty::AtLeast(_) => 2,
    };
    ["exactly", "on average", "at least"][certainties.map(worth).max().unwrap_or(0)]
}
