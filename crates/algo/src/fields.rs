//! Numeric fields of an algorithm's private state, under the names in its file.

/// Largest number of bits of a state: 512 bytes of socket storage.
const MOST_BITS: u64 = 512 * 8;
/// Largest length of a name.
const MOST_LETTERS: usize = 64;

/// A numeric field of a private state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    name: String,
    bit_offset: u32,
    bits: u32,
    kind: FieldKind,
}

/// Interpretation of a field's bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldKind {
    Unsigned,
    /// A two's complement number.
    Signed,
    /// A value of an enumeration. Holds the names of 0, 1, ..., as `A|B`.
    Named(String),
    /// An address, which has no meaning outside its process.
    Pointer,
}

impl Field {
    /// Creates a field with this name (`bw.s[0].v`) that has `bits` bits from bit `bit_offset` of
    /// the state. `None` if no state can have such a field.
    pub fn new(name: String, bit_offset: u64, bits: u64, kind: FieldKind) -> Option<Field> {
        let is_name = !name.is_empty()
            && name.len() <= MOST_LETTERS
            && name.bytes().all(|c| c.is_ascii_alphanumeric() || b"_.[]".contains(&c));
        let fits = (1..=64).contains(&bits) && bit_offset.checked_add(bits)? <= MOST_BITS;
        (is_name && fits).then_some(Field {
            name,
            bit_offset: bit_offset as u32,
            bits: bits as u32,
            kind,
        })
    }

    /// Returns the path of the field from the struct on: `bw.s[0].v`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the first bit, counted from the start of the state.
    pub fn bit_offset(&self) -> u32 {
        self.bit_offset
    }

    /// Returns the number of bits, 1 to 64.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the interpretation of the bits.
    pub fn kind(&self) -> &FieldKind {
        &self.kind
    }

    /// Reads the value from a state given in words of 8 bytes. `None` if the field lies beyond its
    /// end.
    pub fn read(&self, state: &[u64]) -> Option<i128> {
        let (at, shift) = (self.bit_offset as usize / 64, self.bit_offset % 64);
        let low = u128::from(*state.get(at)?);
        let high = match shift + self.bits > 64 {
            true => u128::from(*state.get(at + 1)?),
            false => 0,
        };
        let value = (high << 64 | low) >> shift & ((1 << self.bits) - 1);
        let is_negative = self.kind == FieldKind::Signed && value >> (self.bits - 1) == 1;
        let value = value as i128;
        Some(if is_negative { value - (1 << self.bits) } else { value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_where_they_lie() {
        let mut private = [0_u64; 13];
        private[0] = 0xffff_fffe_0000_0102;
        private[1] = 0b1010_0000;
        let read = |bit_offset, bits, kind| {
            Field::new("x".into(), bit_offset, bits, kind).unwrap().read(&private)
        };
        assert_eq!(read(0, 8, FieldKind::Unsigned), Some(2));
        assert_eq!(read(0, 16, FieldKind::Unsigned), Some(258));
        assert_eq!(read(32, 32, FieldKind::Unsigned), Some(0xffff_fffe));
        assert_eq!(read(32, 32, FieldKind::Signed), Some(-2));
        assert_eq!(read(69, 3, FieldKind::Unsigned), Some(5));
        assert_eq!(read(69, 3, FieldKind::Signed), Some(-3));
        assert_eq!(read(0, 64, FieldKind::Pointer), Some(0xffff_fffe_0000_0102));
        assert_eq!(read(60, 12, FieldKind::Unsigned), Some(0xa0 << 4 | 0xf), "over two words");
        assert_eq!(read(13 * 64 - 8, 16, FieldKind::Unsigned), None, "beyond the private area");
    }

    #[test]
    fn what_no_state_has_is_no_field() {
        for (name, bit_offset, bits) in [
            ("", 0, 8),
            ("a b", 0, 8),
            ("a\n", 0, 8),
            ("a", 0, 0),
            ("a", 0, 65),
            ("a", 4090, 8),
            ("a", u64::MAX, 8),
        ] {
            assert_eq!(Field::new(name.into(), bit_offset, bits, FieldKind::Unsigned), None);
        }
    }
}
