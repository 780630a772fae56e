//! Numbers as bytes (LEB128): seven bits per byte, lowest first; the eighth bit says that more
//! bytes follow.

use crate::error::Malformed;

/// Appends a number.
pub(crate) fn put(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Appends a signed number. Small negative numbers stay short.
pub(crate) fn put_signed(to: &mut Vec<u8>, value: i64) {
    put(to, (value << 1 ^ value >> 63) as u64);
}

/// Appends a text, preceded by its length.
pub(crate) fn put_text(to: &mut Vec<u8>, text: &str) {
    put(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

/// The type of a field, with its encoding in the file.
pub(crate) trait Number: Copy + Sized {
    /// Appends the value.
    fn put(self, to: &mut Vec<u8>);

    /// Reads the next value. `what` names it in errors.
    fn take(from: &mut Bytes<'_>, what: &'static str) -> Result<Self, Malformed>;
}

macro_rules! numbers {
    ($($type:ty: $put:ident $take:ident,)*) => {
        $(impl Number for $type {
            fn put(self, to: &mut Vec<u8>) {
                $put(to, self.into());
            }

            fn take(from: &mut Bytes<'_>, what: &'static str) -> Result<$type, Malformed> {
                from.$take(what)
            }
        })*
    };
}

numbers! { u8: put narrow, u32: put narrow, u64: put narrow, i32: put_signed signed, i64: put_signed signed, bool: put flag, }

/// The bytes that are still to be read.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Bytes<'_> {
    /// Reads the next number.
    pub(crate) fn take(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(Malformed::TooShort)?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed::Number)
    }

    /// Reads the next number into a narrower type.
    pub(crate) fn narrow<T: TryFrom<u64>>(&mut self, what: &'static str) -> Result<T, Malformed> {
        let value = self.take()?;
        T::try_from(value).map_err(|_| Malformed::TooLarge { what, value })
    }

    /// Reads the next signed number.
    pub(crate) fn signed<T: TryFrom<i64>>(&mut self, what: &'static str) -> Result<T, Malformed> {
        let folded = self.take()?;
        let value = (folded >> 1) as i64 ^ -((folded & 1) as i64);
        T::try_from(value).map_err(|_| Malformed::OutOfRange { what, value })
    }

    /// Reads the next flag.
    pub(crate) fn flag(&mut self, what: &'static str) -> Result<bool, Malformed> {
        match self.take()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(Malformed::Flag { what, value }),
        }
    }

    /// Reads the next text, of at most `max_bytes`.
    pub(crate) fn text(&mut self, max_bytes: usize) -> Result<String, Malformed> {
        let len = self.take()? as usize;
        if len > max_bytes || len > self.0.len() {
            return Err(Malformed::Text(len));
        }
        let (text, rest) = self.0.split_at(len);
        self.0 = rest;
        String::from_utf8(text.to_vec()).map_err(|_| Malformed::NotText)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let mut bytes = Vec::new();
        for number in numbers {
            put(&mut bytes, number);
            put_signed(&mut bytes, number as i64);
        }
        let mut left = Bytes(&bytes);
        for number in numbers {
            assert_eq!(left.take(), Ok(number));
            assert_eq!(left.signed::<i64>("x"), Ok(number as i64));
        }
        assert!(left.take().is_err());
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_refused() {
        assert!(Bytes(&[0xff; 11]).take().is_err());
        assert!(Bytes(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).take().is_err());
    }
}
