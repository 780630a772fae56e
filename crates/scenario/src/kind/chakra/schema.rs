//! Messages of Chakra execution traces (`schema/protobuf/et_def.proto` of MLCommons Chakra), as far as they are read.
//! Fields that are not here are skipped.

use prost::{Enumeration, Message, Oneof};

/// The first message of a file.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GlobalMetadata {
    #[prost(string, tag = "1")]
    pub(super) version: String,
}

/// An operation of a rank.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Node {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(enumeration = "NodeType", tag = "3")]
    pub(super) kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    pub(super) ctrl_deps: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    pub(super) data_deps: Vec<u64>,
    #[prost(uint64, tag = "7")]
    pub(super) duration_us: u64,
    #[prost(message, optional, tag = "8")]
    pub(super) inputs: Option<IoInfo>,
    #[prost(message, repeated, tag = "10")]
    pub(super) attr: Vec<Attribute>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Enumeration)]
#[repr(i32)]
pub(super) enum NodeType {
    Invalid = 0,
    Metadata = 1,
    MemLoad = 2,
    MemStore = 3,
    Comp = 4,
    CommSend = 5,
    CommRecv = 6,
    CommColl = 7,
    Storage = 8,
    Batch = 9,
    Checkpoint = 10,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Enumeration)]
#[repr(i32)]
pub(super) enum CollectiveCommType {
    AllReduce = 0,
    Reduce = 1,
    AllGather = 2,
    Gather = 3,
    Scatter = 4,
    Broadcast = 5,
    AllToAll = 6,
    ReduceScatter = 7,
    ReduceScatterBlock = 8,
    Barrier = 9,
}

/// Values of a node's inputs, as text.
#[derive(Clone, PartialEq, Message)]
pub(super) struct IoInfo {
    #[prost(string, tag = "1")]
    pub(super) values: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Attribute {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(oneof = "AttributeValue", tags = "7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 28, 29")]
    pub(super) value: Option<AttributeValue>,
}

/// Values of the types that attributes of interest have.
#[derive(Clone, PartialEq, Oneof)]
pub(super) enum AttributeValue {
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(message, tag = "28")]
    Bools(BoolList),
    #[prost(string, tag = "29")]
    Text(String),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BoolList {
    #[prost(bool, repeated, tag = "1")]
    pub(super) values: Vec<bool>,
}

impl AttributeValue {
    /// Returns the value as a whole number that is not negative.
    pub(super) fn number(&self) -> Option<u64> {
        match *self {
            AttributeValue::Int32(n) | AttributeValue::Sint32(n) | AttributeValue::Sfixed32(n) => {
                u64::try_from(n).ok()
            }
            AttributeValue::Int64(n) | AttributeValue::Sint64(n) | AttributeValue::Sfixed64(n) => {
                u64::try_from(n).ok()
            }
            AttributeValue::Uint32(n) | AttributeValue::Fixed32(n) => Some(n.into()),
            AttributeValue::Uint64(n) | AttributeValue::Fixed64(n) => Some(n),
            _ => None,
        }
    }
}
