//! Loads an object and registers its algorithm.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::Path;
use std::ptr::NonNull;

use knee_algo::Params;
use knee_algo::module::INIT_PROGRAM;
use knee_units::LinuxVersion;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{
    AsRawLibbpf as _, Link, MapCore as _, MapFlags, MapHandle, MapMut, MapType, Object, OpenMap,
    OpenObject, Program, ProgramInput, ProgramType,
};

use crate::table::{self, Operation};
use crate::{Embedded, Error, KernelApi, Rights, apart, hardening, shared_maps};

/// The section, and so the map, that holds only the parameters (bpf.h).
pub(crate) const PARAMS_MAP: &str = ".rodata.params";
/// The section that holds only the name of the fallback, usually the host's default (bpf.h). The
/// kernel keeps 15 bytes of a map's name.
pub(crate) const FALLBACK_MAP: &str = ".rodata.default";
/// The section that holds only the count of connections handed to the fallback (bpf.h).
pub(crate) const FALLBACKS_MAP: &str = ".data.fallbacks";
/// The section that holds only the counts of stopped accesses and loops of a Linux module's source
/// (module_bpf.h).
pub(crate) const STOPPED_MAP: &str = ".data.stopped";

/// Sections whose maps libbpf does not name after the section alone.
const USUAL_SECTIONS: [&str; 4] = [".data", ".bss", ".rodata", ".kconfig"];

/// An algorithm's programs in the kernel, not registered yet.
pub(crate) struct Prepared {
    object: Object,
    name: String,
    /// Whether the algorithm has an `init` whose calls are to be noted.
    notes_init: bool,
}

/// Options of a load.
#[derive(Clone, Copy, Default)]
struct How {
    /// Every user may choose it.
    any_user: bool,
    /// Each call of `init` leaves a mark.
    is_init_noted: bool,
}

impl Prepared {
    /// Loads `embedded` with these parameters, for registration as `name`. Connections that it
    /// cannot serve go to `fallback` if there is one, otherwise to the algorithm's own choice. With
    /// `any_user` every user of the host may choose it, whatever its flags are.
    pub(crate) fn load(
        embedded: &Embedded,
        name: &str,
        params: &Params,
        fallback: Option<&str>,
        any_user: bool,
    ) -> Result<Prepared, Error> {
        let how = How { any_user, ..How::default() };
        Prepared::load_with(embedded, name, params, fallback, how)
    }

    fn load_with(
        embedded: &Embedded,
        name: &str,
        params: &Params,
        fallback: Option<&str>,
        how: How,
    ) -> Result<Prepared, Error> {
        check_name(name)?;
        let api = KernelApi::running();
        let mut notes_init = false;
        let mut open = || {
            let mut open = open(embedded, api)?;
            let operations = table::operations(&open);
            set_params(&mut open, embedded, params)?;
            if let Some(fallback) = fallback {
                set_fallback(&mut open, fallback)?;
            }
            // The name is set last, so no variable of the object can change it.
            table::set_name(&mut open, embedded, name)?;
            if how.any_user {
                table::allow_any_user(&mut open)?;
            }
            check(embedded, &operations, api)?;
            table::fit(&mut open, &operations, api)?;
            notes_init = how.is_init_noted && table::has(&operations, "init");
            table::note_init(&mut open, &operations, how.is_init_noted)?;
            Ok(open)
        };
        let load = |open: OpenObject| {
            let (loaded, log) = with_log(|| open.load());
            loaded.map_err(|source| refused(embedded, api, source, log))
        };
        if embedded.source().is_some() {
            let try_it = || shared_maps::load(&mut open, load).map(drop);
            let path = embedded.source().and_then(|source| source.path.clone());
            let path = path.unwrap_or_else(|| embedded.name().into());
            apart::survives(try_it).map_err(|what| Error::Outside { path, what })?;
        }
        let mut object = shared_maps::load(open, load)?;
        run_init(&mut object, embedded)?;
        Ok(Prepared { object, name: name.to_owned(), notes_init })
    }

    /// Keeps `map` in the kernel for as long as one of the programs is there.
    pub(crate) fn keep(&self, map: &MapHandle) -> Result<(), Error> {
        let inspect = |source| Error::Inspect { what: "a program of the algorithm", source };
        let is_loaded = |program: &Program<'_>| {
            program.autoload() && program.prog_type() == ProgramType::StructOps
        };
        for program in self.object.progs().filter(is_loaded) {
            bind(program.as_fd(), map).map_err(inspect)?;
        }
        Ok(())
    }

    /// Registers the algorithm.
    pub(crate) fn register(mut self) -> Result<Loaded, Error> {
        let mut ops = ops_map(&mut self.object);
        let (link, _) = with_log(|| ops.attach_struct_ops());
        let name = self.name;
        let link = link.map_err(|source| Error::Register { name: name.clone(), source })?;
        Ok(Loaded { link, object: self.object, name, notes_init: self.notes_init })
    }

    /// Replaces the algorithm that the pinned `link` registers under the same name. Existing
    /// connections keep the old one.
    pub(crate) fn replace(mut self, link: &Link) -> Result<(), Error> {
        let refused = |source| Error::Register { name: self.name.clone(), source };
        let mut ops = ops_map(&mut self.object);
        // libbpf fills the kernel's table before it makes a link of its own. The kernel then
        // refuses that link, since the name is taken, but the table is what this function needs.
        let (attached, _) = with_log(|| ops.attach_struct_ops());
        if attached.is_ok() {
            // The name was free, so the pinned link registers another name.
            return Err(Error::BadObject {
                what: format!("the pinned link does not register \"{}\"", self.name),
            });
        }
        let (link, map) = (link.as_fd().as_raw_fd(), ops.as_fd().as_raw_fd());
        // SAFETY: both descriptors are open, and no options are given.
        let result = unsafe { libbpf_sys::bpf_link_update(link, map, std::ptr::null()) };
        match result {
            0 => Ok(()),
            error => Err(refused(libbpf_rs::Error::from_raw_os_error(-error))),
        }
    }
}

/// Lets a program keep a map that its instructions do not use.
pub(crate) fn bind(program: BorrowedFd<'_>, map: &MapHandle) -> libbpf_rs::Result<()> {
    let (program, map) = (program.as_raw_fd(), map.as_fd().as_raw_fd());
    // SAFETY: both descriptors are open, and no options are given.
    match unsafe { libbpf_sys::bpf_prog_bind_map(program, map, std::ptr::null()) } {
        0 => Ok(()),
        error => Err(libbpf_rs::Error::from_raw_os_error(-error)),
    }
}

/// Runs the `module_init` of a Linux module's source, which computes values that its operations
/// use. No connection uses the operations yet.
fn run_init(object: &mut Object, embedded: &Embedded) -> Result<(), Error> {
    let init = object.progs_mut().find(|program| program.name() == INIT_PROGRAM);
    let Some(init) = init else { return Ok(()) };
    let refused = |why| Err(Error::Init { algorithm: embedded.name().to_owned(), why });
    let (ran, _) = with_log(|| init.test_run(ProgramInput::default()));
    match ran.map(|ran| ran.return_value as i32) {
        Ok(0) => Ok(()),
        Ok(answer) => refused(format!("returns {answer} (do its parameters fit?)")),
        Err(why) => refused(format!("cannot be run: {why}")),
    }
}

/// The map with the table of operations.
fn ops_map(object: &mut Object) -> MapMut<'_> {
    object
        .maps_mut()
        .find(|map| map.map_type() == MapType::StructOps)
        .expect("set_name found it before the load")
}

/// Checks that the kernel accepts `name` as the name of an algorithm.
///
/// # Errors
/// [`Error::BadName`].
pub fn check_name(name: &str) -> Result<(), Error> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || name.len() >= table::NAME_BYTES || !name.bytes().all(allowed) {
        return Err(Error::BadName { name: name.to_owned() });
    }
    Ok(())
}

/// An algorithm in the kernel, registered until this value is dropped or its process ends.
/// Connections that have it by then keep it until they close.
pub struct Loaded {
    // Declared first, so dropped first: the name goes before the programs.
    link: Link,
    object: Object,
    name: String,
    notes_init: bool,
}

impl Loaded {
    /// Loads `embedded` with these parameters and registers it as `name`.
    ///
    /// Where the kernel has links ([`KernelApi::links`]), a link holds the registration. Otherwise
    /// the map of operations does, and a permanent registration pins that map.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::BadParams`], [`Error::Lacks`] if this kernel is too old,
    /// [`Error::NotPermitted`], [`Error::Closed`], [`Error::Load`] with the verifier's messages,
    /// and [`Error::Register`], for example if the name is taken.
    pub fn register(embedded: &Embedded, name: &str, params: &Params) -> Result<Loaded, Error> {
        Prepared::load(embedded, name, params, None, false)?.register()
    }

    /// Registers as [`Loaded::register`] does, and lets every user of the host choose it, whatever its flags are. A network
    /// namespace of its own takes only such an algorithm as its default.
    ///
    /// # Errors
    /// The errors of [`Loaded::register`].
    pub fn register_for_any_user(
        embedded: &Embedded,
        name: &str,
        params: &Params,
    ) -> Result<Loaded, Error> {
        Prepared::load(embedded, name, params, None, true)?.register()
    }

    /// Registers as [`Loaded::register`] does, and marks each connection for which the kernel calls
    /// `init`; [`Loaded::init_called`] reads the mark.
    ///
    /// # Errors
    /// The errors of [`Loaded::register`].
    pub fn register_noting_init(
        embedded: &Embedded,
        name: &str,
        params: &Params,
    ) -> Result<Loaded, Error> {
        let how = How { is_init_noted: true, ..How::default() };
        Prepared::load_with(embedded, name, params, None, how)?.register()
    }

    /// Whether the kernel called `init` for this connection, which must be established and have
    /// this algorithm. False means that the kernel skipped the call, and the connection began with
    /// a state of zeros. `None` means not known: the algorithm has no `init`, or was not registered
    /// by [`Loaded::register_noting_init`].
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub fn init_called(&self, socket: BorrowedFd<'_>) -> Result<Option<bool>, Error> {
        let inspect = |source| Error::Inspect { what: "the mark of a connection", source };
        let marks = self.object.maps().find(|map| map.name() == table::INIT_CALLED_MAP);
        let Some(marks) = marks.filter(|_| self.notes_init) else { return Ok(None) };
        let mark = marks.lookup(&socket.as_raw_fd().to_ne_bytes(), MapFlags::ANY);
        Ok(Some(mark.map_err(inspect)?.is_some()))
    }

    /// The name under which it is registered.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Keeps it registered beyond this value and its process, while the file at `path` exists. On
    /// kernels without links it stays until `Registered::unregister`.
    pub(crate) fn pin(&mut self, path: &Path) -> libbpf_rs::Result<()> {
        if KernelApi::running().links {
            return self.link.pin(path);
        }
        ops_map(&mut self.object).pin(path)?;
        // Dropping the link would unregister the algorithm.
        self.link.disconnect();
        Ok(())
    }

    /// The link that keeps it registered.
    pub(crate) fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    /// The kernel's number of its map of operations, equal to [`crate::Connection::map_id`].
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub fn map_id(&self) -> Result<u32, Error> {
        let inspect = |source| Error::Inspect { what: "a table of operations", source };
        let mut maps = self.object.maps();
        let operations = maps.find(|map| map.map_type() == MapType::StructOps);
        let info = operations.expect("it is registered").info().map_err(inspect)?;
        Ok(info.info.id)
    }

    /// Tells the algorithm the base RTT of the connection that will use this TCP socket.
    /// Connections that a listener accepts begin with the listener's value. Returns false if the
    /// algorithm uses no base RTT.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub fn set_base_rtt(
        &self,
        socket: BorrowedFd<'_>,
        base_rtt_us: NonZeroU32,
    ) -> Result<bool, Error> {
        let inspect = |source| Error::Inspect { what: "the base RTT of a socket", source };
        let Some(map) = self.object.maps().find(|map| map.name() == shared_maps::BASE_RTT) else {
            return Ok(false);
        };
        let (key, value) = (socket.as_raw_fd().to_ne_bytes(), base_rtt_us.get().to_ne_bytes());
        map.update(&key, &value, MapFlags::ANY).map_err(inspect)?;
        Ok(true)
    }

    /// The name of each program, and the number of instructions that the verifier processed for it.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub fn verified_instructions(&self) -> Result<Vec<(String, u32)>, Error> {
        let inspect = |source| Error::Inspect { what: "the programs' figures", source };
        let mut figures = Vec::new();
        for program in self.object.progs().filter(Program::autoload) {
            let id = Program::id_from_fd(program.as_fd()).map_err(inspect)?;
            let info = ProgInfoIter::default().find(|info| info.id == id);
            let name = program.name().to_string_lossy().into_owned();
            figures.push((name, info.map_or(0, |info| info.verified_insns)));
        }
        Ok(figures)
    }

    /// How often the kernel skipped a call because the same program was interrupted at work on that
    /// CPU. The caller then got an undefined answer. Since Linux 6.2 the kernel skips no call for
    /// that reason. No kernel counts the calls that are skipped within process 1
    /// ([`KernelApi::spares_process_1`]).
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub fn calls_left_out(&self) -> Result<u64, Error> {
        let inspect = |source| Error::Inspect { what: "the programs' figures", source };
        let mut calls = 0;
        for program in self.object.progs().filter(Program::autoload) {
            let id = Program::id_from_fd(program.as_fd()).map_err(inspect)?;
            calls += ProgInfoIter::default()
                .find(|info| info.id == id)
                .map_or(0, |info| info.recursion_misses);
        }
        Ok(calls)
    }

    /// The maps and programs in the kernel.
    #[doc(hidden)]
    pub fn object(&self) -> &Object {
        &self.object
    }
}

/// Checks that the running kernel has what an algorithm needs, as far as that is visible without a
/// load.
///
/// # Errors
/// [`Error::Lacks`], which names the missing feature and the first version that has it.
pub fn check_fits(embedded: &Embedded) -> Result<(), Error> {
    let api = KernelApi::running();
    let open = open(embedded, api)?;
    check(embedded, &table::operations(&open), api)
}

/// Opens the object of an algorithm.
fn open(embedded: &Embedded, api: &KernelApi) -> Result<OpenObject, Error> {
    let (opened, log) = with_log(|| open_object(embedded.object()));
    opened.map_err(|source| refused(embedded, api, source, log))
}

/// Opens one of knee's objects, which may refer to `CONFIG_HZ`. libbpf alone would look for the
/// kernel's configuration, which some hosts do not have.
pub(crate) fn open_object(bytes: &[u8]) -> Result<OpenObject, libbpf_rs::Error> {
    let config = format!("CONFIG_HZ={}\n", KernelApi::running().hz);
    let config = CString::new(config).expect("it has no 0");
    let options = libbpf_sys::bpf_object_open_opts {
        sz: size_of::<libbpf_sys::bpf_object_open_opts>() as libbpf_sys::size_t,
        kconfig: config.as_ptr(),
        ..Default::default()
    };
    // SAFETY: the pointer is to the object's bytes with their number; libbpf reads the options
    // during the call only.
    let opened = unsafe {
        libbpf_sys::bpf_object__open_mem(
            bytes.as_ptr().cast(),
            bytes.len() as libbpf_sys::size_t,
            &raw const options,
        )
    };
    let opened = NonNull::new(opened).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: libbpf just made the object, and nobody else owns it.
    Ok(unsafe { OpenObject::from_ptr(opened) })
}

/// Refuses requests that this kernel cannot serve and would not refuse by itself, or not in one
/// sentence.
fn check(embedded: &Embedded, operations: &[Operation], api: &KernelApi) -> Result<(), Error> {
    let lacks = |what: &str, since| Error::Lacks {
        algorithm: embedded.name().to_owned(),
        what: what.to_owned(),
        since,
        release: api.release.clone(),
    };
    if !api.btf {
        return Err(lacks(
            "the kernel's type information (CONFIG_DEBUG_INFO_BTF=y)",
            LinuxVersion(5, 4),
        ));
    }
    if !api.struct_ops {
        return Err(lacks("congestion control in BPF (CONFIG_BPF_JIT=y)", LinuxVersion(5, 6)));
    }
    if table::has(operations, "cong_control")
        && api.cong_control_args == 2
        && embedded.looks_at_flag()
    {
        return Err(lacks("the flag of cong_control", LinuxVersion(6, 10)));
    }
    Ok(())
}

/// Finds the reason why libbpf or the kernel refused the object.
fn refused(embedded: &Embedded, api: &KernelApi, source: libbpf_rs::Error, log: String) -> Error {
    let algorithm = embedded.name().to_owned();
    if let Some((what, since)) = api.lack_in(&log) {
        Error::Lacks { algorithm, what, since, release: api.release.clone() }
    } else if !Rights::now().load() {
        Error::NotPermitted { what: "loading an algorithm", needs: "CAP_BPF and CAP_PERFMON" }
    } else if let Some((why, remedy)) = hardening::explanation() {
        Error::Closed { algorithm, why, remedy }
    } else {
        Error::Load { algorithm, source, log }
    }
}

fn set_params(open: &mut OpenObject, embedded: &Embedded, params: &Params) -> Result<(), Error> {
    let variables = embedded.variables();
    if !variables.is_empty() && variables.len() == params.values().len() {
        for (info, (variable, value)) in
            embedded.algorithm().params().iter().zip(variables.iter().zip(params.values()))
        {
            let wide = if info.is_signed { i64::from(*value as i32) } else { i64::from(*value) };
            let mut map =
                open.maps_mut().find(|map| usual_section(map) == Some(variable.section.as_str()));
            let len = variable.value.len();
            let place = map
                .as_mut()
                .and_then(|map| map.initial_value_mut())
                .and_then(|section| section.get_mut(variable.offset..variable.offset + len));
            let no_place =
                || Error::BadObject { what: format!("there is no place for {}", info.name) };
            place.ok_or_else(no_place)?.copy_from_slice(&wide.to_le_bytes()[..len]);
        }
        return Ok(());
    }
    let bytes: Vec<u8> = params.values().iter().flat_map(|value| value.to_ne_bytes()).collect();
    let mut map = open.maps_mut().find(|map| map.name() == PARAMS_MAP);
    let section = map.as_mut().and_then(|map| map.initial_value_mut()).unwrap_or(&mut []);
    if section.len() != bytes.len() {
        return Err(Error::BadParams {
            algorithm: embedded.name().to_owned(),
            expected: section.len() / size_of::<u32>(),
            given: params.values().len(),
        });
    }
    section.copy_from_slice(&bytes);
    Ok(())
}

/// The usual section that libbpf made this map of, if it is one of [`USUAL_SECTIONS`]. libbpf puts
/// the object's name, which has no dot, before the names of these maps. It names all other maps as
/// the object does.
pub(crate) fn usual_section(map: &OpenMap<'_>) -> Option<&'static str> {
    let (object, section) = map.name().to_str()?.split_once('.')?;
    let section = USUAL_SECTIONS.iter().find(|usual| usual[1..] == *section)?;
    (is_of_section(map) && !object.is_empty()).then_some(section)
}

/// Whether libbpf made this map of a section, rather than of a declaration.
pub(crate) fn is_of_section(map: &OpenMap<'_>) -> bool {
    // SAFETY: the map belongs to an object that is open.
    map.map_type() == MapType::Array
        && unsafe { libbpf_sys::bpf_map__is_internal(map.as_libbpf_object().as_ptr()) }
}

/// Sets the fallback's name. Objects of algorithms that never hand over a connection have no such
/// section.
fn set_fallback(open: &mut OpenObject, fallback: &str) -> Result<(), Error> {
    check_name(fallback)?;
    let mut map = open.maps_mut().find(|map| map.name() == FALLBACK_MAP);
    if let Some(section) = map.as_mut().and_then(|map| map.initial_value_mut()) {
        let no_place =
            || Error::BadObject { what: format!("there is no place for the name {fallback}") };
        section.fill(0);
        let field = section.get_mut(..fallback.len()).ok_or_else(no_place)?;
        field.copy_from_slice(fallback.as_bytes());
    }
    Ok(())
}

thread_local! {
    static LOG: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `action`, and collects libbpf's warnings instead of printing them.
pub(crate) fn with_log<R>(action: impl FnOnce() -> R) -> (R, String) {
    // SAFETY: `collect` has the type that libbpf calls, except for its last argument. That one is a
    // pointer on every machine, of a different type on each.
    unsafe {
        libbpf_sys::libbpf_set_print(
            std::mem::transmute::<*const (), libbpf_sys::libbpf_print_fn_t>(collect as *const ()),
        );
    }
    LOG.take();
    let result = action();
    (result, LOG.take())
}

/// Keeps a warning. It may hold names from an untrusted object: `set_print` of libbpf-rs panics if
/// they are not UTF-8.
extern "C" fn collect(
    level: libbpf_sys::libbpf_print_level,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    if level == libbpf_sys::LIBBPF_WARN {
        // SAFETY: libbpf passes a format and the arguments that belong to it.
        if let Ok(message) = unsafe { vsprintf::vsprintf_raw(format, arguments) } {
            LOG.with_borrow_mut(|log| log.push_str(&String::from_utf8_lossy(&message)));
        }
    }
    0
}
