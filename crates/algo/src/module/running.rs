//! Modules at work: which copies a host has loaded, and a connection's hold on one of them.

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

/// The modules that one host has loaded: a copy for each set of parameters, shared by its connections.
#[derive(Debug, Default)]
pub struct LoadedModules {
    loaded: RefCell<Vec<Loaded>>,
    /// Sysctls of the host, by their names in `struct netns_ipv4`.
    sysctls: Vec<(&'static str, i64)>,
}

#[derive(Debug)]
struct Loaded {
    params: Params,
    copy: Rc<LoadedCopy>,
}

/// A started copy; its place is with the idle ones when nobody holds it any more.
#[derive(Debug)]
struct LoadedCopy {
    module: &'static Module,
    image: Option<Image>,
    /// What it prints; in a box of its own, since the image knows where it is.
    log: Box<Log>,
    /// A call into it was abandoned: nobody knows what its variables are.
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
    /// Those of a host with these sysctls, by their names in `struct netns_ipv4`.
    pub fn with_sysctls(sysctls: Vec<(&'static str, i64)>) -> LoadedModules {
        LoadedModules { loaded: RefCell::default(), sysctls }
    }

    /// What its modules have counted (`NET_INC_STATS`), under the names that nstat has.
    pub fn counted(&self) -> Vec<(&'static str, u64)> {
        let mut all = BTreeMap::new();
        for loaded in self.loaded.borrow().iter().filter(|one| one.copy.module.is_kernel_module) {
            for (name, count) in loaded.copy.module_table().counted() {
                *all.entry(name).or_default() += count;
            }
        }
        all.into_iter().collect()
    }

    /// What its modules have printed since the last call of this, each with its name.
    pub fn take_printed(&self) -> Vec<(String, Printed)> {
        let mut all = Vec::new();
        for loaded in self.loaded.borrow().iter() {
            let lines = loaded.copy.log.take();
            all.extend(lines.into_iter().map(|line| (loaded.copy.module.shown(), line)));
        }
        all
    }

    /// Loads what an algorithm's connections need on this host; of one of the folder that is nothing.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be loaded, or if its `module_init` refuses the parameters; [`Error::Elsewhere`].
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

/// A connection's hold on a copy.
pub(crate) struct Running {
    copy: Rc<LoadedCopy>,
    /// The module's own table in use.
    table: *const c_void,
    /// The same in the contract's form; empty for a file that has that form.
    ops: Option<Box<Ops>>,
    pub(crate) patched: PatchedOps,
    /// Of the connection, for what the module prints.
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

    /// The operations to call.
    pub(crate) fn ops(&self) -> *const Ops {
        self.ops.as_deref().map_or(self.table.cast(), std::ptr::from_ref)
    }

    /// How a file on the contract shows its inside; a module has `info`.
    pub(crate) fn diag_read(&self) -> Option<crate::DiagRead> {
        (!self.copy.module.is_kernel_module).then(|| self.copy.file_table().diag_read())
    }

    /// What a module tells of a connection, by column; all ones where it does not tell now.
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

    /// The fields of its private area that it shows.
    pub(crate) fn shown(&self, area: &[u64]) -> impl Iterator<Item = u64> {
        let read = |field: &Field| field.read(area).map_or(u64::MAX, |value| value as u64);
        self.copy.module.shown.iter().map(read)
    }

    /// What it prints is of this flow.
    pub(crate) fn set_flow(&mut self, flow: u32) {
        self.flow = Some(flow);
    }

    /// This socket's call is about to be made, on this host.
    #[inline]
    pub(crate) fn enter(&self, sock: &mut TcpSock, host: &mut Host) {
        sock.icsk_ca_ops = Pointer::to(self.table);
        self.copy.enter(sock, host, self.flow);
    }

    /// Makes a call into the file, which has nothing to tidy up.
    #[inline]
    pub(crate) fn guarded<R>(&self, place: &Place, run: impl FnOnce() -> R) -> Result<R, Fault> {
        let result = guard::call(self.copy.module, self.copy.code(), place, run);
        if result.is_err() {
            self.copy.is_broken.set(true);
        }
        result
    }

    /// Holds what a call that is over has written to what it may; unwinds with a [`Fault`] if that was more.
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
            // Of a module of a patched kernel it is the whole of that area.
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
        // SAFETY: the table of this copy, which outlives this.
        let found = unsafe { (*self.ops()).address(operation) };
        found.or_else(|| self.patched.address(operation))
    }

    /// The line where the function of an operation begins.
    pub(crate) fn line(&self, operation: &'static str) -> Option<Line> {
        let of = || line::of(self.copy.module, self.copy.code(), self.address(operation)?);
        lock(&self.copy.module.lines).entry(operation).or_insert_with(of).clone()
    }

    /// Which lines of the file set a field. Of several files nothing is said: a line would need its file.
    pub(crate) fn setting(&self, field: &str) -> Option<String> {
        let module = self.copy.module;
        (module.files == 1).then(|| writes::words(module.text, field))?
    }

    /// The file that this is of.
    pub(crate) fn path(&self) -> &'static std::path::Path {
        &self.copy.module.path
    }

    /// The call is over: the algorithm in use from now on, if the module has put another table of its
    /// own into the socket.
    pub(crate) fn leave(
        &mut self,
        sock: &mut TcpSock,
        now: &'static Algorithm,
    ) -> Option<&'static Algorithm> {
        let table = std::mem::take(&mut sock.icsk_ca_ops).target();
        if table == self.table || table.is_null() || !self.copy.module.is_kernel_module {
            return None;
        }
        // Only a table of its own object; whatever else stands there is no table.
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

/// The algorithm of another table of a module than the one it registered first.
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
        // A name of the module's memory, which is never unloaded but may be written.
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
