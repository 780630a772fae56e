//! The `knee` command of a server: what works on the running kernel, and no experiments.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    knee_cli::host_main()
}
