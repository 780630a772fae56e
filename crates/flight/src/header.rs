//! The header of a recording: lines of text that a person can read.

use knee_algo::module::Api;
use knee_algo::{AckSample, Algorithm, Field, FieldKind, Given, OPERATIONS, Params, RateSample};

use crate::Error;
use crate::record::{ASKED, SOCK_FIELDS, Sample};
use crate::source::SourceFile;

/// The version of the format that this library writes and reads.
pub(crate) const VERSION: u32 = 1;
/// Suffix of a source file's name: the algorithm has several files, or was compiled with options.
const MORE: &str = " and more";
/// The largest HZ that a kernel can have.
const MAX_HZ: u32 = 10_000;
/// The most fields of a private state that a header lists. Others are left out.
const MOST_FIELDS: usize = 256;
/// The most letters in all value names of one enumeration together.
const MOST_CHOICE_LETTERS: usize = 200;
/// The most characters of a value that a message shows.
const MOST_SHOWN: usize = 200;

/// The host that made the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A running kernel.
    Kernel,
    Simulator,
}

/// The header of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Name of the algorithm's file.
    pub algorithm: String,
    /// Name that the algorithm was registered under. In the simulator it is the algorithm's own
    /// name.
    pub name: String,
    /// The source file, if the algorithm is not one of knee's own.
    pub source: Option<SourceFile>,
    pub params: Vec<(String, u32)>,
    /// Numbers in the private state, under the names in the algorithm's file. Empty if they are
    /// unknown.
    pub fields: Vec<Field>,
    /// The host that made the calls.
    pub origin: Origin,
    /// The kernel's release as in `uname -r`, or the version that the simulator models.
    pub release: String,
    /// Ticks of the coarse clock per second.
    pub hz: u32,
    /// A description of the recorded connections or run. May be empty.
    pub about: String,
}

impl Header {
    /// Creates a header with the names that follow from the algorithm; the other fields are empty.
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

    /// Returns the algorithm, as this version of knee has it, and its parameters.
    ///
    /// # Errors
    /// [`Error::Header`] if knee does not have the algorithm, or the parameters are not the
    /// algorithm's own. [`Error::OfFile`] if the algorithm comes from a user's own file.
    pub fn algorithm(&self) -> Result<(&'static Algorithm, Params), Error> {
        if let Some(source) = &self.source {
            return Err(Error::OfFile { file: source.clone(), given: None });
        }
        let algorithm = Algorithm::by_name(&shown(&self.algorithm))
            .map_err(|why| Error::Header { what: why.to_string() })?;
        self.with(algorithm)
    }

    /// Like [`Header::algorithm`], for a recording of an algorithm from a user's own `file`.
    ///
    /// # Errors
    /// The errors of [`Header::algorithm`]; [`Error::OfFile`] if the recording is of another file.
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

    /// Returns the parameters of a Linux module in a kernel. A kernel can set parameters of few
    /// kinds only; the others keep their defaults.
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
        // Our writers never write control characters, and messages show these lines to people.
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

/// Formats `field NAME FIRST_BIT BITS KIND`, see docs/flight-format.md.
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

/// Reports whether this is `A|B`, the names of 0, 1, ...
fn is_choices(names: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
    };
    names.len() <= MOST_CHOICE_LETTERS && names.contains('|') && names.split('|').all(is_name)
}

/// The order of all fields in a record. A version with another order has other lines.
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

/// The beginning of a value from the file, for a message of one line.
fn shown(text: &str) -> String {
    text.escape_debug().take(MOST_SHOWN).collect()
}

/// Replaces characters that would begin another line.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
