//! Recognizes programs of knee, so that `copy =` of a stranger's file of machines sends nothing else to a machine.
//!
//! Every program that contains this crate has a note in its ELF file. A core dump, another program and a file that merely begins
//! like ELF have none. The build ID is no such mark: it differs between architectures, and not every linker writes one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Owner of the note, with the final zero, in whole words.
const OWNER: [u8; 8] = *b"knee\0\0\0\0";
/// Bytes of the owner that count.
const OWNER_BYTES: u32 = 5;
/// Content of the note: no other file has it by chance.
const CONTENT: [u8; 16] = *b"program of knee\0";
/// Type of the note.
const NOTE_TYPE: u32 = 1;

/// A note as the linker takes it over.
#[repr(C)]
struct Note {
    owner_bytes: u32,
    content_bytes: u32,
    kind: u32,
    owner: [u8; 8],
    content: [u8; 16],
}

/// Bytes of a note.
const NOTE_BYTES: usize = size_of::<Note>();

// SAFETY: the section holds constant data that nothing else defines or interprets.
#[unsafe(link_section = ".note.knee")]
#[used]
static NOTE: Note = Note {
    owner_bytes: OWNER_BYTES,
    content_bytes: CONTENT.len() as u32,
    kind: NOTE_TYPE,
    owner: OWNER,
    content: CONTENT,
};

/// Types of ELF files that are programs: at a fixed address, and at any. A core dump has 4.
const PROGRAMS: [u16; 2] = [2, 3];
/// Bytes of the headers that are read.
const HEADER_BYTES: usize = 64;
const PART_BYTES: usize = 56;
/// Most parts, and bytes of notes, that are read: the file may be anything.
const MOST_PARTS: u16 = 64;
const MOST_NOTE_BYTES: u64 = 64 << 10;
/// Type of a part that holds notes.
const NOTES: u32 = 4;

/// Reports whether a file is a program of knee, for this or another architecture.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn is_knee(file: &File) -> io::Result<bool> {
    match read(file) {
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        found => found,
    }
}

fn read(file: &File) -> io::Result<bool> {
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0)?;
    // 64 bits, of which the first is the lowest: all machines that Linux 6.1 and knee run on.
    if !header.starts_with(b"\x7fELF\x02\x01") || !PROGRAMS.contains(&u16_at(&header, 16)) {
        return Ok(false);
    }
    let (parts_at, bytes) = (u64_at(&header, 32), u16_at(&header, 54));
    if usize::from(bytes) != PART_BYTES {
        return Ok(false);
    }
    for number in 0..u16_at(&header, 56).min(MOST_PARTS) {
        let mut part = [0; PART_BYTES];
        let Some(at) = parts_at.checked_add(u64::from(number) * PART_BYTES as u64) else { break };
        file.read_exact_at(&mut part, at)?;
        if u32_at(&part, 0) == NOTES {
            let bytes = u64_at(&part, 32).min(MOST_NOTE_BYTES);
            let mut notes = vec![0; bytes as usize];
            file.read_exact_at(&mut notes, u64_at(&part, 8))?;
            // Notes are aligned to words.
            if notes.chunks(4).enumerate().any(|(word, _)| is_ours(&notes[4 * word..])) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Reports whether bytes begin with knee's note.
fn is_ours(bytes: &[u8]) -> bool {
    let numbers = [NOTE.owner_bytes, NOTE.content_bytes, NOTE.kind].map(u32::to_le_bytes);
    bytes.len() >= NOTE_BYTES
        && bytes[..12] == *numbers.as_flattened()
        && bytes[12..20] == NOTE.owner
        && bytes[20..NOTE_BYTES] == NOTE.content
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
