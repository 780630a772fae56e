//! Running modules: the copies that a host has loaded, and a connection's use of one of them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use super::fault::{Cause, Fault, Place};
use super::guard;
use super::image::Image;
use super::line::{self, Line};
use super::log::Log;
use super::{Module, Printed, lock, says, writes};
use crate::kept::Kept;
use crate::storage::Storage;
use crate::{
    Algorithm, Error, Field, Has, Host, Ops, Origin, PRIVATE_AREA_BYTES, Params, PatchedOps,
    Pointer, TcpSock,
};

const PRIVATE_AREA: &str = "its private area (inet_csk_ca)";

/// The modules that one host has loaded. There is one copy for each set of parameters, which the
/// host's connections share.
#[derive(Debug, Default)]
pub struct LoadedModules {
    loaded: RefCell<Vec<Loaded>>,
    /// The host's sysctls, by their names in `struct netns_ipv4`.
    sysctls: Rc<[(&'static str, i64)]>,
}

#[derive(Debug)]
struct Loaded {
    params: Params,
    copy: Rc<LoadedCopy>,
}

/// A started copy. It returns to the idle copies when nobody uses it any more.
#[derive(Debug)]
struct LoadedCopy {
    module: &'static Module,
    image: Option<Image>,
    /// Output of the module. Boxed, because the image holds its address.
    log: Box<Log>,
    /// A call into the copy was abandoned, so the state of its variables is unknown.
    is_broken: Cell<bool>,
}

impl Drop for LoadedCopy {
    fn drop(&mut self) {
        if let Some(image) = self.image.take().filter(|_| !self.is_broken.get()) {
            lock(&self.module.idle).push(image);
        }
    }
}

impl Deref for LoadedCopy {
    type Target = Image;

    fn deref(&self) -> &Image {
        self.image.as_ref().expect("it is taken by drop alone")
    }
}

impl LoadedModules {
    /// Creates the set for a host with these sysctls, given by their names in `struct netns_ipv4`. Hosts with the same ones
    /// share them.
    pub fn with_sysctls(sysctls: Rc<[(&'static str, i64)]>) -> LoadedModules {
        LoadedModules { loaded: RefCell::default(), sysctls }
    }

    /// Returns the counters of its modules (`NET_INC_STATS`), under their names in nstat.
    pub fn counted(&self) -> Vec<(&'static str, u64)> {
        let mut all = BTreeMap::new();
        for loaded in self.loaded.borrow().iter().filter(|one| one.copy.module.is_kernel_module) {
            for (name, count) in loaded.copy.module_table().counted() {
                *all.entry(name).or_default() += count;
            }
        }
        all.into_iter().collect()
    }

    /// Takes the lines that its modules have printed since the last call of this, each with the
    /// module's name.
    pub fn take_printed(&self) -> Vec<(String, Printed)> {
        let mut all = Vec::new();
        for loaded in self.loaded.borrow().iter() {
            let lines = loaded.copy.log.take();
            all.extend(lines.into_iter().map(|line| (loaded.copy.module.shown(), line)));
        }
        all
    }

    /// Loads the module that an algorithm's connections need on this host. A built-in algorithm
    /// needs none.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be loaded, or if its `module_init` refuses the parameters;
    /// [`Error::Elsewhere`].
    pub fn load(&self, algorithm: &'static Algorithm, params: &Params) -> Result<(), Error> {
        if algorithm.is_elsewhere() {
            return Err(Error::Elsewhere(algorithm.name()));
        }
        if algorithm.module().is_some() {
            self.run(algorithm, params)?;
        }
        Ok(())
    }

    pub(crate) fn run(
        &self,
        algorithm: &'static Algorithm,
        params: &Params,
    ) -> Result<Running, Error> {
        let Some(module) = algorithm.module() else {
            return Err(Error::UnknownAlgorithm(algorithm.name().to_owned()));
        };
        let mut all = self.loaded.borrow_mut();
        let same =
            |loaded: &&Loaded| std::ptr::eq(loaded.copy.module, module) && loaded.params == *params;
        let copy = match all.iter().find(same) {
            Some(loaded) => loaded.copy.clone(),
            None => {
                let log = Box::new(Log::default());
                let image = Some(start(module, params, &self.sysctls, &log)?);
                let is_broken = Cell::new(false);
                let copy = Rc::new(LoadedCopy { module, image, log, is_broken });
                all.push(Loaded { params: params.clone(), copy: copy.clone() });
                copy
            }
        };
        let at = match algorithm.origin {
            Origin::Other { at, .. } => at,
            _ => module.first,
        };
        Ok(Running::new(copy, at))
    }
}

fn start(
    module: &'static Module,
    params: &Params,
    sysctls: &[(&str, i64)],
    log: &Log,
) -> Result<Image, Error> {
    let idle = lock(&module.idle).pop();
    let image = match idle {
        Some(image) => image,
        None => Image::load(module).map_err(|why| says(&module.path, &why))?,
    };
    image.start(module, params.values(), sysctls, log).map_err(|why| says(&module.path, &why))?;
    Ok(image)
}

/// A connection's use of a copy.
pub(crate) struct Running {
    copy: Rc<LoadedCopy>,
    /// The module's table in use, in the kernel's form.
    table: *const c_void,
    /// The same table in the contract's form. `None` for a file on the contract, whose table has
    /// that form.
    ops: Option<Box<Ops>>,
    pub(crate) patched: PatchedOps,
    /// Flow of the connection, for the module's log.
    flow: Option<u32>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("path", &self.copy.module.path).finish_non_exhaustive()
    }
}

impl Running {
    fn new(copy: Rc<LoadedCopy>, at: isize) -> Running {
        let table = copy.at(at);
        let ops = copy.module.is_kernel_module.then(|| Box::new(copy.operations(table)));
        let patched = match &ops {
            Some(_) => copy.patched_operations(table),
            None => PatchedOps::default(),
        };
        Running { copy, table, ops, patched, flow: None }
    }

    /// Returns the table of operations to call.
    pub(crate) fn ops(&self) -> *const Ops {
        self.ops.as_deref().map_or(self.table.cast(), std::ptr::from_ref)
    }

    /// Returns the function that reads the internal values of a file on the contract. A module has
    /// `info` instead.
    pub(crate) fn diag_read(&self) -> Option<crate::DiagRead> {
        (!self.copy.module.is_kernel_module).then(|| self.copy.file_table().diag_read())
    }

    /// Returns the values of a module's `get_info` for a connection, one per column. All bits are
    /// set where it reports none now.
    pub(crate) fn info(&self, sock: &mut TcpSock, host: &mut Host, place: &Place) -> Vec<u64> {
        let module = self.copy.module;
        let mut values = Vec::new();
        if let Some(info) = module.info {
            self.enter(sock, host);
            let told = self.guarded(place, || self.copy.info(sock, info.attribute()));
            sock.icsk_ca_ops = Pointer::default();
            let told = told.unwrap_or_else(|fault| fault.unwind());
            values.extend(told.unwrap_or([u64::MAX; 4]));
        }
        values
    }

    /// Returns the fields of its private area that it shows.
    pub(crate) fn shown(&self, area: &[u64]) -> impl Iterator<Item = u64> {
        let read = |field: &Field| field.read(area).map_or(u64::MAX, |value| value as u64);
        self.copy.module.shown.iter().map(read)
    }

    /// Sets the flow to which its log lines belong.
    pub(crate) fn set_flow(&mut self, flow: u32) {
        self.flow = Some(flow);
    }

    /// Prepares for a call with this socket on this host.
    #[inline]
    pub(crate) fn enter(&self, sock: &mut TcpSock, host: &mut Host) {
        sock.icsk_ca_ops = Pointer::to(self.table);
        self.copy.enter(sock, host, self.flow);
    }

    /// Makes a call into the file. `run` must own nothing that needs dropping.
    #[inline]
    pub(crate) fn guarded<R>(&self, place: &Place, run: impl FnOnce() -> R) -> Result<R, Fault> {
        let result = guard::call(self.copy.module, self.copy.code(), place, run);
        if result.is_err() {
            self.copy.is_broken.set(true);
        }
        result
    }

    /// Checks that a finished call has written only what it may. Otherwise this unwinds with a
    /// [`Fault`].
    #[inline]
    pub(crate) fn check(&self, sock: &TcpSock, storage: &Storage, kept: &Kept, place: &Place) {
        let is_before = sock.cc_guard_before != [0; 1];
        let beside = (is_before || sock.cc_guard_behind != [0; 7]).then_some(is_before);
        if beside.is_some() {
            let cause = Cause::Outside { is_before, what: PRIVATE_AREA, bytes: PRIVATE_AREA_BYTES };
            self.wrote_elsewhere(cause, place);
        }
        if let Some(is_before) = storage.written_beside() {
            let bytes = size_of_val(storage.words()) as u32;
            // A module for a patched kernel may use the whole of that kernel's larger area.
            let what = match self.copy.module.is_kernel_module {
                true => PRIVATE_AREA,
                false => "its state",
            };
            let cause = Cause::Outside { is_before, what, bytes };
            self.wrote_elsewhere(cause, place);
        }
        if !kept.holds(sock) {
            let what = kept.broken(sock).unwrap_or_default();
            self.wrote_elsewhere(Cause::Said(what), place);
        }
    }

    #[cold]
    fn wrote_elsewhere(&self, cause: Cause, place: &Place) -> ! {
        self.copy.is_broken.set(true);
        let (module, code) = (self.copy.module, self.copy.code());
        let function = self.address(place.operation);
        Fault::new(module, code, place, &cause, function).unwind()
    }

    fn address(&self, operation: &str) -> Option<usize> {
        // SAFETY: the table belongs to this copy, which outlives this value.
        let found = unsafe { (*self.ops()).address(operation) };
        found.or_else(|| self.patched.address(operation))
    }

    /// Returns the line at which the function of an operation begins.
    pub(crate) fn line(&self, operation: &'static str) -> Option<Line> {
        let of = || line::of(self.copy.module, self.copy.code(), self.address(operation)?);
        lock(&self.copy.module.lines).entry(operation).or_insert_with(of).clone()
    }

    /// Describes the lines of the file that set a field. `None` for several files, because a line
    /// number alone would be ambiguous.
    pub(crate) fn setting(&self, field: &str) -> Option<String> {
        let module = self.copy.module;
        (module.files == 1).then(|| writes::words(module.text, field))?
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &'static std::path::Path {
        &self.copy.module.path
    }

    /// Ends a call. Returns the algorithm to use from now on if the module has put another of its
    /// own tables into the socket.
    pub(crate) fn leave(
        &mut self,
        sock: &mut TcpSock,
        now: &'static Algorithm,
    ) -> Option<&'static Algorithm> {
        let table = std::mem::take(&mut sock.icsk_ca_ops).target();
        if table == self.table || table.is_null() || !self.copy.module.is_kernel_module {
            return None;
        }
        // Accept only a table inside the module's own object.
        let code = self.copy.code();
        if !(code.base..code.object_end).contains(&table.addr()) {
            return None;
        }
        let at = self.copy.distance(table);
        let flow = self.flow;
        *self = Running { flow, ..Running::new(self.copy.clone(), at) };
        self.ops.as_deref().map(|ops| other(now, (ops, self.patched), at))
    }
}

/// Returns the algorithm of a module's table other than the first one it registered.
fn other(
    now: &'static Algorithm,
    (ops, patched): (&Ops, PatchedOps),
    at: isize,
) -> &'static Algorithm {
    let first = match now.origin {
        Origin::Other { of, .. } => of,
        _ => now,
    };
    let Some(module) = first.module() else { return now };
    if at == module.first {
        return first;
    }
    let mut others = lock(&module.others);
    others.entry(at).or_insert_with(|| {
        // The name is copied, because the module may overwrite its memory, although that is never
        // unloaded.
        Box::leak(Box::new(Algorithm {
            name: ops.name().leak(),
            text: first.text,
            state_bytes: first.state_bytes,
            params: first.params.clone(),
            diag: first.diag.clone(),
            fields: first.fields.clone(),
            flags: ops.flags,
            has: Has::of(ops).with_patched(first.has.is_patched, patched),
            origin: Origin::Other { of: first, at },
        }))
    })
}
