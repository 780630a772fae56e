//! Flight recordings of simulated runs.

use std::cell::RefCell;
use std::fs::File;
use std::io::BufWriter;
use std::rc::Rc;
use std::sync::Arc;

use knee_flight::{Ending, Header, Origin, Writer};
use knee_run::back_end::Recording;
use knee_run::spec::LinuxVersion;
use knee_run::{Error, Outcome, Run};

use crate::sim::recorded;
use crate::stop::Stop;

/// Simulates a run and writes the requested recording.
///
/// # Errors
/// If the run cannot be simulated or recorded, or a file cannot be written.
pub(crate) fn simulate(
    (run, stop): (&Run, Stop<'_>),
    wanted: &Recording<'_>,
) -> Result<Outcome, Error> {
    let flow = run.flows.iter().find(|flow| flow.group == wanted.group);
    let flow = flow.expect("a run has connections of the group that is recorded");
    let host = run.network.nodes[flow.from as usize].host.as_ref();
    let (hz, linux) = host.map_or((1000, LinuxVersion(6, 1)), |host| (host.hz, host.linux));
    let header = Header {
        release: linux.to_string(),
        about: wanted.about.to_owned(),
        ..Header::new(flow.cc.algorithm, &flow.cc.params, Origin::Simulator, hz)
    };
    let failed = |why: knee_flight::Error| match why {
        knee_flight::Error::Io(why) => {
            Error::File { path: wanted.path.to_owned(), source: Arc::new(why) }
        }
        other => Error::Failed(other.to_string()),
    };
    let file = knee_files::create_new(wanted.path).map_err(|why| failed(why.into()))?;
    let writer = Writer::new(BufWriter::new(file), &header).map_err(failed)?;
    let tape = Rc::new(RefCell::new(Tape { writer, failed: None }));
    let sink = Rc::clone(&tape);
    let outcome =
        recorded((run, stop), wanted.group, move |record| sink.borrow_mut().write(&record))?;
    let tape = Rc::into_inner(tape).expect("the simulation is over, and its sockets gone");
    tape.into_inner().finish().map_err(failed)?;
    Ok(outcome)
}

/// A recording, written during the simulation. The simulation continues if a write fails.
struct Tape {
    writer: Writer<BufWriter<File>>,
    failed: Option<knee_flight::Error>,
}

impl Tape {
    fn write(&mut self, record: &knee_flight::Record) {
        if self.failed.is_none() {
            self.failed = self.writer.write(record).err();
        }
    }

    fn finish(self) -> Result<(), knee_flight::Error> {
        match self.failed {
            Some(why) => Err(why),
            None => self.writer.finish(&Ending::default()).map(drop),
        }
    }
}
