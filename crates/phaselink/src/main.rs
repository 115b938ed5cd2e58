//! Starts the program, all of whose code is in the crate `phaselink-cli`.

fn main() -> std::process::ExitCode {
    phaselink_cli::main()
}
