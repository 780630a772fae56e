//! `knee script --record`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use knee_algo::Algorithm;
use knee_run::spec::{Run, Traffic};
use knee_scenario::Overrides;
use knee_scenario::built_in::Resolved;
use knee_script::Settings;
use knee_script::connections::{Connection, Survey, segments, survey};
use knee_script::record::{About, of_run, record};
use knee_sim::tap::{Side, TapAt};

use crate::library::find;
use crate::{DONE, Failure, complain, print};

/// Largest number of connections to list.
const LISTED: usize = 1000;

#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Record this flow: a number, or the name of traffic of an experiment (its first flow).
    #[arg(long, value_name = "FLOW", requires = "record")]
    flow: Option<String>,
    /// The side under test [default: the one that sends more data].
    #[arg(long, value_enum, requires = "record")]
    side: Option<TestedSide>,
    /// The algorithm instead of the script's: of knee, or a file, as ./foo.c. For --record: to write for a capture
    /// (default reno), or to run an experiment with. For --random: to play conversations with.
    #[arg(long, value_name = "NAME")]
    pub(crate) cc: Option<String>,
    /// The seed of the experiment, or of the first random conversation (default 1).
    #[arg(long, value_name = "N", requires = "writes")]
    pub(crate) seed: Option<u64>,
    /// Write the script to this new file instead of standard output; conversations: to this folder.
    #[arg(short, long, value_name = "FILE", requires = "writes")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TestedSide {
    /// The side that connects.
    Connects,
    /// The side that listens.
    Listens,
}

impl From<TestedSide> for Side {
    fn from(which: TestedSide) -> Side {
        match which {
            TestedSide::Connects => Side::Connecting,
            TestedSide::Listens => Side::Listening,
        }
    }
}

pub(crate) fn run(files: &[PathBuf], args: &Args) -> Result<u8, Failure> {
    let [file] = files else {
        return Err(Failure::Says(
            "--record takes one capture or one experiment: a file, or the \
            name of a built-in experiment"
                .to_owned(),
        ));
    };
    let is_built_in = matches!(knee_catalogue::resolve(file), Ok(Resolved::BuiltIn(_)));
    let is_experiment =
        is_built_in || file.extension().is_some_and(|extension| extension == "toml");
    let made = if is_experiment { of_experiment(file, args)? } else { of_capture(file, args)? };
    match made {
        Recorded::Script(text) => {
            match &args.output {
                Some(path) => write_new(path, &text)?,
                None => print(&text)?,
            }
            Ok(DONE)
        }
        Recorded::List { list, choose } => {
            print(&list)?;
            Err(Failure::Says(choose))
        }
    }
}

enum Recorded {
    Script(String),
    /// There are several flows. This lists them, and says what to do.
    List {
        list: String,
        choose: String,
    },
}

fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let failed =
        |why: std::io::Error| Failure::Says(format!("{}: cannot write: {why}", path.display()));
    knee_files::write_new(path, text).map_err(failed)
}

// ---- experiments ----

fn of_experiment(file: &Path, args: &Args) -> Result<Recorded, Failure> {
    let overrides = Overrides {
        cc: args.cc.iter().cloned().collect(),
        repeat: Some(1),
        seed: args.seed,
        ..Overrides::default()
    };
    let experiment = find(file)?.load(&overrides)?;
    let id = experiment.run_id(0);
    let run = experiment.run(id)?;
    let names = experiment.traffic_names(id)?;
    let shown = file.display();
    let Some(flow) = flow_of(&run, &names, args.flow.as_deref())
        .map_err(|why| Failure::Says(format!("{shown}: {why}")))?
    else {
        let choose = format!(
            "{shown}: it has {} flows; choose one with --flow NUMBER or NAME",
            run.flows.len()
        );
        return Ok(Recorded::List { list: flows(&run, &names), choose });
    };
    let side = args.side.map_or_else(|| sends_more(&run.flows[flow].traffic), Side::from);
    let name = names.get(run.flows[flow].group as usize).map_or("", String::as_str);
    let configuration = &experiment.row(id.configuration);
    let from = format!(
        "{}, {}, seed {}, flow {flow} ({name})",
        experiment.name,
        experiment.describe(configuration),
        id.seed
    );
    let failed = |why: knee_script::Refusal| Failure::Says(format!("{shown}: {}", why.0));
    let (about, segments) = of_run(&run, TapAt { flow, side }, &from).map_err(failed)?;
    record(&about, &segments).map(Recorded::Script).map_err(failed)
}

fn sends_more(traffic: &Traffic) -> Side {
    match traffic {
        Traffic::Rpc { request_bytes, response_bytes, .. } if response_bytes > request_bytes => {
            Side::Listening
        }
        _ => Side::Connecting,
    }
}

/// Returns the requested flow, or the only one. `None` if there are several to choose from.
fn flow_of(run: &Run, names: &[String], asked: Option<&str>) -> Result<Option<usize>, String> {
    let Some(asked) = asked else {
        return Ok(if run.flows.len() == 1 { Some(0) } else { None });
    };
    if let Ok(number) = asked.parse::<usize>() {
        if number >= run.flows.len() {
            return Err(format!(
                "--flow {number}: there are {} flows, counted from 0",
                run.flows.len()
            ));
        }
        return Ok(Some(number));
    }
    let group = names.iter().position(|name| name == asked).ok_or_else(|| {
        format!("--flow {asked}: no traffic has this name; the names are {}", names.join(", "))
    })?;
    let first = run.flows.iter().position(|flow| flow.group as usize == group);
    first.map(Some).ok_or_else(|| format!("--flow {asked}: this traffic has no connections"))
}

fn flows(run: &Run, names: &[String]) -> String {
    let mut out =
        format!("{:>6}  {:<20} {:<12} {:<12} {:>12}\n", "flow", "name", "from", "to", "start");
    let node = |node: u32| run.network.nodes.get(node as usize).map_or("", |node| &node.name);
    for (number, flow) in run.flows.iter().enumerate().take(LISTED) {
        let name = names.get(flow.group as usize).map_or("", String::as_str);
        let start = format!("{:.6} s", flow.start.as_secs_f64());
        let (from, to) = (node(flow.from), node(flow.to));
        let _ = writeln!(out, "{number:>6}  {name:<20} {from:<12} {to:<12} {start:>12}");
    }
    more(run.flows.len(), &mut out);
    out
}

fn more(all: usize, out: &mut String) {
    if all > LISTED {
        let _ = writeln!(out, "and {} more", all - LISTED);
    }
}

// ---- captures ----

fn of_capture(file: &Path, args: &Args) -> Result<Recorded, Failure> {
    let shown = file.display();
    let says = |why: String| Failure::Says(format!("{shown}: {why}"));
    if args.seed.is_some() {
        return Err(says("--seed is for experiments (*.toml)".to_owned()));
    }
    let cc = args.cc.as_deref().unwrap_or("reno");
    let algorithm = Algorithm::by_name(cc).map_err(|why| Failure::Says(why.to_string()))?;
    let open = || knee_files::open_file(file, "capture").map_err(|why| says(why.to_string()));
    let found = survey(open()?).map_err(|why| says(why.0))?;
    for line in remarks(&found) {
        complain(&format!("knee: {shown}: {line}"));
    }
    let count = found.connections.len();
    let number = match args.flow.as_deref() {
        Some(asked) => match asked.parse::<usize>() {
            Ok(number) if number < count => number,
            Ok(_) => {
                return Err(says(format!(
                    "--flow {asked}: there are {count} flows, counted from 0"
                )));
            }
            Err(_) => {
                return Err(says(format!("--flow {asked}: connections of captures have numbers")));
            }
        },
        None if count == 0 => return Err(says("it has no TCP connection".to_owned())),
        None if count == 1 => 0,
        None => {
            let choose =
                format!("{shown}: it has {count} connections; choose one with --flow NUMBER");
            return Ok(Recorded::List { list: connections(&found), choose });
        }
    };
    let connection = &found.connections[number];
    let more = if connection.server_bytes > connection.client_bytes {
        Side::Listening
    } else {
        Side::Connecting
    };
    let side = args.side.map_or(more, Side::from);
    let (segments, is_cut) = segments(open()?, number, side).map_err(|why| says(why.0))?;
    let name =
        file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let tested = if side == Side::Connecting { connection.client } else { connection.server };
    let Connection { client, server, .. } = connection;
    let about = About {
        origin: vec![
            format!("Recorded from {name}, connection {number}: {client} to {server},"),
            format!(
                "as {tested} sent and received it. A capture does not name the algorithm: \
                    knee script --cc set it."
            ),
        ],
        title: format!("{name}, connection {number}: {client} to {server}"),
        settings: Settings {
            algorithm: algorithm.name().to_owned(),
            ipv6: client.is_ipv6(),
            ..Settings::default()
        },
        is_cut,
        ..About::default()
    };
    record(&about, &segments).map(Recorded::Script).map_err(|why| says(why.0))
}

/// Returns remarks on packets that the list leaves out.
fn remarks(found: &Survey) -> Vec<String> {
    let mut remarks = Vec::new();
    for (link, packets) in &found.unknown_links {
        remarks.push(format!("{packets} packets have the unknown link layer {link}"));
    }
    if found.unlisted > 0 {
        let known = found.connections.len();
        remarks.push(format!(
            "{} packets belong to connections after the first {known}",
            found.unlisted
        ));
    }
    remarks.extend(found.ending.broken.iter().map(|why| format!("read in part: {why}")));
    remarks
}

fn connections(found: &Survey) -> String {
    let mut out = format!(
        "{:>6}  {:<28} {:<28} {:>9} {:>12} {:>12} {:>12}\n",
        "number", "from", "to", "packets", "bytes there", "bytes back", "start"
    );
    let start = found.connections.first().map_or(0, |first| first.first_ns);
    for (number, connection) in found.connections.iter().enumerate().take(LISTED) {
        let Connection { client, server, packets, client_bytes, server_bytes, first_ns, .. } =
            connection;
        let since = first_ns.saturating_sub(start) as f64 / 1e9;
        let late = if connection.has_syn { "" } else { "  (begins before the capture)" };
        let (from, to) = (client.to_string(), server.to_string());
        let _ = writeln!(
            out,
            "{number:>6}  {from:<28} {to:<28} {packets:>9} {client_bytes:>12} {server_bytes:>12} {since:>10.6} s{late}"
        );
    }
    more(found.connections.len(), &mut out);
    if found.others > 0 {
        let _ = writeln!(out, "and {} packets that are not TCP", found.others);
    }
    out
}
