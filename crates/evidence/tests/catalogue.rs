//! The catalogue lists every file once, and a plan takes of it what is wanted.

use std::collections::BTreeMap;
use std::path::Path;

use knee_evidence::catalogue::Library;
use knee_evidence::reproduce::{Wanted, plan};
use knee_scenario::{Experiment, Overrides};

const MIX: &str = r#"question = "Who waits?"
cc = ["cubic", "dctcp"]

[network]
topology = "many-to-one"
access = { rate = "1 Gbps" }
bottleneck = { rate = "1 Gbps", queue = { kind = "step", limit = "200 kB", k = "30 kB" } }

[[traffic]]
name = "short"
kind = "bulk"
from = "s1"
to = "r"
size = "20 kB"

[run]
duration = "1 s"
"#;

const CATALOGUE: &str = r#"
[[section]]
title = "Two"
about = "Both."
experiments = ["whole", "part"]

[[absent]]
title = "CPU"
source = "A talk"
why = "It is the host's."
"#;

const QUICK: &str = "\n[quick]\nrepeat = 1\ncase = [\"dctcp\"]\n";

fn library(catalogue: &str, whole: &str) -> Result<Library, String> {
    let part = format!("{MIX}{QUICK}");
    let files = [("catalogue", catalogue), ("whole", whole), ("part", part.as_str())];
    let golden = [("part", "part: 1 run\n\nclaim sooner: stands\n")];
    Library::new(files, golden).map_err(|why| why.to_string())
}

#[test]
fn the_quick_set_is_of_those_that_have_one_and_full_of_all() {
    let library = library(CATALOGUE, MIX).unwrap();
    let quick = plan(&library, &Wanted::default()).unwrap();
    let names: Vec<_> = quick.iter().map(|one| (one.name.as_str(), one.what.is_ok())).collect();
    assert_eq!(names, [("whole", false), ("part", true)]);
    assert_eq!(quick[1].what.as_ref().unwrap().runs(), 1);
    assert!(quick[1].work() > 0.0 && quick[0].work() == 0.0);
    let full = plan(&library, &Wanted { full: true, ..Wanted::default() }).unwrap();
    assert!(
        full.iter().all(|one| one.what.as_ref().is_ok_and(|experiment| experiment.runs() == 2))
    );
    let one = plan(&library, &Wanted { only: Some("p*".into()), ..Wanted::default() }).unwrap();
    assert_eq!((one.len(), one[0].name.as_str()), (1, "part"));
    let only =
        |only: &str| plan(&library, &Wanted { only: Some(only.into()), ..Wanted::default() });
    assert_eq!(only("part, whole").unwrap().len(), 2);
    assert!(only("neither,nor").unwrap_err().to_string().contains("--only neither,nor"));
}

#[test]
fn the_work_of_an_experiment_is_told_by_what_ends_it() {
    let work = |file: &str| {
        let library = library(CATALOGUE, file).unwrap();
        plan(&library, &Wanted { full: true, ..Wanted::default() }).unwrap()[0].work()
    };
    // Two runs of 20 kB in packets of 1500 bytes.
    let told = 2.0 * (1.0 + 20_000.0 / 1500.0);
    assert!((work(MIX) - told).abs() < 1e-6, "{}", work(MIX));
    let unrecorded = MIX.replace("k = \"30 kB\" } }", "k = \"30 kB\" }, record = false }");
    assert!((work(&unrecorded) - told).abs() < 1e-6, "{}", work(&unrecorded));
    let requests = "kind = \"rpc\"\nrequest = \"100 B\"\nresponse = \"14900 B\"\ncount = 7";
    let counted = MIX.replace("kind = \"bulk\"", requests).replace("size = \"20 kB\"\n", "");
    assert!((work(&counted) - 2.0 * 71.0).abs() < 1e-6, "{}", work(&counted));
    // Without an end: what 1 Gbps carries in a second.
    let endless = MIX.replace("size = \"20 kB\"\n", "");
    assert!((work(&endless) - 2.0 * (1.0 + 1e9 / 12_000.0)).abs() < 1e-3, "{}", work(&endless));
    let beside = endless.replace(
        "[run]\n",
        "[[traffic]]\nname = \"one\"\nkind = \"bulk\"\nfrom = \"s1\"\nto = \"r\"\nsize = \"20 kB\"\n\n[run]\nuntil_done = true\n",
    );
    assert!((work(&beside) - told).abs() < 1e-6, "{}", work(&beside));
}

#[test]
fn one_file_that_is_wrong_is_named_and_does_not_keep_the_others_from_being_run() {
    let library = library(CATALOGUE, &MIX.replace("[run]", "[runs]")).unwrap();
    let planned = plan(&library, &Wanted::default()).unwrap();
    let broken = planned[0].what.as_ref().unwrap_err();
    assert!(broken.is_broken && broken.why.contains("did you mean \"run\"?"), "{}", broken.why);
    assert!(planned[1].what.is_ok());
}

#[test]
fn a_file_that_the_catalogue_does_not_list_is_known() {
    let catalogue = CATALOGUE.replace("\"whole\", \"part\"", "\"part\"");
    assert_eq!(library(&catalogue, MIX).unwrap().unlisted, ["whole"]);
    assert!(library(CATALOGUE, MIX).unwrap().unlisted.is_empty());
}

#[test]
fn what_was_blessed_is_found_by_experiment_and_claim() {
    let library = library(CATALOGUE, MIX).unwrap();
    assert_eq!(library.blessed("part", "sooner"), Some("stands"));
    assert_eq!(library.blessed("part", "later"), None);
    assert_eq!(library.blessed("whole", "sooner"), None);
}

#[test]
fn a_catalogue_that_lists_too_little_or_too_much_is_refused() {
    let cases = [
        (
            "\"whole\", \"part\"",
            "\"whole\", \"part\", \"whole\"",
            "lists \"whole\" twice: list it in one section only",
        ),
        (
            "\"whole\", \"part\"",
            "\"whole\", \"prat\"",
            "must be one of \"part\", \"whole\"; did you mean \"part\"?",
        ),
        ("why = ", "wyh = ", "unknown key; did you mean \"why\"?"),
        ("source = \"A talk\"", "", "absent.1.source: missing"),
    ];
    for (find, replacement, expected) in cases {
        assert!(CATALOGUE.contains(find), "{find}");
        let message = library(&CATALOGUE.replacen(find, replacement, 1), MIX).unwrap_err();
        assert!(message.starts_with("scenarios/published/catalogue.toml:"), "{message}");
        assert!(message.contains(expected), "{find} -> {replacement}: {message}");
    }
}

#[test]
fn a_claim_may_refer_only_to_an_experiment_that_there_is() {
    let claim = "\n[[claim]]\nname = \"a\"\nsays = \"A.\"\ncannot = \"No.\"\nsee = \"prat\"\n";
    let library = library(CATALOGUE, &format!("{MIX}{claim}")).unwrap();
    let why = library.load("whole", &Default::default()).unwrap_err().to_string();
    assert!(
        why.contains("claim.a.see: must be one of \"part\", \"whole\"; did you mean \"part\"?"),
        "{why}"
    );
}

#[test]
fn every_claim_that_does_not_stand_in_the_quick_set_says_why() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut silent = Vec::new();
    for entry in std::fs::read_dir(root.join("tests/golden")).expect("the folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let file = root.join(format!("scenarios/published/{name}.toml"));
        let experiment = Experiment::load(&file, &Overrides::default()).expect("it is listed");
        let summary = std::fs::read_to_string(&path).expect("it is read");
        let claims =
            summary.lines().filter_map(|line| line.strip_prefix("claim ")?.split_once(": "));
        for (claim, verdict) in claims.filter(|(_, v)| !matches!(*v, "stands" | "not run")) {
            let told = experiment.claims.iter().find(|other| other.name == claim);
            if told.is_none_or(|told| told.because.is_none() && told.cannot.is_none()) {
                silent.push(format!("{name} {claim}: {verdict}"));
            }
        }
    }
    assert!(silent.is_empty(), "give a because: {silent:#?}");
}

/// Versions of the simulator's behaviour, each with the hash of the quick set's figures. Results of another version are not gone on with.
const BEHAVIOURS: &[(u32, &str)] = &[
    (1, "ec4f00d890491e4be402a722be0fbf8d0547ad8becd1c756f11ea75d19238216"),
    (2, "a4abe8b3c45f80ec34d2b177a1d42dfa0b95e849cec8dc1e374b033564b78834"),
    (3, "69107490fcba25a704fffdc7e132de5adf482673e70d225e3bda384f68541cd4"),
    (4, "968c88341e44bce3079b81b0345a35e9060dd671e0c69aea6e60e1793f6938df"),
    (5, "f28aca5fcc78c5a91a941fdfc3fdaa475f78215f8c28616271e3ebfe8bc0b16c"),
];

#[test]
fn figures_of_the_quick_set_change_with_the_version_of_behaviour_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let paths =
        std::fs::read_dir(root).expect("the folder").map(|entry| entry.expect("an entry").path());
    let all: BTreeMap<_, String> = paths
        .map(|path| (path.clone(), std::fs::read_to_string(path).expect("it is read")))
        .collect();
    // What is before the first row is of statistics and claims.
    let figures = all.values().filter_map(|text| Some(&text[text.find("\ncase ")?..]));
    let hash = knee_algo::sha256::hex(figures.collect::<Vec<_>>().concat().as_bytes());
    let last = BEHAVIOURS.last().copied().expect("there is one");
    assert!(
        (knee_sim::BEHAVIOUR, hash.as_str()) == last,
        "if it is meant that results changed, raise knee_sim::BEHAVIOUR and add it here with {hash}"
    );
    assert!(BEHAVIOURS.windows(2).all(|pair| pair[0].0 < pair[1].0));
}
