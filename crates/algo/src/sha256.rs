//! SHA-256, so that the hash of a file is the one that `sha256sum` prints.

use sha2::{Digest as _, Sha256};

/// Returns the hash as 64 hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn it_is_what_sha256sum_says() {
        // NIST's example. One of its bytes has a leading zero digit.
        assert_eq!(hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
