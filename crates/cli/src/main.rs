//! The `knee` command.
#![forbid(unsafe_code)]

/// Counts memory, so that a run which takes too much ends with a sentence.
#[global_allocator]
static ALLOCATOR: knee_memory::Counting = knee_memory::Counting;

fn main() -> std::process::ExitCode {
    knee_cli::main()
}
