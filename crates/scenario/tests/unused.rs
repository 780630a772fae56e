//! A value that acts on nothing is refused, and the sentence names what takes its place.

use std::path::Path;

use knee_scenario::{Experiment, Overrides};

/// A file with these cases and traffic entries.
fn file(cases: &str, traffic: &str) -> String {
    format!(
        r#"{cases}
network = {{ topology = "many-to-one", senders = 4, access = {{ rate = "1 Gbps" }}, bottleneck = {{ rate = "1 Gbps", queue = {{ kind = "droptail", limit = "100 pkts" }} }} }}
run = {{ duration = "20 ms" }}
{traffic}
"#
    )
}

/// The message about a file. Empty: it is taken.
fn said(text: &str, overrides: &Overrides) -> String {
    let parsed = Experiment::parse(Path::new("x.toml"), text, overrides);
    parsed.and_then(Experiment::whole).err().map_or_else(String::new, |why| why.to_string())
}

const OWN: &str =
    "[[traffic]]\nname = \"t\"\nkind = \"bulk\"\ncc = \"bbr\"\nfrom = \"s1\"\nto = \"r\"\n";
const FREE: &str = "[[traffic]]\nname = \"u\"\nkind = \"bulk\"\nfrom = \"s2\"\nto = \"r\"\n";
const PING: &str =
    "[[traffic]]\nname = \"p\"\nkind = \"ping\"\nfrom = \"s3\"\nto = \"r\"\ninterval = \"1 ms\"\n";

#[test]
fn an_algorithm_that_no_traffic_entry_takes_is_refused() {
    let none = Overrides::default();
    let other = OWN.replace("\"t\"", "\"v\"");
    for (cases, key) in [
        ("cc = [\"cubic\", \"nv\"]", "x.toml:1: cc: \"cubic\" acts on nothing"),
        ("case = [{ name = \"b\", cc = \"nv\" }]", "x.toml:1: case.b.cc: \"nv\" of case \"b\""),
    ] {
        let refused = said(&file(cases, OWN), &none);
        assert!(refused.starts_with(key), "{refused}");
        assert!(refused.contains("entry \"t\" names its own cc"), "{refused}");
        let of_two = said(&file(cases, &format!("{OWN}{other}{PING}")), &none);
        assert!(of_two.contains("entries \"t\" and \"v\" name their own cc"), "{of_two}");
        assert_eq!(said(&file(cases, &format!("{OWN}{FREE}")), &none), "");
        let no_flows = FREE.replace("kind", "flows = 0\nkind");
        assert!(said(&file(cases, &format!("{OWN}{no_flows}")), &none).starts_with(key));
        let pings = said(&file(cases, PING), &none);
        assert!(pings.contains("no traffic entry has connections"), "{pings}");
    }
    let asked = Overrides { cc: vec!["cubic".into(), "nv".into()], ..Overrides::default() };
    let refused = said(&file("", OWN), &asked);
    assert!(refused.starts_with("x.toml: --cc: \"cubic\" acts on nothing: "), "{refused}");
    assert_eq!(said(&file("", &format!("{OWN}{FREE}")), &asked), "");
    // A case that is not run is not looked at.
    let cases = "case = [{ name = \"a\" }, { name = \"b\", cc = \"nv\" }]";
    let one = Overrides { cc: vec!["a".into()], ..Overrides::default() };
    assert_eq!(said(&file(cases, OWN), &one), "");
}

#[test]
fn what_names_the_algorithm_of_the_last_entry_counts_wherever_it_stands() {
    let all = "cc = [\"cubic\", \"dctcp\"]";
    let set = Overrides { set: vec!["traffic.u.cc=bbr".into()], ..Overrides::default() };
    assert!(said(&file(all, FREE), &set).contains("entry \"u\" names its own cc"));
    let vary = format!("{FREE}[vary]\n\"traffic.u.cc\" = [\"cubic\", \"reno\"]\n");
    assert!(said(&file(all, &vary), &Overrides::default()).contains("names its own cc"));
    let case = "case = [{ name = \"a\", cc = \"nv\", set = { \"traffic.u.cc\" = \"bbr\" } }]";
    assert!(said(&file(case, FREE), &Overrides::default()).contains("names its own cc"));
    // Some rows of a sweep may have no connection under it.
    let vary = format!("{FREE}flows = 1\n[vary]\n\"traffic.u.flows\" = [0, 2]\n");
    assert_eq!(said(&file(all, &vary), &Overrides::default()), "");
}

#[test]
fn a_key_of_a_case_that_is_varied_is_refused() {
    let vary = format!("{FREE}[vary]\n\"traffic.u.size\" = [\"10 kB\", \"20 kB\"]\n");
    let case = "case = [{ name = \"a\", cc = \"nv\", set = { \"traffic.u.size\" = \"1 MB\" } }]";
    let refused = said(&file(case, &vary), &Overrides::default());
    assert!(
        refused.contains("case.a.set.traffic.u.size")
            && refused.contains("[vary] has other values"),
        "{refused}"
    );
    let other = case.replace("u.size", "u.start_jitter").replace("1 MB", "1 ms");
    assert_eq!(said(&file(&other, &vary), &Overrides::default()), "");
}

#[test]
fn settings_of_hosts_that_act_on_nothing_are_refused() {
    let all = "cc = [\"cubic\"]";
    let with = |hosts: &str| {
        said(&file(&format!("{all}\nhosts = {{ {hosts} }}"), FREE), &Overrides::default())
    };
    assert!(with("sndbuf_initial = \"64 KiB\"").contains("needs sndbuf_max"));
    assert_eq!(with("sndbuf_initial = \"64 KiB\", sndbuf_max = \"1 MiB\""), "");
    assert!(
        with("linux = \"6.12\", max_tcp_header = \"256 B\"").contains("no effect since Linux 6.6")
    );
    assert_eq!(with("max_tcp_header = \"256 B\""), "");
}

#[test]
fn a_run_that_ends_when_all_is_done_needs_traffic_that_ends() {
    let until = |traffic: &str| {
        let text =
            file("cc = [\"cubic\"]", traffic).replace("\"20 ms\"", "\"20 ms\", until_done = true");
        said(&text, &Overrides::default())
    };
    assert!(until(FREE).contains("no traffic ends by itself"), "{}", until(FREE));
    assert_eq!(until(&format!("{FREE}size = \"10 kB\"\n")), "");
}
