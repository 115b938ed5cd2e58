//! Commands `bench`, `crash`, `fault` and `serve` on systems other than Linux, where each only reports that it needs
//! Linux.

/// Defines a module for each command, with the items that the command's own module has on Linux.
macro_rules! linux_commands {
    ($($name:ident: $about:literal)+) => {
        $(pub(crate) mod $name {
            use std::env;
            use std::ffi::OsString;

            use clap::Args;
            use phaselink_core::problem::Problem;

            use crate::ending::{CommandEnding, Failure};

            #[doc = $about]
            #[derive(Args, Debug)]
            pub(crate) struct Arguments {
                /// Arguments that the command takes on Linux, and ignores on other systems
                #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
                words: Vec<OsString>,
            }

            /// Refuses the command.
            ///
            /// # Errors
            /// Always: the command needs Linux.
            pub(crate) fn command(_arguments: &Arguments) -> Result<CommandEnding, Failure> {
                let found = format!("needs Linux, and this system is {}", env::consts::OS);
                let allowed = "the commands that simulate on any system, or this one in a virtual machine or container with Linux";
                Err(Problem::new(concat!("phaselink ", stringify!($name)), None, found, allowed).into())
            }
        })+
    };
}

linux_commands! {
    bench: "Run fio jobs against a served drive, and measure throughput and latency at the client (needs Linux)"
    crash: "Crash-test an application: check every image of its writes that a power cut may leave (needs Linux)"
    fault: "Add, list or clear fault rules of a drive that `phaselink serve` is serving (needs Linux)"
    serve: "Serve a simulated drive as a real block device to programs and virtual machines (needs Linux)"
}

#[cfg(test)]
mod tests {
    use clap::{FromArgMatches, Parser, Subcommand};

    use super::*;
    use crate::ending::{CommandEnding, Failure};

    #[derive(Debug, Parser)]
    struct LinuxCommandLine {
        #[command(subcommand)]
        command: Command,
    }

    #[derive(Debug, Subcommand)]
    enum Command {
        Bench(bench::Arguments),
        Crash(crash::Arguments),
        Fault(fault::Arguments),
        Serve(serve::Arguments),
    }

    fn run_linux_command_line(line: &str) -> Result<CommandEnding, Failure> {
        let matches = <LinuxCommandLine as clap::CommandFactory>::command().get_matches_from(line.split(' '));
        match LinuxCommandLine::from_arg_matches(&matches).unwrap().command {
            Command::Bench(arguments) => bench::command(&arguments),
            Command::Crash(arguments) => crash::command(&arguments),
            Command::Fault(arguments) => fault::command(&arguments),
            Command::Serve(arguments) => serve::command(&arguments),
        }
    }

    #[test]
    fn linux_only_command_is_refused_elsewhere_in_one_sentence() {
        for (name, flags) in [
            ("bench", "shm:disk.sock --bs 4k"),
            ("crash", "--file --size 1m --run true"),
            ("fault", "control.sock"),
            ("serve", "nvme --vfio-user nvme.sock -O direct=1"),
        ] {
            let Err(Failure::Wrong(problems)) = run_linux_command_line(&format!("phaselink {name} {flags}")) else {
                panic!("{name} is not refused")
            };
            let sentence = problems.to_string();
            assert!(sentence.starts_with(&format!("phaselink {name}: needs Linux, and this system is ")), "{sentence}");
            assert_eq!(sentence.trim_end().lines().count(), 1, "{sentence}");
        }
    }
}
