//! Flight recordings of simulated runs, among the other result files.

use std::cell::RefCell;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use knee_flight::{Ending, Header, Origin, Writer};
use knee_run::Outcome;
use knee_run::spec::{LinuxVersion, Run};
use knee_sim::simulate_recorded;

use crate::cases::RunId;
use crate::error::Error;
use crate::experiment::Experiment;
use crate::scenario::Scenario;

/// Which calls are recorded, and where to.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    /// Name of the traffic entry.
    pub(crate) entry: String,
    /// Makes the path under which a file is written until it is complete.
    pub(crate) partial: fn(&Path, &str, &str) -> PathBuf,
    pub(crate) dir: PathBuf,
    pub(crate) mark: String,
}

impl Recording {
    /// Whether this run is recorded: the first of each row. Its repeats differ by their seeds alone.
    pub(crate) fn has(&self, id: RunId) -> bool {
        id.repeat == 0
    }

    /// Simulates a run and records it; the name that its file is to have.
    pub(crate) fn simulate(
        &self,
        experiment: &Experiment,
        scenario: &Scenario,
        id: RunId,
        run: &Run,
    ) -> Result<(Outcome, String), Error> {
        let refused = |message: String| Error::Simulation {
            file: experiment.path.clone(),
            run: experiment.describe(&experiment.configurations[id.configuration]),
            message,
        };
        let group = scenario.groups().iter().position(|(name, _)| *name == self.entry);
        let group = group.ok_or_else(|| {
            let names: Vec<String> = scenario.groups().into_iter().map(|(name, _)| name).collect();
            refused(format!(
                "no traffic \"{}\" to trace; there is {}",
                self.entry,
                names.join(", ")
            ))
        })? as u32;
        let first = run.flows.iter().find(|flow| flow.group == group);
        let flow = first
            .ok_or_else(|| refused(format!("\"{}\" has no connections to trace", self.entry)))?;
        if let Some(module) = flow.cc.algorithm.module() {
            return Err(refused(format!(
                "{} cannot be traced: a recording is replayed by the algorithms of knee's own folder",
                module.path().display()
            )));
        }
        let host = run.network.nodes[flow.from as usize].host.as_ref();
        let (hz, linux) = host.map_or((1000, LinuxVersion::V6_1), |host| (host.hz, host.linux));
        let header = Header {
            release: linux.name().to_owned(),
            about: format!(
                "traffic {} of {}, run {}, {}",
                self.entry,
                experiment.name,
                id.index,
                experiment.describe(&experiment.configurations[id.configuration])
            ),
            ..Header::new(flow.cc.algorithm, &flow.cc.params, Origin::Simulator, hz)
        };
        let name = format!("{}-run-{}.flight", self.entry, id.index);
        let path = (self.partial)(&self.dir, &name, &self.mark);
        let failed = |why: knee_flight::Error| match why {
            knee_flight::Error::Io(why) => Error::io(&self.dir.join(&name), "cannot write", why),
            other => refused(other.to_string()),
        };
        let file = knee_files::create_new(&path);
        let file = file.map_err(|why| failed(why.into()))?;
        let writer = Writer::new(BufWriter::new(file), &header).map_err(failed)?;
        let tape = Rc::new(RefCell::new(Tape { writer, failed: None }));
        let sink = Rc::clone(&tape);
        let outcome = simulate_recorded(run, group, move |record| sink.borrow_mut().write(&record))
            .map_err(|why| refused(why.to_string()))?;
        let tape = Rc::into_inner(tape).expect("the simulation is over, and its sockets gone");
        tape.into_inner().finish().map_err(failed)?;
        Ok((outcome, name))
    }
}

/// A recording being written from within the simulation, which goes on if that fails.
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
