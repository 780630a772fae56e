//! One loaded copy of a module: its code, its global variables, and the table behind its symbol.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt as _;

use super::fault::{Fault, NO_FLOW, Place};
use super::guard::{self, Code};
use super::log::Log;
use super::{Module, cache};
use crate::params::SWITCH;
use crate::{Host, Ops, ParamInfo, PatchedOps, RawDiag, RawParam, Sk, TcpSock, text};

/// Layout of the symbol that `support.c` exports.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ModuleTable {
    host: *mut *mut Host,
    sk: *mut Sk,
    params: *const RawModuleParam,
    params_end: *const RawModuleParam,
    meanings: *const RawMeaning,
    meanings_end: *const RawMeaning,
    start: unsafe extern "C" fn(files: u32) -> c_int,
    registered_at: unsafe extern "C" fn(u32) -> *const c_void,
    operations_of: unsafe extern "C" fn(*const c_void, *mut Ops),
    info_of: unsafe extern "C" fn(*const TcpSock, c_int, *mut u64) -> u32,
    free_all: unsafe extern "C" fn(),
    param_get: unsafe extern "C" fn(*const RawModuleParam, *mut c_char) -> c_int,
    param_set: unsafe extern "C" fn(*const RawModuleParam, *const c_char) -> c_int,
    mib_names: *const *const c_char,
    mibs: *const u64,
    mibs_len: usize,
    sysctls: *const RawSysctl,
    sysctls_len: usize,
    sink: *mut Sink,
    patched_operations_of: unsafe extern "C" fn(*const c_void, *mut PatchedOps),
    hz: *mut c_int,
}

/// Mirror of `struct knee_sink` in `support.h`.
#[repr(C)]
struct Sink {
    to: *const Log,
    print: Option<unsafe extern "C" fn(*const Log, u64, u32, u32, *const c_char, usize)>,
    flow: u32,
    has_flow: bool,
}

/// Mirror of `struct sysctl` in `support.c`.
#[repr(C)]
struct RawSysctl {
    name: *const c_char,
    value: *mut c_void,
    bytes: usize,
}

/// Layout of the symbol that `file.c` exports.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct FileTable {
    host: *mut *mut Host,
    pub(super) ops: *const Ops,
    state_bytes: *const u32,
    params: *const RawParam,
    params_len: *const u32,
    diag: *const RawDiag,
    diag_len: *const u32,
    diag_read: crate::DiagRead,
}

#[repr(C)]
struct RawModuleParam {
    name: *const c_char,
    variable: *mut c_void,
    kind: u32,
    line: u32,
    /// The kernel's parameter with callbacks. Null if the parameter is only a variable.
    kernel: *const c_void,
}

/// A parameter of a copy.
#[derive(Clone, Copy)]
pub(super) struct Param {
    pub(super) name: &'static str,
    pub(super) kind: ParamType,
    variable: Variable,
    row: *const RawModuleParam,
    has_callbacks: bool,
}

#[repr(C)]
struct RawMeaning {
    name: *const c_char,
    meaning: *const c_char,
}

/// The C type of a module's parameter, numbered as in module_linux.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamType {
    Bool,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    /// A `charp`, which cannot be set.
    Text,
    /// A value that only the parameter's callbacks can read and write.
    Callback,
}

impl ParamType {
    /// Returns the type with this number, if parameters of it can be set.
    pub fn of(kind: u32) -> Option<ParamType> {
        Some(ParamType::of_any(kind)).filter(|kind| *kind != ParamType::Text)
    }

    /// Describes a parameter of this type. `None` if it cannot be set.
    pub fn info(
        self,
        name: &'static str,
        default: u32,
        meaning: &'static str,
    ) -> Option<ParamInfo> {
        let (min, max) = self.bounds()?;
        let choices = if self == ParamType::Bool { SWITCH.to_vec() } else { Vec::new() };
        Some(ParamInfo { name, default, min, max, is_signed: self.is_signed(), choices, meaning })
    }

    /// Returns the size in bytes of such a variable in a BPF program, where a `long` has 64 bits. 0
    /// if it cannot be set.
    pub fn bytes_in_bpf(self) -> usize {
        match self {
            ParamType::Bool | ParamType::U8 => 1,
            ParamType::I16 | ParamType::U16 => 2,
            ParamType::I32 | ParamType::U32 => 4,
            ParamType::I64 | ParamType::U64 => 8,
            ParamType::Text | ParamType::Callback => 0,
        }
    }

    fn of_any(kind: u32) -> ParamType {
        match kind {
            1 => ParamType::Bool,
            2 => ParamType::U8,
            3 => ParamType::I16,
            4 => ParamType::U16,
            5 => ParamType::I32,
            6 => ParamType::U32,
            7 => ParamType::I64,
            8 | 9 => ParamType::U64,
            11 => ParamType::Callback,
            _ => ParamType::Text,
        }
    }

    /// Returns whether values are two's complement.
    pub fn is_signed(self) -> bool {
        matches!(self, ParamType::I16 | ParamType::I32 | ParamType::I64 | ParamType::Callback)
    }

    /// Returns the smallest and the largest value that can be set; values are limited to 32 bits.
    /// `None` if it cannot be set.
    pub(super) fn bounds(self) -> Option<(u32, u32)> {
        match self {
            ParamType::Bool => Some((0, 1)),
            ParamType::U8 => Some((0, u32::from(u8::MAX))),
            ParamType::I16 => Some((i32::from(i16::MIN) as u32, i32::from(i16::MAX) as u32)),
            ParamType::U16 => Some((0, u32::from(u16::MAX))),
            ParamType::I32 | ParamType::I64 | ParamType::Callback => {
                Some((i32::MIN as u32, i32::MAX as u32))
            }
            ParamType::U32 | ParamType::U64 => Some((0, u32::MAX)),
            ParamType::Text => None,
        }
    }
}

/// A global variable of a copy.
#[derive(Clone, Copy)]
pub(super) struct Variable(*mut c_void);

impl Variable {
    /// Reads the value. `None` if it does not fit 32 bits.
    pub(super) fn get(self, kind: ParamType) -> Option<u32> {
        // SAFETY: `module_linux.h` compares the variable's size with that of its type at compile
        // time.
        unsafe {
            Some(match kind {
                ParamType::Bool | ParamType::U8 => u32::from(self.0.cast::<u8>().read()),
                ParamType::I16 => i32::from(self.0.cast::<i16>().read()) as u32,
                ParamType::U16 => u32::from(self.0.cast::<u16>().read()),
                ParamType::I32 | ParamType::U32 => self.0.cast::<u32>().read(),
                ParamType::I64 => i32::try_from(self.0.cast::<i64>().read()).ok()? as u32,
                ParamType::U64 => u32::try_from(self.0.cast::<u64>().read()).ok()?,
                ParamType::Text | ParamType::Callback => return None,
            })
        }
    }

    fn set(self, kind: ParamType, value: u32) {
        // SAFETY: as above; the value has been checked against the type's bounds.
        unsafe {
            match kind {
                ParamType::Bool | ParamType::U8 => self.0.cast::<u8>().write(value as u8),
                ParamType::I16 | ParamType::U16 => self.0.cast::<u16>().write(value as u16),
                ParamType::I32 | ParamType::U32 => self.0.cast::<u32>().write(value),
                ParamType::I64 => self.0.cast::<i64>().write(i64::from(value as i32)),
                ParamType::U64 => self.0.cast::<u64>().write(u64::from(value)),
                ParamType::Text | ParamType::Callback => {}
            }
        }
    }
}

/// Calls into a copy that belong to no connection.
#[derive(Clone, Copy)]
pub(super) struct Calls<'a> {
    module: &'a Module,
    code: &'static Code,
}

impl Calls<'_> {
    /// Makes a call. `run` must own nothing that needs dropping.
    fn make<R>(
        self,
        operation: &'static &'static str,
        run: impl FnOnce() -> R,
    ) -> Result<R, String> {
        let place = Place { operation, flow: NO_FLOW, at_ns: 0 };
        let result = guard::call(self.module, self.code, &place, run);
        result.map_err(|fault: Fault| fault.said(&self.module.path))
    }
}

/// Size in bytes of the buffer for a parameter's callback, as in a kernel.
const PARAM_TEXT_BYTES: usize = 4096;

impl Param {
    /// Reads the value as 32 bits. `None` if it is not a number, or does not fit.
    ///
    /// # Errors
    /// The fault of its callback.
    pub(super) fn get(&self, table: &ModuleTable, calls: Calls<'_>) -> Result<Option<u32>, String> {
        if self.kind != ParamType::Callback {
            return Ok(self.variable.get(self.kind));
        }
        let mut written = vec![0u8; PARAM_TEXT_BYTES];
        let (get, row, to) = (table.param_get, self.row, written.as_mut_ptr().cast());
        // SAFETY: the function is of `support.c`. It writes into a buffer of this size and ends it
        // with a zero.
        let n = calls.make(&"module_param", || unsafe { get(row, to) })?;
        let text = CStr::from_bytes_until_nul(&written).ok().filter(|_| n >= 0);
        Ok(text.and_then(|text| text.to_str().ok()).and_then(|text| match text.trim() {
            "Y" => Some(1),
            "N" => Some(0),
            number => {
                let value: i64 = number.parse().ok()?;
                i32::try_from(value).ok().map(|value| value as u32)
            }
        }))
    }

    /// Sets the value as loading the module does: through the callback, if there is one and the
    /// value differs.
    fn set(&self, table: &ModuleTable, value: u32, calls: Calls<'_>) -> Result<(), String> {
        if !self.has_callbacks {
            self.variable.set(self.kind, value);
            return Ok(());
        }
        if self.get(table, calls)? == Some(value) {
            return Ok(());
        }
        let shown =
            if self.kind.is_signed() { (value as i32).to_string() } else { value.to_string() };
        let text = CString::new(shown.as_str()).unwrap_or_default();
        let (set, row, from) = (table.param_set, self.row, text.as_ptr());
        // SAFETY: the function is of `support.c`. The text ends in a zero and outlives the call.
        match calls.make(&"module_param", || unsafe { set(row, from) })? {
            0.. => Ok(()),
            code => Err(format!(
                "its parameter {} does not take {shown}: its own callback refuses it with {}",
                self.name,
                errno(code)
            )),
        }
    }
}

/// Formats a kernel error. Errors that callbacks and `module_init` usually return get their name.
fn errno(code: c_int) -> String {
    let name = match code {
        -1 => " (EPERM)",
        -12 => " (ENOMEM)",
        -16 => " (EBUSY)",
        -17 => " (EEXIST)",
        -22 => " (EINVAL)",
        -34 => " (ERANGE)",
        _ => "",
    };
    format!("{code}{name}")
}

/// A copy of a module in memory. It is never unloaded, so its constants stay valid. Later runs
/// reuse it.
pub(super) struct Image {
    symbol: *const c_void,
    is_kernel_module: bool,
    /// Global variables: their address, and their values when the copy was loaded.
    data: *mut u8,
    data_at_first: Box<[u8]>,
    code: &'static Code,
}

// SAFETY: an image has one owner, and nothing in it belongs to a thread.
unsafe impl Send for Image {}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image")
            .field("data_bytes", &self.data_at_first.len())
            .finish_non_exhaustive()
    }
}

impl Image {
    /// Loads a copy that shares no variable with other copies. The loader identifies objects by
    /// file, not by name, so each copy gets its own file.
    pub(super) fn load(module: &Module) -> Result<Image, String> {
        let dir = module.object.parent().unwrap_or(&module.object);
        let copy = cache::unique(dir, "so");
        knee_files::copy(&module.object, &copy)
            .map_err(|why| format!("cannot be copied to be loaded: {}: {why}", copy.display()))?;
        let name = CString::new(copy.as_os_str().as_bytes()).unwrap_or_default();
        // SAFETY: the object's start-up code is that of an empty C file. The symbols have the types
        // of `support.c` and `file.c`, which are compiled into every such object.
        let loaded = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        // A loaded object does not need its file. One that stays costs a few kilobytes of cache.
        let _ = knee_files::remove_file(&copy);
        if loaded.is_null() {
            return Err(refusal(&copy.display().to_string()));
        }
        let symbol = if module.is_kernel_module { c"knee_module" } else { c"knee_file" };
        // SAFETY: the handle was just opened and the name ends in a zero.
        let symbol: *const c_void = unsafe { libc::dlsym(loaded, symbol.as_ptr()) };
        if symbol.is_null() {
            return Err("the object that was compiled from it has lost its symbol".to_owned());
        }
        let parts = Parts::of(symbol)
            .ok_or("the object that was compiled from it has no part with its variables")?;
        let (data, bytes) = parts.data;
        let data: *mut u8 = std::ptr::with_exposed_provenance_mut(data);
        // SAFETY: the segment is mapped and readable, and belongs to this copy alone.
        let data_at_first = unsafe { std::slice::from_raw_parts(data, bytes) }.into();
        // SAFETY: the handle is the one above, and the names end in a zero. Both variables are of
        // `support.c`; files on the contract have neither.
        let variable = |name: &CStr| unsafe { libc::dlsym(loaded, name.as_ptr()) }.cast_const();
        let code = Box::leak(Box::new(Code {
            base: parts.base,
            object_end: parts.end,
            begin: parts.code.0,
            end: parts.code.0 + parts.code.1,
            is_allocating: variable(c"knee_is_allocating").cast(),
            said: variable(c"knee_said").cast(),
        }));
        Ok(Image { symbol, is_kernel_module: module.is_kernel_module, data, data_at_first, code })
    }

    /// Returns the location of the code.
    pub(super) fn code(&self) -> &'static Code {
        self.code
    }

    pub(super) fn module_table(&self) -> ModuleTable {
        debug_assert!(self.is_kernel_module);
        // SAFETY: the symbol is that of `support.c`.
        unsafe { *self.symbol.cast() }
    }

    pub(super) fn file_table(&self) -> FileTable {
        debug_assert!(!self.is_kernel_module);
        // SAFETY: the symbol is that of `file.c`.
        unsafe { *self.symbol.cast() }
    }

    /// Returns the distance of an item of this copy from its symbol. It is the same in every copy.
    pub(super) fn distance<T>(&self, of: *const T) -> isize {
        of.addr().wrapping_sub(self.symbol.addr()) as isize
    }

    /// Returns the address at this distance from the symbol.
    pub(super) fn at(&self, distance: isize) -> *const c_void {
        self.symbol.wrapping_byte_offset(distance)
    }

    /// Returns a handle for calls that belong to no connection.
    pub(super) fn calls<'a>(&self, module: &'a Module) -> Calls<'a> {
        Calls { module, code: self.code }
    }

    /// Restores every variable to its initial value, sets the parameters, and runs `module_init`.
    pub(super) fn start(
        &self,
        module: &Module,
        params: &[u32],
        sysctls: &[(&str, i64)],
        log: &Log,
    ) -> Result<(), String> {
        let calls = self.calls(module);
        if self.is_kernel_module {
            let free_all = self.module_table().free_all;
            // SAFETY: no connection uses this copy, so freed memory is no longer in use.
            calls.make(&"kfree", || unsafe { free_all() })?;
        }
        // SAFETY: the segment belongs to this copy, and no reference into it is held.
        unsafe {
            self.data
                .copy_from_nonoverlapping(self.data_at_first.as_ptr(), self.data_at_first.len());
        }
        if !self.is_kernel_module {
            return Ok(());
        }
        let table = self.module_table();
        let mut host = Host::new(1000, 1);
        let mut sock = TcpSock::default();
        table.set_sysctls(sysctls);
        // SAFETY: the variable belongs to this copy. The log exists while the copy runs, and one
        // thread uses both.
        unsafe {
            *table.sink = Sink { to: log, print: Some(print), flow: 0, has_flow: false };
        }
        self.enter(&mut sock, &mut host, None);
        let mut values = params.iter();
        for param in table.params().filter(|param| param.kind != ParamType::Text) {
            param.set(&table, values.next().copied().unwrap_or_default(), calls)?;
        }
        let (start, files) = (table.start, module.files());
        // SAFETY: `module_init` has no arguments. Clocks and random numbers are this host's.
        match calls.make(&"module_init", || unsafe { start(files) })? {
            0 => Ok(()),
            -95 => Err("has no module_init, so nothing registers it".to_owned()),
            -22 => Err(
                "its module_init returns -22 (EINVAL): as in the kernel, what it registers needs \
                        .ssthresh, .undo_cwnd, and .cong_avoid or .cong_control"
                    .to_owned(),
            ),
            code => Err(format!("its module_init returns {}", errno(code))),
        }
    }

    /// Prepares for a call with this socket on this host.
    #[inline]
    pub(super) fn enter(&self, sock: &mut TcpSock, host: &mut Host, flow: Option<u32>) {
        // SAFETY: both tables begin with the location of the host's pointer. A module's table
        // continues with that of the socket's pointer. Both belong to this copy, which only this
        // thread uses.
        unsafe {
            if self.is_kernel_module {
                let table = &*self.symbol.cast::<ModuleTable>();
                *table.sk = sock;
                *table.hz = host.hz as c_int;
                *table.host = host;
                let sink = &mut *table.sink;
                (sink.flow, sink.has_flow) = (flow.unwrap_or_default(), flow.is_some());
            } else {
                *(*self.symbol.cast::<FileTable>()).host = host;
            }
        }
    }

    pub(super) fn first_registered(&self) -> Option<*const c_void> {
        // SAFETY: the function is of `support.c`.
        let ops = unsafe { (self.module_table().registered_at)(0) };
        (!ops.is_null()).then_some(ops)
    }

    /// Returns a module's table in the form of the contract.
    pub(super) fn operations(&self, ops: *const c_void) -> Ops {
        let mut of_contract = Ops::default();
        // SAFETY: the function is of `support.c`. The module registered this table or put it into a
        // socket.
        unsafe { (self.module_table().operations_of)(ops, &raw mut of_contract) };
        of_contract
    }

    /// Returns the extra operations in the table of a module for a patched kernel's API.
    pub(super) fn patched_operations(&self, ops: *const c_void) -> PatchedOps {
        let mut patched = PatchedOps::default();
        // SAFETY: as above.
        unsafe { (self.module_table().patched_operations_of)(ops, &raw mut patched) };
        patched
    }

    /// Returns the values of `get_info` for the connection of the current call. `None` if it
    /// reports none now.
    pub(super) fn info(&self, sock: &TcpSock, attribute: i32) -> Option<[u64; 4]> {
        let mut values = [0; 4];
        // SAFETY: the function is of `support.c` and writes at most four values.
        let n = unsafe { (self.module_table().info_of)(sock, attribute, values.as_mut_ptr()) };
        (n == 4).then_some(values)
    }
}

impl ModuleTable {
    /// Returns the parameters, in the file's order.
    pub(super) fn params(&self) -> impl Iterator<Item = Param> {
        // SAFETY: these are the linker's bounds of one section, which holds these structs alone.
        let rows = unsafe { between(self.params, self.params_end) };
        let mut rows: Vec<_> = rows.iter().filter(|row| !row.name.is_null()).collect();
        rows.sort_by_key(|row| row.line);
        rows.into_iter().map(|row| Param {
            name: text(row.name),
            kind: ParamType::of_any(row.kind),
            variable: Variable(row.variable),
            row,
            has_callbacks: !row.kernel.is_null(),
        })
    }

    /// Returns the module's counters that are not zero, under their names in nstat.
    pub(super) fn counted(&self) -> Vec<(&'static str, u64)> {
        // SAFETY: the two tables are of `support.c` and have the length that it states.
        let (names, counts) = unsafe {
            (
                std::slice::from_raw_parts(self.mib_names, self.mibs_len),
                std::slice::from_raw_parts(self.mibs, self.mibs_len),
            )
        };
        let counted = names.iter().zip(counts).filter(|(_, count)| **count > 0);
        counted.map(|(name, count)| (text(*name), *count)).collect()
    }

    /// Sets the host's sysctls, given by their names in `struct netns_ipv4`.
    fn set_sysctls(&self, values: &[(&str, i64)]) {
        // SAFETY: the table is of `support.c` and has the length that it states.
        let rows = unsafe { std::slice::from_raw_parts(self.sysctls, self.sysctls_len) };
        for row in rows {
            let Some((_, value)) = values.iter().find(|(name, _)| *name == text(row.name)) else {
                continue;
            };
            let bytes = value.to_le_bytes();
            let n = row.bytes.min(bytes.len());
            // SAFETY: the variable belongs to this copy and has this size.
            unsafe { row.value.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), n) };
        }
    }

    pub(super) fn meaning(&self, name: &str) -> &'static str {
        // SAFETY: as above.
        let rows = unsafe { between(self.meanings, self.meanings_end) };
        let mut rows = rows.iter().filter(|row| !row.name.is_null());
        rows.find(|row| text(row.name) == name).map_or("", |row| text(row.meaning))
    }
}

impl FileTable {
    pub(super) fn operations(&self) -> &Ops {
        // SAFETY: the pointer is to a constant of the object, as are those below.
        unsafe { &*self.ops }
    }

    pub(super) fn state_bytes(&self) -> u32 {
        // SAFETY: see `operations`.
        unsafe { *self.state_bytes }
    }

    pub(super) fn params(&self) -> &[RawParam] {
        // SAFETY: see `operations`; the table has the length it states.
        unsafe { std::slice::from_raw_parts(self.params, *self.params_len as usize) }
    }

    pub(super) fn diag(&self) -> &[RawDiag] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.diag, *self.diag_len as usize) }
    }

    pub(super) fn diag_read(&self) -> crate::DiagRead {
        self.diag_read
    }
}

/// Receives each text that a module prints; `support_print.c` calls it.
unsafe extern "C" fn print(
    log: *const Log,
    at_ns: u64,
    flow: u32,
    level: u32,
    text: *const c_char,
    bytes: usize,
) {
    // SAFETY: the log is the one that `start` set. The text has this length and lives during this
    // call.
    let (log, text) = unsafe { (&*log, std::slice::from_raw_parts(text.cast::<u8>(), bytes)) };
    log.add(at_ns, (flow != u32::MAX).then_some(flow), level, &String::from_utf8_lossy(text));
}

/// Returns the rows between two bounds.
unsafe fn between<'a, T>(first: *const T, end: *const T) -> &'a [T] {
    let bytes = end.addr().saturating_sub(first.addr());
    // SAFETY: the caller guarantees it.
    unsafe { std::slice::from_raw_parts(first, bytes / size_of::<T>()) }
}

/// Formats the loader's error as a sentence.
fn refusal(copy: &str) -> String {
    // SAFETY: `dlerror` returns null, or a text that is valid until this thread's next call.
    let why = unsafe {
        let why = libc::dlerror();
        if why.is_null() { "no reason given".into() } else { CStr::from_ptr(why).to_string_lossy() }
    };
    let why =
        why.strip_prefix(copy).map_or(why.as_ref(), |rest| rest.trim_start_matches([':', ' ']));
    match why.split_once("undefined symbol: ") {
        Some((_, symbol)) if is_float_helper(symbol) => {
            format!(
                "computes with floating point ({symbol}), which kernel code must not: use integers with a scale"
            )
        }
        Some((_, symbol)) => format!(
            "uses `{symbol}`: knee's contract has no such function; see docs/modules.md#contract"
        ),
        None => format!("cannot be loaded: {why}"),
    }
}

/// Returns whether a compiler calls this symbol for floating point without its registers:
/// `__adddf3`, `__floatsisf`, ...
fn is_float_helper(symbol: &str) -> bool {
    symbol.starts_with("__") && ["df", "sf", "tf"].iter().any(|kind| symbol.contains(kind))
}

/// The loaded segments of an object. Ranges are begin and size in bytes.
#[derive(Clone, Copy)]
struct Parts {
    /// Base address of the object; its own addresses are relative to this.
    base: usize,
    /// End of the last segment.
    end: usize,
    /// The segment with the variables.
    data: (usize, usize),
    code: (usize, usize),
}

impl Parts {
    /// Finds the segments of the object that contains `symbol`.
    fn of(symbol: *const c_void) -> Option<Parts> {
        struct Search {
            of: usize,
            found: Option<Parts>,
        }
        unsafe extern "C" fn look(
            info: *mut libc::dl_phdr_info,
            _size: usize,
            data: *mut c_void,
        ) -> c_int {
            // SAFETY: the arguments of `dl_iterate_phdr` are valid for this call, and `data` is the
            // search below.
            let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
            // SAFETY: as above; the table has the length it states.
            let headers =
                unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
            let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
            let range = |header: &libc::Elf64_Phdr| {
                ((info.dlpi_addr + header.p_vaddr) as usize, header.p_memsz as usize)
            };
            let holds = |header: &libc::Elf64_Phdr| {
                let (begin, bytes) = range(header);
                (begin..begin + bytes).contains(&search.of)
            };
            if !loaded().any(holds) {
                return 0;
            }
            let with = |flag: u32| loaded().find(|header| header.p_flags & flag != 0).map(range);
            if let (Some(data), Some(code)) = (with(libc::PF_W), with(libc::PF_X)) {
                let base = info.dlpi_addr as usize;
                let end = loaded().map(range).map(|(begin, bytes)| begin + bytes).max();
                search.found = Some(Parts { base, end: end.unwrap_or(base), data, code });
            }
            1
        }
        let mut search = Search { of: symbol.addr(), found: None };
        // SAFETY: the callback accesses only its arguments.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
        search.found
    }
}

const _: () = assert!(offset_of!(ModuleTable, host) == 0 && offset_of!(FileTable, host) == 0);
