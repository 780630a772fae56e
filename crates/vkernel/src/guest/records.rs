//! What a guest tells.

use knee_linux::counts::{Mib, add_pairs};
use knee_linux::side::{Look, SideReport};

use crate::Error;

const ERROR: u32 = 1;
const FLOW_SAMPLE: u32 = 2;
const QUEUE: u32 = 3;
const GOODPUT: u32 = 4;
const RPC: u32 = 5;
const PING: u32 = 6;
const SIDE: u32 = 7;
const COUNTS: u32 = 8;
const LOOK: u32 = 9;
const END: u32 = 10;

/// Why a queue was looked at; else for a sample.
const AT_END: u32 = 1;
const AT_WINDOW_BEGIN: u32 = 2;
const AT_WINDOW_END: u32 = 3;

/// A sample of a connecting side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSample {
    pub at_ns: u64,
    /// Index of the flow.
    pub flow: u32,
    /// `struct tcp_info`, as long as the kernel's.
    pub info: Vec<u8>,
    /// Values inside the algorithm; empty: it is none of ours.
    pub inside: Vec<u64>,
}

/// What the kernel told of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueAnswer {
    pub at_ns: u64,
    /// Which of those that were asked for.
    pub queue: u32,
    /// `RTM_NEWQDISC` with its attributes.
    pub answer: Vec<u8>,
}

/// Everything that a guest has told. Times are ns since the run's time 0.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// When the run ended.
    pub end_ns: u64,
    /// Its time 0 on the guest's clock.
    pub zero_ns: u64,
    /// Both sides of each flow.
    pub sides: Vec<SideReport>,
    /// Completed exchanges: flow, start, latency.
    pub rpcs: Vec<(u32, u64, u64)>,
    /// Pings: stream, when it left, until its echo was back; in the order of sending.
    pub pings: Vec<(u32, u64, Option<u64>)>,
    pub flow_samples: Vec<FlowSample>,
    /// End of the period, flow, bytes.
    pub goodput_samples: Vec<(u64, u32, u64)>,
    pub queue_samples: Vec<QueueAnswer>,
    /// Queues at the end.
    pub queues: Vec<QueueAnswer>,
    /// Queues at the beginning and at the end of the measured window.
    pub window_queues: [Vec<QueueAnswer>; 2],
    /// Sides of connections that there were then.
    pub window_looks: [Vec<Look>; 2],
    /// What each host had counted before the run and after it.
    pub counts: Vec<[Mib; 2]>,
}

impl Records {
    /// Reads the file of a guest with so many hosts.
    ///
    /// # Errors
    /// What the guest says has failed, and a file that does not end as it should.
    pub fn read(bytes: &[u8], hosts: usize) -> Result<Records, Error> {
        let mut records = Records { counts: vec![Default::default(); hosts], ..Records::default() };
        let mut rest = bytes;
        let mut has_end = false;
        while let Some((kind, body, after)) = record(rest) {
            rest = after;
            has_end |= kind == END;
            records.take(kind, body)?;
        }
        if !has_end || !rest.is_empty() {
            return Err(Error::Failed("the guest's results are cut short".to_owned()));
        }
        records.pings.sort_by_key(|(ping, sent_ns, _)| (*sent_ns, *ping));
        Ok(records)
    }

    fn take(&mut self, kind: u32, body: &[u8]) -> Result<(), Error> {
        let mut body = Body(body);
        let known = match kind {
            ERROR => {
                return Err(Error::Failed(format!(
                    "the guest: {}",
                    String::from_utf8_lossy(body.0)
                )));
            }
            FLOW_SAMPLE => body.flow_sample().map(|sample| self.flow_samples.push(sample)),
            QUEUE => body.queue().map(|(answer, moment)| {
                let [begin, end] = &mut self.window_queues;
                let to = match moment {
                    AT_END => &mut self.queues,
                    AT_WINDOW_BEGIN => begin,
                    AT_WINDOW_END => end,
                    _ => &mut self.queue_samples,
                };
                to.push(answer);
            }),
            LOOK => body.look().map(|(moment, look)| {
                let [begin, end] = &mut self.window_looks;
                if moment == AT_WINDOW_BEGIN { begin.push(look) } else { end.push(look) }
            }),
            GOODPUT => body.goodput().map(|sample| self.goodput_samples.push(sample)),
            RPC => body.rpc().map(|rpc| self.rpcs.push(rpc)),
            PING => body.ping().map(|ping| self.pings.push(ping)),
            SIDE => body.side().map(|side| self.sides.push(side)),
            COUNTS => body.u32().zip(body.u32()).and_then(|(host, is_last)| {
                let of_host = self.counts.get_mut(host as usize)?;
                let mib = of_host.get_mut(is_last as usize)?;
                add_pairs(mib, &String::from_utf8_lossy(body.0));
                Some(())
            }),
            END => body.u64().zip(body.u64()).map(|(end_ns, zero_ns)| {
                (self.end_ns, self.zero_ns) = (end_ns, zero_ns);
            }),
            _ => None,
        };
        known.ok_or_else(|| {
            Error::Failed(format!("the guest's results hold a record {kind} that nobody knows"))
        })
    }
}

/// Kind, body, and what follows.
fn record(bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let kind = u32::from_ne_bytes(*bytes.first_chunk()?);
    let len = u32::from_ne_bytes(*bytes.get(4..)?.first_chunk()?) as usize;
    let body = bytes.get(8..8 + len)?;
    Some((kind, body, bytes.get(8 + len.next_multiple_of(8)..)?))
}

/// What is left of a record.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(first)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_ne_bytes)
    }

    /// A time that may never have come.
    fn time(&mut self) -> Option<Option<u64>> {
        self.u64().map(|ns| Some(ns).filter(|ns| *ns != u64::MAX))
    }

    fn flow_sample(&mut self) -> Option<FlowSample> {
        let (at_ns, flow) = (self.u64()?, self.u32()?);
        let (info_len, inside_len) = (self.u16()?, self.u16()?);
        let info = self.take(info_len.into())?.to_vec();
        let inside = self.take(inside_len.into())?.chunks_exact(8);
        let inside = inside.filter_map(|value| Some(u64::from_ne_bytes(value.try_into().ok()?)));
        let inside = inside.collect();
        Some(FlowSample { at_ns, flow, info, inside })
    }

    fn queue(&mut self) -> Option<(QueueAnswer, u32)> {
        let (at_ns, queue, moment) = (self.u64()?, self.u32()?, self.u32()?);
        Some((QueueAnswer { at_ns, queue, answer: self.0.to_vec() }, moment))
    }

    fn look(&mut self) -> Option<(u32, Look)> {
        let (moment, flow, listens) = (self.u32()?, self.u32()?, self.u32()? == 1);
        let info_len = self.u32()?;
        Some((moment, (flow, listens, self.take(info_len as usize)?.to_vec())))
    }

    fn goodput(&mut self) -> Option<(u64, u32, u64)> {
        let (at_ns, bytes) = (self.u64()?, self.u64()?);
        Some((at_ns, self.u32()?, bytes))
    }

    fn rpc(&mut self) -> Option<(u32, u64, u64)> {
        let (start_ns, latency_ns) = (self.u64()?, self.u64()?);
        Some((self.u32()?, start_ns, latency_ns))
    }

    fn ping(&mut self) -> Option<(u32, u64, Option<u64>)> {
        let (sent_ns, rtt_ns) = (self.u64()?, self.time()?);
        Some((self.u32()?, sent_ns, rtt_ns))
    }

    fn side(&mut self) -> Option<SideReport> {
        let (connected_ns, established_ns) = (self.time()?, self.time()?);
        let (done_ns, stopped_ns) = (self.time()?, self.time()?);
        let (read_bytes, flow, listens) = (self.u64()?, self.u32()?, self.u32()? == 1);
        let (error, info_len) = (self.u32()?, self.u32()?);
        let name = self.take(16)?.split(|byte| *byte == 0).next()?;
        Some(SideReport {
            flow,
            listens,
            connected_ns,
            established_ns,
            done_ns,
            stopped_ns,
            read_bytes,
            algorithm: String::from_utf8_lossy(name).into_owned(),
            info: self.take(info_len as usize)?.to_vec(),
            init_called: None,
            error: (error != 0)
                .then(|| std::io::Error::from_raw_os_error(error as i32).to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(records: &[(u32, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, body) in records {
            bytes.extend_from_slice(&kind.to_ne_bytes());
            bytes.extend_from_slice(&(body.len() as u32).to_ne_bytes());
            bytes.extend_from_slice(body);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes
    }

    #[test]
    fn records_are_read_back() {
        let mut rpc = Vec::new();
        for value in [5_u64, 7, 3] {
            rpc.extend_from_slice(&value.to_ne_bytes());
        }
        let counts = [&[0, 0, 0, 0, 1, 0, 0, 0][..], b"TcpExt: TCPTimeouts\nTcpExt: 4\n"].concat();
        let end = [9_u64, 4].map(u64::to_ne_bytes).concat();
        let bytes = written(&[(RPC, &rpc), (COUNTS, &counts), (END, &end)]);
        let records = Records::read(&bytes, 1).unwrap();
        assert_eq!(records.rpcs, [(3, 5, 7)]);
        assert_eq!((records.end_ns, records.zero_ns), (9, 4));
        assert_eq!(records.counts[0][0].len(), 0);
        assert_eq!(records.counts[0][1]["TCPTimeouts"], 4);
    }

    #[test]
    fn what_the_guest_could_not_do_is_told() {
        let bytes = written(&[(ERROR, b"bind: error 98")]);
        let why = Records::read(&bytes, 0).unwrap_err().to_string();
        assert_eq!(why, "the guest: bind: error 98");
    }

    #[test]
    fn a_file_that_is_cut_short_is_refused() {
        let bytes = written(&[(END, &[0; 16])]);
        for len in [0, 4, 12] {
            let why = Records::read(&bytes[..len], 0).unwrap_err().to_string();
            assert!(why.contains("cut short"), "{len}: {why}");
        }
        let why = Records::read(&written(&[(77, b"")]), 0).unwrap_err().to_string();
        assert!(why.contains("record 77"), "{why}");
    }
}
