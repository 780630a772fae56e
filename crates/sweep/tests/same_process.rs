//! What one experiment leaves for the next in one process: nothing.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::fs;
use std::path::Path;

use knee_scenario::{Experiment, Overrides};

use crate::common::*;

/// Reno that cuts to `KEEPS` fourths, from the header or a macro.
const SOURCE: &str = r#"#include <linux/module.h>
#include <net/tcp.h>
#ifdef HEADER
#include "keeps.h"
#endif
static u32 cut_ssthresh(struct sock *sk)
{
    return max(tcp_snd_cwnd(tcp_sk(sk)) * KEEPS / 4, 2U);
}
static struct tcp_congestion_ops cut = {
    .ssthresh = cut_ssthresh, .cong_avoid = tcp_reno_cong_avoid, .undo_cwnd = tcp_reno_undo_cwnd,
    .owner = THIS_MODULE, .name = "cut",
};
static int __init cut_register(void)
{
    return tcp_register_congestion_control(&cut);
}
module_init(cut_register);
MODULE_LICENSE("GPL");
"#;

fn text(define: &str) -> String {
    format!(
        r#"cc = ["tcp_cut.c"]
module = {{ define = ["{define}"] }}
network = {{ topology = "many-to-one", senders = 2, access = {{ rate = "10 Gbps" }}, return = {{ delay = "100 us" }}, bottleneck = {{ rate = "1 Gbps", queue = {{ kind = "droptail", limit = "30 pkts" }} }} }}
traffic = [{{ name = "t", kind = "bulk", from = "s1..s2", to = "r" }}]
run = {{ duration = "500 ms" }}
"#
    )
}

fn parse(scratch: &Scratch, define: &str) -> Result<Experiment, knee_scenario::Error> {
    Experiment::parse(&scratch.path().join("cut.toml"), &text(define), &Overrides::default())
}

/// Retransmissions of the one run.
fn retransmits(experiment: &Experiment) -> u64 {
    let run = experiment.run(experiment.run_id(0)).unwrap();
    let outcome = knee_sim::simulate(&run).unwrap();
    outcome.flows.iter().map(|flow| flow.counters.retransmitted_segs.unwrap()).sum()
}

#[test]
fn experiments_with_other_macros_get_other_objects_in_any_order() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("tcp_cut.c"), SOURCE).unwrap();
    let (two, three) = (parse(&scratch, "KEEPS=2").unwrap(), parse(&scratch, "KEEPS=3").unwrap());
    let figures = (retransmits(&two), retransmits(&three));
    assert_ne!(figures.0, figures.1);
    // The first one is still what it was, and both are what they are alone.
    assert_eq!(retransmits(&two), figures.0);
    assert_eq!(retransmits(&parse(&scratch, "KEEPS=2").unwrap()), figures.0);
    assert_eq!([&two, &three].map(|one| one.algorithms[0].name()), ["tcp_cut"; 2]);
}

#[test]
fn an_edited_file_is_read_again_by_the_next_experiment_and_not_by_the_same() {
    let scratch = Scratch::new();
    let file = scratch.path().join("tcp_cut.c");
    fs::write(&file, SOURCE).unwrap();
    let before = parse(&scratch, "KEEPS=2").unwrap();
    let figure = retransmits(&before);
    fs::write(&file, SOURCE.replace("KEEPS / 4", "(KEEPS + 1) / 4")).unwrap();
    let after = parse(&scratch, "KEEPS=2").unwrap();
    assert_ne!(retransmits(&after), figure);
    assert_eq!(retransmits(&before), figure, "an edit does not change the rest of a sweep");
    assert_ne!(
        before.algorithms[0].module().unwrap().sha256(),
        after.algorithms[0].module().unwrap().sha256()
    );
    fs::write(&file, SOURCE.replace("KEEPS / 4", "nothing")).unwrap();
    let broken = parse(&scratch, "KEEPS=2").unwrap_err().to_string();
    assert!(broken.contains("tcp_cut.c") && broken.contains("nothing"), "{broken}");
    fs::write(&file, SOURCE).unwrap();
    assert_eq!(retransmits(&parse(&scratch, "KEEPS=2").unwrap()), figure);
}

#[test]
fn an_edited_header_is_read_again() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("tcp_cut.c"), SOURCE).unwrap();
    let keeps = |fourths: u32| {
        let header = scratch.path().join("keeps.h");
        fs::write(header, format!("#define KEEPS {fourths}\n")).unwrap();
        retransmits(&parse(&scratch, "HEADER").unwrap())
    };
    let (two, three) = (keeps(2), keeps(3));
    assert_ne!(two, three);
    assert_eq!(keeps(2), two);
}

#[test]
fn an_experiment_that_only_reads_files_does_not_keep_others_from_loading_them() {
    let scratch = Scratch::new();
    let file = scratch.path().join("tcp_cut.c");
    fs::write(&file, SOURCE).unwrap();
    let parse = |cc: &[&Path], only_reads| {
        let cc = cc.iter().map(|path| path.display().to_string()).collect();
        let overrides = Overrides { cc, only_reads, ..Overrides::default() };
        Experiment::parse(&scratch.path().join("cut.toml"), &text("KEEPS=2"), &overrides)
    };
    let refused = parse(&[], true).unwrap_err().to_string();
    assert!(refused.contains("is code that this command does not load"), "{refused}");
    assert!(parse(&[], false).is_ok());
    // What another experiment has loaded is not trusted for that.
    assert!(parse(&[], true).is_err());
    assert!(parse(&[&file], true).is_ok());
}
