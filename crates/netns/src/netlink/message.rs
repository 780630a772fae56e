//! Requests and answers as bytes (`linux/netlink.h`).

// From the kernel's user API: netlink.h.
pub(super) const NLMSG_ERROR: u16 = 2;
pub(super) const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
pub(super) const NLM_F_ACK: u16 = 4;
pub(super) const NLM_F_DUMP_INTR: u16 = 0x10;
const NLA_F_NESTED: u16 = 1 << 15;
/// The upper bits of an attribute's kind say how its value is written.
const NLA_TYPE_MASK: u16 = 0x3fff;
const HEADER_BYTES: usize = 16;

/// One request: a header, the family's fixed part, attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A message of this kind and flags, with its family's fixed part (length a multiple of 4) and attributes.
    pub fn new(kind: u16, flags: u16, fixed: &[u8], attributes: &Attributes) -> Message {
        debug_assert_eq!(fixed.len() % 4, 0, "fixed parts are whole words");
        let len = (HEADER_BYTES + fixed.len() + attributes.0.len()) as u32;
        let mut bytes = Vec::with_capacity(len as usize);
        bytes.extend(len.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        // Its number and the port of who asks.
        bytes.extend([0; 8]);
        bytes.extend(fixed);
        bytes.extend(&attributes.0);
        Message { bytes }
    }

    /// Requests an acknowledgement in any case (`NLM_F_ACK`).
    pub fn answered(mut self) -> Message {
        let flags = half(&self.bytes, 6).unwrap_or_default() | NLM_F_ACK;
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        self
    }

    /// The request as it is sent, its number 0.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends it to a batch, with its sequence number, and `NLM_F_ACK` if `answer`.
    pub(super) fn append_to(&self, batch: &mut Vec<u8>, number: u32, answer: bool) {
        let start = batch.len();
        let message = if answer { &self.clone().answered() } else { self };
        batch.extend(&message.bytes);
        batch[start + 8..start + 12].copy_from_slice(&number.to_ne_bytes());
    }
}

/// Attributes of a message, or those that are the value of another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// Adds an attribute.
    pub fn with(mut self, kind: u16, value: &[u8]) -> Attributes {
        let len = u16::try_from(value.len() + 4).expect("an attribute is shorter than 64 KiB");
        self.0.extend(len.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Adds a number.
    pub fn with_u32(self, kind: u16, value: u32) -> Attributes {
        self.with(kind, &value.to_ne_bytes())
    }

    /// Adds a number if there is one.
    pub fn with_some_u32(self, kind: u16, value: Option<u32>) -> Attributes {
        match value {
            Some(value) => self.with_u32(kind, value),
            None => self,
        }
    }

    /// Adds a number.
    pub fn with_u64(self, kind: u16, value: u64) -> Attributes {
        self.with(kind, &value.to_ne_bytes())
    }

    /// Adds a name; the kernel wants it with its end.
    pub fn with_name(self, kind: u16, name: &str) -> Attributes {
        self.with(kind, &[name.as_bytes(), b"\0"].concat())
    }

    /// Adds one that consists of attributes.
    pub fn with_nested(self, kind: u16, inner: &Attributes) -> Attributes {
        self.with(kind | NLA_F_NESTED, &inner.0)
    }

    /// Adds all of others.
    pub fn with_all(mut self, others: &Attributes) -> Attributes {
        self.0.extend(&others.0);
        self
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes themselves, of attributes that stand behind something else in a value.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// A message of the kernel's.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Type, such as `RTM_NEWROUTE`.
    pub kind: u16,
    pub(super) flags: u16,
    /// Sequence number and port of the request that it answers.
    pub(super) number: u32,
    pub(super) port: u32,
    /// Body after the header: the family's fixed part and attributes.
    pub body: Vec<u8>,
}

impl Answer {
    /// Parses all messages of a buffer; `None`: one is truncated.
    pub fn all(mut bytes: &[u8]) -> Option<Vec<Answer>> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let len = word(bytes, 0)? as usize;
            let body = bytes.get(HEADER_BYTES..len)?.to_vec();
            let (kind, flags) = (half(bytes, 4)?, half(bytes, 6)?);
            let (number, port) = (word(bytes, 8)?, word(bytes, 12)?);
            all.push(Answer { kind, flags, number, port, body });
            bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        Some(all)
    }

    /// The code of a refusal, negative, or 0 of a confirmation; a list's end may come without.
    pub(super) fn error(&self) -> Option<i32> {
        let code = word(&self.body, 0).map(|code| code as i32);
        match self.kind {
            // EIO for one that is cut short.
            NLMSG_ERROR => Some(code.unwrap_or(-5)),
            NLMSG_DONE => Some(code.unwrap_or(0).min(0)),
            _ => None,
        }
    }

    /// The attributes behind a fixed part of this length.
    pub fn attributes(&self, fixed_bytes: usize) -> impl Iterator<Item = (u16, &[u8])> {
        attributes(self.body.get(fixed_bytes..).unwrap_or_default())
    }
}

/// Kinds and values of the attributes in these bytes; what is cut short is left out.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(half(bytes, 0)?);
        let kind = half(bytes, 2)? & NLA_TYPE_MASK;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

pub(super) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_read_back() {
        let inner = Attributes::default().with(1, b"abc").with_u64(2, 7);
        let outer = Attributes::default().with_name(1, "red").with_nested(2, &inner);
        let bytes = Message::new(36, 0, &[0; 20], &outer).answered().into_bytes();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(bytes[..4], (bytes.len() as u32).to_ne_bytes());
        assert_eq!((half(&bytes, 4), half(&bytes, 6)), (Some(36), Some(5)));
        let answers = Answer::all(&bytes).expect("it is whole");
        let outer: Vec<_> = answers[0].attributes(20).collect();
        assert_eq!(outer[0], (1, &b"red\0"[..]));
        let inner: Vec<_> = attributes(outer[1].1).collect();
        assert_eq!(inner, [(1, &b"abc"[..]), (2, &7_u64.to_ne_bytes()[..])]);
        assert_eq!(attributes(&bytes[36..43]).count(), 0, "cut short");
        assert!(Answer::all(&bytes[..bytes.len() - 1]).is_none());
    }
}
