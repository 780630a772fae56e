//! Large memory: mapped, aligned to huge pages, and the kernel is asked for these. A large table needs a page walk for most of its lines
//! otherwise.

use libc::{
    MADV_HUGEPAGE, MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, MREMAP_FIXED, MREMAP_MAYMOVE, PROT_READ,
    PROT_WRITE, c_void,
};
use std::alloc::Layout;
use std::ptr::null_mut;

/// Alignment of every map, bytes.
const SMALL_PAGE_BYTES: usize = 4096;
/// Length of a huge page of x86-64 and of most others, bytes.
pub(crate) const PAGE_BYTES: usize = 2 << 20;
/// Lengths are multiples of the longest usual page, bytes.
const UNIT_BYTES: usize = 64 << 10;

/// Whether memory of this layout is mapped. It always is, or never.
#[inline]
pub(crate) fn is_large(layout: Layout) -> bool {
    layout.size() >= PAGE_BYTES && layout.align() <= PAGE_BYTES
}

/// Returns the length of a map for so many bytes, and of one in which it can be aligned.
fn lengths(bytes: usize) -> Option<(usize, usize)> {
    let length = bytes.checked_next_multiple_of(UNIT_BYTES)?;
    Some((length, length.checked_add(PAGE_BYTES)?))
}

/// Maps so many bytes, which are zero. Returns null if the system refuses.
pub(crate) fn map(bytes: usize) -> *mut u8 {
    let Some((length, with_room)) = lengths(bytes) else { return null_mut() };
    let (read_write, own) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    // SAFETY: a new map replaces no other.
    let start = unsafe { libc::mmap(null_mut(), with_room, read_write, own, -1, 0) };
    if start == MAP_FAILED {
        return null_mut();
    }
    let before = start.addr().next_multiple_of(PAGE_BYTES) - start.addr();
    let behind = with_room - before - length;
    let memory = start.wrapping_byte_add(before);
    // SAFETY: nobody has the new map yet. A kernel without huge pages refuses the advice, which changes no content.
    unsafe {
        if before > 0 {
            libc::munmap(start, before);
        }
        if behind > 0 {
            libc::munmap(memory.wrapping_byte_add(length), behind);
        }
        libc::madvise(memory, length, MADV_HUGEPAGE);
    }
    memory.cast()
}

/// Gives memory back.
///
/// # Safety
/// [`map`] or [`remap`] returned it for so many bytes, and nobody uses it any more.
pub(crate) unsafe fn unmap(memory: *mut u8, bytes: usize) {
    if let Some((length, _)) = lengths(bytes) {
        // SAFETY: this is the whole map, and the caller's.
        unsafe { libc::munmap(memory.cast(), length) };
    }
}

/// Changes the size of memory, which moves with its pages if there is no room. Returns null if the system refuses. Where there are no
/// addresses for old and new at once, the new memory is not aligned to huge pages.
///
/// # Safety
/// [`map`] or [`remap`] returned the memory for this layout. Unless this returns null, nobody uses the old address any more.
pub(crate) unsafe fn remap(memory: *mut u8, layout: Layout, new: usize) -> *mut u8 {
    let (Some((old, _)), Some((length, _))) = (lengths(layout.size()), lengths(new)) else {
        return null_mut();
    };
    let memory: *mut c_void = memory.cast();
    // SAFETY: the whole map is the caller's. It stays where it is.
    let stays = unsafe { libc::mremap(memory, old, length, 0) };
    if stays != MAP_FAILED {
        return stays.cast();
    }
    let place = map(new);
    if place.is_null() {
        if layout.align() > SMALL_PAGE_BYTES {
            return place;
        }
        // SAFETY: the whole map is the caller's, who takes the new address.
        let moved = unsafe { libc::mremap(memory, old, length, MREMAP_MAYMOVE) };
        return if moved == MAP_FAILED { null_mut() } else { moved.cast() };
    }
    let flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    // SAFETY: the pages replace the map that has just been made for them, and that is as long.
    let moved = unsafe { libc::mremap(memory, old, length, flags, place.cast::<c_void>()) };
    // If it fails, the kernel may have taken the new map away, so what is left of it stays.
    if moved == MAP_FAILED { null_mut() } else { moved.cast() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 8).expect("it is small")
    }

    fn fill(memory: *mut u8, bytes: Range<usize>) {
        // SAFETY: the tests fill what they have mapped.
        bytes.for_each(|at| unsafe { memory.add(at).write((at % 251) as u8) });
    }

    fn holds(memory: *mut u8, bytes: usize) -> bool {
        // SAFETY: the tests read what they have mapped.
        memory.addr() % PAGE_BYTES == 0
            && (0..bytes).all(|at| unsafe { memory.add(at).read() } == (at % 251) as u8)
    }

    #[test]
    fn what_is_mapped_is_zero_and_aligned_and_keeps_what_it_holds_when_it_moves() {
        let bytes = PAGE_BYTES + 12_345;
        let memory = map(bytes);
        // SAFETY: it is mapped here.
        assert!((0..bytes).all(|at| unsafe { memory.add(at).read() } == 0));
        fill(memory, 0..bytes);
        // What lies behind it is taken, so it must move.
        let behind = memory.wrapping_add(bytes.next_multiple_of(UNIT_BYTES));
        // SAFETY: the address is a wish: a map that is there already stays.
        let taken = unsafe {
            let (read_write, own) = (PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS);
            libc::mmap(behind.cast(), UNIT_BYTES, read_write, own, -1, 0)
        };
        let more = 5 * PAGE_BYTES + 1;
        // SAFETY: it was mapped with this length.
        let moved = unsafe { remap(memory, layout(bytes), more) };
        assert_ne!(moved, memory);
        assert!(holds(moved, bytes));
        fill(moved, bytes..more);
        // SAFETY: as above.
        let shorter = unsafe { remap(moved, layout(more), bytes) };
        assert!(shorter == moved && holds(shorter, bytes));
        // SAFETY: these are the maps of this test.
        unsafe {
            unmap(shorter, bytes);
            libc::munmap(taken, UNIT_BYTES);
        }
    }

    #[test]
    fn more_than_there_are_addresses_is_refused() {
        assert!(map(usize::MAX).is_null() && map(1 << 60).is_null());
        let memory = map(PAGE_BYTES);
        fill(memory, 0..PAGE_BYTES);
        // SAFETY: it was mapped with this length, and what is refused leaves it as it was.
        unsafe {
            assert!(remap(memory, layout(PAGE_BYTES), 1 << 60).is_null());
            assert!(holds(memory, PAGE_BYTES));
            unmap(memory, PAGE_BYTES);
        }
    }

    #[test]
    fn lists_move_to_huge_pages_and_back() {
        let mut list: Vec<u8> = Vec::new();
        for (len, is_large) in [(PAGE_BYTES / 2, false), (3 * PAGE_BYTES, true), (7, false)] {
            list.truncate(len);
            list.reserve_exact(len - list.len());
            list.shrink_to(len);
            list.extend((list.len()..len).map(|at| (at % 251) as u8));
            assert_eq!(list.as_ptr().addr() % PAGE_BYTES == 0, is_large, "{len}");
            assert!(list.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251));
        }
    }
}
