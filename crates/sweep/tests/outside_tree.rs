//! Modules of the kinds that people use outside the kernel tree: on the API of patched kernels, for builds that try headers, for
//! old kernels, and what no module has here. Their `BUG_ON`s hold what they are told against the socket, and end the program.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::fs;
use std::sync::Arc;

use knee_scenario::{Experiment, Overrides};
use knee_sim::Simulator;
use knee_sweep::results::Results;
use knee_sweep::runner::sweep;
use knee_sweep::runs::Options;

use crate::common::Scratch;

/// Losses at a short queue, marks, tails that are lost, and bursts.
const NETWORK: &str = r#"question = "Does it agree?"

[network]
topology = "many-to-one"
senders = 2
access = { rate = "1 Gbps" }
return = { delay = "400 us" }
bottleneck = { rate = "100 Mbps", queue = { kind = "step", limit = "40 pkts", k = "20 pkts" } }

[hosts]
tcp_ecn = 1
gso_max_segs = 44

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1"
to = "r"

[[traffic]]
name = "requests"
kind = "rpc"
from = "r"
to = "s2"
request = "100 B"
response = "50 kB"
count = 60

[run]
duration = "2 s"

[sample]
flows = "10 ms"
"#;

/// A module of tests/modules, alone in a folder: no header of another stands beside it.
fn module(scratch: &Scratch, name: &str) -> String {
    let text =
        fs::read_to_string(format!("{}/../../tests/modules/{name}.c", env!("CARGO_MANIFEST_DIR")));
    let path = scratch.path().join(format!("{name}.c"));
    fs::write(&path, text.unwrap()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn experiment(
    scratch: &Scratch,
    text: &str,
    path: &str,
    set: &[&str],
) -> Result<Arc<Experiment>, String> {
    let overrides = Overrides {
        cc: vec![path.to_owned()],
        set: set.iter().map(|key| (*key).to_owned()).collect(),
        ..Overrides::default()
    };
    let file = scratch.path().join("x.toml");
    Experiment::parse(&file, text, &overrides).map(Arc::new).map_err(|why| why.to_string())
}

/// Runs a module; a file of its results by name.
fn run(scratch: &Scratch, text: &str, path: &str, set: &[&str]) -> impl Fn(&str) -> String + use<> {
    let experiment = experiment(scratch, text, path, set).unwrap_or_else(|why| panic!("{why}"));
    let dir = tempfile::tempdir_in(scratch.path()).unwrap().keep().join("results");
    let options = Options { threads: 1, ..Options::new(Arc::new(Simulator)) };
    let mut results = Results::at(&dir).unwrap();
    let swept = sweep(&experiment, &options, &mut results, &mut |_| {}).unwrap();
    results.finish(&experiment, &swept, &[]).unwrap();
    move |name| fs::read_to_string(dir.join(name)).unwrap()
}

/// Of each flow the last value of a column of a series.
fn last_of(csv: &str, column: &str) -> Vec<u64> {
    let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let at = |name: &str| {
        header.iter().position(|have| *have == name).unwrap_or_else(|| panic!("{name}: {header:?}"))
    };
    let (flow, value) = (at("flow"), at(column));
    let mut last: Vec<(String, u64)> = Vec::new();
    for row in csv.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        let Ok(number) = cells[value].parse() else { continue };
        match last.iter_mut().find(|(name, _)| name == cells[flow]) {
            Some(found) => found.1 = number,
            None => last.push((cells[flow].to_owned(), number)),
        }
    }
    last.into_iter().map(|(_, value)| value).collect()
}

#[test]
fn a_module_on_the_api_of_google_bbr_is_told_what_that_kernel_tells() {
    let scratch = Scratch::new();
    let path = module(&scratch, "v3_counts");
    let results = run(&scratch, NETWORK, &path, &[]);
    let series = results("series-flows.csv");
    let sum = |column: &str| last_of(&series, column).iter().sum::<u64>();
    assert!(
        sum("bw_bytes/s") > 0,
        "segments are marked lost, and skb_marked_lost counts as tcp_sock does"
    );
    assert!(sum("mrtt_us") > 0, "marks are told to sender and receiver");
    assert!(sum("cwnd_gain_1/256") > 100, "tso_segs sizes bursts");
    let again = run(&scratch, NETWORK, &path, &[]);
    assert_eq!(series, again("series-flows.csv"), "the same bytes");
}

#[test]
fn a_tail_loss_probe_that_repairs_a_loss_is_an_event_of_that_api() {
    let scratch = Scratch::new();
    let path = module(&scratch, "v3_counts");
    // Each request ends a flight, and one packet in 50 is lost: some are last ones.
    let network = NETWORK
        .replace(
            "limit = \"40 pkts\", k = \"20 pkts\" } }",
            "limit = \"400 pkts\", k = \"399 pkts\" }, loss = \"2 %\" }",
        )
        .replace("from = \"r\"\nto = \"s2\"", "from = \"s2\"\nto = \"r\"")
        .replace(
            "request = \"100 B\"\nresponse = \"50 kB\"",
            "request = \"50 kB\"\nresponse = \"100 B\"",
        )
        .replace("count = 60", "count = 400")
        .replace("duration = \"2 s\"", "duration = \"20 s\"")
        .replace("flows = \"10 ms\"", "flows = \"200 ms\"");
    let series = run(&scratch, &network, &path, &[])("series-flows.csv");
    let recoveries = last_of(&series, "pacing_gain_1/256").iter().sum::<u64>();
    assert!(recoveries > 0, "some tail was lost and repaired by a probe");
}

#[test]
fn a_second_table_takes_over_with_the_private_area_of_the_first() {
    let scratch = Scratch::new();
    let path = module(&scratch, "v3_counts");
    let results = run(&scratch, NETWORK, &path, &["params.fall_back=Y"]);
    let flows = results("flows.csv");
    let fell = flows.lines().skip(1).filter(|row| row.contains(",counts-reno,")).count();
    assert_eq!(fell, 2, "{flows}");
}

#[test]
fn a_module_that_replaces_socket_calls_and_includes_a_generated_header_runs() {
    let scratch = Scratch::new();
    let path = module(&scratch, "old_kernel");
    let results = run(&scratch, NETWORK, &path, &["params.cwnd_cap=7"]);
    let cwnd = last_of(&results("series-flows.csv"), "cwnd_pkts");
    assert!(cwnd.iter().all(|cwnd| *cwnd <= 7) && !cwnd.is_empty(), "{cwnd:?}");
    let experiment = experiment(&scratch, NETWORK, &path, &[]).unwrap();
    let limits = experiment.modules[0].module().unwrap().limits();
    assert!(limits[0].starts_with("replaces the socket's calls (tcp_prot)"), "{limits:?}");
}

/// A minimal module whose init is given.
fn small(before: &str, init: &str) -> String {
    format!(
        "#include <linux/module.h>\n#include <net/tcp.h>\n{before}\nstatic void f(struct sock *sk)\n{{\n\t{init}\n}}\n\
         static struct tcp_congestion_ops ops = {{\n\t.init = f, .ssthresh = tcp_reno_ssthresh, .cong_avoid = tcp_reno_cong_avoid,\n\
         \t.undo_cwnd = tcp_reno_undo_cwnd, .owner = THIS_MODULE, .name = \"small\",\n}};\n\
         static int __init r(void)\n{{\n\treturn tcp_register_congestion_control(&ops);\n}}\nmodule_init(r);\n"
    )
}

#[test]
fn what_is_not_to_be_had_is_refused_by_name() {
    let scratch = Scratch::new();
    let why_not = |name: &str, before: &str, init: &str| {
        let path = scratch.path().join(name);
        fs::write(&path, small(before, init)).unwrap();
        experiment(&scratch, NETWORK, path.to_str().unwrap(), &[]).expect_err("it is refused")
    };
    for (name, init, says) in [
        (
            "netlink.c",
            "netlink_kernel_create(0, 1, 0);",
            "uses netlink_kernel_create (line 6): netlink is not to be had",
        ),
        (
            "timer.c",
            "hrtimer_start(0, 1, 2);",
            "uses hrtimer_start (line 6): timers and threads of its own are not",
        ),
        (
            "queue.c",
            "skb_rb_next(tcp_rtx_queue_head(sk));",
            "uses skb_rb_next (line 6): the queue of segments is not",
        ),
        ("other.c", "sk_for_each(a, b);", "uses sk_for_each (line 6): other sockets are not"),
        (
            "proc.c",
            "proc_create(\"x\", 0, 0, 0);",
            "uses proc_create (line 6): files in /proc, /sys and /dev are not",
        ),
        (
            "file.c",
            "filp_open(\"x\", 0, 0);",
            "uses filp_open (line 6): files, sockets and programs outside are not",
        ),
        (
            "hook.c",
            "register_kprobe(0);",
            "uses register_kprobe (line 6): hooks elsewhere in the kernel are not",
        ),
        (
            "sockopt.c",
            "nf_register_sockopt(0);",
            "uses nf_register_sockopt (line 6): socket options of its own are not",
        ),
    ] {
        let why = why_not(name, "", init);
        assert!(why.contains(says) && why.contains("docs/modules.md#not-to-be-had"), "{why}");
    }
    // A name of its own is its own.
    let path = scratch.path().join("own.c");
    fs::write(&path, small("#define mod_timer(sk) ((void)(sk))", "mod_timer(sk);")).unwrap();
    assert!(experiment(&scratch, NETWORK, path.to_str().unwrap(), &[]).is_ok());
}

#[test]
fn hz_stands_in_conditions_of_the_preprocessor_too() {
    let scratch = Scratch::new();
    let path = scratch.path().join("hz.c");
    let init = "#if HZ < 1000\n\tBUG_ON(HZ != 250);\n#endif\n\tBUG_ON(tcp_sk(sk)->advmss != tcp_sk(sk)->mss_cache);";
    fs::write(&path, small("", init)).unwrap();
    let results = run(&scratch, NETWORK, path.to_str().unwrap(), &["hosts.hz=250"]);
    assert!(results("flows.csv").lines().count() > 2);
}

#[test]
fn a_kernel_before_4_10_undoes_by_itself_where_a_module_cannot() {
    let scratch = Scratch::new();
    let path = scratch.path().join("no_undo.c");
    fs::write(&path, small("", "").replace(".undo_cwnd = tcp_reno_undo_cwnd, ", "")).unwrap();
    let path = path.to_str().unwrap();
    let why = experiment(&scratch, NETWORK, path, &[]).expect_err("newer kernels demand it");
    assert!(why.contains(".undo_cwnd"), "{why}");
    let old = format!("{NETWORK}\n[module]\nlinux = \"4.4\"\n");
    assert!(run(&scratch, &old, path, &[])("flows.csv").lines().count() > 2);
}

#[test]
fn more_names_of_the_kernel_say_what_they_say_there() {
    let scratch = Scratch::new();
    let path = module(&scratch, "more_names");
    // In the form of a release of before 4.7, of 4.15, and of now.
    for linux in ["4.4", "4.15", "6.12"] {
        let network = format!("{NETWORK}\n[module]\nlinux = \"{linux}\"\n");
        let file = run(&scratch, &network, &path, &[]);
        let series = file("series-flows.csv");
        assert!(last_of(&series, "goals").iter().any(|goals| *goals > 1000), "{linux}");
        assert!(last_of(&series, "cwnd_pkts").iter().all(|cwnd| *cwnd <= 50), "{linux}");
    }
}

#[test]
fn the_api_can_be_said() {
    let scratch = Scratch::new();
    let path = scratch.path().join("said.c");
    fs::write(&path, small("", "BUG_ON(ICSK_CA_PRIV_SIZE != 216);")).unwrap();
    let path = path.to_str().unwrap();
    let v3 = format!("{NETWORK}\n[module]\napi = \"v3\"\n");
    let manifest = run(&scratch, &v3, path, &[])("manifest.json");
    assert!(manifest.contains("\"api\": \"v3\""), "{manifest}");
    let wrong = v3.replace("\"v3\"", "\"v4\"");
    let why = experiment(&scratch, &wrong, path, &[]).expect_err("there is no such");
    assert!(why.contains("module.api") && why.contains("must be linux, or v3"), "{why}");
}

/// Both ends on an API whose connections count marked packets.
#[test]
fn accurate_ecn_tells_as_many_marks_as_there_were() {
    let scratch = Scratch::new();
    let text = fs::read_to_string(module(&scratch, "v3_counts")).unwrap();
    let echo = "dctcp_ece_ack_update(sk, event, &counts->prior_rcv_nxt, &counts->ce_state);";
    let text = text
        .replace("TCP_CONG_WANTS_CE_EVENTS", "TCP_CONG_NEEDS_ECN | TCP_CONG_NEEDS_ACCECN")
        .replace(echo, "counts->ce_state = event == CA_EVENT_ECN_IS_CE;")
        .replace("if (tcp_ecn_mode_rfc3168(tp))", "if (tcp_ecn_mode_accecn(tp))")
        .replace("TCP_ECN_ECT_PERMANENT", "TCP_ECN_ECT_1")
        // The count is of what arrived: an ACK may tell of packets that an earlier one delivered.
        .replace("BUG_ON(rs->ece_delta > rs->acked_sacked);", "")
        .replace("BUG_ON(rs->delivered_ce > rs->delivered);", "");
    let path = scratch.path().join("accecn.c");
    fs::write(&path, text).unwrap();
    // Of an ACK for more than seven packets the sender takes the largest number that fits three bits, so it may count 8 too
    // many (RFC 9768 sec. 3.2.2.5). That is rare also where ACKs overtake each other.
    let overtaking = NETWORK.replace("400 us\"", "400 us\", jitter = \"600 us\"");
    for network in [NETWORK, &overtaking] {
        let flows = run(&scratch, network, path.to_str().unwrap(), &[])("flows.csv");
        check_marks(&flows);
    }
}

/// The sender was told of all that arrived with CE but for the last, and of little else.
fn check_marks(flows: &str) {
    let header: Vec<&str> = flows.lines().next().unwrap().split(',').collect();
    let at = |name: &str| header.iter().position(|have| *have == name).unwrap();
    let bulk = flows.lines().find(|row| row.contains(",bulk,")).unwrap();
    let cells: Vec<&str> = bulk.split(',').collect();
    let number = |name: &str| cells[at(name)].parse::<u64>().unwrap();
    let (told, marked) = (number("delivered_ce_pkts"), number("ce_segs_received"));
    assert!(marked > 50, "{bulk}");
    assert!(told <= marked + marked / 100, "{told} of {marked}");
    assert!(marked < told + 64, "{told} of {marked}, and the last not yet");
}

/// Tries what others wrote: the files of the folder that `KNEE_MODULES_OF_OTHERS` names, each as itself and, where that is refused, as for
/// Linux 4.4. Prints what came of each, and fails where one that runs delivers nothing. Such files never stand in this tree.
#[test]
fn modules_of_others_deliver_where_a_folder_of_them_is_named() {
    let Some(folder) = std::env::var_os("KNEE_MODULES_OF_OTHERS") else { return };
    let scratch = Scratch::new();
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    files.sort();
    for path in files {
        let path = path.to_str().unwrap();
        let old = format!("{NETWORK}\n[module]\nlinux = \"4.4\"\n");
        for (words, text) in [("as it is", NETWORK), ("linux = 4.4", &old)] {
            let taken = experiment(&scratch, text, path, &[]);
            if let Err(why) = taken {
                eprintln!(
                    "{path}: {words}: {}",
                    why.lines().take(3).collect::<Vec<_>>().join(" | ")
                );
                continue;
            }
            let results = run(&scratch, text, path, &[]);
            let delivered = last_of(&results("series-flows.csv"), "delivered_pkts");
            let limits = taken.unwrap().modules[0].module().unwrap().limits();
            eprintln!("{path}: {words}: runs, {delivered:?} packets delivered {limits:?}");
            assert!(delivered.iter().any(|packets| *packets > 100), "{path}");
            break;
        }
    }
}
