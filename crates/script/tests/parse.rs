//! Each mistake in a script is reported in one sentence, with its line.

use knee_script::{Limits, LinuxVersion, Profile, Script, ScriptOutcome, SimStack, play};

fn refused(text: &str) -> String {
    match Script::parse("s", text) {
        Ok(_) => panic!("taken: {text}"),
        Err(why) => why.to_string(),
    }
}

fn played(text: &str, limits: Limits) -> Result<ScriptOutcome, String> {
    let script = Script::parse("s", text).map_err(|why| why.to_string())?;
    let profile = Profile { linux: LinuxVersion(6, 1), hz: 1000 };
    let mut stack = SimStack::new(&script.settings, profile).map_err(|why| why.0)?;
    play(&script, &mut stack, limits).map(|played| played.outcome).map_err(|why| why.to_string())
}

fn differs(text: &str) -> String {
    match played(text, Limits::default()) {
        Ok(ScriptOutcome::Differs(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_malformed_line_is_named() {
    for (text, said) in [
        ("", "s: it contains no event"),
        (
            "connect\nfly",
            "s:2: `fly` is not an event: open, connect, listen, in, out, write, read, shutdown, close, set, expect, \
          wait, show, let, repeat, if",
        ),
        ("in S", "s:1: expected flags such as [S.] or [.], not `S`"),
        ("in [X]", "s:1: `X` in [X] is not a flag: S F R P . U E W e, as in tcpdump"),
        ("in [S", "s:1: the bracket `[` is not closed"),
        ("out [.] ack", "s:1: a number is missing at the end of the line"),
        ("out [.] ack 1 seq 2", "s:1: expected a comma, not `seq`"),
        ("out [.] seq 1:2, len 1", "s:1: take either `len` or the end of `seq`, not both"),
        ("out [.] sack 1", "s:1: a SACK range is START:END"),
        ("in [.] sack 1:2 3:4 5:6 7:8 9:10", "s:1: a segment holds at most 4 SACK ranges"),
        ("in [.] ecr x", "s:1: no segment above is named `x` (`out ... as x`)"),
        ("in [.] ecr 3", "s:1: expected a segment's name, not `3`"),
        ("out [.] ecr", "s:1: a number is missing at the end of the line"),
        ("in [.] lost", "s:1: only `out` takes `lost`"),
        ("+1..2 connect", "s:1: a range of times is for `out` only"),
        ("+1parsec connect", "s:1: `1parsec`: the units are ns, us, ms and s"),
        ("repeat 3\nwrite 1", "s:1: this block has no `end` (the file has 2 lines)"),
        ("end", "s:1: `end` ends nothing"),
        ("repeat 3\nelse\nend", "s:2: `else` belongs after `if`"),
        ("let mss = 3", "s:1: the name `mss` is taken: choose another"),
        ("let x 3", "s:1: `let x` is followed by `=` and a number"),
        ("connect\nmss 3", "s:2: `mss` belongs before the first event"),
        ("mss 3", "s:1: `mss 3`: the range is 88 to 8948 bytes"),
        ("ip 5", "s:1: `ip` is 4 or 6"),
        ("needs windows", "s:1: expected `linux`, not `windows`"),
        ("needs linux >= 7", "s:1: `7` is not a version such as 6.12"),
        ("sysctl kernel.panic = 1", "s:1: scripts cannot set the sysctl `kernel.panic`, only "),
        ("sysctl tcp_ecn = on", "s:1: `tcp_ecn = on`: the value is a number, or several"),
        ("set colour 3", "s:1: `colour` is not an option: algorithm, nodelay, "),
        ("open sideways", "s:1: `open sideways`: it is `open active` or `open passive`"),
        ("expect cwnd", "s:1: a comparison is missing: <, <=, ==, !=, >= or >"),
        ("expect algorithm < reno", "s:1: algorithms are compared with == or !="),
        ("algorithm reno fast", "s:1: `fast`: a parameter is written NAME=VALUE"),
        ("in [.] ack 7, ack 1", "s:1: `ack` appears twice"),
        ("out [.] lost, lost", "s:1: `lost` appears twice"),
        ("in [S] sack_ok, no_sack", "s:1: take either `sack_ok` or `no_sack`, not both"),
        ("in [S] no_wscale, wscale 3", "s:1: take either `no_wscale` or `wscale`, not both"),
        ("in [.] ect0, ce", "s:1: take either `ect0` or `ce`, not both"),
        ("in [.] no_ts, ts 1 2", "s:1: take either `no_ts` or `ts`, not both"),
        ("in [.] mss 1000", "s:1: `mss` needs a segment with the flag S"),
        ("out [.] no_sack", "s:1: `no_sack` needs a segment with the flag S"),
    ] {
        let why = refused(text);
        assert!(why.starts_with(said), "{text}: {why}");
    }
    let deep = "repeat 2\n".repeat(17);
    assert_eq!(refused(&deep), "s:17: blocks are nested deeper than 16");
    assert!(
        refused("expect speed > 3").starts_with("s:1: `speed` is unknown: neither set by `let`")
    );
    assert!(refused(&"#".repeat(2 << 20)).contains("larger than 1 MiB"));
}

#[test]
fn a_line_has_an_end() {
    let sum = |terms| format!("open active\nwrite 1{}", "+1".repeat(terms));
    assert_eq!(refused(&sum(400_000)), "s:2: the line is longer than 4096 bytes");
    assert_eq!(refused(&sum(2045)), "s:2: the line is longer than 4096 bytes");
    assert!(played(&sum(2044), Limits::default()).is_ok());
    let conditions = format!("open active\nrepeat 300\nexpect 1 < 2{}\nend", ",1<2".repeat(999));
    let said = "s:3: the script does not end within 200000 events";
    assert!(played(&conditions, Limits::default()).unwrap_err().starts_with(said));
}

#[test]
fn what_cannot_be_played_is_named() {
    for (text, said) in [
        ("+11h connect", "s:1: `11h`: the units are ns, us, ms and s"),
        ("+700s connect", "s:1: the time is negative, or the script takes longer than 600000 ms"),
        ("+(0-1) connect", "s:1: the time is negative, or the script takes longer than 600000 ms"),
        ("+3ms..2ms out [S]", "s:1: the end of the time range is before its start"),
        (
            "repeat 0-5\nwait\nend",
            "s:1: the number of turns is -5: the range is 0 to 18446744073709551615",
        ),
        ("write 1/0", "s:1: a division by 0"),
        ("write 0-1", "s:1: the write is -1: the range is 0 to 1099511627776"),
        ("in [.] seq 9:3", "s:1: seq 9:3 ends before it begins"),
        ("in [.] len 70000", "s:1: a segment cannot carry 70000 bytes"),
        ("expect cc.wings == 2", "s:1: the algorithm shows no `cc.wings` on the simulator: none"),
        (
            "sysctl tcp_ecn = -7 1\nconnect",
            "the simulator does not support the sysctl `tcp_ecn = -7 1`",
        ),
        (
            "sysctl tcp_rto_min_us = 100\nconnect",
            "sysctl tcp_rto_min_us: Linux 6.1 has none, Linux 6.11 has",
        ),
        (
            "sysctl tcp_syn_linear_timeouts = 4\nconnect",
            "sysctl tcp_syn_linear_timeouts: Linux 6.1 has none, Linux 6.5 has",
        ),
        (
            "open passive\nin [.] win 100000000",
            "s:2: a window of 100000000 bytes does not fit the header: the peer's window scale allows at most 67107840",
        ),
        ("algorithm swallow\nconnect", "no algorithm \"swallow\"; there are bbr, "),
        (
            "repeat 1000000000\nwait\nend",
            "s:2: the script does not end within 200000 events: repeat less often",
        ),
        (
            "repeat 1000000000\nend\nwait",
            "s:1: the script does not end within 200000 events: repeat less often",
        ),
    ] {
        let why = played(text, Limits::default()).expect_err(text);
        assert!(why.starts_with(said), "{text}: {why}");
    }
}

#[test]
fn the_peer_rounds_its_window_to_its_scale() {
    let sent = |window: &str| {
        let text = format!("open active\nin [.] win {window}\nwrite mss\n+1ms wait");
        matches!(played(&text, Limits::default()), Ok(ScriptOutcome::Differs(_)))
    };
    assert!(!sent("500"));
    assert!(!sent("1023"));
    assert!(sent("1024"));
}

#[test]
fn the_first_packet_that_differs_is_told() {
    assert_eq!(
        differs("connect\nout [S.]"),
        "s:2: flags: expected [S.], came [S]; at 0 ms came [S] seq 0, win 64768, not_ect, mss 1012, wscale 7, \
         sack_ok, ts 1 0"
    );
    assert_eq!(
        differs("connect\n+1ms wait"),
        "s:2: the script expects no segment before this line, but at 0 ms came [S] seq 0, win 64768, not_ect, mss 1012, wscale 7, \
         sack_ok, ts 1 0"
    );
    assert_eq!(
        differs("open active\nwrite 2*mss\nout [.] len mss"),
        "s:3: the script expects no segment after this line, the last, but at 0 ms came [P.] seq 1001:2001, ack 1, win 64768, \
         not_ect, ts 1 1000"
    );
    assert_eq!(
        differs("open active\n+1ms out [.] len 1"),
        "s:2: expected [.] seq 1:2, nothing came until 1 ms"
    );
    assert!(
        differs("listen\nin [S] ts 500 0\nout [S.] ecr 501")
            .starts_with("s:3: echo: expected 501, came 500; at 0 ms came [S.]")
    );
    assert_eq!(
        differs("open active, rtt 1ms\n+1ms expect cwnd > 3, cwnd == 2+3*4"),
        "s:2: expected cwnd == 2 + 3 * 4: the left side is 10, the right side 14 (at 2 ms)"
    );
    assert!(
        differs("connect\nout [S]\n+500ms..600ms out [S]")
            .starts_with("s:3: expected [S], nothing came until 600 ms")
    );
}
