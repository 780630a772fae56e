//! Recording the calls of an algorithm that is registered, whoever loaded it.
//!
//! The programs find three things in their maps (`record.h`): a switch, a filter, and a slot that holds
//! a ring buffer while somebody traces. The tracer makes the ring, so that it costs no memory at other
//! times, and switches on for a short *lease*, which it renews as long as it lives. A tracer that is
//! killed cannot switch off; when its lease is over the first program that runs does, and the next
//! tracer (or the end of the algorithm) removes the ring that it left in the slot.

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

/// Bytes of the ring: 30 thousand records while the reader sleeps.
const RING_BYTES: u32 = 1 << 25;
/// Records taken from the ring at a time, so that a busy host cannot fill the reader's memory.
const MAX_TAKEN: usize = 1 << 13;
/// The negative number that makes libbpf stop with the record at hand.
const ENOUGH: i32 = -libc::E2BIG;
/// The map of record.h that holds the ring.
const SLOT: &str = "cc_ring_slot";
/// Ends the name of every program.
const PROGRAM_SUFFIX: &str = "_prog";
/// The program of bpf.h that stands for `cong_control` in kernels before 6.10.
const RS_ONLY: &str = "cc_rs_only";
/// Its place in the slot.
const KEY: [u8; 4] = 0_u32.to_ne_bytes();

type Taken = Rc<RefCell<VecDeque<Raw>>>;

/// A recording that goes on. Dropping it ends it.
pub struct Tracer {
    // Declared first, dropped first: it maps memory of `ring_map`.
    ring: RingBuffer<'static>,
    ring_map: MapHandle,
    slot: MapHandle,
    lease: Lease,
    taken: Taken,
    /// Which operation each entry point is.
    operations: HashMap<String, String>,
    header: Header,
    /// What had been lost before.
    lost_before: Ending,
    is_on: bool,
}

impl Tracer {
    /// Begins to record the calls of the algorithm that is registered as `name`, for the connections
    /// that `filter` chooses. Connections that still run a program that `name` stood for before an
    /// update are not recorded.
    ///
    /// # Errors
    /// [`Error::NotLoaded`]; [`Error::Traced`] while another process does; [`Error::Inspect`] (it takes
    /// CAP_SYS_ADMIN, or CAP_BPF and CAP_PERFMON); [`Error::BadObject`] if the algorithm was loaded by
    /// a knee whose records this one does not know.
    pub fn attach(name: &str, filter: &TraceFilter) -> Result<Tracer, Error> {
        Tracer::with_ring(name, filter, RING_BYTES)
    }

    /// With a ring of so many bytes, a power of two of pages: for the tests of this workspace.
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
                // They are as `Programs::of` found them.
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
        // Whatever a killed tracer left on goes off first, and no call of its time goes on after this.
        tracer.lease.control().begin();
        tracer.put_ring()?;
        tracer.lease.control().switch_on(filter);
        tracer.is_on = true;
        Ok(tracer)
    }

    /// What a file of these records says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Waits up to `timeout` for records, and gives those that are there, up to some thousands: in
    /// the order of the ring, which is that of the calls for each socket. To be called several times
    /// a second, or records are lost; after a pause of more than two seconds the sockets get new
    /// numbers.
    ///
    /// # Errors
    /// [`Error::TakenOver`] if it was not called for seconds and another tracer has begun;
    /// [`Error::Inspect`]; [`Error::BadObject`] if a record makes no sense.
    pub fn poll(&mut self, timeout: Duration) -> Result<Vec<Record>, Error> {
        self.renew()?;
        self.take(|ring| ring.poll(timeout))?;
        self.decode()
    }

    /// What was lost so far.
    pub fn lost(&self) -> Ending {
        let (now, before) = (self.lease.control().lost(), &self.lost_before);
        Ending {
            ring_full: now.ring_full - before.ring_full,
            no_memory: now.no_memory - before.no_memory,
            nested: now.nested - before.nested,
            interrupted: now.interrupted - before.interrupted,
        }
    }

    /// Ends the recording. Calls that are being recorded at this moment are waited for; afterwards
    /// [`Tracer::rest`] gives what is still in the ring.
    ///
    /// # Errors
    /// [`Error::Inspect`] and [`Error::TakenOver`]. The recording is over even so.
    pub fn stop(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_on) {
            return Ok(());
        }
        self.renew()?;
        self.lease.control().close();
        // A program that was told to record ends before this does.
        let waited = self.put_ring();
        self.lease.control().switch_off();
        let emptied = self.slot.delete(&KEY);
        self.lease.give_back();
        waited?;
        emptied.map_err(|source| Error::Inspect { what: "the slot of the ring", source })
    }

    /// Records that were made before [`Tracer::stop`], some thousands at a time; none: that is all.
    ///
    /// # Errors
    /// As [`Tracer::poll`].
    pub fn rest(&mut self) -> Result<Vec<Record>, Error> {
        self.take(|ring| ring.consume())?;
        self.decode()
    }

    fn renew(&mut self) -> Result<(), Error> {
        let name = &self.header.name;
        let renewed = self.lease.renew();
        if !renewed {
            // The switch is another's now.
            self.is_on = false;
            return Err(Error::TakenOver { name: name.clone() });
        }
        // This process stood still for so long that the programs took it for dead. What the sockets
        // did meanwhile is not known: they begin anew.
        if self.is_on && self.lease.control().is_off() {
            self.lease.control().begin();
            self.put_ring()?;
            self.lease.control().resume();
        }
        Ok(())
    }

    /// Puts the ring into its slot. For a map of maps the kernel answers only when all programs that
    /// ran meanwhile have ended.
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
        // What the callback says when it has enough is no error.
        if self.taken.borrow().len() >= MAX_TAKEN {
            return Ok(());
        }
        match taken {
            // A signal: whoever waits for it will look.
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
        // Whoever wants to know calls it before.
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

/// What the type information of an algorithm's programs says.
struct Programs {
    /// The algorithm: the name of its file.
    algorithm: String,
    /// The names of its parameters.
    params: Vec<String>,
    /// Those of a Linux module.
    module_params: Vec<ModuleParam>,
    /// Which operation each entry point (`dctcp_ssthresh`) is.
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

/// The kernel knows which program is which operation, and its types how the program is called. Where
/// a program of bpf.h stands for `cong_control`, the entry point that it calls goes by that name.
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
