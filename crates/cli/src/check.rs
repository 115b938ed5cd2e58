//! `phaselink check`: explains a drive key by key, or lists shipped drives and presets.

use clap::Args;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{presets, schema, shipped, stage_costs};
use phaselink_core::problem::{Problem, Problems};
use phaselink_studies::evidence;
use phaselink_studies::report::Table;

use crate::drive_flags::DriveFlags;
use crate::ending::{CommandEnding, Failure};
use crate::{input, output};

/// Host preset on which `phaselink check --stages` compares two software stacks if `--host` is not given.
const STAGES_HOST: &str = "cascade-lake-4210r";

const EXAMPLES: &str = include_str!("../help/check.txt");

/// Explain drives (every key with value, origin and meaning), or list the drives and presets that come with phaselink.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Drives to explain: drive files, or names of shipped drives; without any, all shipped drives and presets are
    /// listed
    #[arg(value_name = "DRIVE")]
    drives: Vec<String>,
    /// Print each drive as a complete drive file (TOML) with the value of every key, in place of the explanation
    #[arg(long, requires = "drives")]
    toml: bool,
    /// Print the JSON Schema of drive files, with which editors complete and check keys; with =sweep, the schema of
    /// sweep plans; with =results, of the --json output of all commands
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "drive",
        value_parser = ["drive", "sweep", "results"], conflicts_with = "drives")]
    schema: Option<String>,
    /// Compare two software stacks, as in linux-5,linux-6: processor time of each stage for one 4 KiB read on the host
    /// of --host, and the cost factor of all other hosts
    #[arg(long, value_name = "STACK,STACK", conflicts_with_all = ["drives", "toml", "schema"])]
    stages: Option<String>,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Runs `phaselink check`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    if let Some(what) = &arguments.schema {
        output::print_json(&match what.as_str() {
            "results" => phaselink_studies::schema::schema(),
            "sweep" => phaselink_studies::sweep::schema::schema(),
            _ => schema(),
        })?;
        return Ok(CommandEnding::Fine);
    }
    if let Some(stacks) = &arguments.stages {
        output::print(&stages(stacks, arguments.flags.host.as_deref().unwrap_or(STAGES_HOST))?)?;
        return Ok(CommandEnding::Fine);
    }
    let overrides = arguments.flags.resolve()?;
    let text = match arguments.drives.is_empty() {
        true => list(),
        false => {
            let drives = input::drives(&arguments.drives, &overrides)?;
            let text = |drive: &Drive| match arguments.toml {
                true => drive.to_toml(),
                false => drive.explain_within(
                    output::width::prose_width_columns(),
                    &evidence::sentence(&evidence::of_drives([drive])),
                ),
            };
            drives.iter().map(|described| text(described.drive())).collect::<Vec<_>>().join("\n")
        }
    };
    output::print(&text)?;
    Ok(CommandEnding::Fine)
}

/// Returns a text with tables of all shipped drives and presets.
fn list() -> String {
    let mut drives = Table::new().left("drive").left("");
    for drive in shipped::names().filter_map(Drive::shipped) {
        drives.row([&drive.name, &drive.summary]);
    }
    let mut rows = Table::new().left("section").left("preset").left("");
    let mut section = "";
    for preset in presets::all() {
        if preset.section != section {
            rows.group();
        }
        let label = if preset.section == section { "" } else { preset.section };
        rows.row([label, preset.name.as_str(), preset.summary.as_str()]);
        section = preset.section;
    }
    format!(
        "{}\n{}\nA drive file starts from a drive with preset = \"NAME\", a section of it likewise; a path that ends in .toml is\n\
         that of a file of yours. --media, --link, --host and --stack choose presets of these sections.\n\
         `phaselink check NAME` explains a drive key by key.\n",
        output::shown(&drives),
        output::shown(&rows),
    )
}

/// Returns a text with the processor time of each stage of two software stacks on a host, and the cost factors of all
/// hosts. `stacks` has two names with a comma.
fn stages(stacks: &str, host: &str) -> Result<String, Problems> {
    let Some((first, second)) = stacks.split_once(',') else {
        let problem = Problem::new("--stages", None, format!("`{stacks}`"), "two stacks, as in linux-5,linux-6");
        return Err(problem.into());
    };
    let mut table = Table::new().left("stage");
    for stack in [first, second] {
        table = table.right(format!("{stack} ns")).left("from .. to").left("source");
    }
    let mut table = table.right("ratio");
    for pair in stage_costs::side_by_side([first, second], host)? {
        let cells = pair.costs.iter().flat_map(|cost| match cost {
            None => [String::from("-"), String::new(), String::new()],
            Some(cost) => {
                let (low, high) = cost.range_ns;
                let range = if low < high { format!("{low:.0} .. {high:.0}") } else { String::new() };
                [format!("{:.0}", cost.ns), range, cost.source.clone()]
            }
        });
        let ratio = pair.ratio().map_or(String::from("-"), |ratio| format!("{ratio:.2}"));
        table.row([pair.stage.clone()].into_iter().chain(cells).chain([ratio]));
    }
    let mut hosts = Table::new().left("host").right(format!("{first} times")).right(format!("{second} times"));
    let factors = stage_costs::host_cost_factors(first)?.into_iter().zip(stage_costs::host_cost_factors(second)?);
    for ((name, of_first), (_, of_second)) in factors {
        hosts.row([name, format!("{of_first:.3}"), format!("{of_second:.3}")]);
    }
    Ok(format!(
        "Processor time for a lone read of 4 KiB on {host}, all stages whatever their condition.\n\n{}\nOn other hosts costs of a \
         stack are multiplied by the ratio of clocks and\ninstructions a clock, so that the ratio of two stacks stays:\n\n{}",
        output::shown(&table),
        output::shown(&hosts),
    ))
}
