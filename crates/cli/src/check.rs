//! `phaselink check`: explains a drive key by key, or lists shipped drives and presets.

use clap::Args;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{presets, schema, shipped};
use phaselink_core::report::Table;
use phaselink_core::results::documents;

use crate::drive_flags::DriveFlags;
use crate::ending::{Ending, Failure};
use crate::{input, output};

const EXAMPLES: &str = include_str!("../help/check.txt");

/// Explain drives: every key with its value, where it comes from and what it means.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Drive files, or names of shipped drives
    #[arg(value_name = "DRIVE")]
    drives: Vec<String>,
    /// Print the drive as a drive file with every key, to keep, change or send to somebody
    #[arg(long, requires = "drives")]
    toml: bool,
    /// Print a JSON Schema: of drive files, with which editors complete keys and mark what is wrong; with =results, of what
    /// the verbs print with --json
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "drive",
        value_parser = ["drive", "results"], conflicts_with = "drives")]
    schema: Option<String>,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Runs the command.
pub(crate) fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    if let Some(what) = &arguments.schema {
        output::print_json(&if what == "results" { documents::schema() } else { schema() })?;
        return Ok(Ending::Fine);
    }
    let overrides = arguments.flags.resolve()?;
    let text = match arguments.drives.is_empty() {
        true => list(),
        false => {
            let drives = input::drives(&arguments.drives, &overrides)?;
            let text = |drive: &Drive| match arguments.toml {
                true => drive.to_toml(),
                false => drive.explain_within(output::width::prose()),
            };
            drives.iter().map(|described| text(described.drive())).collect::<Vec<_>>().join("\n")
        }
    };
    output::print(&text)?;
    Ok(Ending::Fine)
}

/// Returns the list of all shipped drives and presets.
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
