//! `phaselink dma`: measures DMA transfers of a simulated device to and from host memory.

mod page;
mod text;

use clap::Args;
use phaselink_core::dma::{self, Cache, Measured, Node, Op, Question, SECTIONS};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::Override;
use phaselink_core::problem::{Problem, Problems};
use rayon::prelude::*;

use crate::ending::{Ending, Failure};
use crate::input;
use crate::output::{self, ReportFlags};
use crate::progress::Progress;

const EXAMPLES: &str = include_str!("../../help/dma.txt");

/// Let a device read and write host memory: latency and bandwidth of transfers by size.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A device or drive that comes with the program, or the file of one
    #[arg(value_name = "DEVICE", default_value = "nfp6000-gen3-x8")]
    device: String,
    /// Operation: read (from the host), write (to it), both in turns, or write-read
    #[arg(long, default_value = "read", value_parser = Op::WORDS.to_vec())]
    op: String,
    /// Transfer sizes in bytes: a list with commas, or a range that doubles, as in 8..2048
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "8..2048", value_parser = sizes)]
    size: Vec<Sizes>,
    /// Part of host memory in which transfers begin at random lines
    #[arg(long, value_name = "BYTES", default_value = "8k", value_parser = window)]
    window: u64,
    /// Transfers in flight when bandwidth is measured
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = outstanding())]
    outstanding: u32,
    /// Transfers that are measured for each figure
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = transfers())]
    transfers: u64,
    /// State of the data in the host's caches [default: as the device says]
    #[arg(long, value_parser = Cache::WORDS.to_vec())]
    cache: Option<String>,
    /// NUMA node of the host's memory [default: as the device says]
    #[arg(long, value_parser = Node::WORDS.to_vec())]
    node: Option<String>,
    /// Address translation by the host's IOMMU [default: as the device says]
    #[arg(long, value_parser = ["on", "off"])]
    iommu: Option<String>,
    /// Transfer by commands of the device itself, without its DMA engine
    #[arg(long)]
    direct: bool,
    /// Seed of the transfers' random addresses
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Print the table in Markdown, and nothing else
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    #[command(flatten)]
    report: ReportFlags,
    /// Set a key of the sections link, dma, host or root_complex, as in dma.requests=64
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Changes to the device")]
    set: Vec<String>,
    /// Take another link: short for --set link.preset=NAME
    #[arg(long, value_name = "NAME", help_heading = "Changes to the device")]
    link: Option<String>,
}

/// Transfer sizes in bytes of one item in the list of `--size`.
#[derive(Clone, Debug)]
struct Sizes(Vec<u32>);

fn sizes(text: &str) -> Result<Sizes, String> {
    let allowed = || format!("bytes from 1 to {}, or a range of them as in 8..2048", dma::BYTES_MAX);
    dma::sizes(text).map(Sizes).ok_or_else(allowed)
}

fn window(text: &str) -> Result<u64, String> {
    let bytes = phaselink_core::workload::bytes(text).filter(|bytes| (1..=dma::WINDOW_BYTES_MAX).contains(bytes));
    bytes.ok_or_else(|| String::from("bytes up to 1t, as in 8k or 64m"))
}

fn outstanding() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(dma::OUTSTANDING_MAX))
}

fn transfers() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=dma::TRANSFERS_MAX)
}

/// Runs `phaselink dma`.
pub(crate) fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    let device = arguments.device()?;
    let questions = arguments.questions(&device)?;
    let report = arguments.report.open()?;
    let progress = Progress::of(questions.len());
    let measure = |question: &Question| {
        let measured = Measured::of(question, &device, arguments.seed);
        progress.one();
        measured
    };
    let measured: Vec<Result<Measured, Problems>> = questions.par_iter().map(measure).collect();
    progress.finish();
    let measured = input::all(measured)?;
    let document = output::headed("dma", dma::document(arguments.seed, &device, &measured));
    if let Some(report) = report {
        report.write(&page::page(&device, &measured), &document)?;
    }
    match (arguments.json, arguments.markdown) {
        (true, _) => output::print_json(&document)?,
        (_, true) => output::print(&text::table(&measured).markdown())?,
        _ => output::print(&text::text(&device, &measured))?,
    }
    Ok(Ending::Fine)
}

impl Arguments {
    /// Returns the device with the overrides of the command line.
    fn device(&self) -> Result<Drive, Problems> {
        let link = self.link.iter().map(|name| format!("link.preset={name}"));
        let texts: Vec<String> = link.chain(self.set.iter().cloned()).collect();
        input::device(&self.device, &input::all(texts.iter().map(|text| Ok(changed(text)?)))?)
    }

    /// Returns the measurement to simulate for each transfer size.
    fn questions(&self, device: &Drive) -> Result<Vec<Question>, Problems> {
        let flags = [("op", Some(&self.op)), ("cache", self.cache.as_ref()), ("node", self.node.as_ref())];
        let flags = flags.into_iter().chain([("iommu", self.iommu.as_ref())]);
        let flags: Vec<(String, String)> =
            flags.filter_map(|(name, value)| Some((String::from(name), value?.clone()))).collect();
        let question = Question {
            window_bytes: self.window,
            outstanding: self.outstanding,
            transfers: self.transfers,
            direct: self.direct,
            ..Question::from_options(&flags)?
        };
        let of_size = |&bytes: &u32| {
            let question = Question { bytes, ..question };
            question.check(device).map(|()| question)
        };
        input::all(self.size.iter().flat_map(|sizes| &sizes.0).map(of_size))
    }
}

/// Parses an override. Fails if its section does not affect transfers.
fn changed(text: &str) -> Result<Override, Problem> {
    let section = text.split(['.', '=']).next().unwrap_or_default().trim();
    if text.contains('.') && !SECTIONS.contains(&section) {
        let found = format!("[{section}] has no part in transfers between device and host memory");
        return Err(Problem::new(format!("--set {text}"), None, found, SECTIONS.join(", ")));
    }
    Override::parse(text)
}
