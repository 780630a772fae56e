//! Stores: the same bytes whatever ran where, and nothing lost.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use knee_scenario::{Experiment, Overrides};
use knee_sim::Simulator;
use knee_sweep::results::Results;
use knee_sweep::runner::{fill, sweep};
use knee_sweep::runs::Options;
use knee_sweep::store::{Batch, Contents, STORE, Share, Store, batches};
use knee_sweep::sweep_result::Filled;

const TEXT: &str = r#"
    question = "When has a short transfer arrived beside others?"
    cc = ["cubic", "dctcp"]
    [network]
    topology = "many-to-one"
    senders = 4
    access = { rate = "10 Gbps", delay = "5 us" }
    bottleneck = { rate = "1 Gbps", queue = { kind = "step", limit = "100 pkts", k = "20 pkts" } }
    [[traffic]]
    name = "short"
    kind = "bulk"
    from = "s1..s4"
    to = "r"
    size = "20 kB"
    start_jitter = "100 us"
    [vary]
    "network.bottleneck.queue.k" = ["10 pkts", "20 pkts"]
    [run]
    duration = "2 s"
    until_done = true
    repeat = 8
"#;
/// CUBIC is the same at each K.
const RUNS: usize = 32;
const DIFFERENT: usize = 24;

fn experiment(set: &[&str]) -> Arc<Experiment> {
    let set = set.iter().map(|text| (*text).to_owned()).collect();
    let overrides = Overrides { set, ..Overrides::default() };
    Arc::new(Experiment::parse(Path::new("short.toml"), TEXT, &overrides).unwrap())
}

fn options() -> Options {
    Options { threads: 2, ..Options::new(Arc::new(Simulator)) }
}

fn place(dir: &Path, of: &Experiment, share: Share) -> Results {
    Store::results(dir, |path| Store::open(path, of, &Simulator, share)).unwrap()
}

/// Carries all out and writes tables.
fn whole(dir: &Path, of: &Arc<Experiment>) -> usize {
    let mut results = place(dir, of, Share::Whole);
    let swept = sweep(of, &options(), &mut results, &mut |_| {}).unwrap();
    results.finish(of, &swept, &[]).unwrap();
    swept.runs_earlier
}

fn some(dir: &Path, of: &Arc<Experiment>, share: Share, only: Option<Vec<usize>>) -> Filled {
    let mut options = options();
    let numbers = only.unwrap_or_else(|| share.numbers(of, &Simulator).unwrap());
    options.only = Some(numbers.into());
    fill(of, &options, &mut place(dir, of, share), &mut |_| {}).unwrap()
}

/// All files below a directory but manifests, which tell of the time.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            let inner = files(&entry.path()).into_iter();
            all.extend(inner.map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else if name != "manifest.json" {
            all.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    all
}

#[test]
fn shards_in_any_order_give_the_bytes_of_one_process() {
    let (scratch, of) = (tempfile::tempdir().unwrap(), experiment(&[]));
    let [one, several] = ["one", "several"].map(|name| scratch.path().join(name));
    assert_eq!(whole(&one, &of), 0);
    let shards = [3, 1, 4, 2].map(|number| Share::Shard { number, of: 4 });
    let done = shards.map(|shard| some(&several, &of, shard, None).runs_done);
    assert_eq!(done.iter().sum::<usize>(), RUNS, "{done:?}");
    assert!(done.iter().all(|runs| *runs > 0), "{done:?}");
    assert_eq!(whole(&several, &of), RUNS);
    assert_eq!(files(&one), files(&several));
    let contents = Store::open_any(&several.join(STORE)).unwrap().contents().unwrap();
    assert_eq!((contents.parts, contents.runs), (1, DIFFERENT));
}

#[test]
fn tables_are_those_of_a_sweep_with_a_journal() {
    let (scratch, of) = (tempfile::tempdir().unwrap(), experiment(&[]));
    let [stored, journal] = ["stored", "journal"].map(|name| scratch.path().join(name));
    whole(&stored, &of);
    let mut results = Results::at(&journal).unwrap();
    let swept = sweep(&of, &options(), &mut results, &mut |_| {}).unwrap();
    results.finish(&of, &swept, &[]).unwrap();
    let without = |dir: &Path, not: &str| {
        let mut all = files(dir);
        all.retain(|name, _| !name.starts_with(not));
        all
    };
    assert_eq!(without(&stored, "store/"), without(&journal, "runs.journal"));
}

#[test]
fn batches_have_each_run_once_and_their_parts_come_together() {
    let (scratch, of) = (tempfile::tempdir().unwrap(), experiment(&[]));
    let [one, several, apart] = ["one", "several", "apart"].map(|name| scratch.path().join(name));
    whole(&one, &of);
    let all = batches(&of, &Simulator, (0..RUNS).collect(), [].into(), (|_: &_| 1.0, 5.0)).unwrap();
    assert_eq!(all.iter().map(|batch| batch.numbers.len()).sum::<usize>(), DIFFERENT);
    assert!(all.iter().all(|batch| batch.numbers.len() <= 5), "{all:?}");
    for (number, Batch { numbers, .. }) in all.iter().enumerate() {
        // Each in a store of its own, whose files are put beside the others.
        let dir = apart.join(number.to_string());
        some(&dir, &of, Share::Whole, Some(numbers.clone()));
        fs::create_dir_all(several.join(STORE)).unwrap();
        for file in fs::read_dir(dir.join(STORE)).unwrap().map(Result::unwrap) {
            fs::copy(file.path(), several.join(STORE).join(file.file_name())).unwrap();
        }
    }
    let store = Store::open(&several.join(STORE), &of, &Simulator, Share::Whole).unwrap();
    let stored = store.names().into_iter().collect();
    let left = batches(&of, &Simulator, (0..RUNS).collect(), stored, (|_: &_| 1.0, 5.0)).unwrap();
    assert_eq!(left, []);
    drop(store);
    whole(&several, &of);
    assert_eq!(files(&one), files(&several));
}

#[test]
fn a_part_without_its_list_of_names_is_found() {
    let (scratch, of) = (tempfile::tempdir().unwrap(), experiment(&[]));
    let [one, dir] = ["one", "dir"].map(|name| scratch.path().join(name));
    whole(&one, &of);
    some(&dir, &of, Share::Shard { number: 1, of: 2 }, None);
    let listed = files(&dir.join(STORE)).into_keys().find(|name| name.ends_with(".names"));
    fs::remove_file(dir.join(STORE).join(listed.unwrap())).unwrap();
    // What another writer left that died.
    fs::write(dir.join(STORE).join(".x.part.0123456789abcdef.partial"), "half").unwrap();
    assert_eq!(whole(&dir, &of), 0);
    assert_eq!(files(&one), files(&dir));
}

#[test]
fn more_repeats_are_added_to_a_store_and_other_experiments_are_refused() {
    let (scratch, of) = (tempfile::tempdir().unwrap(), experiment(&[]));
    let [one, dir] = ["one", "dir"].map(|name| scratch.path().join(name));
    whole(&dir, &of);
    let more = experiment(&["run.repeat=10"]);
    assert_eq!(whole(&dir, &more), RUNS);
    whole(&one, &more);
    let without_head = |dir: &Path| {
        let mut all = files(dir);
        all.remove("store/sweep.json");
        all
    };
    assert_eq!(without_head(&one), without_head(&dir));

    let other = experiment(&["traffic.short.size=\"30 kB\""]);
    let why = Store::open(&dir.join(STORE), &other, &Simulator, Share::Whole).unwrap_err();
    let why = why.to_string();
    assert!(why.contains("cannot go on, because cubic: traffic.short.size was"), "{why}");
}

#[test]
fn one_process_holds_a_store_or_a_shard() {
    let (scratch, of) = (tempfile::tempdir().unwrap(), experiment(&[]));
    let path = scratch.path().join(STORE);
    let open = |share| Store::open(&path, &of, &Simulator, share);
    let refused = |share| open(share).unwrap_err().to_string();
    let [first, second] = [1, 2].map(|number| Share::Shard { number, of: 2 });
    let whole = open(Share::Whole).unwrap();
    assert!(refused(Share::Whole).contains("other processes run this sweep"));
    assert!(refused(first).contains("another process runs the whole sweep"));
    drop(whole);
    let shards = [first, second].map(|shard| open(shard).unwrap());
    assert!(refused(first).contains("another process runs shard 1/2 of it"));
    assert!(refused(Share::Whole).contains("other processes run this sweep"));
    drop(shards);
    open(Share::Whole).unwrap();
    let left: Vec<_> =
        fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["sweep.json"]);
}

#[test]
fn a_run_with_other_results_is_found() {
    let (scratch, of) = (tempfile::tempdir().unwrap(), experiment(&[]));
    whole(scratch.path(), &of);
    let open = || Store::open(&scratch.path().join(STORE), &of, &Simulator, Share::Whole).unwrap();
    let found = open().verify(&of, &options(), 1000, 7).unwrap();
    assert_eq!((found.runs, found.stored, &*found.wrong), (DIFFERENT, DIFFERENT, &[][..]));
    assert_eq!(open().verify(&of, &options(), 5, 7).unwrap().runs, 5);

    // Another experiment's runs under the names of these.
    let part = files(&scratch.path().join(STORE)).into_keys().find(|name| name.ends_with(".part"));
    let part = scratch.path().join(STORE).join(part.unwrap());
    let mut bytes = fs::read(&part).unwrap();
    let at = bytes.len() - 3;
    bytes[at] ^= 1;
    fs::write(&part, &bytes).unwrap();
    let why = open().verify(&of, &options(), 1000, 7).unwrap_err().to_string();
    assert!(why.contains("is damaged: remove it with its .names"), "{why}");
    fs::write(&part, &bytes[..bytes.len() / 2]).unwrap();
    let why = open().compact().unwrap_err().to_string();
    assert!(why.contains("is damaged: remove it with its .names"), "{why}");
}

#[test]
fn a_store_is_removed_and_what_is_not_of_it_stays() {
    let (scratch, of) = (tempfile::tempdir().unwrap(), experiment(&[]));
    whole(scratch.path(), &of);
    let path = scratch.path().join(STORE);
    fs::write(path.join("notes.txt"), "mine").unwrap();
    Store::open_any(&path).unwrap().remove().unwrap();
    assert_eq!(files(&path).into_keys().collect::<Vec<_>>(), ["notes.txt"]);
    let why = Store::open_any(&path).unwrap_err().to_string();
    assert!(why.contains("it is no store: it has no sweep.json"), "{why}");
}

#[test]
fn a_stopped_sweep_keeps_what_has_finished() {
    let (scratch, of) = (tempfile::tempdir().unwrap(), experiment(&[]));
    let [one, dir] = ["one", "dir"].map(|name| scratch.path().join(name));
    whole(&one, &of);
    let mut results = place(&dir, &of, Share::Whole);
    let mut options = Options { threads: 1, ..options() };
    options.only = Some((0..of.runs()).collect());
    let stop = options.stop.clone();
    let filled = fill(&of, &options, &mut results, &mut |done| {
        stop.store(done >= 3, Ordering::Relaxed);
    });
    drop(results);
    let filled = filled.unwrap();
    assert!(filled.runs_done > 0, "{filled:?}");
    let Contents { runs, .. } = Store::open_any(&dir.join(STORE)).unwrap().contents().unwrap();
    assert!(runs > 0 && runs <= DIFFERENT);
    whole(&dir, &of);
    assert_eq!(files(&one), files(&dir));
}
