//! Finds the parts of an algorithm file that BPF or this project refuses, before the verifier does,
//! and states what to write instead.
//!
//! Most rules need only the tokens of the file, without a compiler or guesses at types (`rules`).
//! Clang's BPF back end decides about the rest: divisions of signed values, stack sizes and other
//! errors (`compiler`). Without clang the host's compiler finds what does not compile at all.

mod compiler;
mod contract;
mod rules;

use std::fmt;
use std::path::Path;

use crate::{Error, module, tokens};
use contract::Contract;

/// Subject of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A header outside the contract, or conditional compilation.
    Include,
    /// Floating point.
    Float,
    /// An integer of more than 64 bits.
    Wide,
    /// Inline assembly.
    Assembly,
    /// A variable that does not belong to a connection.
    GlobalState,
    /// A function with more than five arguments.
    Arguments,
    /// A loop without a constant bound.
    Loop,
    /// A function that calls itself, directly or indirectly.
    Recursion,
    /// A call of a function that the contract lacks.
    Call,
    /// A write to a field that only the kernel may write.
    ReadOnly,
    /// An error that a compiler reports: also a signed division, or too many local variables.
    Compiler,
}

/// A place in the file that BPF or this project refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule that the place breaks.
    pub rule: Rule,
    /// Line number, from 1.
    pub line: u32,
    /// The defect, and what to write instead.
    pub message: String,
}

impl Finding {
    fn new(rule: Rule, line: u32, message: String) -> Finding {
        Finding { rule, line, message }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}

/// Result of checking a file.
#[derive(Debug)]
pub struct Checked {
    /// Findings, ordered by line.
    pub findings: Vec<Finding>,
    /// The compiler, and what for. `None` without one.
    pub compiler: Option<String>,
    /// Whether it compiled for BPF. If not, divisions and stacks were not checked.
    pub is_for_bpf: bool,
}

/// Checks a file.
///
/// # Errors
/// [`Error::File`] if it cannot be read, or is the source of a Linux module.
pub fn file(path: &Path) -> Result<Checked, Error> {
    let text = module::read(path)?;
    if module::is_kernel_module(&text) {
        return Err(Error::KernelModule(path.display().to_string()));
    }
    if let Some(why) = module::refusal_of_bpf(&text) {
        return Err(Error::File(format!("{}: {why}", path.display())));
    }
    let mut findings = text_of(&text);
    findings.retain(|finding| !is_about_header_beside(finding, path));
    let looked = compiler::look(path, &text);
    if let Some(looked) = &looked {
        // The messages of the rules are clearer than the compiler's for the same line.
        let is_new = |finding: &&Finding| !findings.iter().any(|known| known.line == finding.line);
        let more: Vec<Finding> = looked.findings.iter().filter(is_new).cloned().collect();
        findings.extend(more);
    }
    findings.sort_by_key(|finding| (finding.line, finding.rule));
    findings.dedup();
    let is_for_bpf = looked.as_ref().is_some_and(|looked| looked.is_for_bpf);
    Ok(Checked { findings, compiler: looked.map(|looked| looked.compiler), is_for_bpf })
}

/// Returns whether the finding is only about a header outside the contract that exists in the
/// file's own directory. Loading the file from there finds the header too.
fn is_about_header_beside(finding: &Finding, path: &Path) -> bool {
    let named = finding.message.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    let Some((name, _)) = named.filter(|_| finding.rule == Rule::Include) else { return false };
    !name.contains('/') && path.with_file_name(name).is_file()
}

/// Makes the checks that need no compiler.
pub fn text_of(text: &str) -> Vec<Finding> {
    let mut findings = rules::all(&tokens::read(text), &Contract::read());
    findings.sort_by_key(|finding| (finding.line, finding.rule));
    findings.dedup();
    findings
}

/// Returns whether C or the contract uses a word, so that no algorithm can have that name.
pub fn is_taken(word: &str) -> bool {
    const C: &[&str] = &[
        "auto", "bool", "break", "case", "char", "const", "continue", "default", "do", "double",
        "else", "enum", "extern", "false", "float", "for", "goto", "if", "inline", "int", "long",
        "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct",
        "switch", "true", "typedef", "typeof", "union", "unsigned", "void", "volatile", "while",
        "asm", "main",
    ];
    C.contains(&word) || Contract::read().has_word(word)
}

#[cfg(test)]
mod tests;
