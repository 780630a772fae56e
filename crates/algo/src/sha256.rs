//! SHA-256, so that a file is known by what `sha256sum` says of it.

use sha2::{Digest as _, Sha256};

/// As 64 hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn it_is_what_sha256sum_says() {
        // NIST's example, which has a digit that is a leading zero of its byte.
        assert_eq!(hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
