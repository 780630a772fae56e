//! Sockets in the form that programs write: `struct cc_sock` of sock.h.

use knee_algo::{Pointer, RECORDED_PARTS, RECORDED_SOCK_BYTES, TcpSock, with_fields};

/// The recorded part of a [`TcpSock`], as bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct RawSock([u8; RECORDED_SOCK_BYTES]);

impl RawSock {
    pub(crate) fn sock(&self) -> TcpSock {
        let mut sock = TcpSock::default();
        let mut from = &self.0[..];
        for part in RECORDED_PARTS {
            let (bytes, rest) = from.split_at(part.len());
            from = rest;
            // SAFETY: the bytes are those of this part of a TcpSock, whose fields take any bits
            // (`check_socket`); its pointers are never followed before knee-algo sets them.
            unsafe {
                let to = (&raw mut sock).cast::<u8>().add(part.start);
                to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
        }
        sock
    }
}

/// A type for which any bits are a valid value.
#[allow(dead_code, reason = "Rust 1.85 does not see that it is a bound below")]
trait AnyBits {}

impl AnyBits for u8 {}
impl AnyBits for u32 {}
impl AnyBits for u64 {}
impl AnyBits for Pointer {}

macro_rules! check_socket {
    (TcpSock: $([$($_field:ident: $type:ty,)*])*) => {
        const _: () = {
            const fn any_bits<T: AnyBits>() {}
            $($(any_bits::<$type>();)*)*
        };
    };
}

with_fields!(TcpSock, check_socket);
