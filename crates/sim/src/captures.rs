//! Captures of the hosts of simulated runs.

use crate::sim::captured;
use crate::stop::Stop;
use crate::tap::frame::Frames;
use crate::tap::hosts::{Place, Sighting};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use knee_run::error::caused;
use knee_run::spec::Run;
use knee_run::{Error, Outcome};
use knee_wire::host::{AT_HOST, AT_PORT, HostFile, SNAP_BYTES};
use knee_wire::{Direction, Record};

/// Simulates a run and writes `HOST.pcapng` for each host into an existing directory.
///
/// # Errors
/// If the run cannot be simulated or a file cannot be written.
pub fn simulate(run: &Run, dir: &Path) -> Result<Outcome, Error> {
    simulate_until((run, Stop::default()), dir)
}

/// The same, until it is stopped.
pub(crate) fn simulate_until((run, stop): (&Run, Stop<'_>), dir: &Path) -> Result<Outcome, Error> {
    let files = HostFiles::create(run, dir).map_err(caused)?;
    let files = Rc::new(RefCell::new(files));
    let sink = Rc::clone(&files);
    let outcome = captured((run, stop), move |sighting| sink.borrow_mut().take(&sighting))?;
    let files = Rc::into_inner(files).expect("the simulation is over, and its sink gone");
    files.into_inner().finish().map_err(caused)?;
    Ok(outcome)
}

/// Capture files, written during the simulation. The simulation continues if a write fails.
struct HostFiles {
    frames: Frames,
    /// The file of each node; `None` for switches.
    files: Vec<Option<HostFile>>,
    /// The frame under construction.
    bytes: Vec<u8>,
    failed: Option<knee_wire::Error>,
}

impl HostFiles {
    fn create(run: &Run, dir: &Path) -> Result<HostFiles, knee_wire::Error> {
        let nodes = run.network.nodes.iter();
        let files = nodes.map(|node| {
            let is_host = node.host.is_some();
            is_host.then(|| HostFile::create(dir, &node.name)).transpose()
        });
        Ok(HostFiles {
            frames: Frames::new(&run.network),
            files: files.collect::<Result<_, _>>()?,
            bytes: Vec::new(),
            failed: None,
        })
    }

    fn take(&mut self, sighting: &Sighting) {
        if self.failed.is_none() {
            self.failed = self.write(sighting).err();
        }
    }

    fn write(&mut self, sighting: &Sighting) -> Result<(), knee_wire::Error> {
        let Some(file) = &mut self.files[sighting.host as usize] else { return Ok(()) };
        let original_len = self.frames.encode(&sighting.packet, SNAP_BYTES, &mut self.bytes)?;
        file.write(&Record {
            interface: if sighting.place == Place::Host { AT_HOST } else { AT_PORT },
            at_ns: sighting.at.ns(),
            original_len,
            data: &self.bytes,
            direction: Some(if sighting.is_out { Direction::Out } else { Direction::In }),
            comment: None,
        })
    }

    fn finish(self) -> Result<(), knee_wire::Error> {
        self.failed.map_or(Ok(()), Err)?;
        self.files.into_iter().flatten().try_for_each(HostFile::finish)
    }
}
