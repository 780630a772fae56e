//! Requests to the kernel's routing netlink, as bytes (`linux/rtnetlink.h`).

/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `NLM_F_ACK`: the kernel answers whatever comes of it.
pub const ACK: u16 = 4;
/// `NLM_F_ECHO`: whoever asks is told what is also announced.
pub const ECHO: u16 = 8;
/// `NLM_F_CREATE` and `NLM_F_EXCL`: it must not be there yet.
pub const CREATE: u16 = 0x400 | 0x200;
/// `RTM_NEWLINK`.
pub const NEW_LINK: u16 = 16;
/// `RTM_GETLINK`.
pub const GET_LINK: u16 = 18;
/// `RTM_NEWADDR`.
pub const NEW_ADDRESS: u16 = 20;
/// `RTM_NEWROUTE`.
pub const NEW_ROUTE: u16 = 24;
/// `RTM_NEWQDISC`.
pub const NEW_QDISC: u16 = 36;
/// `RTM_GETQDISC`.
pub const GET_QDISC: u16 = 38;
/// `NLA_F_NESTED`, in the kind of an attribute that consists of attributes: newer parts of the kernel ask for it.
pub const NESTED: u16 = 0x8000;
/// Length of `struct nlmsghdr`.
pub const HEADER_BYTES: usize = 16;

/// A request that is being written.
#[derive(Clone, Debug)]
pub struct Request(Vec<u8>);

impl Request {
    /// Of this type, with these flags and its fixed part, whose length is a multiple of 4.
    pub fn new(kind: u16, flags: u16, fixed: &[u8]) -> Request {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(REQUEST | flags).to_ne_bytes());
        bytes.extend_from_slice(fixed);
        Request(bytes)
    }

    /// Adds an attribute.
    pub fn with(mut self, kind: u16, value: &[u8]) -> Request {
        push(&mut self.0, kind, value);
        self
    }

    /// Adds an attribute with a number.
    pub fn with_u32(self, kind: u16, value: u32) -> Request {
        self.with(kind, &value.to_ne_bytes())
    }

    /// Adds an attribute that consists of attributes.
    pub fn with_nested(self, kind: u16, inner: &Attributes) -> Request {
        self.with(kind, &inner.0)
    }

    /// The bytes, with their length in the header.
    pub fn finish(mut self) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }
}

/// Attributes that are a value of another one.
#[derive(Clone, Debug, Default)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// Adds an attribute.
    pub fn with(mut self, kind: u16, value: &[u8]) -> Attributes {
        push(&mut self.0, kind, value);
        self
    }

    /// Adds an attribute with a number.
    pub fn with_u32(self, kind: u16, value: u32) -> Attributes {
        self.with(kind, &value.to_ne_bytes())
    }

    /// Adds an attribute with a number.
    pub fn with_u64(self, kind: u16, value: u64) -> Attributes {
        self.with(kind, &value.to_ne_bytes())
    }

    /// Adds an attribute that consists of attributes.
    pub fn with_nested(self, kind: u16, inner: &Attributes) -> Attributes {
        self.with(kind, &inner.0)
    }

    /// The bytes themselves: some values are not wrapped in attributes.
    pub fn raw(bytes: Vec<u8>) -> Attributes {
        Attributes(bytes)
    }
}

fn push(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    bytes.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// The attributes in these bytes; what is cut short is left out.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?);
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        // The upper bits say how the value is written.
        Some((kind & 0x3fff, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_read_back() {
        let inner = Attributes::default().with(1, b"abc").with_u64(2, 7);
        let request =
            Request::new(NEW_QDISC, ACK, &[0; 20]).with(1, b"red\0").with_nested(2, &inner);
        let bytes = request.finish();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(bytes[..4], (bytes.len() as u32).to_ne_bytes());
        assert_eq!(bytes[4..8], [36, 0, 5, 0]);
        let outer: Vec<_> = attributes(&bytes[36..]).collect();
        assert_eq!(outer[0], (1, &b"red\0"[..]));
        let inner: Vec<_> = attributes(outer[1].1).collect();
        assert_eq!(inner, [(1, &b"abc"[..]), (2, &7_u64.to_ne_bytes()[..])]);
        assert_eq!(attributes(&bytes[36..43]).count(), 0, "cut short");
    }
}
