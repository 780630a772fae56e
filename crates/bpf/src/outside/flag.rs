//! Finds out whether an algorithm uses the flag of `cong_control`, from a build that is made for
//! this check only.

/// Whether any instruction loads the number that bpf.h uses for the flag of `cong_control`
/// (CC_NO_FLAG). In every section of code, instructions begin at multiples of their size.
pub(crate) fn is_in(bare: &[u8]) -> bool {
    const LOAD_64_BITS: u8 = 0x18;
    let no_flag: u64 = 0x6761_6c66_5f6f_6e20;
    let halves = [no_flag as u32, (no_flag >> 32) as u32].map(u32::to_le_bytes);
    bare.chunks_exact(8).collect::<Vec<_>>().windows(2).any(|two| {
        two[0][0] == LOAD_64_BITS && two[0][4..] == halves[0] && two[1][4..] == halves[1]
    })
}
