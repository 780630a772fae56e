//! Finds in an algorithm file what BPF or this project will refuse, before the verifier does, and says what
//! to write instead.
//!
//! Most is seen from the tokens of the file, without a compiler and without guesses at types
//! (`rules`). Divisions of signed values, the size of stacks and whatever else a compiler objects to
//! come from clang's BPF half if there is one, else from gcc (`compiler`).

mod compiler;
mod contract;
mod rules;
pub(crate) mod tokens;

use std::fmt;
use std::path::Path;

use crate::Error;
use crate::module::{MAX_SOURCE_BYTES, WHAT};
use contract::Contract;

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A header that is not the contract's, or conditional code.
    Include,
    /// Floating point.
    Float,
    /// More than 64 bits.
    Wide,
    /// Inline assembly.
    Assembly,
    /// A variable that belongs to no connection.
    GlobalState,
    /// More than five arguments.
    Arguments,
    /// A loop without a constant bound.
    Loop,
    /// A function that calls itself, directly or not.
    Recursion,
    /// A function that the contract does not have.
    Call,
    /// A write to a field that the kernel keeps for itself.
    ReadOnly,
    /// Division or remainder of signed values.
    SignedDivision,
    /// Too many local variables.
    Stack,
    /// What a compiler says.
    Compiler,
}

/// A place that will be refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What about.
    pub rule: Rule,
    /// From 1.
    pub line: u32,
    /// What it is, and what to write instead.
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

/// What was found in a file.
#[derive(Debug)]
pub struct Checked {
    /// By line.
    pub findings: Vec<Finding>,
    /// The compiler that was asked; `None`: there is none, so divisions and stacks were not looked at.
    pub compiler: Option<String>,
}

/// Checks a file.
///
/// # Errors
/// [`Error::File`] if it cannot be read, or is the source of a Linux module.
pub fn file(path: &Path) -> Result<Checked, Error> {
    let text = knee_files::read_text(path, MAX_SOURCE_BYTES, WHAT)
        .map_err(|why| Error::File(format!("{}: {why}", path.display())))?;
    if crate::module::is_kernel_module(&text) {
        return Err(Error::KernelModule(path.display().to_string()));
    }
    let mut findings = text_of(&text);
    findings.retain(|finding| !is_about_header_beside(finding, path));
    let looked = compiler::look(path);
    if let Some((more, _)) = &looked {
        // What is known already is said better.
        let is_new = |finding: &&Finding| !findings.iter().any(|known| known.line == finding.line);
        let more: Vec<Finding> = more.iter().filter(is_new).cloned().collect();
        findings.extend(more);
    }
    findings.sort_by_key(|finding| (finding.line, finding.rule));
    findings.dedup();
    Ok(Checked { findings, compiler: looked.map(|(_, name)| name) })
}

/// Whether it is only that a header is not the contract's, and that is a file of the same directory: whoever loads the file from there has
/// it, too.
fn is_about_header_beside(finding: &Finding, path: &Path) -> bool {
    let named = finding.message.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    let Some((name, _)) = named.filter(|_| finding.rule == Rule::Include) else { return false };
    !name.contains('/') && path.with_file_name(name).is_file()
}

/// What can be seen without a compiler.
pub fn text_of(text: &str) -> Vec<Finding> {
    let mut findings = rules::all(&tokens::read(text), &Contract::read());
    findings.sort_by_key(|finding| (finding.line, finding.rule));
    findings.dedup();
    findings
}

/// Whether C or the contract uses a word, so that no algorithm can have it for a name.
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
