//! Any bytes as a flight recording, whose lengths and checksums are mended first: read and replayed, or refused in one line.
#![no_main]

use knee_algo::Algorithm;
use knee_flight::{Diff, OtherWay, Reader, Replay, View};
use knee_fuzz::check_message;

/// Magic, version and the length of the header.
const FIXED_BYTES: usize = 16;
const FRAME_BYTES: usize = 8;

fn checksum(before: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    hasher.update(bytes);
    hasher.finalize()
}

/// The length that a field has, or all that is left if it has more.
fn len_of(field: &[u8], left: usize) -> usize {
    let len = u32::from_le_bytes([field[0], field[1], field[2], field[3]]) as usize;
    if len <= left { len } else { left }
}

/// The same with checksums that are right and lengths that lead to the next record.
fn mended(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut file = bytes.to_vec();
    let left = file.len().checked_sub(FIXED_BYTES + 4)?;
    file[..12].copy_from_slice(b"kneefly\n\x01\0\0\0");
    let len = len_of(&file[12..], left);
    file[12..16].copy_from_slice(&(len as u32).to_le_bytes());
    let mut end = FIXED_BYTES + len;
    let mut sum = checksum(0, &file[..end]);
    file[end..end + 4].copy_from_slice(&sum.to_le_bytes());
    end += 4;
    let mut records = 0_u64;
    while file.len() - end > FRAME_BYTES {
        let (start, left) = (end + FRAME_BYTES, file.len() - end - FRAME_BYTES);
        let len = len_of(&file[end..], left);
        file[end..end + 4].copy_from_slice(&(len as u32).to_le_bytes());
        // The closing record counts the others.
        if len == 41 && file[start] == 2 {
            file[start + 1..start + 9].copy_from_slice(&records.to_le_bytes());
        }
        records += 1;
        sum = checksum(checksum(sum, &file[end..end + 4]), &file[start..start + len]);
        file[end + 4..start].copy_from_slice(&sum.to_le_bytes());
        end = start + len;
    }
    Some(file)
}

fn replayed(file: &[u8]) -> Result<(), knee_flight::Error> {
    let mut reader = Reader::new(file)?;
    let (algorithm, params) = reader.header().algorithm()?;
    let mut replay = Replay::new(algorithm, params, reader.header().hz)?;
    let other = Algorithm::by_name("dctcp").expect("it is in the folder");
    let mut view = View::of(reader.header());
    let columns = view.columns(&|_| true).len();
    let mut diff = Diff::new(reader.header(), reader.header());
    let mut other = OtherWay::new(other, other.default_params(), reader.header().hz);
    while let Some(record) = reader.next_record()? {
        replay.step(&record);
        let _ = other.step(&record);
        assert_eq!(view.row(&record, &|_| true).len(), columns);
        let _ = view.line(&record, &|_| true);
        let _ = diff.take(0, record);
    }
    assert!(reader.ending().is_some());
    assert!(!replay.finish().to_string().is_empty());
    Ok(())
}

knee_fuzz::target!(|bytes: &[u8]| {
    let mended = mended(bytes);
    if let Err(error) = replayed(mended.as_deref().unwrap_or(bytes)) {
        check_message(&error.to_string());
    }
});
