//! Starts the program; all of it is in the library beside this file.

fn main() -> std::process::ExitCode {
    phaselink::main()
}
