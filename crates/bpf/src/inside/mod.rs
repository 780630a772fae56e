//! The values that a connection's algorithm holds, read from its private state or its socket
//! storage.

mod layout;
mod module;
mod storage;

use std::collections::HashMap;
use std::fmt;

use knee_algo::{Algorithm, Field, Host, Params};
use libbpf_rs::btf::Btf;
use libbpf_rs::{ErrorKind, MapCore as _, MapFlags};

pub(crate) use self::layout::of_state as state_fields;
use self::storage::Storage;
use crate::connections::Over;
use crate::load::{PARAMS_MAP, with_log};
use crate::registry::{self, Registered};
use crate::{Connection, Embedded, Error, Loaded};

/// Bytes of private state in a socket.
const PRIVATE_BYTES: u32 = 104;
/// Letters of an algorithm's name that remain in the name of its map: the kernel keeps 15, and
/// `cc_ops_` takes 7.
const ALGORITHM_LETTERS: usize = 8;

/// The kernel's own algorithms: name, struct of the private state, and the most important fields.
const KERNEL: &[(&str, &str, &[&str])] = &[
    ("bbr", "bbr", &["mode", "pacing_gain", "cwnd_gain", "full_bw", "min_rtt_us"]),
    ("bic", "bictcp", &["last_max_cwnd", "cnt", "delayed_ack"]),
    ("cdg", "cdg", &["state", "backoff_cnt", "delack"]),
    ("cubic", "bictcp", &["last_max_cwnd", "cnt", "delay_min", "found"]),
    ("dctcp", "dctcp", &["dctcp_alpha", "ce_state", "loss_cwnd"]),
    ("highspeed", "hstcp", &["ai"]),
    ("htcp", "htcp", &["alpha", "beta", "minRTT", "maxRTT"]),
    ("hybla", "hybla", &["rho", "minrtt_us", "hybla_en"]),
    ("illinois", "illinois", &["alpha", "beta", "base_rtt", "max_rtt"]),
    ("lp", "lp", &["flag", "owd_min", "owd_max", "sowd"]),
    ("nv", "tcpnv", &["nv_min_rtt", "nv_base_rtt", "nv_catchup", "cwnd_growth_factor"]),
    ("vegas", "vegas", &["baseRTT", "minRTT", "doing_vegas_now"]),
    ("veno", "veno", &["basertt", "minrtt", "diff"]),
    ("westwood", "westwood", &["bw_est", "rtt_min"]),
    ("yeah", "yeah", &["lastQ", "reno_count", "fast_count"]),
];

/// A number that an algorithm holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The name of an algorithm's view, or of a field of its state.
    pub name: String,
    /// The unit; empty if there is none or it is not known. `1/1024` is a share in fixed point;
    /// `A|B` names the values 0 and 1.
    pub unit: &'static str,
    /// The number in that unit.
    pub number: i128,
    /// Whether it is one of the most important values, which a table has room for.
    pub is_main: bool,
}

impl fmt::Display for Value {
    /// Writes the number with its unit: `0.158`, `1.25 ms`, `29.0 kB`, `42`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number;
        match self.unit {
            "us" if number < 1000 => write!(f, "{number} us"),
            "us" => write!(f, "{}.{:02} ms", number / 1000, number / 10 % 100),
            "bytes" if number < 1000 => write!(f, "{number} B"),
            "bytes" if number < 1_000_000 => {
                write!(f, "{}.{} kB", number / 1000, number / 100 % 10)
            }
            "bytes" => write!(f, "{}.{} MB", number / 1_000_000, number / 100_000 % 10),
            "bytes/s" => {
                let kbps = number * 8 / 1000;
                write!(f, "{}.{} Mbps", kbps / 1000, kbps / 100 % 10)
            }
            "" | "packets" => write!(f, "{number}"),
            names if names.contains('|') => {
                let index = usize::try_from(number).unwrap_or(usize::MAX);
                match names.split('|').nth(index) {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{number}"),
                }
            }
            unit => match unit.strip_prefix("1/").and_then(|whole| whole.parse::<i128>().ok()) {
                Some(whole) if whole > 0 => {
                    let (sign, number) = (if number < 0 { "-" } else { "" }, number.abs());
                    let thousandths = (number * 1000 + whole / 2) / whole;
                    write!(f, "{sign}{}.{:03}", thousandths / 1000, thousandths % 1000)
                }
                _ => write!(f, "{number} {unit}"),
            },
        }
    }
}

/// The way to read the connections of one algorithm.
enum View {
    /// The algorithm's own views. This binary has both the views and the layout of the state.
    Own { algorithm: &'static Algorithm, params: Params },
    /// The fields of the state, and the most important ones of them (empty means all).
    Fields { fields: Vec<Field>, main: &'static [&'static str] },
}

/// One of knee's programs that is loaded.
struct Program {
    view: View,
    /// The socket storage, for states larger than the private area.
    storage: Option<Storage>,
}

/// A reader of algorithms' states. It remembers what it learns about each algorithm.
#[derive(Default)]
pub struct Inside {
    /// Programs by the number of their map of operations; `None` for those that are not knee's.
    programs: HashMap<u32, Option<Program>>,
    /// The kernel's own algorithms, by name.
    kernel: HashMap<String, View>,
    /// Whether its connections are those of this process.
    is_own: bool,
}

impl Inside {
    /// Makes a reader that has read nothing yet, for connections of any namespace.
    pub fn new() -> Inside {
        Inside::default()
    }

    /// The same for connections of this process, which it finds without a walk over the kernel's table.
    pub fn of_own_sockets() -> Inside {
        Inside { is_own: true, ..Inside::default() }
    }

    /// Reads the values that the algorithm of this connection holds. If this version of knee loaded
    /// it, they are the values that `knee algorithms NAME` lists. If another version did, and for
    /// the kernel's own algorithms, they are the fields of the state. The list is empty for a
    /// listener and for an unknown algorithm.
    ///
    /// # Errors
    /// [`Error::Inspect`], [`Error::BadObject`]; for states in socket storage, also the errors of
    /// [`crate::Connections::open`] and [`crate::Connections::read`].
    pub fn of(&mut self, connection: &Connection) -> Result<Vec<Value>, Error> {
        if connection.is_listener() {
            return Ok(Vec::new());
        }
        let private = &connection.sock.icsk_ca_priv;
        let Some(map_id) = connection.map_id else {
            let name = &connection.algorithm;
            if !self.kernel.contains_key(name) {
                self.kernel.insert(name.clone(), of_kernel(name)?);
            }
            let view = self.kernel.get(name);
            return Ok(view.map_or_else(Vec::new, |view| view.read(connection, private)));
        };
        let Some(Program { view, storage }) = self.program(map_id)? else { return Ok(Vec::new()) };
        let state = match storage {
            Some(storage) => storage.state(connection)?,
            None => Some(private.as_slice()),
        };
        Ok(state.map_or_else(Vec::new, |state| view.read(connection, state)))
    }

    /// Collects the facts about this algorithm in advance, so that the first read of a connection
    /// is as fast as the others.
    ///
    /// # Errors
    /// The errors of [`Inside::of`].
    pub fn prepare(&mut self, loaded: &Loaded) -> Result<(), Error> {
        self.program(loaded.map_id()?).map(|_| ())
    }

    /// Whether the connection's algorithm is one of knee's, whoever loaded it.
    ///
    /// # Errors
    /// The errors of [`Inside::of`].
    pub fn is_knees(&mut self, connection: &Connection) -> Result<bool, Error> {
        let map_id = connection.map_id;
        map_id.map_or(Ok(false), |map_id| self.program(map_id).map(|view| view.is_some()))
    }

    fn program(&mut self, map_id: u32) -> Result<Option<&mut Program>, Error> {
        use std::collections::hash_map::Entry;
        let over = if self.is_own { Over::OwnFiles } else { Over::Namespace };
        Ok(match self.programs.entry(map_id) {
            Entry::Occupied(entry) => entry.into_mut().as_mut(),
            Entry::Vacant(entry) => entry.insert(of_map(map_id, over)?).as_mut(),
        })
    }
}

impl View {
    const NOTHING: View = View::Fields { fields: Vec::new(), main: &[] };

    /// The values of a connection whose algorithm is in this state.
    fn read(&self, connection: &Connection, state: &[u64]) -> Vec<Value> {
        match self {
            View::Own { algorithm, params } => {
                let mut host = Host::new(connection.hz, 0);
                host.jiffies = connection.jiffies;
                let mut sock = connection.sock.clone();
                let mut instance = algorithm.instance(params.clone());
                if algorithm.state_bytes() > PRIVATE_BYTES {
                    instance.set_large_state(state);
                }
                let numbers = instance.read_diag(&mut sock, &mut host);
                let both = algorithm.diag().iter().zip(numbers);
                both.map(|(diag, number)| Value {
                    name: diag.name.to_owned(),
                    unit: if diag.choices.is_empty() { diag.unit } else { diag.choices },
                    number: number.into(),
                    is_main: true,
                })
                .collect()
            }
            View::Fields { fields, main } => fields
                .iter()
                .filter_map(|field| {
                    Some(Value {
                        name: field.name().to_owned(),
                        unit: "",
                        number: field.read(state)?,
                        is_main: main.is_empty() || main.contains(&field.name()),
                    })
                })
                .collect(),
        }
    }
}

/// The view of the algorithm whose operations are in this map. `None` if it is not knee's, or if it
/// disappeared with its last connection.
fn of_map(map_id: u32, over: Over) -> Result<Option<Program>, Error> {
    let inspect = |source| Error::Inspect { what: "the types of a loaded program", source };
    let Some(loaded) = registry::of_map(map_id)? else { return Ok(None) };
    let Some((_, program)) = loaded.programs.first() else {
        return Ok(Some(Program { view: View::NOTHING, storage: None }));
    };
    let btf = match Btf::from_prog_id(*program) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        btf => btf.map_err(inspect)?,
    };
    let (fields, storage) = (layout::of_state(&btf), Storage::of(&loaded, over)?);
    for algorithm in Algorithm::all() {
        let is_it = algorithm.name().get(..ALGORITHM_LETTERS).unwrap_or(algorithm.name());
        let is_large = algorithm.state_bytes() > PRIVATE_BYTES;
        if is_it != loaded.algorithm || is_large != storage.is_some() {
            continue;
        }
        if let Some(params) = params(algorithm, &loaded)? {
            if ours(algorithm)? == fields {
                return Ok(Some(Program { view: View::Own { algorithm, params }, storage }));
            }
        }
    }
    Ok(Some(Program { view: View::Fields { fields, main: &[] }, storage }))
}

/// The fields of the state in this binary.
fn ours(algorithm: &Algorithm) -> Result<Vec<Field>, Error> {
    let inspect = |source| Error::Inspect { what: "the types of an object", source };
    let object = Embedded::by_name(algorithm.name())?.object();
    // libbpf prints a message for each section that it does not know.
    let btf = with_log(|| Btf::from_raw("knee", object)).0.map_err(inspect)?;
    Ok(btf.map_or_else(Vec::new, |btf| layout::of_state(&btf)))
}

/// The parameters that it was loaded with; `None` if they differ from those that this binary knows.
fn params(algorithm: &Algorithm, loaded: &Registered) -> Result<Option<Params>, Error> {
    let inspect = |source| Error::Inspect { what: "the parameters of an algorithm", source };
    let mut params = algorithm.default_params();
    let bytes = match loaded.map(PARAMS_MAP)? {
        None => Vec::new(),
        Some(map) => {
            map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).map_err(inspect)?.unwrap_or_default()
        }
    };
    if bytes.len() != algorithm.params().len() * size_of::<u32>() {
        return Ok(None);
    }
    for (info, bytes) in algorithm.params().iter().zip(bytes.chunks_exact(size_of::<u32>())) {
        let value = bytes.try_into().map_or(0, u32::from_ne_bytes);
        if algorithm.set_param(&mut params, info.name, &value.to_string()).is_err() {
            return Ok(None);
        }
    }
    Ok(Some(params))
}

/// The view of one of the kernel's own algorithms.
fn of_kernel(name: &str) -> Result<View, Error> {
    let Some((_, state, main)) = KERNEL.iter().find(|(known, ..)| *known == name) else {
        return Ok(View::NOTHING);
    };
    Ok(View::Fields { fields: layout::of_struct(&module::types(name)?, state), main })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_people_do() {
        let show =
            |unit, number| Value { name: String::new(), unit, number, is_main: true }.to_string();
        assert_eq!(show("1/1024", 162), "0.158");
        assert_eq!(show("1/1024", 1024), "1.000");
        assert_eq!(show("1/256", 739), "2.887");
        assert_eq!(show("us", 999), "999 us");
        assert_eq!(show("us", 1250), "1.25 ms");
        assert_eq!(show("bytes", 28_960), "28.9 kB");
        assert_eq!(show("packets", 42), "42");
        assert_eq!(show("bytes/s", 11_956_526), "95.6 Mbps");
        assert_eq!(show("STARTUP|DRAIN", 1), "DRAIN");
        assert_eq!(show("STARTUP|DRAIN", 2), "2");
        assert_eq!(show("parsecs", 3), "3 parsecs");
    }
}
