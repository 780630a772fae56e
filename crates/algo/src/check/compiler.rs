//! Checks that need a compiler: clang's BPF back end decides about divisions, stacks and arguments. Without it the host's
//! compiler finds what does not compile at all.

use std::path::Path;
use std::process::Command;

use super::{Finding, Rule};
use crate::module::confine::Room;
use crate::module::{Headers, bounded, find_clang, find_compiler, lacks, plainer};

/// What a compiler says of a file.
pub(super) struct Looked {
    pub(super) findings: Vec<Finding>,
    pub(super) compiler: String,
    pub(super) is_for_bpf: bool,
}

/// Compiles a file. `None` without a compiler.
pub(super) fn look(path: &Path, text: &str) -> Option<Looked> {
    match find_clang(None) {
        Ok((clang, _)) => compiled(path, text, &clang, true),
        Err(_) => compiled(path, text, &find_compiler()?.0, false),
    }
}

pub(super) fn compiled(path: &Path, text: &str, program: &str, is_for_bpf: bool) -> Option<Looked> {
    let headers = Headers::kept().ok()?;
    let path = &bounded::as_file(path);
    let mut command = Command::new(program);
    command.env("LC_ALL", "C");
    command.args(["-std=gnu11", "-nostdinc", "-DCC_ONE_THREAD", "-Wno-unused-function"]);
    command.args(["-Werror=implicit-function-declaration", "-Wno-unused-parameter"]);
    command.arg("-I").arg(headers.contract()).arg("-I").arg(headers.all());
    command.args(match is_for_bpf {
        true => &["-target", "bpf", "-mcpu=v3", "-U__bpf__", "-O2", "-g", "-c"][..],
        false => &["-fsyntax-only"],
    });
    command.arg(path).args(["-o", "/dev/null"]);
    // The compiler reads knee's headers and the file's own folder.
    let room = Room::reading([headers.all(), path.parent().unwrap_or(Path::new("."))]);
    let said = bounded::run(&mut command, None, bounded::MOST_PREPROCESSED, &room).ok()?.stderr;
    let target = if is_for_bpf { " for BPF" } else { "" };
    Some(Looked {
        findings: findings(&said, path, text),
        compiler: format!("{program}{target}"),
        is_for_bpf,
    })
}

/// Converts messages of the form `file:line:col: error: what` to findings. All compilers use this form.
fn findings(said: &str, path: &Path, text: &str) -> Vec<Finding> {
    let name = path.display().to_string();
    let all = said.lines().filter_map(|line| {
        let rest = line.strip_prefix(&name)?.strip_prefix(':')?;
        let (number, rest) = rest.split_once(':')?;
        let (kind, what) = rest.split_once(": ")?.1.split_once(": ")?;
        let words = || lacks(what, text).unwrap_or_else(|| plainer(what).to_owned());
        let line = number.parse().ok()?;
        kind.contains("error").then(|| Finding::new(Rule::Compiler, line, words()))
    });
    all.collect()
}
