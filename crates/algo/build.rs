//! Compiles every `algorithms/*.c` and writes the table of them: the folder is the list. Those of
//! `src/testing` have a table of their own. What they see of the kernel is mirrored from `fields.h`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "src/dwarf.rs"]
#[allow(dead_code, reason = "the library has more to do with it")]
mod dwarf;
#[path = "src/fields.rs"]
#[allow(dead_code, unreachable_pub, reason = "the library has more to do with them")]
mod fields;

use dwarf::State;
use fields::FieldKind;

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let algorithms = root.join("../../algorithms");
    let testing = root.join("src/testing");
    let include = algorithms.join("include");

    let mut build = cc::Build::new();
    build
        .include(&include)
        .std("gnu11")
        .warnings(true)
        .extra_warnings(true)
        .flag_if_supported("-Wno-unused-parameter")
        .flag_if_supported("-Wno-unused-function")
        .opt_level(2)
        .file(root.join("src/host.c"));
    // What C leaves undefined traps where tests and fuzzers run; traps need no library.
    let fuzzes = env::var_os("CARGO_CFG_FUZZING").is_some();
    if fuzzes || env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        build
            .flag_if_supported("-fsanitize=undefined")
            .flag_if_supported("-fsanitize-undefined-trap-on-error");
    }
    // A fuzzer follows the C code too where clang compiles it (CC=clang); gcc cannot say it so.
    if fuzzes {
        build.flag_if_supported("-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp");
    }
    let mut tables = String::new();
    for (table_name, folder) in [("RAW", &algorithms), ("RAW_TESTING", &testing)] {
        let names = algorithm_names(folder);
        for name in &names {
            build.file(folder.join(format!("{name}.c")));
        }
        let fields: Vec<String> =
            names.iter().map(|name| state_fields(&build, folder, name)).collect();
        tables.push_str(&table(table_name, folder, &names, &fields));
    }
    build.compile("knee_algorithms");
    cc::Build::new().std("gnu11").opt_level(2).file(root.join("src/guard.c")).compile("knee_guard");

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("table.rs"), tables).expect("OUT_DIR is writable");

    let lists = Lists::read(&include.join("fields.h"));
    fs::write(out.join("fields.rs"), mirrors(&lists)).expect("OUT_DIR is writable");
    fs::write(out.join("headers.rs"), headers(&root.join("module"), &include) + &members(&lists))
        .expect("OUT_DIR is writable");

    println!("cargo::rerun-if-changed=module");
    println!("cargo::rerun-if-changed={}", algorithms.display());
    println!("cargo::rerun-if-changed={}", include.display());
    println!("cargo::rerun-if-changed=src/host.c");
    println!("cargo::rerun-if-changed=src/guard.c");
    println!("cargo::rerun-if-changed=src/testing");
}

fn algorithm_names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("the folder exists")
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let is_c = path.extension().is_some_and(|extension| extension == "c");
            is_c.then(|| path.file_stem()?.to_str().map(str::to_owned))?
        })
        .collect();
    names.sort();
    names
}

/// The fields of an algorithm's private state, as rows of a constant. Without debug information there are none.
fn state_fields(build: &cc::Build, folder: &Path, name: &str) -> String {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let object = out.join(format!("{name}.state.so"));
    let mut command = build.get_compiler().to_command();
    command.args(["-w", "-g", "-gz=none", "-O0", "-fPIC", "-shared", "-nostdlib"]);
    let made = command.arg(folder.join(format!("{name}.c"))).arg("-o").arg(&object).status();
    let bytes = made.ok().filter(|status| status.success()).and_then(|_| fs::read(&object).ok());
    let found = bytes.and_then(|bytes| dwarf::find(&bytes, &State::ReturnedBy("cc_state")));
    let mut rows = String::new();
    for field in found.unwrap_or_default().fields {
        let (kind, names) = match field.kind() {
            FieldKind::Unsigned => ("Unsigned", None),
            FieldKind::Signed => ("Signed", None),
            FieldKind::Named(names) => ("Named", Some(names)),
            FieldKind::Pointer => ("Pointer", None),
        };
        let names = names.map_or(String::new(), |names| format!("({names:?}.to_owned())"));
        let (name, at, bits) = (field.name(), field.bit_offset(), field.bits());
        write!(rows, "({name:?}, {at}, {bits}, || FieldKind::{kind}{names}), ")
            .expect("a String takes all");
    }
    rows
}

/// The symbols that the macros of native.h give each algorithm, and one row for each.
fn table(table_name: &str, folder: &Path, names: &[String], fields: &[String]) -> String {
    let mut text = String::from("unsafe extern \"C\" {\n");
    for name in names {
        write!(
            text,
            "    static cc_ops_{name}: Ops;\n    static cc_state_bytes_{name}: u32;\n    \
             static cc_params_{name}: RawParam;\n    static cc_params_len_{name}: u32;\n    \
             static cc_diag_{name}: RawDiag;\n    static cc_diag_len_{name}: u32;\n    \
             fn cc_diag_read_{name}(sk: *const TcpSock, out: *mut u64);\n"
        )
        .expect("a String takes all");
    }
    writeln!(text, "}}\n\nstatic {table_name}: &[Raw] = &[").expect("as above");
    for (name, fields) in names.iter().zip(fields) {
        let path = folder.join(format!("{name}.c"));
        let path = path.canonicalize().expect("it was listed a moment ago");
        writeln!(
            text,
            "    Raw {{ name: \"{name}\", text: include_str!({path:?}), ops: &raw const cc_ops_{name}, \
             state_bytes: &raw const cc_state_bytes_{name}, params: &raw const cc_params_{name}, \
             params_len: &raw const cc_params_len_{name}, diag: &raw const cc_diag_{name}, \
             diag_len: &raw const cc_diag_len_{name}, diag_read: cc_diag_read_{name}, \
             fields: &[{fields}] }},"
        )
        .expect("a String takes all");
    }
    text.push_str("];\n");
    text
}

/// The headers of modules, with the contract's native half among them, as name and text.
fn headers(own: &Path, contract: &Path) -> String {
    let mut text = String::from("static HEADERS: &[(&str, &str)] = &[\n");
    for folder in [own, contract] {
        let mut paths: Vec<PathBuf> = fs::read_dir(folder)
            .expect("the folder exists")
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "h"))
            .collect();
        paths.sort();
        for path in paths {
            let path = path.canonicalize().expect("it was listed a moment ago");
            let name = path.file_name().and_then(|name| name.to_str()).expect("ours are ASCII");
            writeln!(text, "    (\"knee/{name}\", include_str!({path:?})),").expect("as above");
        }
    }
    text.push_str("];\n");
    text
}

/// A line of `fields.h`.
struct Line {
    /// FIELD, NESTED, VALUE, OWN or OPERATION.
    kind: String,
    c_type: String,
    /// Of a nested one that of its struct.
    name: String,
    /// As the mirror has it.
    flat_name: String,
    meaning: String,
}

/// The lists of `fields.h`, by name.
struct Lists(Vec<(String, Vec<Line>)>);

impl Lists {
    fn read(path: &Path) -> Lists {
        let text = fs::read_to_string(path).expect("fields.h is there");
        let mut lists: Vec<(String, Vec<Line>)> = Vec::new();
        for line in text.lines() {
            let line = line.trim_end_matches('\\').trim_end();
            if let Some(head) = line.strip_prefix("#define CC_") {
                lists.push((head.split('(').next().unwrap_or(head).to_owned(), Vec::new()));
            } else if let (Some(entry), Some((_, list))) =
                (line.strip_prefix('\t'), lists.last_mut())
            {
                let read = Line::read(entry);
                list.push(read.unwrap_or_else(|| panic!("fields.h: \"{entry}\" is no field")));
            }
        }
        Lists(lists)
    }

    fn of(&self, name: &str) -> &[Line] {
        let list = self.0.iter().find(|(list, _)| list == name);
        list.map(|(_, lines)| lines.as_slice()).expect("fields.h has this list")
    }
}

impl Line {
    fn read(entry: &str) -> Option<Line> {
        let (kind, arguments) = entry.strip_suffix(')')?.split_once('(')?;
        let (arguments, meaning) = match arguments.split_once(", \"") {
            Some((arguments, meaning)) => (arguments, meaning.strip_suffix('"')?),
            None => (arguments, ""),
        };
        let mut words = arguments.split(", ");
        let (c_type, name) = (words.next()?.to_owned(), words.next()?.to_owned());
        let flat_name = match kind {
            "NESTED" => format!("{name}_{}", words.next()?),
            _ => name.clone(),
        };
        Some(Line { kind: kind.to_owned(), c_type, name, flat_name, meaning: meaning.to_owned() })
    }

    fn rust_type(&self) -> &str {
        match self.c_type.as_str() {
            "s32" => "i32",
            "s64" => "i64",
            pointer if pointer.ends_with('*') => "Pointer",
            same => same,
        }
    }

    /// A field of a struct, with its documentation.
    fn documented(&self) -> String {
        let (first, rest) = self.meaning.split_at(1);
        let stop = if rest.ends_with('.') { "" } else { "." };
        format!("    /// {}{rest}{stop}\n    {}\n", first.to_uppercase(), self.field())
    }

    fn field(&self) -> String {
        format!("{}: {},", self.flat_name, self.rust_type())
    }
}

/// The lists as calls of the macros of `sock.rs`.
fn mirrors(lists: &Lists) -> String {
    let members = |list: &str| lists.of(list).iter().map(Line::documented).collect::<String>();
    let group = |names: &[&str], is_wanted: fn(&&Line) -> bool| {
        let lines = names.iter().flat_map(|name| lists.of(name)).filter(is_wanted);
        format!("[{}]", lines.map(Line::field).collect::<Vec<_>>().join(" "))
    };
    let (head, tail) = (["SOCK_FIELDS", "ICSK_FIELDS"], ["TCP_FIELDS"]);
    let (ack, rate) = (["ACK_SAMPLE_FIELDS"], ["RATE_SAMPLE_FIELDS"]);
    let state = "    /// Nobody writes it: what a file writes before its own bytes is found here.\n    cc_guard_before: [u64; 1],\n    \
                 /// The algorithm's own 104 bytes.\n    icsk_ca_priv: [u64; 13],\n    \
                 /// As before them.\n    cc_guard_behind: [u64; 7],\n";
    // What only modules see stands in no group, and so in no recording.
    let own = ["TCP_OWN_FIELDS", "RX_OPT_FIELDS", "TCP_PATCHED_FIELDS"];
    let sock = [head[0], "SOCK_OWN_FIELDS", head[1]].map(members).concat() + state;
    let sock = sock + &members(tail[0]) + &own.map(members).concat();
    let rate_sample = [rate[0], "RATE_SAMPLE_OWN_FIELDS"].map(members).concat();
    let groups = [
        group(&head, |line| line.kind != "OWN"),
        group(&tail, |_| true),
        group(&head, |line| line.kind == "OWN"),
    ];
    let operations: Vec<&str> = lists.of("OPERATIONS").iter().map(|line| &*line.name).collect();
    let mut text = format!("operations! {{ {} }}\n", operations.join(" "));
    let mut arms = String::new();
    for (name, members, groups) in [
        ("TcpSock", sock, groups.join(" ")),
        ("AckSample", members(ack[0]), group(&ack, |_| true)),
        ("RateSample", rate_sample, group(&rate, |_| true)),
    ] {
        write!(text, "mirror! {{ {name}:\n{members}}}\n").expect("a String takes all");
        let pattern = format!("{name}, $apply:ident $(, $more:tt)*");
        writeln!(arms, "    ({pattern}) => {{ $apply! {{ $($more)* {name}: {groups} }} }};")
            .expect("as above");
    }
    let first_own = &lists.of(own[0])[0].name;
    writeln!(
        text,
        "#[cfg(test)]\nmacro_rules! with_own_fields {{ ($apply:ident, $prefix:tt) => {{ $apply! {{ $prefix TcpSock: {} }} }}; }}\n\
         /// Where in a socket the fields begin that modules alone look at.\n\
         const FIRST_OWN: usize = std::mem::offset_of!(TcpSock, {first_own});",
        group(&own, |_| true)
    )
    .expect("as above");
    text + "hand_on! {\n" + &arms + "}\n"
}

/// Members of the native structs, as its headers' text has them: where it names a list, those of the list.
fn members(lists: &Lists) -> String {
    let mut text = String::from("static LISTS: &[(&str, &[&str])] = &[\n");
    for (list, lines) in &lists.0 {
        let names: Vec<&str> = lines.iter().map(|line| &*line.name).collect();
        writeln!(text, "    (\"{list}\", &{names:?}),").expect("as above");
    }
    text + "];\n"
}
