//! Reads an object's description of its algorithm, and checks it against what the headers of
//! `algorithms/include` produce. The object may be untrusted, or come from another version of knee.

use std::ffi::CStr;
use std::path::Path;

use knee_algo::module::{INIT_PROGRAM, ModuleParam};
use knee_algo::{Algorithm, Description, ParamInfo};
use libbpf_rs::{AsRawLibbpf as _, MapType, OpenObject, OpenProgram, ProgramType};

use super::elf::Elf;
use super::instructions;
use crate::apart;
use crate::embedded::Outside;
use crate::load::{FALLBACK_MAP, FALLBACKS_MAP, PARAMS_MAP, STOPPED_MAP, open_object, with_log};
use crate::registry::OPS_PREFIX;
use crate::source::{SOURCE_MAP, Source, Variable, source_of};
use crate::table::{self, NAME_BYTES, NAME_OFFSET, TABLE_BYTES};
use crate::trace::control;
use crate::{Embedded, KernelApi, load};

/// The section that describes the parameters (bpf.h).
const PARAMS_TOLD: &str = "cc_params";
/// The section that describes the parameters of a Linux module (`for_bpf.rs` of knee-algo).
const MODULE_PARAMS_TOLD: &str = "knee_told";
/// Bits of `kind` in `struct cc_source`.
pub(super) const LOOKS_AT_FLAG: u8 = 1;
pub(super) const IS_MODULE: u8 = 2;
const MOST_PARAMS: usize = 64;
const MOST_TEXT: usize = 1000;
/// The largest value of a map, in bytes; a record of the recorder has about 2500.
const MOST_VALUE: u32 = 1 << 16;
const MOST_PROGRAMS: usize = 64;
/// The type of the table; the headers append a suffix to the names of their own types.
const TABLE_TYPE: &str = "tcp_congestion_ops";
/// The map that receives the tracer's ring, and the bytes of the ring that declares its kind
/// (record.h).
const RING_MAP: &str = "cc_ring_slot";
const MOST_RING_BYTES: u32 = 1 << 12;
/// The map of the arguments of a Linux module's calls, per CPU (record.h).
const GIVEN_MAP: &str = "cc_module_given";

/// An object that passed the checks.
pub(super) struct Made {
    description: Description,
    source: Source,
    looks_at_flag: bool,
    variables: Vec<Variable>,
}

impl Made {
    pub(super) fn into_embedded(self, bytes: &[u8], path: &Path) -> Embedded {
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let algorithm: &'static Algorithm =
            Box::leak(Box::new(Algorithm::elsewhere(self.description)));
        let source = Source { path: Some(path), ..self.source };
        Embedded::of_outside(
            bytes,
            self.looks_at_flag,
            Outside { algorithm, source, variables: self.variables },
        )
    }
}

/// Refuses the name of one of knee's own algorithms, and a name that the kernel does not accept.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    if Algorithm::by_name(name).is_ok() {
        return Err(format!(
            "its CC_ALGORITHM is \"{name}\", which knee has an algorithm of its own of: give it another name"
        ));
    }
    load::check_name(name).map_err(|why| why.to_string())
}

/// Reads and checks an object, first in a process of its own.
pub(super) fn read(bytes: &[u8]) -> Result<Made, String> {
    // Nothing in the child may be the first to ask the kernel.
    KernelApi::running();
    apart::survives(|| parse(bytes).map(drop))?;
    parse(bytes)
}

fn parse(bytes: &[u8]) -> Result<Made, String> {
    let aligned = crate::embedded::aligned_copy(bytes);
    let elf = Elf::read(aligned.bytes())?;
    let source =
        elf.section(SOURCE_MAP).ok_or_else(|| not_ours("no section that names its source"))?;
    let (source, kind) =
        source_of(source).ok_or_else(|| not_ours("another section that names its source"))?;
    let is_module = kind & IS_MODULE != 0;
    let unreadable = || not_ours("parameters that cannot be read");
    let (params, variables) = match is_module {
        true => module_params_of(elf.section(MODULE_PARAMS_TOLD).unwrap_or_default(), &elf),
        false => params_of(elf.section(PARAMS_TOLD).unwrap_or_default()).map(|p| (p, Vec::new())),
    }
    .ok_or_else(unreadable)?;
    let (open, log) = with_log(|| open_object(aligned.bytes()));
    let open = open.map_err(|why| {
        let other = log.split_once("BTF for extern '").and_then(|(_, rest)| rest.split_once('\''));
        if let Some((name, _)) = other.filter(|_| is_module) {
            return format!(
                "calls `{}`, which is of another file: a module of several files is for the simulator (--cc ./tcp_foo.c+tcp_bar.c)",
                name.escape_debug()
            );
        }
        let log = log.lines().next().map_or(String::new(), |line| format!(" ({})", line.trim()));
        format!("cannot be read as an object for BPF: {why}{log}")
    })?;
    let name = name_of(&open)?;
    check_name(&name)?;
    check_maps(&open, &name, params.len(), is_module)?;
    check_programs(&open, is_module)?;
    instructions::check(&elf)?;
    let operations: Vec<String> =
        table::operations(&open).into_iter().map(|(_, member)| member.to_owned()).collect();
    let has = |name: &str| operations.iter().any(|operation| operation == name);
    if !has("ssthresh") || !has("undo_cwnd") || has("cong_avoid") == has("cong_control") {
        return Err(
            "CC_ALGORITHM needs .ssthresh, .undo_cwnd, and one of .cong_avoid and .cong_control"
                .into(),
        );
    }
    let flags = table::flags(&open).ok_or_else(|| not_ours("no flags"))?;
    let description = Description { name, params, flags, operations, fields: Vec::new() };
    Ok(Made { description, source, looks_at_flag: kind & LOOKS_AT_FLAG != 0, variables })
}

fn not_ours(what: &str) -> String {
    format!(
        "is no object that this knee made of a file (it has {what}): knee check FILE.c --object FILE.bpf.o makes one"
    )
}

/// The algorithm's name from its table, which `CC_ALGORITHM` wrote.
fn name_of(open: &OpenObject) -> Result<String, String> {
    let mut tables = open.maps().filter(|map| map.map_type() == MapType::StructOps);
    let (Some(table), None) = (tables.next(), tables.next()) else {
        return Err(not_ours("not one table of operations"));
    };
    if type_of(open, &table).split("___").next() != Some(TABLE_TYPE) {
        return Err(not_ours("a table that is none of congestion control"));
    }
    let value = table.initial_value().filter(|value| value.len() == TABLE_BYTES);
    let value = value.ok_or_else(|| not_ours("another table of operations"))?;
    let field = &value[NAME_OFFSET..NAME_OFFSET + NAME_BYTES];
    let name: Vec<u8> = field.iter().copied().take_while(|byte| *byte != 0).collect();
    let name = String::from_utf8_lossy(&name).into_owned();
    let own = table.name().to_string_lossy().into_owned();
    match own.strip_prefix(OPS_PREFIX) {
        Some(own) if own == name => Ok(name),
        Some(own) => Err(format!(
            "its .name is \"{}\" and its CC_ALGORITHM \"{}\": they must be the same",
            name.escape_debug(),
            own.escape_debug()
        )),
        None => Err(not_ours("another table of operations")),
    }
}

/// The name of the type of a map's value; empty if it has none.
fn type_of(open: &OpenObject, map: &libbpf_rs::OpenMap<'_>) -> String {
    // SAFETY: the map belongs to the object, which is open. libbpf returns null if there is no
    // name, or a text that lives as long as the object.
    unsafe {
        let types = libbpf_sys::bpf_object__btf(open.as_libbpf_object().as_ptr());
        let id = libbpf_sys::bpf_map__btf_value_type_id(map.as_libbpf_object().as_ptr());
        if types.is_null() || id == 0 {
            return String::new();
        }
        let found = libbpf_sys::btf__type_by_id(types, id);
        if found.is_null() {
            return String::new();
        }
        let name = libbpf_sys::btf__name_by_offset(types, (*found).name_off);
        match name.is_null() {
            true => String::new(),
            false => CStr::from_ptr(name).to_string_lossy().into_owned(),
        }
    }
}

/// Allows only the maps that the headers declare, each of its proper size and none pinned. A Linux
/// module has its variables, too.
fn check_maps(
    open: &OpenObject,
    algorithm: &str,
    params: usize,
    is_module: bool,
) -> Result<(), String> {
    let storage = format!("cc_storage_{algorithm}");
    let state = ["cc_open_records", "cc_base_rtt", "cc_label", table::INIT_CALLED_MAP, &storage];
    let sections = [PARAMS_MAP, FALLBACK_MAP, FALLBACKS_MAP, STOPPED_MAP, SOURCE_MAP, control::MAP];
    for map in open.maps() {
        let name = map.name().to_string_lossy().into_owned();
        let is_section = match load::usual_section(&map) {
            Some(".rodata" | ".kconfig") => true,
            Some(_) => is_module,
            None => {
                let is_ours = sections.contains(&name.as_str()) || name.starts_with(".rodata.");
                is_ours && load::is_of_section(&map)
            }
        };
        let is_known = match map.map_type() {
            MapType::StructOps => true,
            MapType::SkStorage => state.contains(&name.as_str()),
            MapType::ArrayOfMaps => name == RING_MAP,
            MapType::PercpuArray => is_module && name == GIVEN_MAP,
            MapType::Array => is_section,
            _ => false,
        };
        if !is_known {
            return Err(format!(
                "has a map \"{}\" that no algorithm has: variables that can be written belong to the state (CC_STATE)",
                name.escape_debug()
            ));
        }
        let is_bounded = map.max_entries() <= 1 && map.value_size() <= MOST_VALUE;
        let is_right = match name.as_str() {
            RING_MAP => has_ring_of_ours(&map),
            FALLBACK_MAP => map.value_size() as usize == NAME_BYTES,
            FALLBACKS_MAP => map.value_size() as usize == size_of::<u64>(),
            STOPPED_MAP => map.value_size() as usize == 3 * size_of::<u64>(),
            _ => true,
        };
        if !is_bounded || !is_right || is_pinned(&map) {
            return Err(not_ours(&format!("a map {} of another kind", name.escape_debug())));
        }
        if name == PARAMS_MAP && map.value_size() as usize != params * size_of::<u32>() {
            return Err(not_ours("parameters that are not those it tells"));
        }
    }
    Ok(())
}

/// Whether the inner map, from which the kernel learns the kind, is that of record.h.
fn has_ring_of_ours(map: &libbpf_rs::OpenMap<'_>) -> bool {
    // SAFETY: the map belongs to an open object; libbpf returns null or a map that lives as long.
    unsafe {
        let inner = libbpf_sys::bpf_map__inner_map(map.as_libbpf_object().as_ptr());
        !inner.is_null()
            && libbpf_sys::bpf_map__type(inner) == libbpf_sys::BPF_MAP_TYPE_RINGBUF
            && libbpf_sys::bpf_map__key_size(inner) == 0
            && libbpf_sys::bpf_map__value_size(inner) == 0
            && libbpf_sys::bpf_map__max_entries(inner) <= MOST_RING_BYTES
            && libbpf_sys::bpf_map__map_flags(inner) == 0
            && libbpf_sys::bpf_map__pin_path(inner).is_null()
    }
}

/// Whether a load would pin the map.
fn is_pinned(map: &libbpf_rs::OpenMap<'_>) -> bool {
    // SAFETY: the map belongs to an open object; libbpf returns null or a text of its own.
    unsafe { !libbpf_sys::bpf_map__pin_path(map.as_libbpf_object().as_ptr()).is_null() }
}

/// Allows only operations of congestion control, which the kernel limits to what such an algorithm
/// may do, and a module's `module_init`.
fn check_programs(open: &OpenObject, is_module: bool) -> Result<(), String> {
    if open.progs().count() > MOST_PROGRAMS {
        return Err(not_ours("too many programs"));
    }
    let is_known = |program: &OpenProgram<'_>| match program.prog_type() {
        ProgramType::StructOps => true,
        ProgramType::Syscall => is_module && program.name() == INIT_PROGRAM,
        _ => false,
    };
    let other = open.progs().find(|program| !is_known(program));
    other.map_or(Ok(()), |other| {
        let name = other.name().to_string_lossy().into_owned();
        Err(not_ours(&format!("a program \"{}\" that is no operation", name.escape_debug())))
    })
}

/// The parameters of a Linux module and the variables that hold them. Each entry has the kind, the
/// bounds (two zeros if it has none of its own) and three texts.
fn module_params_of(mut told: &[u8], elf: &Elf<'_>) -> Option<(Vec<ParamInfo>, Vec<Variable>)> {
    let (mut params, mut variables): (Vec<ParamInfo>, Vec<Variable>) = (Vec::new(), Vec::new());
    while !told.is_empty() {
        let (kind, min, max) = (number(&mut told)?, number(&mut told)?, number(&mut told)?);
        let (name, variable, meaning) = (text(&mut told)?, text(&mut told)?, text(&mut told)?);
        let variable = elf.variable(variable)?;
        let mut bytes = [0; size_of::<u64>()];
        bytes[..variable.value.len()].copy_from_slice(&variable.value);
        let value = u64::from_le_bytes(bytes);
        let kind = ModuleParam::of(kind)?;
        let is_known = params.iter().any(|known| known.name == name);
        if is_known || variable.value.len() != kind.bytes_in_bpf() {
            return None;
        }
        let default = match kind.is_signed() {
            true => {
                let unused = 64 - 8 * u32::try_from(variable.value.len()).ok()?;
                i32::try_from((value << unused) as i64 >> unused).ok()? as u32
            }
            false => u32::try_from(value).ok()?,
        };
        let mut param = kind.info(name, default, meaning)?;
        if (min, max) != (0, 0) && !kind.is_signed() {
            (param.min, param.max) = (min, max);
        }
        if params.len() == MOST_PARAMS || !param.allows(default) || !is_name(name) {
            return None;
        }
        params.push(param);
        variables.push(variable);
    }
    Some((params, variables))
}

fn is_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.len() <= 32 && name.bytes().all(is_word)
}

/// The parameters, one after the other: three numbers and three texts each. `None` if the bytes
/// have another form.
fn params_of(mut told: &[u8]) -> Option<Vec<ParamInfo>> {
    let mut params: Vec<ParamInfo> = Vec::new();
    while !told.is_empty() {
        let (default, min, max) = (number(&mut told)?, number(&mut told)?, number(&mut told)?);
        let (name, choices, meaning) = (text(&mut told)?, text(&mut told)?, text(&mut told)?);
        let is_new = params.iter().all(|known| known.name != name);
        let is_in_range = (min..=max).contains(&default);
        if !is_name(name) || !is_new || !is_in_range || params.len() == MOST_PARAMS {
            return None;
        }
        params.push(ParamInfo {
            name,
            default,
            min,
            max,
            is_signed: false,
            choices: choices.split('|').filter(|choice| !choice.is_empty()).collect(),
            meaning,
        });
    }
    Some(params)
}

fn number(told: &mut &[u8]) -> Option<u32> {
    let (number, rest) = told.split_at_checked(size_of::<u32>())?;
    *told = rest;
    Some(u32::from_le_bytes(number.try_into().ok()?))
}

/// Takes a text. It lives as long as the process, like those of knee's own algorithms.
fn text(told: &mut &[u8]) -> Option<&'static str> {
    let end = told.iter().take(MOST_TEXT).position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&told[..end]).ok()?;
    *told = &told[end + 1..];
    (!text.contains(char::is_control)).then(|| &*text.to_owned().leak())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_objects_of_knees_own_tell_of_their_parameters_is_what_they_are() {
        for embedded in Embedded::all() {
            let elf = Elf::read(embedded.object()).unwrap();
            let told = params_of(elf.section(PARAMS_TOLD).unwrap_or_default()).unwrap();
            let native = Algorithm::by_name(embedded.name()).unwrap();
            let all = |params: &[ParamInfo]| format!("{params:?}");
            assert_eq!(all(&told), all(native.params()), "{}", embedded.name());
        }
    }

    #[test]
    fn parameters_that_make_no_sense_are_refused() {
        let told = |default: u32, text: &str| {
            let mut bytes: Vec<u8> = [default, 1, 8].iter().flat_map(|n| n.to_le_bytes()).collect();
            bytes.extend(text.as_bytes());
            bytes
        };
        let good = told(4, "gain\0a|b\0what it is\0");
        assert_eq!(params_of(&good).unwrap()[0].choices, ["a", "b"]);
        for bad in [
            told(9, "gain\0\0\0"),
            told(4, "ga in\0\0\0"),
            told(4, "\0\0\0"),
            told(4, "gain\0\0\x1b[2J\0"),
            told(4, "gain\0\0"),
            [good.clone(), good.clone()].concat(),
            good[..10].to_vec(),
        ] {
            assert!(params_of(&bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn an_object_of_knees_own_is_not_taken_for_somebody_elses() {
        let Ok(reno) = Embedded::by_name("reno") else {
            crate::outside::say_skipped();
            return;
        };
        let why = read(reno.object()).err().unwrap();
        assert!(why.contains("no section that names its source"), "{why}");
    }
}
