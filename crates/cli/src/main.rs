//! Starts the program, all of whose code is in the library beside this file.

fn main() -> std::process::ExitCode {
    phaselink::main()
}
