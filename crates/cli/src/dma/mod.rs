//! `phaselink dma`: measures DMA transfers of a simulated device to and from host memory.

mod page;
mod text;

use clap::Args;
use phaselink_core::dma::{self, Cache, Node, Op, Question, SECTIONS};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::KeyOverride;
use phaselink_core::problem::{Problem, Problems};
use phaselink_studies::dma::{Measured, document};
use rayon::prelude::*;

use crate::ending::{CommandEnding, Failure};
use crate::input;
use crate::output::{self, ReportFlags};
use crate::progress::Progress;

const EXAMPLES: &str = include_str!("../../help/dma.txt");

/// Simulate DMA transfers of a device from and to host memory, and print latency and bandwidth by transfer size.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Device or drive whose DMA transfers are simulated: a shipped name, or a file
    #[arg(value_name = "DEVICE", default_value = "nfp6000-gen3-x8")]
    device: String,
    /// Direction of DMA transfers: read (from host memory), write (to host memory), both in turns, or write-read (a
    /// write, then a read of the written place)
    #[arg(long, default_value = "read", value_parser = Op::WORDS.to_vec())]
    op: String,
    /// Sizes of DMA transfers in bytes: a list with commas, or a range of doubling sizes, as in 8..2048
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "8..2048", value_parser = sizes)]
    size: Vec<Sizes>,
    /// Size of the window of host memory in which DMA transfers begin at random cache lines, as in 8k or 64m
    #[arg(long, value_name = "BYTES", default_value = "8k", value_parser = window)]
    window: u64,
    /// Number of DMA transfers in flight while bandwidth is measured; latency is measured with one
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = outstanding())]
    outstanding: u32,
    /// Number of DMA transfers that are measured for each size, for latency and again for bandwidth, after a warm-up of
    /// a quarter as many
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = transfers())]
    transfers: u64,
    /// Place of transferred data in the host: warm (core's caches), device-written (last-level cache) or cold (DRAM)
    /// [default: as the device says]
    #[arg(long, value_parser = Cache::WORDS.to_vec())]
    cache: Option<String>,
    /// NUMA node of the host memory that DMA transfers access, as seen from the device [default: as the device says]
    #[arg(long, value_parser = Node::WORDS.to_vec())]
    node: Option<String>,
    /// Translation of DMA addresses by the host's IOMMU [default: as the device says]
    #[arg(long, value_parser = ["on", "off"])]
    iommu: Option<String>,
    /// Simulate DMA transfers that the device's own commands make, without the delays of the DMA engine (section dma)
    #[arg(long)]
    direct: bool,
    /// Seed of the simulation's random numbers, such as addresses of DMA transfers in the window
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print latency and bandwidth of DMA transfers as JSON in place of the table
    #[arg(long)]
    json: bool,
    /// Print only the table of DMA transfers, in Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    #[command(flatten)]
    report: ReportFlags,
    /// Override a key of the device's sections link, dma, host or root_complex, as in dma.requests=64; may be given
    /// more than once
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Changes to the device")]
    set: Vec<String>,
    /// Replace the device's link to the host by a preset that `phaselink check` lists; short for --set link.preset=NAME
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
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
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
    let document = output::headed("dma", document(arguments.seed, &device, &measured));
    if let Some(report) = report {
        report.write(&page::page(&device, &measured), &document)?;
    }
    match (arguments.json, arguments.markdown) {
        (true, _) => output::print_json(&document)?,
        (_, true) => output::print(&text::table(&measured).markdown())?,
        _ => output::print(&text::text(&device, &measured))?,
    }
    Ok(CommandEnding::Fine)
}

impl Arguments {
    /// Returns the device that the command line names, with overrides of `--link` and `--set`.
    fn device(&self) -> Result<Drive, Problems> {
        let link = self.link.iter().map(|name| format!("link.preset={name}"));
        let texts: Vec<String> = link.chain(self.set.iter().cloned()).collect();
        input::device(&self.device, &input::all(texts.iter().map(|text| Ok(parse_override(text)?)))?)
    }

    /// Returns the parameters of one DMA measurement for each transfer size of `--size`.
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
            ..Question::from_option_texts(&flags)?
        };
        let of_size = |&bytes: &u32| {
            let question = Question { bytes, ..question };
            question.check(device).map(|()| question)
        };
        input::all(self.size.iter().flat_map(|sizes| &sizes.0).map(of_size))
    }
}

/// Parses an override of `--set`. Fails if the section of the key has no effect on DMA transfers.
fn parse_override(text: &str) -> Result<KeyOverride, Problem> {
    let section = text.split(['.', '=']).next().unwrap_or_default().trim();
    if text.contains('.') && !SECTIONS.contains(&section) {
        let found = format!("[{section}] has no part in transfers between device and host memory");
        return Err(Problem::new(format!("--set {text}"), None, found, SECTIONS.join(", ")));
    }
    KeyOverride::parse(text)
}
