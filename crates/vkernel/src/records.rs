//! Orders and records in the format of the files that a guest reads and writes.

use knee_traffic::bytes::Plain;

use crate::Error;
use crate::guest::{Orders, Records};

impl Orders {
    /// Encodes the orders for the guest.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.put(&mut bytes);
        bytes
    }
}

impl Records {
    /// Reads a guest's records.
    ///
    /// # Errors
    /// Reports the guest's failure, and a file that ends early or late.
    pub fn read(mut bytes: &[u8]) -> Result<Records, Error> {
        if let Some(Some(why)) = <Option<String> as Plain>::take(&mut bytes) {
            return Err(Error::Failed(format!("the guest: {why}")));
        }
        match Records::take(&mut bytes) {
            Some(records) if bytes.is_empty() => Ok(records),
            _ => Err(Error::Failed("the guest's results are cut short".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::{QueueAnswer, Step};
    use knee_traffic::Moment;

    #[test]
    fn records_are_read_back_and_what_is_cut_short_is_refused() {
        let answer = QueueAnswer { at_ns: 5, moment: Moment::WindowEnd, queue: 7, answer: vec![1] };
        let counts = vec![(3, true, b"TcpExt: TCPTimeouts".to_vec())];
        let mut records =
            Records { zero_ns: 4, queues: vec![answer], counts, ..Default::default() };
        records.traffic.rpcs.push((3, 5, 7));
        let mut bytes = Vec::new();
        None::<String>.put(&mut bytes);
        records.put(&mut bytes);
        let read = Records::read(&bytes).unwrap();
        assert_eq!((read.zero_ns, read.queues, read.counts), (4, records.queues, records.counts));
        assert_eq!(read.traffic.rpcs, [(3, 5, 7)]);
        for len in 0..bytes.len() {
            let why = Records::read(&bytes[..len]).unwrap_err().to_string();
            assert!(why.contains("cut short"), "{len}: {why}");
        }
    }

    #[test]
    fn what_the_guest_could_not_do_is_told() {
        let mut bytes = Vec::new();
        Some("bind: error 98".to_owned()).put(&mut bytes);
        let why = Records::read(&bytes).unwrap_err().to_string();
        assert_eq!(why, "the guest: bind: error 98");
    }

    #[test]
    fn steps_are_read_back() {
        let write = Step::Write { namespace: 1, path: "/p".to_owned(), text: String::new() };
        let ask = Step::Netlink { namespace: 2, request: vec![9], what: "a link".to_owned() };
        let orders = Orders { steps: vec![write, ask], ..Orders::default() };
        let read = Orders::take(&mut &orders.to_bytes()[..]).unwrap();
        assert_eq!(format!("{:?}", read.steps), format!("{:?}", orders.steps));
    }
}
