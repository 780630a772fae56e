//! Records the calls of a registered algorithm, whoever loaded it.
//!
//! The programs find three things in their maps (`record.h`): a switch, a filter, and a slot that
//! holds a ring buffer while someone traces. The tracer makes the ring, so it costs no memory at
//! other times. It switches recording on for a short *lease*, which it renews while it lives. A
//! killed tracer cannot switch off: the first program that runs after the lease does. The next
//! tracer, or the end of the algorithm, removes the ring left in the slot.

pub(crate) mod control;
mod filter;
mod module_params;
mod raw;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::rc::Rc;
use std::time::Duration;

use knee_algo::Field;
use knee_flight::{Ending, Header, Origin, Record, SourceFile};
use libbpf_rs::btf::types::{Struct, Var};
use libbpf_rs::btf::{Btf, BtfType, TypeId};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType, RingBuffer, RingBufferBuilder};

use crate::load::PARAMS_MAP;
use crate::registry::{OPS_PREFIX, Program};
use crate::{Error, KernelApi, Registered, registered};
use control::{Control, Lease};
pub use filter::TraceFilter;
use module_params::{ModuleParam, module_params};
use raw::Raw;

/// Bytes of the ring, enough for 30 thousand records while the reader sleeps.
const RING_BYTES: u32 = 1 << 25;
/// Records taken from the ring at a time, so a busy host cannot fill the reader's memory.
const MAX_TAKEN: usize = 1 << 13;
/// The negative number with which the callback makes libbpf stop after the present record.
const ENOUGH: i32 = -libc::E2BIG;
/// The map of record.h that holds the ring.
const SLOT: &str = "cc_ring_slot";
/// The suffix of every program's name.
const PROGRAM_SUFFIX: &str = "_prog";
/// The program of bpf.h that stands in for `cong_control` in kernels before 6.10.
const RS_ONLY: &str = "cc_rs_only";
/// The ring's key in the slot.
const KEY: [u8; 4] = 0_u32.to_ne_bytes();

type Taken = Rc<RefCell<VecDeque<Raw>>>;

/// A running recording. Dropping it ends it.
pub struct Tracer {
    // Declared first, so dropped first: it maps memory of `ring_map`.
    ring: RingBuffer<'static>,
    ring_map: MapHandle,
    slot: MapHandle,
    lease: Lease,
    taken: Taken,
    /// The operation of each entry point.
    operations: HashMap<String, String>,
    header: Header,
    /// The total of lost records before this recording.
    lost_before: Ending,
    is_on: bool,
}

impl Tracer {
    /// Begins to record the calls of the algorithm registered as `name`, for the connections that
    /// `filter` chooses. It does not record connections that still run an earlier program of
    /// `name`, from before an update.
    ///
    /// # Errors
    /// [`Error::NotLoaded`]; [`Error::Traced`] while another process records; [`Error::Inspect`]
    /// (it takes CAP_SYS_ADMIN, or CAP_BPF and CAP_PERFMON); [`Error::BadObject`] if the algorithm
    /// was loaded by a knee with another format of records.
    pub fn attach(name: &str, filter: &TraceFilter) -> Result<Tracer, Error> {
        Tracer::with_ring(name, filter, RING_BYTES)
    }

    /// Begins to record as [`Tracer::attach`] does, with a ring of `bytes`, a power of two of
    /// pages. It is for the tests of this workspace.
    #[doc(hidden)]
    pub fn with_ring(name: &str, filter: &TraceFilter, bytes: u32) -> Result<Tracer, Error> {
        let inspect = |source| Error::Inspect { what: "the ring of records", source };
        let found = registered()?.into_iter().find(|one| one.name == name);
        let not_loaded =
            || Error::NotLoaded { name: name.to_owned(), registered: false, loaded_as: Vec::new() };
        let found = found.ok_or_else(not_loaded)?;
        let map = |wanted: &str| {
            found.map(wanted)?.ok_or_else(|| Error::BadObject {
                what: format!("\"{name}\" has no map {wanted}: another version of knee loaded it"),
            })
        };
        let program = Programs::of(&found)?;
        let slot = map(SLOT)?;
        let control = Control::of(&map(control::MAP)?)?;
        let header = header(&found, &program, filter)?;

        let lease = control.take_lease(name)?;
        let ring_map = new_ring(bytes)?;
        let taken = Taken::default();
        let ring = {
            let sink = Rc::clone(&taken);
            let mut builder = RingBufferBuilder::new();
            let take = move |bytes: &[u8]| {
                let mut taken = sink.borrow_mut();
                // `Programs::of` has checked the records' layout.
                taken.extend(Raw::of(bytes));
                if taken.len() < MAX_TAKEN { 0 } else { ENOUGH }
            };
            builder.add(&ring_map, take).map_err(inspect)?;
            builder.build().map_err(inspect)?
        };
        let lost_before = lease.control().lost();
        let operations = program.operations;
        let mut tracer = Tracer {
            ring,
            ring_map,
            slot,
            lease,
            taken,
            operations,
            header,
            lost_before,
            is_on: false,
        };
        // This ends what a killed tracer left on, and no call from its time continues after it.
        tracer.lease.control().begin();
        tracer.put_ring()?;
        tracer.lease.control().switch_on(filter);
        tracer.is_on = true;
        Ok(tracer)
    }

    /// The header of a file of these records.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Waits up to `timeout` for records, and returns those available, up to some thousands. They
    /// come in the order of the ring, which for each socket is the order of the calls. Call it
    /// several times a second, or records are lost. After a pause of more than two seconds the
    /// sockets get new numbers.
    ///
    /// # Errors
    /// [`Error::TakenOver`] if it was not called for seconds and another tracer has begun;
    /// [`Error::Inspect`]; [`Error::BadObject`] if a record is invalid.
    pub fn poll(&mut self, timeout: Duration) -> Result<Vec<Record>, Error> {
        self.renew()?;
        self.take(|ring| ring.poll(timeout))?;
        self.decode()
    }

    /// The records lost so far in this recording.
    pub fn lost(&self) -> Ending {
        let (now, before) = (self.lease.control().lost(), &self.lost_before);
        Ending {
            ring_full: now.ring_full - before.ring_full,
            no_memory: now.no_memory - before.no_memory,
            nested: now.nested - before.nested,
            interrupted: now.interrupted - before.interrupted,
        }
    }

    /// Ends the recording. It waits for calls that are being recorded; afterwards [`Tracer::rest`]
    /// returns what is still in the ring.
    ///
    /// # Errors
    /// [`Error::Inspect`] and [`Error::TakenOver`]. The recording is over in both cases.
    pub fn stop(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_on) {
            return Ok(());
        }
        self.renew()?;
        self.lease.control().close();
        // A program that has begun to record ends before this call does.
        let waited = self.put_ring();
        self.lease.control().switch_off();
        let emptied = self.slot.delete(&KEY);
        self.lease.give_back();
        waited?;
        emptied.map_err(|source| Error::Inspect { what: "the slot of the ring", source })
    }

    /// Returns records made before [`Tracer::stop`], some thousands at a time; an empty list is the
    /// end.
    ///
    /// # Errors
    /// The errors of [`Tracer::poll`].
    pub fn rest(&mut self) -> Result<Vec<Record>, Error> {
        self.take(|ring| ring.consume())?;
        self.decode()
    }

    fn renew(&mut self) -> Result<(), Error> {
        let name = &self.header.name;
        let renewed = self.lease.renew();
        if !renewed {
            // The switch belongs to another process now.
            self.is_on = false;
            return Err(Error::TakenOver { name: name.clone() });
        }
        // This process stood still for so long that the programs took it for dead. The sockets'
        // calls meanwhile are unknown, so the sockets get new numbers.
        if self.is_on && self.lease.control().is_off() {
            self.lease.control().begin();
            self.put_ring()?;
            self.lease.control().resume();
        }
        Ok(())
    }

    /// Puts the ring into its slot. For a map of maps the kernel returns only when all programs
    /// that ran meanwhile have ended.
    fn put_ring(&self) -> Result<(), Error> {
        let ring = (self.ring_map.as_fd().as_raw_fd() as u32).to_ne_bytes();
        self.slot
            .update(&KEY, &ring, MapFlags::ANY)
            .map_err(|source| Error::Inspect { what: "the slot of the ring", source })
    }

    fn take(
        &self,
        from: impl FnOnce(&RingBuffer<'_>) -> libbpf_rs::Result<()>,
    ) -> Result<(), Error> {
        let taken = from(&self.ring);
        // The callback's stop value is no error.
        if self.taken.borrow().len() >= MAX_TAKEN {
            return Ok(());
        }
        match taken {
            // A signal interrupted the wait; the caller checks for it.
            Err(source) if source.kind() == libbpf_rs::ErrorKind::Interrupted => Ok(()),
            taken => taken.map_err(|source| Error::Inspect { what: "the ring of records", source }),
        }
    }

    fn decode(&self) -> Result<Vec<Record>, Error> {
        self.taken.borrow_mut().drain(..).map(|raw| raw.record(&self.operations)).collect()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // Callers that want the error call `stop` themselves before.
        let _ = self.stop();
    }
}

fn new_ring(bytes: u32) -> Result<MapHandle, Error> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    MapHandle::create(MapType::RingBuf, Some("cc_ring"), 0, 0, bytes, &options)
        .map_err(|source| Error::Inspect { what: "memory for a ring of records", source })
}

/// The facts that the type information of an algorithm's programs gives.
struct Programs {
    /// The algorithm: the name of its file.
    algorithm: String,
    /// The names of its parameters.
    params: Vec<String>,
    /// The parameters of a Linux module.
    module_params: Vec<ModuleParam>,
    /// The operation of each entry point (`dctcp_ssthresh`).
    operations: HashMap<String, String>,
    /// The numbers in its private state.
    fields: Vec<Field>,
}

impl Programs {
    fn of(registered: &Registered) -> Result<Programs, Error> {
        let inspect = |source| Error::Inspect { what: "the types of an algorithm", source };
        let (_, any) = registered.programs.first().ok_or_else(|| Error::BadObject {
            what: format!("\"{}\" has no programs", registered.name),
        })?;
        let btf = Btf::from_prog_id(*any).map_err(inspect)?;
        if let Some(differs) = raw::first_that_differs(&btf) {
            return Err(Error::BadObject {
                what: format!(
                    "another version of knee loaded \"{}\", whose {differs} is not this one's: trace \
                     it with that, or load it again",
                    registered.name
                ),
            });
        }
        let ids = (1..btf.len()).map(|id| TypeId::from(id as u32));
        let algorithm = ids
            .filter_map(|id| btf.type_by_id::<Var<'_>>(id))
            .find_map(|var| Some(var.name()?.to_str()?.strip_prefix(OPS_PREFIX)?.to_owned()));
        let algorithm = algorithm.ok_or_else(|| Error::BadObject {
            what: format!("\"{}\" does not say which algorithm it is", registered.name),
        })?;
        let module_params = module_params(&btf);
        let params = btf.type_by_name::<Struct<'_>>(&format!("{algorithm}_params"));
        let params = params.iter().flat_map(|params| params.iter());
        let params = params.filter_map(|member| Some(member.name?.to_str()?.to_owned())).collect();
        let operations = operations(registered, &btf).map_err(inspect)?;
        let fields = crate::inside::state_fields(&btf);
        Ok(Programs { algorithm, params, module_params, operations, fields })
    }
}

/// Finds the operation of each entry point. The kernel knows the program of each operation, and its
/// types give the program's name. A program of bpf.h that stands in for `cong_control` has its own
/// name here, in place of the entry point that it calls.
fn operations(
    registered: &Registered,
    btf: &Btf<'_>,
) -> libbpf_rs::Result<HashMap<String, String>> {
    let mut operations = HashMap::new();
    for (member, id) in &registered.programs {
        let entry = Program::open(*id)?.and_then(|program| program.entry_type);
        let function = entry.and_then(|entry| btf.type_by_id::<BtfType<'_>>(entry.into()));
        let name = function.as_ref().and_then(|function| function.name()?.to_str());
        if let Some(name) = name.and_then(|name| name.strip_suffix(PROGRAM_SUFFIX)) {
            operations.insert(name.to_owned(), member.clone());
        }
    }
    Ok(operations)
}

fn header(found: &Registered, programs: &Programs, filter: &TraceFilter) -> Result<Header, Error> {
    let inspect = |source| Error::Inspect { what: "the parameters of an algorithm", source };
    let values = match found.map(PARAMS_MAP)? {
        Some(map) => map.lookup(&KEY, MapFlags::ANY).map_err(inspect)?.unwrap_or_default(),
        None => Vec::new(),
    };
    let words = values.chunks_exact(4);
    let words = words.map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    let mut params: Vec<_> = programs.params.iter().cloned().zip(words).collect();
    for param in &programs.module_params {
        params.extend(param.value(found)?.map(|value| (param.name.clone(), value)));
    }
    let api = KernelApi::running();
    Ok(Header {
        algorithm: programs.algorithm.clone(),
        name: found.name.clone(),
        source: found
            .source()?
            .map(|source| SourceFile { name: source.file, sha256: source.sha256 }),
        params,
        fields: programs.fields.clone(),
        origin: Origin::Kernel,
        release: api.release.clone(),
        hz: api.hz,
        about: filter.to_string(),
    })
}
