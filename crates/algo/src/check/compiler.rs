//! Checks that need a compiler: the types of divisions, and stack sizes. Clang's BPF back end
//! covers both. Without it, gcc's intermediate form and its stack frames are a close approximation.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use super::{Finding, Rule};
use crate::module::confine::Room;
use crate::module::{BpfLimit, Headers, bounded, find_clang, find_compiler, lacks};

/// Stack size of a BPF program including its callees, in bytes.
const STACK_BYTES: u32 = 512;

/// Returns the findings and the compiler's name. `None` without a compiler.
pub(super) fn look(path: &Path) -> Option<(Vec<Finding>, String)> {
    let headers = Headers::kept().ok()?;
    let path = &bounded::as_file(path);
    by_clang(path, &headers).or_else(|| by_gcc(path, &headers))
}

/// Checks with the first clang that compiles for BPF and is new enough.
pub(super) fn by_clang(path: &Path, headers: &Headers) -> Option<(Vec<Finding>, String)> {
    let (clang, _) = find_clang(None).ok()?;
    let mut command = contract_command(&clang, headers);
    command.args(["-target", "bpf", "-mcpu=v3", "-U__bpf__", "-O2", "-g", "-Wall", "-c"]);
    command.arg(path).args(["-o", "/dev/null"]);
    let room = room(path, headers);
    let said = bounded::run(&mut command, None, bounded::MOST_PREPROCESSED, &room).ok()?.stderr;
    let has_bpf = !said.contains("unable to create target") && !said.contains("unknown target");
    has_bpf.then(|| (complaints(&said, path), format!("{clang} for BPF")))
}

/// Checks with the host's compiler. Only gcc shows its intermediate form.
pub(super) fn by_gcc(path: &Path, headers: &Headers) -> Option<(Vec<Finding>, String)> {
    let (program, _) = find_compiler()?;
    let mut command = contract_command(&program, headers);
    // Without an assembler: it needs a file, for which there is no room, or the pipe that the intermediate form takes.
    command.args(["-O2", "-S", "-fdump-tree-gimple-lineno=/dev/stdout"]);
    command.arg(format!("-Wframe-larger-than={STACK_BYTES}"));
    command.arg(path).args(["-o", "/dev/null"]);
    let room = room(path, headers);
    let ran = bounded::run(&mut command, None, bounded::MOST_PREPROCESSED, &room).ok()?;
    let mut found = complaints(&ran.stderr, path);
    found.extend(signed_divisions(&String::from_utf8_lossy(&ran.stdout), path));
    Some((found, program))
}

/// The compiler reads knee's headers and the file's own folder.
fn room(path: &Path, headers: &Headers) -> Room {
    Room::reading([headers.all(), path.parent().unwrap_or(Path::new("."))])
}

fn contract_command(program: &str, headers: &Headers) -> Command {
    let mut command = Command::new(program);
    command.env("LC_ALL", "C");
    command.args(["-std=gnu11", "-nostdinc", "-DCC_ONE_THREAD", "-Wno-unused-function"]);
    command.args(["-Werror=implicit-function-declaration", "-Wno-unused-parameter"]);
    command.arg("-I").arg(headers.contract()).arg("-I").arg(headers.all());
    command
}

/// Converts messages of the form `file:line:col: error: what` to findings with clearer words. Both
/// compilers use this form.
fn complaints(said: &str, path: &Path) -> Vec<Finding> {
    let name = path.display().to_string();
    let all = said.lines().filter_map(|line| {
        let rest = line.strip_prefix(&name)?.strip_prefix(':')?;
        let (number, rest) = rest.split_once(':')?;
        let (kind, what) = rest.split_once(": ").map(|(_, rest)| rest)?.split_once(": ")?;
        Some((number.parse::<u32>().ok()?, kind, what))
    });
    all.filter_map(|(line, kind, what)| finding(line, kind, what)).collect()
}

fn finding(line: u32, kind: &str, what: &str) -> Option<Finding> {
    if let Some(limit) = BpfLimit::of(what) {
        let rule = match limit {
            BpfLimit::SignedDivision => Rule::SignedDivision,
            BpfLimit::Stack => Rule::Stack,
            BpfLimit::Arguments => Rule::Arguments,
        };
        return Some(Finding::new(rule, line, limit.words().to_owned()));
    }
    let is_error = kind.contains("error");
    let words = || lacks(what).unwrap_or_else(|| what.to_owned());
    is_error.then(|| Finding::new(Rule::Compiler, line, words()))
}

fn signed_division(line: u32) -> Finding {
    Finding::new(Rule::SignedDivision, line, BpfLimit::SignedDivision.words().to_owned())
}

/// Finds signed divisions in GIMPLE. There every value has a variable, and every variable a type:
/// `[file:12:7] _1 = a / b;` after `int _1;`.
fn signed_divisions(gimple: &str, path: &Path) -> Vec<Finding> {
    let name = path.display().to_string();
    let mut types: HashMap<&str, &str> = HashMap::new();
    let mut found = Vec::new();
    for line in gimple.lines() {
        if line.ends_with(')') && !line.starts_with(' ') {
            types.clear();
        }
        let code = line.trim_start();
        if let Some((kind, variable)) =
            code.strip_suffix(';').and_then(|code| code.rsplit_once(' '))
        {
            if !code.contains('=') {
                types.insert(variable, kind);
            }
        }
        let Some((place, statement)) =
            code.strip_prefix('[').and_then(|code| code.split_once("] "))
        else {
            continue;
        };
        let Some((to, value)) = statement.trim_end_matches(';').split_once(" = ") else { continue };
        if !value.contains(" / ") && !value.contains(" % ") {
            continue;
        }
        let is_signed = types.get(to.trim()).is_some_and(|kind| is_signed(kind));
        let number = place.strip_prefix(&name).and_then(|rest| rest[1..].split(':').next());
        if let (true, Some(number)) = (is_signed, number.and_then(|n| n.parse().ok())) {
            found.push(signed_division(number));
        }
    }
    found
}

fn is_signed(kind: &str) -> bool {
    let kind = kind.trim();
    matches!(kind, "int" | "long int" | "long long int" | "short int" | "signed char" | "char")
        || matches!(kind, "s8" | "s16" | "s32" | "s64" | "int32_t" | "int64_t")
}
