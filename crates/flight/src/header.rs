//! What a recording says of itself: lines of text, so that a person can read them.

use knee_algo::module::Api;
use knee_algo::{AckSample, Algorithm, Field, FieldKind, Given, OPERATIONS, Params, RateSample};

use crate::Error;
use crate::record::{ASKED, SOCK_FIELDS, Sample};
use crate::source::SourceFile;

/// The version of the format that this library writes and reads.
pub(crate) const VERSION: u32 = 1;
/// Behind the file's name: it is one of several, or was compiled with options.
const MORE: &str = " and more";
/// The largest HZ of a kernel.
const MAX_HZ: u32 = 10_000;
/// Fields of a private state beyond are left out.
const MOST_FIELDS: usize = 256;
/// Letters that the names of an enumeration's values may have together.
const MOST_CHOICE_LETTERS: usize = 200;
/// Characters of a value that a message shows.
const MOST_SHOWN: usize = 200;

/// Who made the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A running kernel.
    Kernel,
    Simulator,
}

/// What a recording says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The algorithm: the name of its file.
    pub algorithm: String,
    /// The name it was registered under; the algorithm's own in the simulator.
    pub name: String,
    /// The file that it was compiled from, if it is none of knee's own.
    pub source: Option<SourceFile>,
    pub params: Vec<(String, u32)>,
    /// The numbers in the private state, under the names that the algorithm's file gives them; empty where they are not known.
    pub fields: Vec<Field>,
    /// Who made the calls.
    pub origin: Origin,
    /// The kernel's release as `uname -r` has it, or the version that the simulator behaves like.
    pub release: String,
    /// Ticks of the coarse clock per second.
    pub hz: u32,
    /// What was recorded, in words: which connections, which run. May be empty.
    pub about: String,
}

impl Header {
    /// A header with the names that follow from the algorithm, and without the rest.
    pub fn new(algorithm: &Algorithm, params: &Params, origin: Origin, hz: u32) -> Header {
        let names = algorithm.params().iter().map(|info| info.name.to_owned());
        Header {
            algorithm: algorithm.name().to_owned(),
            name: algorithm.name().to_owned(),
            source: algorithm.module().map(|module| {
                let name = module.path().file_name().unwrap_or_default().to_string_lossy();
                let more = if module.check_plain().is_ok() { "" } else { MORE };
                SourceFile { name: format!("{name}{more}"), sha256: module.sha256().to_owned() }
            }),
            params: names.zip(params.values().iter().copied()).collect(),
            fields: algorithm.state_fields().iter().take(MOST_FIELDS).cloned().collect(),
            origin,
            release: String::new(),
            hz,
            about: String::new(),
        }
    }

    /// The algorithm with its parameters, as this knee has it.
    ///
    /// # Errors
    /// [`Error::Header`] if it has no such algorithm, or the parameters are not its own, and [`Error::OfFile`].
    pub fn algorithm(&self) -> Result<(&'static Algorithm, Params), Error> {
        if let Some(source) = &self.source {
            return Err(Error::OfFile { file: source.clone(), given: None });
        }
        let algorithm = Algorithm::by_name(&shown(&self.algorithm))
            .map_err(|why| Error::Header { what: why.to_string() })?;
        self.with(algorithm)
    }

    /// The same where the recording is of an algorithm of somebody's own file, which is `file`.
    ///
    /// # Errors
    /// As [`Header::algorithm`]; [`Error::OfFile`] if it is another file.
    pub fn algorithm_of_file(
        &self,
        file: &'static Algorithm,
    ) -> Result<(&'static Algorithm, Params), Error> {
        let Some(source) = &self.source else { return self.algorithm() };
        let refused = |what: &str| Err(Error::Header { what: what.to_owned() });
        if file.module().is_some_and(|module| module.api() == Api::V3) {
            return refused(
                "it is of a module on the API v3, which is told more than recordings hold, so it cannot be replayed; knee flight show prints it",
            );
        }
        if source.name.ends_with(MORE) {
            return refused(
                "it is of a module of several files, or compiled with options, which replay does not know; knee flight show prints it",
            );
        }
        let given = file.module().map(|module| module.sha256().to_owned());
        if given.as_ref() != Some(&source.sha256) {
            return Err(Error::OfFile { file: source.clone(), given });
        }
        let is_module = file.module().is_some_and(|module| module.is_kernel_module());
        match is_module && self.origin == Origin::Kernel {
            true => self.with_those_of_kernel(file),
            false => self.with(file),
        }
    }

    /// Of a Linux module in a kernel, where parameters of few kinds can be set: the others have their defaults.
    fn with_those_of_kernel(
        &self,
        algorithm: &'static Algorithm,
    ) -> Result<(&'static Algorithm, Params), Error> {
        let mut params = algorithm.default_params().values().to_vec();
        for (name, value) in &self.params {
            let mut ours = algorithm.params().iter();
            let place = ours.position(|info| info.name == name);
            let place = place.and_then(|place| params.get_mut(place)).ok_or_else(|| {
                let what =
                    format!("it names a parameter \"{}\", which the file has not", shown(name));
                Error::Header { what }
            })?;
            *place = *value;
        }
        let values = format!("{params:?}");
        let params = algorithm.params_of(&params).ok_or_else(|| Error::Header {
            what: format!("parameters {values} of {} are out of range", self.algorithm),
        })?;
        Ok((algorithm, params))
    }

    fn with(&self, algorithm: &'static Algorithm) -> Result<(&'static Algorithm, Params), Error> {
        let refused = |what: String| Error::Header { what };
        let ours = algorithm.params().iter().map(|info| info.name);
        if !ours.eq(self.params.iter().map(|(name, _)| name.as_str())) {
            let theirs: Vec<_> = self.params.iter().map(|(name, _)| name.as_str()).collect();
            let what = format!(
                "it names the parameters \"{}\" of {}, which has others",
                shown(&theirs.join(", ")),
                self.algorithm
            );
            return Err(refused(what));
        }
        let values: Vec<u32> = self.params.iter().map(|(_, value)| *value).collect();
        let params = algorithm.params_of(&values).ok_or_else(|| {
            refused(format!("parameters {values:?} of {} are out of range", self.algorithm))
        })?;
        Ok((algorithm, params))
    }

    pub(crate) fn to_text(&self) -> String {
        let mut lines = vec![
            format!("written_by knee {}", env!("CARGO_PKG_VERSION")),
            format!("algorithm {}", one_line(&self.algorithm)),
            format!("name {}", one_line(&self.name)),
        ];
        if let Some(source) = &self.source {
            lines.push(format!("source {} {}", one_line(&source.sha256), one_line(&source.name)));
        }
        for (name, value) in &self.params {
            lines.push(format!("param {} {value}", one_line(name)));
        }
        lines.extend(self.fields.iter().take(MOST_FIELDS).map(field_line));
        lines.push(match self.origin {
            Origin::Kernel => "origin kernel".to_owned(),
            Origin::Simulator => "origin simulator".to_owned(),
        });
        lines.push(format!("release {}", one_line(&self.release)));
        lines.push(format!("hz {}", self.hz));
        lines.push(format!("about {}", one_line(&self.about)));
        lines.extend(layout());
        lines.join("\n")
    }

    pub(crate) fn of_text(text: &str) -> Result<Header, Error> {
        let refused = |what: String| Error::Header { what };
        // No writer of ours lets one in, and what the lines say is shown to people.
        if text.chars().any(|c| c.is_control() && c != '\n') {
            return Err(refused("it has control characters in it".to_owned()));
        }
        let value_of = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            value.ok_or_else(|| refused(format!("it has no line \"{key}\"")))
        };
        for ours in layout() {
            let key = ours.split(' ').take(2).collect::<Vec<_>>().join(" ");
            if !text.lines().any(|line| line == ours) {
                let what = format!(
                    "its \"{key}\" is not this version's; {} wrote it",
                    shown(value_of("written_by")?)
                );
                return Err(refused(what));
            }
        }
        let source = text.lines().find_map(|line| line.strip_prefix("source ")).map(|source| {
            let (sha256, name) = source.split_once(' ')?;
            let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_hash.then(|| SourceFile { name: shown(name), sha256: sha256.to_owned() })
        });
        let source = match source {
            Some(None) => return Err(refused("its source is no file with its SHA-256".to_owned())),
            source => source.flatten(),
        };
        let params = text.lines().filter_map(|line| line.strip_prefix("param ")).map(|param| {
            let (name, value) = param.split_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        let params = params.collect::<Option<Vec<_>>>();
        let fields = text.lines().filter_map(|line| line.strip_prefix("field "));
        let fields = fields.take(MOST_FIELDS + 1).map(field_of).collect::<Option<Vec<_>>>();
        let fields = fields.filter(|fields| fields.len() <= MOST_FIELDS);
        let hz = value_of("hz")?.parse().ok().filter(|hz| (1..=MAX_HZ).contains(hz));
        let origin = match value_of("origin")? {
            "kernel" => Origin::Kernel,
            "simulator" => Origin::Simulator,
            other => return Err(refused(format!("origin \"{}\"", shown(other)))),
        };
        Ok(Header {
            algorithm: value_of("algorithm")?.to_owned(),
            name: value_of("name")?.to_owned(),
            source,
            params: params.ok_or_else(|| refused("a parameter is no number".to_owned()))?,
            fields: fields.ok_or_else(|| refused("a field of its state is none".to_owned()))?,
            origin,
            release: value_of("release")?.to_owned(),
            hz: hz.ok_or_else(|| refused(format!("hz must be 1 to {MAX_HZ}")))?,
            about: value_of("about")?.to_owned(),
        })
    }
}

/// `field NAME FIRST_BIT BITS KIND`, as docs/flight-format.md has it.
fn field_line(field: &Field) -> String {
    let kind = match field.kind() {
        FieldKind::Unsigned => "unsigned",
        FieldKind::Signed => "signed",
        FieldKind::Pointer => "address",
        FieldKind::Named(names) if is_choices(names) => names,
        FieldKind::Named(_) => "unsigned",
    };
    format!("field {} {} {} {kind}", field.name(), field.bit_offset(), field.bits())
}

fn field_of(line: &str) -> Option<Field> {
    let mut words = line.split(' ');
    let (name, at, bits) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    let kind = match words.next()? {
        "unsigned" => FieldKind::Unsigned,
        "signed" => FieldKind::Signed,
        "address" => FieldKind::Pointer,
        names if is_choices(names) => FieldKind::Named(names.to_owned()),
        _ => return None,
    };
    let is_all = words.next().is_none();
    Field::new(name.to_owned(), at, bits.parse().ok()?, kind).filter(|_| is_all)
}

/// Whether this is `A|B`, the names of 0, 1, ...
fn is_choices(names: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
    };
    names.len() <= MOST_CHOICE_LETTERS && names.contains('|') && names.split('|').all(is_name)
}

/// The order of everything in a record. Another version that has it otherwise has other lines.
fn layout() -> Vec<String> {
    let line = |what: &str, names: &[&str]| format!("layout {what} {}", names.join(" "));
    vec![
        line("operations", &OPERATIONS),
        line("ack_sample", AckSample::FIELDS),
        line("rate_sample", RateSample::FIELDS),
        line("given", &Given::KINDS[1..]),
        line("asked", ASKED),
        line("sock", SOCK_FIELDS),
        line("state", &["private", "large"]),
    ]
}

/// The beginning of what a file says, for a message of one line.
fn shown(text: &str) -> String {
    text.escape_debug().take(MOST_SHOWN).collect()
}

/// Without what would begin another line.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
