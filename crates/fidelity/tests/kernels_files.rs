//! The kernel's own files in the place of ours, in the simulator, on the published experiments at their quick sizes: the same run to the last bit, but
//! where docs/builtin.md names a difference. The table in docs/modules-linux.md is what this finds.
//!
//! The files are those of Linux 6.1 that `scripts/linux-source 6.1` puts into the user's cache. Without them this says that it is skipped;
//! `KNEE_REQUIRE_LINUX_SOURCE` forbids that.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use knee_algo::{Algorithm, module};
use knee_fidelity::pool;
use knee_run::spec::Cc;
use knee_run::{Outcome, Run};
use knee_scenario::{Experiment, Overrides};

/// Those that knee has a file of, as the kernel has; its Reno is a part of its TCP.
const BOTH: [&str; 5] = ["bbr", "bic", "cubic", "dctcp", "nv"];
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The directory with the kernel's files; `None`: they were not fetched.
fn sources() -> Option<PathBuf> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    let folder = cache.join("knee/linux-source/6.1/net/ipv4");
    let is_there = folder.is_dir();
    let says = "scripts/linux-source 6.1 gets the kernel's files";
    assert!(is_there || std::env::var_os("KNEE_REQUIRE_LINUX_SOURCE").is_none(), "{says}");
    if !is_there {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {says}");
    }
    is_there.then_some(folder)
}

/// The kernel's text without the difference that docs/builtin.md names; `None`: it names none that acts here.
fn without_difference(name: &str, text: &str) -> Option<String> {
    Some(match name {
        // Its root of the third power is off by 0.2 %. Ours is the largest whole number whose cube is not above the value.
        "cubic" => {
            let head = "static u32 cubic_root(u64 a)";
            assert!(text.contains(head), "the kernel's cubic has its root");
            let exact = "static u32 cubic_root(u64 a)\n{\n\tu64 root = 0, bit;\n\n\tfor (bit = 1 << 21; bit; bit >>= 1)\n\t\tif ((root + bit) * \
                         (root + bit) * (root + bit) <= a)\n\t\t\troot += bit;\n\treturn root;\n}\n\n";
            let unused = "static __attribute__((unused)) u32 kernels_root(u64 a)";
            text.replacen(head, &format!("{exact}{unused}"), 1)
        }
        // It draws once for the handshake, before `init`, when the time of the next reset is still 0.
        "nv" => {
            let draws = "if (time_after_eq(now, ca->nv_min_rtt_reset_jiffies)) {";
            assert!(text.contains(draws), "the kernel's nv resets its least RTT");
            let begun = "if (ca->nv_min_rtt_reset_jiffies && time_after_eq(now, ca->nv_min_rtt_reset_jiffies)) {";
            text.replacen(draws, begun, 1)
        }
        _ => return None,
    })
}

/// One of ours and what stands in its place.
struct Pair {
    ours: &'static Algorithm,
    /// The kernel's own file.
    kernels: &'static Algorithm,
    /// The same without the difference that is known, if there is one.
    explained: Option<&'static Algorithm>,
}

impl Pair {
    fn new(name: &str, sources: &Path, scratch: &Path) -> Pair {
        let file = format!("tcp_{name}.c");
        let text = fs::read_to_string(sources.join(&file)).unwrap();
        let load = |path: &Path| module::load(path).unwrap_or_else(|why| panic!("{why}"));
        let explained = without_difference(name, &text).map(|text| {
            let copy = scratch.join(&file);
            fs::write(&copy, text).unwrap();
            load(&copy)
        });
        Pair {
            ours: Algorithm::by_name(name).unwrap(),
            kernels: load(&sources.join(&file)),
            explained,
        }
    }

    fn is_in(&self, run: &Run) -> bool {
        let ends = run.flows.iter().flat_map(|flow| [Some(&flow.cc), flow.peer_cc.as_ref()]);
        ends.flatten().any(|cc| std::ptr::eq(cc.algorithm, self.ours))
    }

    /// The run with another algorithm in the place of ours; `None`: a parameter of the experiment is ours alone.
    fn put(&self, run: &Run, other: &'static Algorithm) -> Option<Run> {
        let mut run = run.clone();
        for flow in &mut run.flows {
            for cc in [Some(&mut flow.cc), flow.peer_cc.as_mut()].into_iter().flatten() {
                if std::ptr::eq(cc.algorithm, self.ours) {
                    *cc = self.with_params(cc, other)?;
                }
            }
        }
        Some(run)
    }

    fn with_params(&self, ours: &Cc, other: &'static Algorithm) -> Option<Cc> {
        let mut cc = Cc::new(other);
        let default = self.ours.default_params();
        let values = ours.params.values().iter().zip(default.values());
        for (info, (value, default)) in self.ours.params().iter().zip(values) {
            if value != default {
                let names = [info.name.to_owned(), format!("{}_{}", self.ours.name(), info.name)];
                let name =
                    names.iter().find(|name| other.params().iter().any(|of| of.name == **name))?;
                other.set_param(&mut cc.params, name, &value.to_string()).unwrap();
            }
        }
        Some(cc)
    }

    /// Whether it comes to this without the known difference.
    fn is_explained(&self, run: &Run, wanted: u64) -> bool {
        let explained = self.explained.and_then(|explained| self.put(run, explained));
        explained.is_some_and(|run| self.digest(&run) == wanted)
    }

    /// What a run came to, in one number; but for names, for the inside, of which each tells in its own way, and for what the kernel's alone counts
    /// and prints (HyStart's counters).
    fn digest(&self, run: &Run) -> u64 {
        let mut outcome: Outcome = knee_sim::simulate(run).unwrap();
        outcome.module_counts.clear();
        outcome.module_lines.clear();
        outcome.flow_samples.iter_mut().for_each(|sample| sample.diag.clear());
        for flow in &mut outcome.flows {
            // Only files are looked after.
            flow.warnings.clear();
            let theirs = [Some(self.kernels), self.explained].into_iter().flatten();
            let is_theirs = theirs.into_iter().any(|it| it.name() == flow.algorithm);
            flow.algorithm = match flow.algorithm {
                // What the kernel's DCTCP falls back to without ECN is a Reno of this name.
                "dctcp-reno" => "reno",
                _ if is_theirs => self.ours.name(),
                name => name,
            };
        }
        let mut digest = Digest(DefaultHasher::new());
        write!(digest, "{outcome:?}").unwrap();
        digest.0.finish()
    }
}

/// Takes the checksum of a text that is never whole in memory.
struct Digest(DefaultHasher);

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// What one run shows of an algorithm; or sums over all runs.
#[derive(Clone, Debug, Default)]
struct Found {
    runs: usize,
    same: usize,
    /// Not the same, but the same without the known difference.
    explained: usize,
    /// Neither; each by its name.
    differ: Vec<String>,
    /// Not run, for a parameter that the kernel's has not.
    left_out: usize,
}

impl Found {
    fn of(pair: &Pair, run: &Run, name: &str) -> Found {
        let mut found = Found::default();
        let Some(theirs) = pair.put(run, pair.kernels) else {
            found.left_out += 1;
            return found;
        };
        found.runs += 1;
        let ours = pair.digest(run);
        if ours == pair.digest(&theirs) {
            found.same += 1;
        } else if pair.is_explained(run, ours) {
            found.explained += 1;
        } else {
            found.differ.push(name.to_owned());
        }
        found
    }
}

/// The first run of each configuration of a file, with its name.
fn runs(path: &Path) -> Vec<(String, Run)> {
    let overrides = Overrides { quick: true, repeat: Some(1), ..Overrides::default() };
    let text = fs::read_to_string(path).unwrap();
    let experiment =
        Experiment::parse(path, &text, &overrides).unwrap_or_else(|why| panic!("{why}"));
    let one = |index| {
        let id = experiment.run_id(index);
        (format!("{} {index}", experiment.name), experiment.run(id).unwrap())
    };
    (0..experiment.runs()).map(one).collect()
}

#[test]
fn the_kernels_files_do_what_ours_do() {
    let Some(sources) = sources() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let pairs = BOTH.map(|name| Pair::new(name, &sources, scratch.path()));
    let folder = Path::new(ROOT).join("scenarios/published");
    let only = std::env::var("KNEE_ONLY").unwrap_or_default();
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect();
    files
        .retain(|path| !path.ends_with("catalogue.toml") && path.to_string_lossy().contains(&only));
    files.sort();
    let all: Vec<(String, Run)> = files.iter().flat_map(|path| runs(path)).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let each = pool::map(&all, threads, |(name, run)| {
        let of = |pair: &Pair| (pair.ours.name(), Found::of(pair, run, name));
        pairs.iter().filter(|pair| pair.is_in(run)).map(of).collect::<Vec<_>>()
    });
    let mut found: BTreeMap<&str, Found> = BTreeMap::new();
    for (name, one) in each.into_iter().flatten() {
        let sum = found.entry(name).or_default();
        sum.runs += one.runs;
        sum.same += one.same;
        sum.explained += one.explained;
        sum.left_out += one.left_out;
        sum.differ.extend(one.differ);
    }
    let table = table(&found);
    let _ = write!(std::io::stderr(), "{table}");
    let page = fs::read_to_string(Path::new(ROOT).join("docs/modules-linux.md")).unwrap();
    let differ: Vec<_> = found.values().flat_map(|found| &found.differ).collect();
    assert!(
        differ.is_empty(),
        "{table}\nnot the same, whatever is done about known differences: {differ:?}"
    );
    assert!(
        !only.is_empty() || page.contains(&table),
        "docs/modules-linux.md must have this table:\n{table}"
    );
}

fn table(found: &BTreeMap<&str, Found>) -> String {
    let mut table = "| | runs | the same | the same without the known difference | left out |\n| --- | ---: | ---: | ---: | ---: |\n".to_owned();
    for (name, found) in found {
        let Found { runs, same, explained, left_out, .. } = found;
        let _ = writeln!(table, "| {name} | {runs} | {same} | {} | {left_out} |", same + explained);
    }
    table
}
