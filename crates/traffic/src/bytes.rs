//! Plain data as bytes: the encoding between the host and the guest of a kernel in virtual time. Both sides are built
//! together, and numbers have the machine's byte order.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Receiver of encoded bytes.
pub trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Data that can be written and read back.
pub trait Plain: Sized {
    /// Appends the encoding of this value.
    fn put(&self, to: &mut impl Sink);

    /// Decodes a value from the front and advances past it; `None`: the bytes do not encode one.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

/// Splits `len` bytes off the front; `None`: there are fewer.
pub fn take<'a>(from: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (first, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(first)
}

/// Makes structs of named fields plain. A field that is left out does not compile.
#[macro_export]
macro_rules! plain {
    ($($type:ident { $($field:ident),* $(,)? })*) => {$(
        impl $crate::bytes::Plain for $type {
            fn put(&self, to: &mut impl $crate::bytes::Sink) {
                $($crate::bytes::Plain::put(&self.$field, to);)*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                Some($type { $($field: $crate::bytes::Plain::take(from)?),* })
            }
        }
    )*};
}

macro_rules! numbers {
    ($($type:ident)*) => {$(
        impl Plain for $type {
            fn put(&self, to: &mut impl Sink) {
                to.put(&self.to_ne_bytes());
            }

            fn take(from: &mut &[u8]) -> Option<$type> {
                let bytes = take(from, size_of::<$type>())?;
                Some($type::from_ne_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}

numbers! { u8 u16 u32 u64 f64 }

impl Plain for bool {
    fn put(&self, to: &mut impl Sink) {
        u8::from(*self).put(to);
    }

    fn take(from: &mut &[u8]) -> Option<bool> {
        match u8::take(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl<T: Plain> Plain for Option<T> {
    fn put(&self, to: &mut impl Sink) {
        self.is_some().put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }

    fn take(from: &mut &[u8]) -> Option<Option<T>> {
        Some(if bool::take(from)? { Some(T::take(from)?) } else { None })
    }
}

impl<T: Plain> Plain for Vec<T> {
    fn put(&self, to: &mut impl Sink) {
        (self.len() as u64).put(to);
        self.iter().for_each(|value| value.put(to));
    }

    fn take(from: &mut &[u8]) -> Option<Vec<T>> {
        let len = u64::take(from)?;
        // What is said to follow takes bytes: no more room than these.
        let room = from.len() / size_of::<T>().max(1);
        let mut values = Vec::with_capacity(usize::try_from(len).ok()?.min(room));
        for _ in 0..len {
            values.push(T::take(from)?);
        }
        Some(values)
    }
}

impl Plain for String {
    fn put(&self, to: &mut impl Sink) {
        (self.len() as u64).put(to);
        to.put(self.as_bytes());
    }

    fn take(from: &mut &[u8]) -> Option<String> {
        let len = usize::try_from(u64::take(from)?).ok()?;
        String::from_utf8(take(from, len)?.to_vec()).ok()
    }
}

impl<T: Plain, const LEN: usize> Plain for [T; LEN] {
    fn put(&self, to: &mut impl Sink) {
        self.iter().for_each(|value| value.put(to));
    }

    fn take(from: &mut &[u8]) -> Option<[T; LEN]> {
        let values: Option<Vec<T>> = (0..LEN).map(|_| T::take(from)).collect();
        values?.try_into().ok()
    }
}

macro_rules! tuples {
    ($(($($name:ident $at:tt),*))*) => {$(
        impl<$($name: Plain),*> Plain for ($($name,)*) {
            fn put(&self, to: &mut impl Sink) {
                $(self.$at.put(to);)*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                Some(($($name::take(from)?,)*))
            }
        }
    )*};
}

tuples! { (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) }

impl Plain for IpAddr {
    fn put(&self, to: &mut impl Sink) {
        match self {
            IpAddr::V4(address) => (4_u8, address.to_bits()).put(to),
            IpAddr::V6(address) => (6_u8, address.octets()).put(to),
        }
    }

    fn take(from: &mut &[u8]) -> Option<IpAddr> {
        match u8::take(from)? {
            4 => Some(Ipv4Addr::from_bits(u32::take(from)?).into()),
            6 => Some(Ipv6Addr::from(<[u8; 16]>::take(from)?).into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;
    use alloc::vec;

    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_what_is_cut_short_is_not() {
        type All = (Vec<(u32, bool)>, Option<String>, [IpAddr; 2], f64);
        let v6 = IpAddr::V6(Ipv6Addr::new(1, 2, 3, 4, 5, 6, 7, 8));
        let all: All = (vec![(7, true)], Some("a b".to_string()), [v6, [10, 0, 0, 1].into()], 0.5);
        let mut bytes = Vec::new();
        all.put(&mut bytes);
        let mut rest = &bytes[..];
        assert_eq!(All::take(&mut rest), Some(all));
        assert_eq!(rest, []);
        for len in 0..bytes.len() {
            assert_eq!(All::take(&mut &bytes[..len]), None, "{len}");
        }
        // A length that is beyond all memory.
        assert_eq!(Vec::<u8>::take(&mut &[255; 20][..]), None);
    }
}
