//! packetdrill's files: what is understood, what is not applicable, and what is no such file.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::fs;
use std::path::Path;

use knee_script::{
    Limits, LinuxVersion, Packetdrill, Profile, Script, ScriptOutcome, SimStack, play,
};

const PROFILE: Profile = Profile { linux: LinuxVersion(7, 3), hz: 1000 };
/// The beginning of a file, up to a connection whose handshake is done.
const OPENED: &str = "`./defaults.sh`\n\
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
    +0 bind(3, ..., ...) = 0\n\
    +0 listen(3, 1) = 0\n\
    +0 < S 0:0(0) win 65535 <mss 1000,sackOK,nop,nop,nop,wscale 7>\n\
    +0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 8>\n\
    +.1 < . 1:1(0) ack 1 win 1000\n\
    +0 accept(3, ..., ...) = 4\n";

fn outcome(text: &str) -> String {
    match Script::parse_packetdrill("x.pkt", text) {
        Err(why) => format!("mistake {why}"),
        Ok(Packetdrill::NotApplicable(why)) => format!("n/a {why}"),
        Ok(Packetdrill::Script(script)) => {
            let mut stack = SimStack::new(&script.settings, PROFILE).map_err(|why| why.0).unwrap();
            match play(&script, &mut stack, Limits::default()) {
                Err(why) => format!("cannot {why}"),
                Ok(played) => match played.outcome {
                    ScriptOutcome::Passed => "passed".to_owned(),
                    ScriptOutcome::Differs(why) => {
                        format!("differs {why}\n    {}", played.account.join("\n    "))
                    }
                    other => format!("{other:?}"),
                },
            }
        }
    }
}

/// The texts of `tests/packetdrill`, by name.
pub(crate) fn texts() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/packetdrill");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|it| it == "pkt")).collect();
    files.sort();
    assert!(!files.is_empty());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn every_form_of_the_grammar_is_played() {
    for (name, text) in texts() {
        assert_eq!(outcome(&text), "passed", "{name}");
    }
}

#[test]
fn what_a_script_has_not_is_named_with_its_line() {
    let cases = [
        ("+0 setsockopt(4, SOL_TCP, TCP_MD5SIG, ..., 8) = 0", "MD5 signatures"),
        ("+0 send(4, ..., 10, MSG_ZEROCOPY) = 10", "zerocopy"),
        ("+0 sendto(4, ..., 10, MSG_FASTOPEN, ..., ...) = 10", "Fast Open"),
        ("+0 send(4, ..., 1, MSG_OOB) = 1", "urgent data"),
        ("+0 epoll_create(1) = 5", "the call epoll_create"),
        ("+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 5", "a second connection"),
        ("+0 < icmp unreachable frag_needed mtu 1200 [1:1001(1000)]", "ICMP"),
        ("+0 < [ect0] EAP. 1:1(0) ack 1 win 1000", "the flags EAP. of Accurate ECN"),
        ("+0 < . 1:1(0) ack 1 win 10 <ECN e0b 1 ceb 0 e1b 1,nop>", "the option of Accurate ECN"),
        ("+0 < . 1:1(0) ack 1 win 10 <mp_capable a b>", "MPTCP"),
        ("+0 < U. 1:2(1) ack 1 win 10 urg 1", "urgent data"),
        ("+0 `rm -rf /`", "the command `rm -rf /`"),
        ("+0 `sysctl -q net.ipv4.tcp_sack=0`", "a change of tcp_sack during the connection"),
        ("+0 %{ print(tcpi_rtt) }%", "the Python `print(tcpi_rtt)`"),
        ("+0 %{ assert tcpi_busy_time == 0 }%", "the value tcpi_busy_time"),
        ("+0 write(4, ..., 10) = -1 EPIPE (Broken pipe)", "a write that ends in EPIPE"),
        ("+0 write(4, ..., 10) = 5", "a write of which the socket takes a part"),
    ];
    for (line, what) in cases {
        assert_eq!(outcome(&format!("{OPENED}{line}\n")), format!("n/a x.pkt:9: {what}"), "{line}");
    }
}

#[test]
fn a_mistake_is_one_sentence_with_its_line() {
    let cases = [
        ("", "mistake x.pkt: the file has no event: begin with `0 socket(...)`"),
        ("0 socket(1", "mistake x.pkt:1: a call has no end: close it with `)`"),
        ("0 write(4, ..., ]) = 3", "mistake x.pkt:1: `]` closes nothing in this call"),
        ("0 < . 1:5(3) ack 1", "mistake x.pkt:1: 1:5(3): 1 and 3 are not 5"),
        (
            "0 < Q. 1:5(4)",
            "mistake x.pkt:1: `Q` in `Q.` is not a flag: S F R P . E W, or - for none",
        ),
        (
            "0 < . 99999999999:1(0)",
            "mistake x.pkt:1: a sequence number 99999999999 is too large: at most 4294967295",
        ),
        (
            "0 < . 1:1(0) ack",
            "mistake x.pkt:1: an acknowledgement is missing at the end of the file",
        ),
        ("\nhello", "mistake x.pkt:2: expected the time of an event, such as +.1, not `hello`"),
        (
            "+9999999999 listen(3)",
            "mistake x.pkt:1: the time 9999999999. s is too long or too fine: at most 1048576 s, in whole ns",
        ),
        ("`sysctl -q a", "mistake x.pkt:1: a command has no end: close it with ```"),
        ("%{ assert 1", "mistake x.pkt:1: the Python in %{ has no end: close it with `}%`"),
        ("--mss=7 0 listen(3, 1) = 0", "mistake x.pkt:1: --mss=7: the range is 48 to 65535 bytes"),
        (
            "+0~+1 listen(3, 1) = 0",
            "mistake x.pkt:1: a range of times is for outbound packets: give this event one time",
        ),
        (
            "`sysctl net.ipv4.tcp_sack`",
            "mistake x.pkt:1: `net.ipv4.tcp_sack`: a sysctl is written NAME=VALUE",
        ),
        ("`sysctl net.ipv4.tcp_rmem=\"$((1/0))\"`", "mistake x.pkt:1: a division by 0"),
    ];
    for (text, expected) in cases {
        assert_eq!(outcome(text), expected, "{text}");
    }
    let deep = format!("0 f({}", "[".repeat(1000));
    assert_eq!(outcome(&deep), "mistake x.pkt:1: the brackets of a call are nested too deeply");
    assert!(outcome(&"x".repeat(5000)).contains("x.pkt:1: "));
}

#[test]
fn a_packet_may_be_as_early_or_late_as_packetdrill_has_it() {
    // The segment comes again after 300 ms. An eighth of the time is allowed on either side.
    let after = |line: &str| {
        outcome(&format!("{OPENED}+0 write(4, ..., 500) = 500\n+0 > P. 1:501(500) ack 1\n{line}\n"))
    };
    let passes = |line: &str| assert_eq!(after(line), "passed", "{line}");
    let differs = |line: &str| {
        assert!(after(line).starts_with("differs x.pkt:11: "), "{line}: {}", after(line))
    };
    passes("+.3 > P. 1:501(500) ack 1");
    passes("+.34 > P. 1:501(500) ack 1");
    passes("* > P. 1:501(500) ack 1");
    passes("+.1~+.3 > P. 1:501(500) ack 1");
    differs("+.2 > P. 1:501(500) ack 1");
    differs("+.4 > P. 1:501(500) ack 1");
    differs("+.3 > . 1:501(500) ack 1");
    differs("+.3 > P. 1:501(500) ack 1 <nop,nop,TS val 1 ecr 2>");
    differs("+.3 > P. 1:502(501) ack 1");
}

#[test]
fn packets_after_the_last_event_are_no_difference() {
    assert_eq!(outcome(&format!("{OPENED}+0 write(4, ..., 5000) = 5000\n")), "passed");
}

#[test]
fn a_read_must_give_what_it_says() {
    let line = "+0 < P. 1:101(100) ack 1 win 1000\n+0 read(4, ..., 1000)";
    assert_eq!(outcome(&format!("{OPENED}{line} = 100\n")), "passed");
    assert!(
        outcome(&format!("{OPENED}{line} = 99\n"))
            .starts_with("differs x.pkt:10: the read: expected 99 bytes, came 100")
    );
    assert!(
        outcome(&format!("{OPENED}+0...1 read(4, ..., 1000) = 100\n"))
            .starts_with("differs x.pkt:9: the read has not returned")
    );
}

#[test]
fn calls_that_fail_and_values_that_are_not_looked_at_are_not_passed_over() {
    for (line, why) in [
        ("+0 bind(3, ..., ...) = -1 EADDRINUSE (Address in use)", "a bind that ends in EADDRINUSE"),
        ("+0 close(4) = -1 EBADF (Bad file descriptor)", "a close that ends in EBADF"),
        ("+0 getsockopt(4, SOL_SOCKET, SO_ERROR, [ETIMEDOUT], [4]) = 0", "a look at SO_ERROR"),
        ("+0 getsockopt(4, SOL_SOCKET, SO_SNDBUF, [7], [4]) = 0", "a look at SO_SNDBUF"),
    ] {
        let said = outcome(&format!("{OPENED}{line}\n"));
        assert!(said.starts_with("n/a ") && said.contains(why), "{line}: {said}");
    }
    let healthy = "+0 getsockopt(4, SOL_SOCKET, SO_ERROR, [0], [4]) = 0\n";
    assert_eq!(outcome(&format!("{OPENED}{healthy}")), "passed");
}

#[test]
fn a_file_names_no_file_to_compile() {
    for named in ["./foo.c", "/etc/passwd", "foo.c", ""] {
        let option = format!("+0 setsockopt(4, SOL_TCP, TCP_CONGESTION, [\"{named}\"], 8) = 0\n");
        let sysctl = format!("`sysctl -q net.ipv4.tcp_congestion_control={named}`\n{OPENED}");
        for text in [format!("{OPENED}{option}"), sysctl] {
            let said = outcome(&text);
            assert!(!said.starts_with("passed") && !said.starts_with("cannot"), "{named}: {said}");
        }
    }
    let named = "+0 setsockopt(4, SOL_TCP, TCP_CONGESTION, [\"cubic\"], 5) = 0\n";
    assert_eq!(outcome(&format!("{OPENED}{named}")), "passed");
}

#[test]
fn a_descriptor_is_that_of_the_connection() {
    for call in ["write(77, ..., 1000) = 1000", "read(3, ..., 1000) = 0", "close(99) = 0"] {
        let said = outcome(&format!("{OPENED}+0 {call}\n"));
        assert!(said.contains("the descriptor "), "{call}: {said}");
    }
}

#[test]
fn the_end_of_the_peers_data_is_told_from_nothing_yet() {
    let fin = "+.2 < F. 1:1(0) ack 1 win 1000\n";
    let waits = format!("{OPENED}+0...0.2 read(4, ..., 1000) = 0\n{fin}");
    assert_eq!(outcome(&waits), "passed");
    let none = format!("{OPENED}+0 read(4, ..., 1000) = 0\n");
    assert!(outcome(&none).contains("the peer has not ended"), "{}", outcome(&none));
    let again = "= -1 EAGAIN (Resource temporarily unavailable)";
    assert_eq!(outcome(&format!("{OPENED}+0 read(4, ..., 1000) {again}\n")), "passed");
    let ended = format!("{OPENED}{fin}+0 > . 1:1(0) ack 2\n+0 read(4, ..., 1000) {again}\n");
    assert!(outcome(&ended).contains("the peer has ended"), "{}", outcome(&ended));
}

#[test]
fn a_read_that_waits_has_an_eighth_of_its_own_time() {
    let read = "+80...80.05 read(4, ..., 1000) = 1000\n+8 < P. 1:1001(1000) ack 1 win 1000\n";
    let said = outcome(&format!("{OPENED}{read}"));
    assert!(said.contains("the read returned at"), "{said}");
    let write = "+0...0.2 read(4, ..., 1000) = 1000\n+0 write(4, ..., 1000) = 1000\n";
    let said = outcome(&format!("{OPENED}{write}"));
    assert!(said.contains("the read has not returned"), "{said}");
}

#[test]
fn comments_options_and_defaults_are_read_as_they_are_meant() {
    let open = outcome(&format!("{OPENED}/* no end\n+0 > . 9:9(0) ack 9\n"));
    assert_eq!(open, "mistake x.pkt:9: a comment has no end: close it with `*/`");
    assert_eq!(outcome(&format!("`# set up`\n{OPENED}")), "passed");
    // Whatever the order, and however often.
    let ipv6 = OPENED.replace("<mss 1460", "<mss 8940");
    for options in ["--ip_version=ipv6\n--mtu=9000\n", "--mtu=9000\n--ip_version=ipv6\n"] {
        assert_eq!(outcome(&format!("{options}{options}{ipv6}")), "passed");
    }
    let ipv4 = format!("--ip_version=ipv6\n--ip_version=ipv4\n{OPENED}");
    assert_eq!(outcome(&ipv4), "passed");
    let started = std::time::Instant::now();
    let many = "`./defaults.sh`\n".repeat(16_000);
    assert_eq!(outcome(&format!("{many}{OPENED}")), "passed");
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}
