//! Whether an algorithm looks at the flag of `cong_control`, seen in the build of it that is only looked at.

/// Whether the number that bpf.h has for the flag of `cong_control` (CC_NO_FLAG) is loaded anywhere.
/// Instructions begin at multiples of their size in every section of code.
pub(crate) fn is_in(bare: &[u8]) -> bool {
    const LOAD_64_BITS: u8 = 0x18;
    let no_flag: u64 = 0x6761_6c66_5f6f_6e20;
    let halves = [no_flag as u32, (no_flag >> 32) as u32].map(u32::to_le_bytes);
    bare.chunks_exact(8).collect::<Vec<_>>().windows(2).any(|two| {
        two[0][0] == LOAD_64_BITS && two[0][4..] == halves[0] && two[1][4..] == halves[1]
    })
}
