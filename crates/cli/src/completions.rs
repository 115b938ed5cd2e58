//! `phaselink completions`: prints shell completions for commands, flags and shipped names, or writes man pages.

use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, Args, Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;
use phaselink_core::drive_file::{presets, shipped};
use phaselink_core::problem::Problem;
use phaselink_studies::reproduce::papers;

use crate::docs;
use crate::ending::{CommandEnding, Failure};
use crate::output::{self, claims::unwritable};

const EXAMPLES: &str = include_str!("../help/completions.txt");

/// Print a shell's completion script for commands, flags, and names of drives, presets, papers and pages, or write man
/// pages.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Shell for which the completion script is printed; required without --man
    shell: Option<Shell>,
    /// Folder into which a man page of each command is written, in place of printing a completion script
    #[arg(long, value_name = "DIR", conflicts_with = "shell")]
    man: Option<PathBuf>,
}

/// Runs `phaselink completions`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    match (&arguments.man, arguments.shell) {
        (Some(folder), _) => write_man_pages(folder)?,
        (None, Some(shell)) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut grammar_with_shipped_names(crate::command()), "phaselink", &mut script);
            output::print(&completions_with_files(shell, &String::from_utf8_lossy(&script)))?;
        }
        (None, None) => {
            let shells: Vec<String> = Shell::value_variants().iter().map(ToString::to_string).collect();
            let allowed = format!("{}, or --man DIR", shells.join(", "));
            return Err(Problem::new("completions", None, "no shell is named", allowed).into());
        }
    }
    Ok(CommandEnding::Fine)
}

/// Writes `phaselink.1`, and `phaselink-COMMAND.1` for each command, to a folder, and prints their paths.
fn write_man_pages(folder: &Path) -> Result<(), Failure> {
    output::create_directory(folder)?;
    let program = crate::command().disable_help_subcommand(true);
    let commands = program.get_subcommands().map(|command| {
        // The grammar needs names with a static lifetime. The program ends after writing the pages, so leak them.
        let name: &'static str = format!("phaselink-{}", command.get_name()).leak();
        command.clone().name(name).version(env!("CARGO_PKG_VERSION")).bin_name(name.replacen('-', " ", 1))
    });
    for command in [program.clone()].into_iter().chain(commands) {
        let man = Man::new(command);
        let path = folder.join(man.get_filename());
        let mut page = Vec::new();
        let written = man.render(&mut page).and_then(|()| fs::write(&path, page));
        written.map_err(|error| unwritable(&path, &error))?;
        output::print(&format!("{}\n", path.display()))?;
    }
    Ok(())
}

/// Returns the command line grammar with shipped names as possible values of the arguments that take them.
fn grammar_with_shipped_names(command: Command) -> Command {
    command.mut_subcommands(|verb| verb.mut_args(argument_with_shipped_names))
}

fn argument_with_shipped_names(argument: Arg) -> Arg {
    let names = names(argument.get_id().as_str());
    match names.is_empty() {
        true => argument,
        false => argument.value_parser(PossibleValuesParser::new(names.into_iter().map(PossibleValue::new))),
    }
}

/// Returns the shipped names that the argument with this identifier accepts, or none if it takes other values.
fn names(argument: &str) -> Vec<&'static str> {
    match argument {
        "drive" | "drives" => shipped::names().collect(),
        "device" => shipped::devices().map(|device| device.name).chain(shipped::names()).collect(),
        "media" | "link" | "host" | "stack" => {
            let of_section = presets::all().into_iter().filter(|preset| preset.section == argument);
            // The grammar needs names with a static lifetime. The program ends after writing the script, so leak them.
            of_section.map(|preset| &*preset.name.leak()).collect()
        }
        "papers" => papers::all().map(|paper| paper.name).collect(),
        "page" => docs::names().collect(),
        _ => Vec::new(),
    }
}

/// Returns a completion script in which drives, devices and presets may also be files. Only the script for zsh changes;
/// other shells offer files where no name fits.
fn completions_with_files(shell: Shell, script: &str) -> String {
    if shell != Shell::Zsh {
        return script.into();
    }
    let lists = ["drive", "device", "media", "link", "host", "stack"].map(|argument| names(argument).join(" "));
    lists.iter().fold(String::from(script), |script, list| {
        script
            .replace(&format!(":({list})"), &format!(":{{_alternative \"names:name:({list})\" \"files:file:_files\"}}"))
    })
}
