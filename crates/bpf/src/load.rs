//! Loading an object and registering its algorithm.

use std::cell::RefCell;
use std::os::fd::AsFd as _;

use knee_algo::Params;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{
    Link, MapCore as _, MapType, Object, ObjectBuilder, OpenObject, PrintLevel, Program, set_print,
};

use crate::{Embedded, Error, base_rtt};

/// Where the name lies in `struct tcp_congestion_ops` of bpf.h: behind its twelve operations.
const OPS_NAME_OFFSET: usize = 12 * size_of::<u64>();
/// Bytes of that name, the last of them 0.
const OPS_NAME_BYTES: usize = 16;
/// The section, and so the map, that holds the parameters and nothing else (bpf.h).
const PARAMS_MAP: &str = ".rodata.params";

/// Which of the two builds of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// The algorithm alone.
    Plain,
    /// Each call leaves a record.
    Recording,
}

/// An algorithm in the kernel, registered until this is dropped (or its process ends). Connections
/// that have it by then keep it until they close.
pub struct Loaded {
    // Declared first, dropped first: the name goes before the programs.
    _link: Link,
    object: Object,
    name: String,
}

impl Loaded {
    /// Loads `embedded` with these parameters and registers it as `name`.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::BadParams`], [`Error::Load`] with the verifier's words, and
    /// [`Error::Register`], for one if the name is taken.
    pub fn register(
        embedded: &Embedded,
        build: Build,
        name: &str,
        params: &Params,
    ) -> Result<Loaded, Error> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || name.len() >= OPS_NAME_BYTES || !name.bytes().all(allowed) {
            return Err(Error::BadName { name: name.to_owned() });
        }
        let refused =
            |source, log| Error::Load { algorithm: embedded.name().to_owned(), source, log };
        let (opened, log) =
            with_log(|| ObjectBuilder::default().open_memory(embedded.object(build)));
        let mut open = opened.map_err(|source| refused(source, log))?;
        set_name(&mut open, embedded, name)?;
        set_params(&mut open, embedded, params)?;
        base_rtt::share(&mut open)?;
        let (loaded, log) = with_log(|| open.load());
        let mut object = loaded.map_err(|source| refused(source, log))?;
        let mut ops = object
            .maps_mut()
            .find(|map| map.map_type() == MapType::StructOps)
            .expect("set_name found it");
        let (link, _) = with_log(|| ops.attach_struct_ops());
        let link = link.map_err(|source| Error::Register { name: name.to_owned(), source })?;
        Ok(Loaded { _link: link, object, name: name.to_owned() })
    }

    /// The name it is registered under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Each program and the number of instructions the verifier walked through for it.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub fn verified_instructions(&self) -> Result<Vec<(String, u32)>, Error> {
        let inspect = |source| Error::Inspect { what: "the programs' figures", source };
        let mut figures = Vec::new();
        for program in self.object.progs() {
            let id = Program::id_from_fd(program.as_fd()).map_err(inspect)?;
            let info = ProgInfoIter::default().find(|info| info.id == id);
            let name = program.name().to_string_lossy().into_owned();
            figures.push((name, info.map_or(0, |info| info.verified_insns)));
        }
        Ok(figures)
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }
}

fn set_name(open: &mut OpenObject, embedded: &Embedded, name: &str) -> Result<(), Error> {
    let not_ours =
        || Error::BadObject { what: format!("{} has no table of operations", embedded.name()) };
    let mut ops =
        open.maps_mut().find(|map| map.map_type() == MapType::StructOps).ok_or_else(not_ours)?;
    let field = ops
        .initial_value_mut()
        .and_then(|table| table.get_mut(OPS_NAME_OFFSET..OPS_NAME_OFFSET + OPS_NAME_BYTES))
        .filter(|field| field.starts_with(embedded.name().as_bytes()))
        .ok_or_else(not_ours)?;
    field.fill(0);
    field[..name.len()].copy_from_slice(name.as_bytes());
    Ok(())
}

fn set_params(open: &mut OpenObject, embedded: &Embedded, params: &Params) -> Result<(), Error> {
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

thread_local! {
    static LOG: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `action` with libbpf's warnings collected instead of printed.
pub(crate) fn with_log<R>(action: impl FnOnce() -> R) -> (R, String) {
    set_print(Some((PrintLevel::Warn, |_, message| {
        LOG.with_borrow_mut(|log| log.push_str(&message));
    })));
    LOG.take();
    let result = action();
    (result, LOG.take())
}
