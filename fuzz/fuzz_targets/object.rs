//! Any bytes as an object for BPF that somebody hands over: those of a file alone, or of a good one with changes. Refused in one line, or taken;
//! never a panic.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use knee_bpf::Embedded;
use knee_fuzz::check_message;

/// Bytes of a change: two numbers of the section that it is in and of where, how many bytes, and up to four of them.
const CHANGE_BYTES: usize = 8;
/// Of the headers of ELF.
const HEADER_BYTES: usize = 64;

/// An object that knee makes of a file; empty where there is no clang.
fn good() -> &'static [u8] {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/algorithms/gentle.c");
        Embedded::of_file(&path, None).map_or_else(|_| Vec::new(), |made| made.object().to_vec())
    })
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte))
}

/// Where a section of the good object lies, by any number: the file's header and the table of sections are two more.
fn place(section: usize) -> (usize, usize) {
    let good = good();
    let (table, count) = (number(&good[40..48]), number(&good[60..62]));
    match section % (count + 2) {
        0 => (0, HEADER_BYTES),
        1 => (table, count * HEADER_BYTES),
        section => {
            let header = &good[table + (section - 2) * HEADER_BYTES..];
            let (begin, len) = (number(&header[24..32]), number(&header[32..40]));
            (begin, len.min(good.len().saturating_sub(begin)))
        }
    }
}

fn change(object: &mut [u8], change: &[u8]) {
    let (begin, len) = place(usize::from(change[0]));
    if len == 0 {
        return;
    }
    let at = begin + number(&change[1..3]) % len;
    let count = 1 + usize::from(change[3] % 4);
    for (byte, new) in object[at..].iter_mut().zip(&change[4..4 + count]) {
        *byte = *new;
    }
}

knee_fuzz::target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else { return };
    let object = match kind & 1 {
        1 if !good().is_empty() => {
            let mut object = good().to_vec();
            rest.chunks_exact(CHANGE_BYTES).for_each(|one| change(&mut object, one));
            object
        }
        _ => rest.to_vec(),
    };
    if let Err(why) = Embedded::check_object(&object) {
        check_message(&why);
    }
});
