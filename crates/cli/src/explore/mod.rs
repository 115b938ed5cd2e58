//! `phaselink explore`: serves the explorer's web page on this machine, and simulates for it.

mod page;
mod server;

use clap::Args;
use phaselink_core::problem::Problem;

use self::server::ExplorerServer;
use crate::ending::{CommandEnding, Failure};
use crate::{interrupt, output};

const EXAMPLES: &str = include_str!("../../help/explore.txt");

/// Serve the explorer at 127.0.0.1: a web page with sliders for a drive and its job, whose results are simulated at
/// once.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// TCP port on 127.0.0.1 at which the explorer's page is served; 0 takes any free port
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
}

/// Runs `phaselink explore` until a signal stops it.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let explorer = ExplorerServer::bind(arguments.port)?;
    let failed = |error: std::io::Error| Problem::new("explore", None, format!("cannot go on: {error}"), "");
    // A program that has read the address may stop the server at once, so install the handler before printing it.
    let stop = interrupt::flag();
    output::print(&format!("{}\n", explorer.address().map_err(failed)?))?;
    explorer.serve(&stop).map_err(failed)?;
    Ok(CommandEnding::Fine)
}
