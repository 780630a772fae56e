//! The `knee` command of a server. It works on the running kernel and has no experiments.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    knee_cli::host_main()
}
