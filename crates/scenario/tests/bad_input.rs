//! Everything that a file should not say gets one sentence with file, line, key and what was allowed.

use std::path::Path;

use knee_scenario::{Experiment, Overrides};

const GOOD: &str = r#"question = "?"
cc = ["dctcp"]

[network]
topology = "many-to-one"
senders = 3
access = { rate = "1 Gbps" }
return = { delay = "100 us" }

[network.bottleneck]
rate = "1 Gbps"
queue = { kind = "step", limit = "500 pkts", k = "10 pkts" }

[hosts]
linux = "6.1"
mtu = "1500 B"

[[traffic]]
name = "short"
kind = "bulk"
from = "s1..s3"
to = "r"
size = "10 kB"
flows = 2

[vary]
"traffic.short.size" = ["10 kB", "20 kB"]

[run]
duration = "1 s"
repeat = 2
"#;

fn message(text: &str, overrides: &Overrides) -> String {
    match Experiment::parse(Path::new("bad.toml"), text, overrides) {
        Ok(_) => "accepted".into(),
        Err(error) => error.to_string(),
    }
}

fn check(find: &str, replacement: &str, expected: &str) {
    assert!(GOOD.contains(find), "{find}");
    let text = GOOD.replacen(find, replacement, 1);
    let expected = with_algorithms(expected);
    assert_eq!(message(&text, &Overrides::default()), expected, "{find} -> {replacement}");
}

/// The list of algorithms grows.
fn with_algorithms(expected: &str) -> String {
    let names: Vec<_> =
        knee_algo::Algorithm::all().iter().map(|a| format!("\"{}\"", a.name())).collect();
    expected.replace("ALGORITHMS", &names.join(", "))
}

#[test]
fn the_file_that_the_others_are_made_from_is_good() {
    assert_eq!(message(GOOD, &Overrides::default()), "accepted");
}

#[test]
fn a_base_rtt_is_a_time_that_a_policy_could_say() {
    let with = |base_rtt: &str| format!("flows = 2\nbase_rtt = {base_rtt}");
    for base_rtt in ["\"500 ns\"", "\"2 min\""] {
        let text = GOOD.replacen("flows = 2", &with(base_rtt), 1);
        let refused = message(&text, &Overrides::default());
        assert!(refused.contains("must be from 1 us to 60000 ms, as in \"50 us\""), "{refused}");
        assert!(refused.contains("traffic.short.base_rtt"), "{refused}");
    }
}

#[test]
fn unknown_keys_name_the_nearest_known_one() {
    for (find, replacement, expected) in [
        (
            "senders = 3",
            "sender = 3",
            "bad.toml:6: network.sender: unknown key; did you mean \"senders\"?",
        ),
        (
            "[hosts]",
            "[host]",
            "bad.toml:14: host = { linux = \"6.1\", mtu = \"1500 B\" }: must be a list of tables: [[host]]",
        ),
        (
            "[network.bottleneck]",
            "[network.botleneck]",
            "bad.toml:10: network.botleneck: unknown key; did you mean \"bottleneck\"?",
        ),
        (
            "k = \"10 pkts\"",
            "threshold = \"10 pkts\"",
            "bad.toml:12: network.bottleneck.queue.threshold: unknown key; known here: kind, limit, k, \
             mark_at, mark_when, not_ect",
        ),
        (
            "kind = \"step\", limit",
            "kind = \"droptail\", limit",
            "bad.toml:12: network.bottleneck.queue.k: unknown key; known here: kind, limit",
        ),
        (
            "flows = 2",
            "flow = 2",
            "bad.toml:24: traffic.short.flow: unknown key; did you mean \"flows\"?",
        ),
        ("[run]", "[runs]", "bad.toml:29: runs: unknown key; did you mean \"run\"?"),
        (
            "kind = \"bulk\"",
            "kind = \"bulky\"",
            "bad.toml:20: traffic.short.kind = \"bulky\": must be one of \"bulk\", \"incast\", \"rpc\", \
             \"ping\", \"cbr\", \"poisson\", \"query\", \"shuffle\", \"attempts\", \"trace\", \"collective\", \"chakra\"; did you mean \"bulk\"?",
        ),
        (
            "[\"dctcp\"]",
            "[\"dctpc\"]",
            "bad.toml:2: cc = [\"dctpc\"]: must be one of ALGORITHMS; did you mean \"dctcp\"?",
        ),
        (
            "\"traffic.short.size\" = ",
            "\"traffic.shirt.size\" = ",
            "bad.toml:27: vary.traffic.shirt.size: no entry is named \"shirt\"; the only entry is number 1 (short); did you mean \"short\"?",
        ),
        (
            "\"traffic.short.size\" = ",
            "\"trafic.short.size\" = ",
            "bad.toml:27: vary.trafic.short.size = [\"10 kB\", \"20 kB\"]: must be a path in quotes, as in \
             \"traffic.short.size\", that begins with network, hosts, host, traffic, params, sample or \
             run.duration; did you mean \"traffic\"?",
        ),
    ] {
        check(find, replacement, expected);
    }
}

#[test]
fn wrong_units_and_impossible_values_say_what_was_allowed() {
    const RATE: &str = "must be a rate from 1 kbps to 1 Tbps, as in \"10 Gbps\"";
    const RATE_UNIT: &str =
        "must be a rate with its unit (bps, kbps, Mbps, Gbps, Tbps), as in \"10 Gbps\"";
    let rate = "rate = \"1 Gbps\"\nqueue";
    for (value, why) in [
        ("\"0 Gbps\"", RATE),
        ("\"-1 Gbps\"", RATE),
        ("\"1e300 Gbps\"", RATE),
        ("\"100 us\"", RATE_UNIT),
        ("\"NaN Gbps\"", RATE_UNIT),
        ("\"1000000000\"", RATE_UNIT),
        ("1000000000", RATE_UNIT),
        ("nan", RATE_UNIT),
        ("1e300", RATE_UNIT),
        ("[]", RATE_UNIT),
        (
            "\"10 gbps\"",
            "must be a rate with its unit; units are case-sensitive, did you mean \"Gbps\"?",
        ),
    ] {
        let expected = format!("bad.toml:11: network.bottleneck.rate = {value}: {why}");
        check(rate, &format!("rate = {value}\nqueue"), &expected);
    }
    const SIZE: &str = "must be a size from 1 B to 1000 TB, as in \"757 kB\"";
    for (value, why) in [
        ("\"-10 kB\"", SIZE),
        ("\"0 B\"", SIZE),
        ("\"1e300 B\"", SIZE),
        (
            "\"10 pkts\"",
            "must be a size with its unit (B, kB, MB, GB, TB, KiB, MiB, GiB), as in \"757 kB\"",
        ),
    ] {
        // The varied sizes replace the entry's own, which therefore is not looked at.
        let expected = format!(
            "bad.toml:27: traffic.short.size = {value}: {why} ([vary] sets traffic.short.size = {value})"
        );
        check("[\"10 kB\", \"20 kB\"]", &format!("[\"10 kB\", {value}]"), &expected);
    }
    for (find, replacement, expected) in [
        (
            "delay = \"100 us\"",
            "delay = \"-100 us\"",
            "bad.toml:8: network.return.delay = \"-100 us\": must be a time from 0 s to 7 days (10080 min), \
             as in \"100 us\"",
        ),
        (
            "duration = \"1 s\"",
            "duration = \"0 s\"",
            "bad.toml:30: run.duration = \"0 s\": must be above 0 s, as in \"2 s\"",
        ),
        (
            "limit = \"500 pkts\"",
            "limit = \"100 B\"",
            "bad.toml:12: network.bottleneck.queue.limit = \"100 B\": must hold one full packet \
             (1514 B)",
        ),
        (
            "k = \"10 pkts\"",
            "k = \"80 us\"",
            "bad.toml:12: network.bottleneck.queue.k = \"80 us\": a sojourn-time threshold needs marking at \
             dequeue: how long a packet will wait is not known at enqueue",
        ),
        (
            "kind = \"step\", limit = \"500 pkts\", k = \"10 pkts\"",
            "kind = \"pie\", update_interval = \"10 ns\"",
            "bad.toml:12: network.bottleneck.queue.update_interval = \"10 ns\": PIE's update interval must be \
             at least 64 ns, the tick of its clock",
        ),
        (
            "linux = \"6.1\"",
            "rcvbuf_initial = \"5 kB\"",
            "bad.toml:15: hosts.rcvbuf_initial = \"5 kB\": must be from 6000 B (4 packets of the MTU) to 1 GiB, \
             as in \"6 MiB\"",
        ),
        (
            "linux = \"6.1\"",
            "max_tcp_header = \"1 kB\"",
            "bad.toml:15: hosts.max_tcp_header = \"1 kB\": must be from 128 B to 512 B, as in \"320 B\"",
        ),
        (
            "linux = \"6.1\"",
            "sndbuf_max = \"2 GiB\"",
            "bad.toml:15: hosts.sndbuf_max = \"2 GiB\": must be from 6000 B (4 packets of the MTU) to 1 GiB, \
             as in \"6 MiB\"",
        ),
        (
            "linux = \"6.1\"",
            "linux = \"5.4\"",
            "bad.toml:15: hosts.linux = \"5.4\": must be one of \"6.1\", \"6.12\", \"6.18\", \"7.3\"",
        ),
        (
            "mtu = \"1500 B\"",
            "mtu = \"1500 B\"\nhz = 301",
            "bad.toml:17: hosts.hz = 301: must be 100, 250, 300 or 1000",
        ),
        (
            "mtu = \"1500 B\"",
            "tcp_ecn = 3",
            "bad.toml:16: hosts.tcp_ecn = 3: must be a whole number from 0 to 2",
        ),
        (
            "mtu = \"1500 B\"",
            "mtu = \"1500 B\"\n[[host]]\nhosts = \"r\"\nipv6 = true",
            "bad.toml:19: host.1.ipv6 = true: must be the same on all hosts: give it in [hosts]",
        ),
        (
            "return = { delay = \"100 us\" }",
            "return = { loss = \"200 %\" }",
            "bad.toml:8: network.return.loss = \"200 %\": must be a share from 0 % to 100 %, as in \"0.1 %\"",
        ),
        (
            "repeat = 2",
            "repeat = 0",
            "bad.toml:31: run.repeat = 0: must be a whole number from 1 to 10000000",
        ),
        (
            "repeat = 2",
            "repeat = 99999999999999999999",
            "bad.toml:31: run.repeat = 99999999999999999999: must be a whole number from 1 to 10000000",
        ),
        (
            "senders = 3",
            "senders = -3",
            "bad.toml:6: network.senders = -3: must be a whole number from 1 to 120000",
        ),
    ] {
        check(find, replacement, expected);
    }
}

#[test]
fn too_much_is_refused_before_it_eats_memory() {
    for (find, replacement, expected) in [
        (
            "flows = 2",
            "flows = 10000000",
            "bad.toml:24: traffic.short.flows = 10000000: must be a whole number from 0 to 1000000",
        ),
        (
            "flows = 2",
            "flows = 1000000",
            "bad.toml:24: traffic.short.flows = 1000000: must give at most 1000000 flows in all (3 \
                pairs)",
        ),
        (
            "[vary]",
            "[[traffic]]\nname = \"b\"\nkind = \"bulk\"\nfrom = \"s1\"\nto = \"r\"\nflows = 1000000\n[vary]",
            "bad.toml:18: traffic: must be at most 1000000 flows in all, not 1000006",
        ),
        (
            "[\"10 kB\", \"20 kB\"]",
            "\"1..1000000 kB\"",
            "bad.toml:27: vary.traffic.short.size = \"1..1000000 kB\": has 1000000 values, but at most 1000 \
             are allowed",
        ),
        (
            "[\"10 kB\", \"20 kB\"]",
            "\"64..1 kB\"",
            "bad.toml:27: vary.traffic.short.size = \"64..1 kB\": must be a range that grows, as in \
             \"1..64\", \"10..50 step 10 kB\", \"1..64 times 2\" or \"1 Gbps..100 Gbps log 5\"",
        ),
        (
            "repeat = 2",
            "repeat = 10000000",
            "bad.toml: has 20000000 runs, but at most 10000000 are allowed",
        ),
        ("repeat = 2", "repeat = 2\n[sample]\nqueues = \"1 us\"\nflows = \"1 us\"", "accepted"),
        (
            "duration = \"1 s\"\nrepeat = 2",
            "duration = \"7 min\"\n[sample]\nqueues = \"1 us\"",
            "bad.toml:32: sample.queues = \"1 us\": gives 420000000 samples of queues, up to 64 GB \
             of the 64 GB of memory per run, but 4.3 GB is allowed: use a longer period, or allow \
             more with knee run --memory",
        ),
        (
            "repeat = 2",
            "repeat = 2\n[sample]\nqueues = \"1 ns\"",
            "bad.toml:33: sample.queues = \"1 ns\": must be at least 1 us, as in \"1 ms\"",
        ),
    ] {
        check(find, replacement, expected);
    }
}

#[test]
fn what_does_not_fit_together_is_said() {
    for (find, replacement, expected) in [
        (
            "from = \"s1..s3\"",
            "from = \"s1..s4\"",
            "bad.toml:21: traffic.short.from = \"s1..s4\": must name hosts of this network (s1, \
             s2, s3, r): \"s4\" does not exist",
        ),
        (
            "to = \"r\"",
            "to = \"s3\"",
            "bad.toml:22: traffic.short.to = \"s3\": must not name s3, which is in \"from\" too",
        ),
        (
            "to = \"r\"",
            "to = [\"r\", \"s1\"]",
            "bad.toml:22: traffic.short.to = [\"r\", \"s1\"]: must name one host, or as many as \
             \"from\" (3), not 2",
        ),
        (
            "cc = [\"dctcp\"]\n",
            "",
            "bad.toml:17: traffic.short.cc: missing: give it here, or give the file cases: cc = [\"cubic\", \
             \"dctcp\"]",
        ),
        (
            "topology = \"many-to-one\"\n",
            "",
            "bad.toml:4: network.topology: missing, as in topology = \"many-to-one\"",
        ),
        (
            "rate = \"1 Gbps\"\nqueue",
            "queue",
            "bad.toml:11: network.bottleneck.queue = { kind = \"step\", limit = \"500 pkts\", k = \
             \"10 pkts\" }: needs a rate",
        ),
        (
            "flows = 2",
            "flows = 2\nstart = \"1 s\"",
            "bad.toml:31: run.duration = \"1 s\": must be later than the start of \"short\"",
        ),
        (
            "flows = 2",
            "flows = 2\nstop = \"1 s\"",
            "bad.toml:25: traffic.short.stop = \"1 s\": conflicts with \"size\": leave one out",
        ),
        (
            "flows = 2",
            "flows = 2\ncc = \"dctcp\"\nparams = { shift_g = 11 }",
            "bad.toml:26: traffic.short.params.shift_g = 11: dctcp: shift_g = \"11\": must be a whole number \
             from 0 to 10",
        ),
        (
            "question = \"?\"\n",
            "question = \"?\n",
            "bad.toml:1: not TOML: invalid basic string, expected `\"`",
        ),
        ("repeat = 2", "repeat = 2\nrepeat = 3", "bad.toml:32: not TOML: duplicate key"),
    ] {
        check(find, replacement, expected);
    }
}

#[test]
fn overrides_are_checked_like_the_file() {
    let set = |set: &str| Overrides { set: vec![set.into()], ..Overrides::default() };
    for (given, expected) in [
        ("network.bottleneck.rate=10 Gbps", "accepted"),
        ("network.bottleneck.queue.k=\"65 pkts\"", "accepted"),
        ("traffic.short.size=[\"1 kB\", \"2 kB\"]", "accepted"),
        (
            "network.bottleneck.rate=0 bps",
            "bad.toml: --set network.bottleneck.rate = \"0 bps\": must be a rate from 1 kbps to 1 Tbps, as in \
             \"10 Gbps\"",
        ),
        (
            "network.bottleneck.rat=1 Gbps",
            "bad.toml: --set network.bottleneck.rat: unknown key; did you mean \"rate\"?",
        ),
        (
            "netwrok.bottleneck.rate=1 Gbps",
            "bad.toml: --set netwrok: unknown key; did you mean \"network\"?",
        ),
        (
            "rate",
            "bad.toml: --set rate: must be KEY=VALUE, as in network.bottleneck.rate=\"10 Gbps\"",
        ),
        (
            "traffic.x.size=1 kB",
            "bad.toml: --set traffic.x.size: no entry is named \"x\"; the only entry is number 1 (short)",
        ),
        (
            "network..rate=1",
            "bad.toml: --set network..rate: must be a path of keys joined by dots, as network.bottleneck.rate",
        ),
        (
            "network.topology.x=1",
            "bad.toml: --set network.topology.x: it has no keys below it: it is \"many-to-one\"",
        ),
        (
            "traffic.short.size=[]",
            "bad.toml: --set traffic.short.size: must have at least one value",
        ),
    ] {
        assert_eq!(message(GOOD, &set(given)), expected, "{given}");
    }
    let cc = Overrides { cc: vec!["nonesuch".into()], ..Overrides::default() };
    assert_eq!(
        message(GOOD, &cc),
        with_algorithms("bad.toml: --cc = \"nonesuch\": must be one of ALGORITHMS")
    );
}

#[test]
fn what_is_no_experiment_file_is_said() {
    let says = "bad.toml: is empty: an experiment needs [network], [[traffic]] and [run]";
    assert_eq!(message("", &Overrides::default()), says);
    assert_eq!(message("# only a comment\n", &Overrides::default()), says);
    let load = |path: &Path| match Experiment::load(path, &Overrides::default()) {
        Ok(_) => "accepted".into(),
        Err(error) => error.to_string(),
    };
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        (load(&path), path.display().to_string())
    };
    let shown = dir.display().to_string();
    assert_eq!(load(dir), format!("{shown}: is a directory, not an experiment file"));
    let missing = load(&dir.join("none.toml"));
    assert!(
        missing.starts_with(&format!("{shown}/none.toml: cannot read: No such file")),
        "{missing}"
    );
    assert_eq!(load(Path::new("/dev/zero")), "/dev/zero: is a device, not an experiment file");
    let (message, path) = file("latin.toml", b"# a\nquestion = \"caf\xe9\"\n");
    assert_eq!(message, format!("{path}:2: is not text in UTF-8"));
    let (message, path) = file("huge.toml", &vec![b'#'; (1 << 20) + 1]);
    assert_eq!(message, format!("{path}: is longer than 1 MiB, the limit for an experiment file"));
    let (message, _) = file("deep.toml", format!("a = {}", "[".repeat(100_000)).as_bytes());
    assert!(message.contains(": not TOML: "), "{message}");
}

#[test]
fn a_chart_that_does_not_fit_says_what_would() {
    let check = |chart: &str, expected: &str| {
        let text = format!("{GOOD}\n[[chart]]\ntitle = \"t\"\n{chart}");
        let said = message(&text, &Overrides::default());
        assert!(said.contains(expected) && said.lines().count() == 1, "{chart}:\n{said}");
    };
    let short = "subject = \"short\"\nmetric = \"completion\"\n";
    let with = |more: &str| format!("{short}{more}\n");
    check(
        &with("kind = \"heat\""),
        "\"heat\" needs two varied keys with several values: add one to [vary]",
    );
    check(&with("kind = \"tradeoff\""), "chart.1.against: missing, as in against = { subject = ");
    check(&with("kind = \"pie\""), "kind = \"pie\": must be one of \"lines\", \"bars\", \"cdf\"");
    check(&with("kind = \"cdf\"\nstat = \"p99\""), "is not of kind = \"cdf\": leave it out");
    check(&with("y = \"case\""), "is not of kind = \"lines\": leave it out, or choose \"heat\"");
    check(&with("kind = \"time\""), "completion is not sampled over time: choose ");
    let timeouts = "subject = \"short\"\nmetric = \"timeouts\"\nkind = \"cdf\"\n";
    check(timeouts, "timeouts is one value of a run and has no distribution: choose completion");
    let goodput = "subject = \"short\"\nmetric = \"goodput\"\nkind = \"time\"\n";
    check(goodput, "needs samples: set sample.goodput, as in goodput = \"1 ms\"");
    let queue = "subject = \"switch-r\"\nmetric = \"queue\"\nkind = \"cdf\"\n";
    check(queue, "needs samples: set sample.queues");
    let other = "kind = \"tradeoff\"\nagainst = { subject = \"web\", metric = \"goodput\" }";
    check(
        &with(other),
        "chart.against.subject: \"web\" is neither a traffic entry nor a recorded link",
    );
}
