//! Sockets as programs hand them over: `struct cc_sock` of sock.h.

use knee_algo::{Pointer, RECORDED_SOCK_BYTES, TcpSock, with_fields};

/// The first bytes of a [`TcpSock`], without the fields that no recording holds.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct RawSock([u8; RECORDED_SOCK_BYTES]);

impl RawSock {
    pub(crate) fn sock(&self) -> TcpSock {
        let mut sock = TcpSock::default();
        // SAFETY: the bytes are the first of a TcpSock, whose fields take any bits (`check_socket`); its pointers are never
        // followed before knee-algo sets them.
        unsafe {
            let to = (&raw mut sock).cast::<u8>();
            to.copy_from_nonoverlapping(self.0.as_ptr(), RECORDED_SOCK_BYTES);
        }
        sock
    }
}

/// A type that any bits make a value of.
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
