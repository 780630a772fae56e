//! The `knee` command.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    knee_cli::main()
}
