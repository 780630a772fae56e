//! Reading ahead into the processor's cache. This needs `unsafe`, which the simulator forbids.

use std::ops::Range;

/// Length of a cache line, bytes.
pub const LINE_BYTES: usize = 64;

/// Starts to fetch cache lines of a value, numbered from its start, and does not wait for them. Does
/// nothing on processors other than x86-64.
#[inline(always)]
pub fn fetch<T>(value: &T, lines: Range<usize>) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(value).cast::<i8>();
        for line in lines {
            // SAFETY: the instruction changes nothing but caches, and takes any address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * LINE_BYTES)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (value, lines);
}

#[cfg(test)]
mod tests {
    use super::fetch;

    #[test]
    fn lines_behind_the_value_do_no_harm() {
        let values = vec![7u64; 3];
        fetch(&values[2], 0..1000);
        assert_eq!(values, [7; 3]);
    }
}
