//! The file of a policy, away from any kernel.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, also outside of marked functions"
)]

use std::path::Path;

use knee_bpf::policy::{Ecn, File, Prefix};

/// The example of the page.
fn example() -> &'static str {
    let page = include_str!("../../../docs/policy.md");
    page.split_once("```toml\n").unwrap().1.split_once("```").unwrap().0
}

fn parse(text: &str) -> Result<File, String> {
    File::parse(Path::new("p.toml"), text).map_err(|error| error.to_string())
}

#[test]
fn the_example_of_the_page_is_read_as_the_page_says() {
    let file = parse(example()).unwrap();
    let [ours, storage, video] = file.entries.as_slice() else { panic!("{file:?}") };
    assert_eq!(ours.line, 2);
    assert_eq!(ours.rule.name, "data center");
    assert_eq!(
        ours.rule.to.iter().map(Prefix::to_string).collect::<Vec<_>>(),
        ["10.0.0.0/8", "fd00::/8"]
    );
    assert_eq!(ours.rule.algorithm.as_deref(), Some("knee_dctcp"));
    assert_eq!((ours.rule.ecn, ours.rule.base_rtt_us), (Ecn::PeersRunKnee, 50));
    assert_eq!(storage.rule.ports, [3260..=3260, 4420..=4429]);
    assert_eq!((video.rule.listen.as_slice(), video.rule.to.len()), ([8080..=8080].as_slice(), 0));
    assert_eq!(video.cgroup.as_deref(), Some(Path::new("system.slice/video.service")));
}

#[test]
fn whatever_is_changed_in_a_file_it_is_read_or_refused_with_its_line() {
    let text = example();
    let bytes = text.as_bytes();
    let mut refused = 0;
    for at in 0..bytes.len() {
        for new in [&b""[..], b"\"", b"0", b"[", b"\n", b"=", b"\xc3\xa9", b"/", b"-"] {
            let changed = [&bytes[..at], new, &bytes[at + 1..]].concat();
            let Ok(changed) = String::from_utf8(changed) else { continue };
            if let Err(message) = parse(&changed) {
                refused += 1;
                let line = message.strip_prefix("p.toml:").and_then(|rest| rest.split_once(": "));
                let line: usize = line.unwrap_or_else(|| panic!("{message}")).0.parse().unwrap();
                assert!((1..=changed.lines().count() + 1).contains(&line), "{message}");
                assert_eq!(message.lines().count(), 1, "{message}");
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn prefixes_are_read_with_their_first_address_only() {
    for (text, expected) in [
        ("10.0.0.0/8", Ok("10.0.0.0/8")),
        ("10.1.2.3", Ok("10.1.2.3/32")),
        ("0.0.0.0/0", Ok("0.0.0.0/0")),
        ("fd00::", Ok("fd00::/128")),
        ("::/0", Ok("::/0")),
        ("2001:DB8::/32", Ok("2001:db8::/32")),
        ("10.0.0.1/31", Err("has bits set beyond its length; the prefix is 10.0.0.0/31")),
        ("fd00::1/64", Err("has bits set beyond its length; the prefix is fd00::/64")),
        ("::/129", Err("must have a length from /0 to /128")),
        ("10.0.0.0/-1", Err("must have a length from /0 to /32")),
        ("10.0.0.0/", Err("must have a length from /0 to /32")),
        ("10/8", Err("must be a prefix, as \"10.0.0.0/8\" or \"fd00::/8\"")),
        ("", Err("must be a prefix, as \"10.0.0.0/8\" or \"fd00::/8\"")),
    ] {
        let read = text.parse::<Prefix>().map(|prefix| prefix.to_string());
        assert_eq!(read.as_deref().map_err(String::as_str), expected, "{text}");
    }
    let reaches = |text: &str| text.parse::<Prefix>().unwrap().must_reach_the_internet();
    assert!(!reaches("10.0.0.0/8") && reaches("8.0.0.0/7"));
    assert!(!reaches("fc00::/7") && reaches("fc00::/6"));
    let prefix = |text: &str| text.parse::<Prefix>().unwrap();
    for own in
        ["10.0.0.0/8", "10.1.2.3", "172.16.0.0/12", "192.168.7.0/24", "127.0.0.1", "169.254.0.0/16"]
    {
        assert!(prefix(own).is_own(&[]), "{own}");
    }
    for own in ["fd00::/8", "fc00::/7", "::1", "fe80::/64"] {
        assert!(prefix(own).is_own(&[]), "{own}");
    }
    for others in
        ["8.8.8.0/24", "172.0.0.0/8", "172.32.0.0/12", "192.0.2.0/24", "2001:db8::/32", "::"]
    {
        assert!(!prefix(others).is_own(&[]), "{others}");
        assert!(prefix(others).is_own(&[prefix("2001::/16"), prefix(others)]), "{others}");
    }
}

#[test]
fn what_is_ours_is_told_at_the_top_of_the_file() {
    let rule = "[[rule]]\nto = \"10.0.0.0/8\"\nalgorithm = \"cubic\"\n";
    let ours = |value: &str| {
        let read = File::parse(Path::new("p.toml"), &format!("ours = {value}\n{rule}"));
        read.map(|file| file.ours.len()).map_err(|error| error.to_string())
    };
    assert_eq!(ours("[\"192.0.2.0/24\", \"2001:db8::/32\"]"), Ok(2));
    assert_eq!(ours("\"192.0.2.0/24\""), Ok(1));
    for (wrong, why) in [
        ("[]", "must have at least one value"),
        ("\"::/0\"", "is more than anybody has: name prefixes of at least /8 (IPv6: /16)"),
        ("\"2000::/7\"", "is more than anybody has: name prefixes of at least /8 (IPv6: /16)"),
        ("\"everything\"", "must be a prefix, as \"10.0.0.0/8\" or \"fd00::/8\""),
        ("8", "must be text in quotes"),
    ] {
        let refused = ours(wrong).unwrap_err();
        assert_eq!(refused, format!("p.toml:1: ours = {wrong}: {why}"));
    }
    // Together, too, they are what one owner can have.
    let several = |count: u8| {
        let all: Vec<String> =
            (11..11 + count).map(|first| format!("\"{first}.0.0.0/8\"")).collect();
        ours(&format!("[\"10.0.0.0/8\", \"fc00::/7\", {}]", all.join(", ")))
    };
    assert_eq!(several(4), Ok(6));
    let refused = several(5).unwrap_err();
    assert!(refused.contains("are more public addresses than anybody has"), "{refused}");
}
