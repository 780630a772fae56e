//! The file of `--on hosts=FILE`. Each error names file, line, key, value and what was allowed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use knee_file::keys::{Below, Key, List, Special, Text};
use knee_file::{Node, Reader, Value, keys, schema};
use serde_json::{Value as Json, json};

use super::{Binary, Machine, Machines, options};
use crate::Error;

type Read<T> = Result<T, knee_file::Error>;

/// A longer file is none of this kind.
const MOST_BYTES: u64 = 1 << 20;
/// Hosts of an experiment that a file may name, in all.
const MOST_ROLES: usize = 10_000;
/// Machines that a file may name.
const MOST_MACHINES: usize = 1000;
/// Hosts that a range may name.
const MOST_IN_RANGE: u32 = 1000;
/// `IFNAMSIZ`, without the 0 at the end.
const MOST_DEVICE_BYTES: usize = 15;
const MOST_OPTIONS: usize = 100;
keys! {
    /// Machines of an experiment: docs/hosts.md.
    static TOP: TopKeys = "hosts-file" {
        /// The machines.
        host: Below = list(&MachineKeys::TABLE).needed(),
    }
}

keys! {
    /// One machine: how to reach it, and its hosts of the experiment.
    static MACHINE: MachineKeys = "machine" {
        /// Unique name: letters, digits, `-` and `_`.
        name: Key<Text> = needed("left"),
        /// `user@address`, or a name of your ssh configuration. It must need no password.
        ssh: Key<Text> = needed("root@192.0.2.1"),
        /// IP address in the measured network; one family for all.
        address: Key<Text> = needed("198.51.100.1"),
        /// Network device of the address.
        device: Key<Text> = needed("eth1"),
        /// Hosts of the experiment on this machine: names, or ranges as `s1..s8`.
        roles: Key<List<Text>> = needed("[\"s1\"]"),
        /// Absolute path of knee there.
        knee: Key<Text> = usually("the program that measures is copied"),
        /// Program to copy there, relative to this file.
        copy: Key<Text> = usually("the program that measures"),
        /// Options of ssh, as `Name=value`.
        options: Special = takes(options_taken).usually("none"),
    }
}

fn options_taken() -> (String, Json) {
    let pattern = format!("^({})=.+$", options::names().join("|"));
    let option = json!({ "type": "string", "pattern": pattern });
    ("list of options".to_owned(), json!({ "type": "array", "items": option }))
}

/// The file as schema and page show it.
pub const FILE: schema::File = schema::File {
    name: "hosts",
    root: &TopKeys::TABLE,
    filled_in: &[],
    only_on: |_, _| String::new(),
};

impl Machines {
    /// Reads the file.
    ///
    /// # Errors
    /// If it cannot be read, or says what is not allowed.
    pub fn read(path: &Path) -> Result<Machines, Error> {
        let failed = |why: String| Error::Refused(format!("{}: {why}", path.display()));
        let text = knee_files::read_text(path, MOST_BYTES, "file of machines");
        Machines::parse(path, &text.map_err(|why| failed(why.to_string()))?)
    }

    /// Reads the text of a file; `path` is for messages.
    ///
    /// # Errors
    /// If it says what is not allowed.
    pub fn parse(path: &Path, text: &str) -> Result<Machines, Error> {
        read(path, text).map_err(|why| Error::Refused(why.to_string()))
    }
}

fn read(path: &Path, text: &str) -> Read<Machines> {
    let root = knee_file::parse(path, text)?;
    let notes = RefCell::default();
    let top = Reader::root(path, &root, &notes).only(&[&TOP])?;
    let hosts = top.children(&TOP.host)?;
    if hosts.is_empty() {
        return Err(top.about("names no machine: it needs a table [[host]] for each"));
    }
    if hosts.len() > MOST_MACHINES {
        let message = format!("are {} machines: {MOST_MACHINES} are the most", hosts.len());
        return Err(knee_file::Error::new(path, hosts[0].origin(), "host", message));
    }
    let mut machines: Vec<Machine> = Vec::with_capacity(hosts.len());
    for host in &hosts {
        let roles: usize = machines.iter().map(|machine| machine.roles.len()).sum();
        machines.push(read_machine(host, MOST_ROLES - roles)?);
    }
    check(&machines, &hosts)?;
    Ok(Machines { file: path.to_owned(), machines })
}

/// Checks that names, addresses and roles are unique, and that addresses have one family.
fn check(machines: &[Machine], hosts: &[Reader<'_>]) -> Read<()> {
    let mut names = HashMap::new();
    let mut addresses = HashMap::new();
    let mut roles = HashMap::new();
    for (machine, host) in machines.iter().zip(hosts) {
        let refuse = |key: &str, what: String| {
            Err(knee_file::Error::new(host.file(), host.origin(), host.key(key), what))
        };
        if names.insert(&machine.name, ()).is_some() {
            return refuse("name", "another machine has this name".to_owned());
        }
        if let Some(other) = addresses.insert(machine.address, &machine.name) {
            let what = format!("{} is also the address of {other}", machine.address);
            return refuse("address", what);
        }
        let first = machines[0].address;
        if machine.address.is_ipv6() != first.is_ipv6() {
            let what = format!("{} and {first} are of two families", machine.address);
            return refuse("address", what);
        }
        for role in &machine.roles {
            if let Some(other) = roles.insert(role, &machine.name) {
                let what = match *other == machine.name {
                    true => format!("{role} is named twice"),
                    false => format!("{role} is also {other}"),
                };
                return refuse("roles", what);
            }
        }
    }
    Ok(())
}

/// Reads a table `[[host]]` with at most `most` roles.
fn read_machine(host: &Reader<'_>, most_roles: usize) -> Read<Machine> {
    host.check(&[&MACHINE])?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name = fitting(host, &MACHINE.name, 40, is_word, "letters, digits, \"-\" and \"_\"")?;
    Ok(Machine {
        name: name.to_owned(),
        ssh: ssh(host)?,
        address: address(host)?,
        device: device(host)?,
        roles: roles(host, most_roles)?,
        knee: binary(host)?,
        options: options(host)?,
    })
}

/// Reads a destination of ssh; refuses text that ssh takes for an option, or a shell for several words.
fn ssh(host: &Reader<'_>) -> Read<String> {
    let what = "user@address, or a name of your ssh configuration";
    let ssh = fitting(host, &MACHINE.ssh, 255, |_| true, what)?;
    if !options::is_machine(ssh) {
        return Err(host.error(&MACHINE.ssh, format!("must be {what}")));
    }
    Ok(ssh.to_owned())
}

fn address(host: &Reader<'_>) -> Read<IpAddr> {
    let address: IpAddr = host.need_text(&MACHINE.address)?.parse().map_err(|_| {
        let what = "must be an IP address without a prefix length, as in \"198.51.100.1\"";
        host.error(&MACHINE.address, what)
    })?;
    if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
        let what = "must be the machine's address in the measured network";
        return Err(host.error(&MACHINE.address, what));
    }
    Ok(address)
}

fn device(host: &Reader<'_>) -> Read<String> {
    // As the kernel has them; a slash or a space is never in one.
    let fits =
        |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ':' | '"' | '\'' | '\\' | '`' | '$');
    let what = "a network device, as ip link shows it";
    let device = fitting(host, &MACHINE.device, MOST_DEVICE_BYTES, fits, what)?;
    if device.starts_with(['-', '.']) {
        return Err(host.error(&MACHINE.device, format!("must be {what}")));
    }
    Ok(device.to_owned())
}

fn roles(host: &Reader<'_>, most: usize) -> Read<Vec<String>> {
    let wrong = || {
        let what =
            "must be hosts of the experiment's network, as in [\"s1\"] or [\"s1..s8\", \"r\"]";
        host.error(&MACHINE.roles, what)
    };
    let items = host.items(&MACHINE.roles).map_err(|_| wrong())?;
    let mut roles = Vec::new();
    for item in items.ok_or_else(|| host.missing(&MACHINE.roles, "[\"s1\"]"))? {
        let range = item.text().and_then(range).ok_or_else(wrong)?;
        if range.len() > most - roles.len() {
            let message = format!("must leave at most {MOST_ROLES} hosts in all machines' roles");
            return Err(host.error(&MACHINE.roles, message));
        }
        roles.extend(range.names());
    }
    Ok(roles)
}

fn binary(host: &Reader<'_>) -> Read<Binary> {
    match (host.text(&MACHINE.knee)?, host.text(&MACHINE.copy)?) {
        (None, None) => Ok(Binary::Same),
        (Some(there), None) => {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "/-_.+".contains(c);
            if !there.starts_with('/') || !there.chars().all(is_part) {
                let what = "must be an absolute path on that machine, of letters, digits and /-_.+";
                return Err(host.error(&MACHINE.knee, what));
            }
            // The author of the file shall not have another program run there.
            let (_, name) = there.rsplit_once('/').unwrap_or_default();
            if !name.starts_with("knee") || there.contains("/../") {
                let what = "must lead to a program whose name begins with knee, without ..";
                return Err(host.error(&MACHINE.knee, what));
            }
            Ok(Binary::There(there.to_owned()))
        }
        (None, Some("")) => Err(host.error(&MACHINE.copy, "must be a file of this machine")),
        (None, Some(here)) => {
            let folder = host.file().parent().unwrap_or(Path::new(""));
            Ok(Binary::Copied(folder.join(PathBuf::from(here))))
        }
        (Some(_), Some(_)) => {
            let what = "set either knee (installed there) or copy (copied there), not both";
            Err(host.error(&MACHINE.copy, what))
        }
    }
}

fn options(host: &Reader<'_>) -> Read<Vec<String>> {
    let items = match host.node(&MACHINE.options).map(|node| &node.value) {
        None => return Ok(Vec::new()),
        Some(Value::List(items)) => items,
        Some(_) => {
            let what = "must be options of ssh in a list, as in [\"Port=2222\"]";
            return Err(host.error(&MACHINE.options, what));
        }
    };
    if items.len() > MOST_OPTIONS {
        let what = format!("are {}: {MOST_OPTIONS} are the most", items.len());
        return Err(host.error(&MACHINE.options, what));
    }
    let option = |item: &Node| {
        let text = item.text().unwrap_or_default();
        let checked = options::check(text).map(|()| text.to_owned());
        let what = |what| host.error_in(&MACHINE.options, item, format!("must be {what}"));
        checked.map_err(what)
    };
    items.iter().map(option).collect()
}

fn fitting<'a>(
    host: &Reader<'a>,
    key: &Key<Text>,
    most_bytes: usize,
    fits: impl Fn(char) -> bool,
    what: &str,
) -> Read<&'a str> {
    let text = host.need_text(key)?;
    if text.is_empty() || text.len() > most_bytes || !text.chars().all(fits) {
        return Err(host.error(key, format!("must be {what}, of at most {most_bytes} bytes")));
    }
    Ok(text)
}

/// Names that differ in their number, or one.
struct Range<'a> {
    prefix: &'a str,
    numbers: Option<(u32, u32)>,
}

impl Range<'_> {
    fn len(&self) -> usize {
        self.numbers.map_or(1, |(from, to)| (to - from) as usize + 1)
    }

    fn names(&self) -> Vec<String> {
        match self.numbers {
            None => vec![self.prefix.to_owned()],
            Some((from, to)) => {
                (from..=to).map(|number| format!("{}{number}", self.prefix)).collect()
            }
        }
    }
}

/// `s1..s3` is three names, any other word is itself.
fn range(text: &str) -> Option<Range<'_>> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.len() <= 40
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    let Some((first, last)) = text.split_once("..") else {
        return is_name(text).then_some(Range { prefix: text, numbers: None });
    };
    let split = |name: &'_ str| -> Option<(usize, u32)> {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name[prefix.len()..].parse::<u32>().ok()?;
        is_name(name).then_some((prefix.len(), number))
    };
    let ((len, from), (last_len, to)) = (split(first)?, split(last)?);
    let prefix = &first[..len];
    if prefix != &last[..last_len] || from > to || to - from >= MOST_IN_RANGE {
        return None;
    }
    Some(Range { prefix, numbers: Some((from, to)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"# Two machines and a receiver.
[[host]]
name = "left"
ssh = "root@192.0.2.11"
address = "198.51.100.1"
device = "eth1"
roles = ["s1..s3", "x"]

[[host]]
name = "right"
ssh = "lab-right"
address = "198.51.100.2"
device = "enp3s0f1.20"
roles = "r"
knee = "/usr/local/bin/knee"
"#;

    fn parse(text: &str) -> Result<Machines, Error> {
        Machines::parse(Path::new("lab/hosts.toml"), text)
    }

    fn refused(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "{from}");
        parse(&GOOD.replacen(from, to, 1)).unwrap_err().to_string()
    }

    #[test]
    fn a_file_names_machines_and_their_roles() {
        let machines = parse(GOOD).unwrap();
        let [left, right] = &machines.machines[..] else { panic!("two") };
        assert_eq!(left.roles, ["s1", "s2", "s3", "x"]);
        assert_eq!((left.name.as_str(), &left.knee), ("left", &Binary::Same));
        assert_eq!(left.address, IpAddr::from([198, 51, 100, 1]));
        assert_eq!((right.ssh.as_str(), right.device.as_str()), ("lab-right", "enp3s0f1.20"));
        assert_eq!(right.knee, Binary::There("/usr/local/bin/knee".to_owned()));
        let by_role = machines.by_role();
        assert_eq!((by_role["s2"], by_role["r"], by_role.get("left")), (0, 1, None));
        let options = "options = [\"Port=2222\"]\nknee = ";
        let with_options = parse(&GOOD.replace("knee = ", options)).unwrap();
        assert_eq!(with_options.machines[1].options, ["Port=2222"]);
        let copied = parse(&GOOD.replace("knee = \"/usr/local/bin/knee\"", "copy = \"arm/knee\""));
        let expected = Binary::Copied(PathBuf::from("lab/arm/knee"));
        assert_eq!(copied.unwrap().machines[1].knee, expected);
    }

    #[test]
    fn the_hosts_of_an_experiment_are_all_there() {
        let machines = parse(GOOD).unwrap();
        machines.check(&["s1", "s2", "s3", "x", "r"]).unwrap();
        let why = machines.check(&["s1", "s2", "s3", "s4", "x", "r"]).unwrap_err().to_string();
        assert_eq!(
            why,
            "lab/hosts.toml: no machine has the role s4 of the experiment's network: set roles = [\"s4\"] for one"
        );
        let why = machines.check(&["s1", "s2", "s3", "r"]).unwrap_err().to_string();
        assert_eq!(
            why,
            "lab/hosts.toml: the experiment's network has no host x: it has s1, s2, s3, r"
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_key() {
        for (from, to, expected) in [
            (
                "ssh = \"root@192.0.2.11\"\n",
                "",
                "2: host.left.ssh: missing, as in ssh = \"root@192.0.2.1\"",
            ),
            (
                "root@192.0.2.11",
                "-oProxyCommand=x",
                "4: host.left.ssh = \"-oProxyCommand=x\": must be user@address",
            ),
            ("root@192.0.2.11", "root@-x", "4: host.left.ssh = \"root@-x\": must be user@"),
            ("root@192.0.2.11", "a;b", "4: host.left.ssh = \"a;b\": must be user@"),
            (
                "\"198.51.100.1\"",
                "\"198.51.100.1/24\"",
                "5: host.left.address = \"198.51.100.1/24\": must be an IP",
            ),
            (
                "\"198.51.100.1\"",
                "\"127.0.0.1\"",
                "5: host.left.address = \"127.0.0.1\": must be the machine's",
            ),
            (
                "\"198.51.100.2\"",
                "\"2001:db8::2\"",
                "9: host.right.address: 2001:db8::2 and 198.51.100.1 are",
            ),
            (
                "\"198.51.100.2\"",
                "\"198.51.100.1\"",
                "9: host.right.address: 198.51.100.1 is also the address of left",
            ),
            ("\"right\"", "\"left\"", "9: host.left.name: another machine"),
            ("\"right\"", "\"a b\"", "10: host.a b.name = \"a b\": must be letters"),
            ("\"eth1\"", "\"eth/1\"", "6: host.left.device = \"eth/1\": must be a network device"),
            ("\"eth1\"", "7", "6: host.left.device = 7: must be text in quotes"),
            ("\"s1..s3\"", "\"s3..s1\"", "7: host.left.roles = [\"s3..s1\", \"x\"]: must be hosts"),
            ("[\"s1..s3\", \"x\"]", "[]", "7: host.left.roles = []: must be hosts"),
            ("\"x\"]", "\"s2\"]", "2: host.left.roles: s2 is named twice"),
            ("roles = \"r\"", "roles = \"s2\"", "9: host.right.roles: s2 is also left"),
            (
                "\"/usr/local/bin/knee\"",
                "\"bin/knee\"",
                "15: host.right.knee = \"bin/knee\": must be an absolute",
            ),
            (
                "\"/usr/local/bin/knee\"",
                "\"/k;x\"",
                "15: host.right.knee = \"/k;x\": must be an absolute",
            ),
            ("knee = ", "copy = \"x\"\nknee = ", "15: host.right.copy = \"x\": set either knee"),
            (
                "knee = ",
                "options = [\"ProxyCommand=x\"]\nknee = ",
                "15: host.right.options = \"ProxyCommand=x\": must be options of ssh",
            ),
            (
                "knee = ",
                "options = [\"Port\"]\nknee = ",
                "15: host.right.options = \"Port\": must be",
            ),
            (
                "knee = ",
                "options = 7\nknee = ",
                "15: host.right.options = 7: must be options of ssh",
            ),
            (
                "knee = ",
                "options = [\"UserKnownHostsFile=/etc/x\"]\nknee = ",
                "15: host.right.options = \"UserKnownHostsFile=/etc/x\": must be",
            ),
            (
                "knee = ",
                "options = [\"HostKeyAlias=a b\"]\nknee = ",
                "15: host.right.options = \"HostKeyAlias=a b\": must be",
            ),
            (
                "knee = ",
                "options = [\"StrictHostKeyChecking=no\"]\nknee = ",
                "15: host.right.options = \"StrictHostKeyChecking=no\": must be StrictHostKeyChecking= with yes",
            ),
            (
                "knee = ",
                "options = ['ProxyJump=$(id>&2)@127.0.0.1']\nknee = ",
                "15: host.right.options = \"ProxyJump=$(id>&2)@127.0.0.1\": must be ProxyJump= with one machine",
            ),
            (
                "knee = ",
                "options = ['Port=22', \"User=a\\nProxyCommand=id\"]\nknee = ",
                "15: host.right.options = \"User=a\\nProxyCommand=id\": must be User= with letters",
            ),
            (
                "device = ",
                "devise = ",
                "6: host.left.devise: unknown key; did you mean \"device\"?",
            ),
            ("[[host]]", "[[hosts]]", "2: hosts: unknown key; did you mean \"host\"?"),
            ("\"left\"", "\"left", "3: not TOML: "),
        ] {
            let why = refused(from, to);
            assert!(
                why.starts_with(&format!("lab/hosts.toml:{expected}")),
                "{why}\nnot {expected}"
            );
            assert!(!why.contains('\n'), "{why}");
        }
        assert!(parse("").unwrap_err().to_string().contains("names no machine"));
        assert!(parse("host = 3").unwrap_err().to_string().contains("[[host]]"));
        assert!(parse("host = [3]").unwrap_err().to_string().contains("host = 3: must be a table"));
        let why = Machines::read(Path::new("/nowhere/hosts.toml")).unwrap_err().to_string();
        assert!(why.starts_with("/nowhere/hosts.toml: cannot read: No such file"), "{why}");
    }

    #[test]
    fn lists_are_counted_before_they_are_made() {
        // A thousand times a thousand names in 16 kB, and a range of more.
        let roles = vec!["\"s1..s1000\""; 1000].join(", ");
        let why = refused("[\"s1..s3\", \"x\"]", &format!("[{roles}]"));
        assert!(why.ends_with("must leave at most 10000 hosts in all machines' roles"), "{why}");
        let why = refused("[\"s1..s3\", \"x\"]", "\"s1..s4000000000\"");
        assert!(why.contains("must be hosts"), "{why}");
        let hosts = "[[host]]\n".repeat(100_000);
        let why = parse(&hosts).unwrap_err().to_string();
        assert!(why.contains("are 100000 machines: 1000 are the most"), "{why}");
    }

    /// Measured in the thread's CPU time: other processes use the machine, too.
    #[test]
    fn whatever_a_mebibyte_says_it_is_refused_within_a_second() {
        let long = "x".repeat(MOST_BYTES as usize - 1000);
        let many = |text: &str, bytes: usize| text.repeat(bytes / text.len());
        let roles =
            GOOD.replace("roles = \"r\"", &format!("roles = [{}]", many("\"a\", ", 1_000_000)));
        let machine = |n: usize| {
            format!(
                "[[host]]\nname = \"m{n}\"\nssh = \"m\"\naddress = \"10.0.{}.{}\"\ndevice = \"e\"\nroles = \"{n}-1..{n}-10\"\n\
                 options = [{}]\n",
                n / 250,
                n % 250 + 1,
                many("\"Port=22\", ", 800)
            )
        };
        let twice: String =
            (0..1000).map(machine).collect::<String>().replacen("m1\"", "m999\"", 1);
        for (text, expected) in [
            (GOOD.replacen("left", &long, 1), "host.xxxx"),
            (GOOD.replacen("device", &long, 1), "unknown key"),
            (GOOD.replacen("root@192.0.2.11", &long, 1), "must be user@address"),
            (roles, "must leave at most 10000 hosts"),
            (twice, "another machine has this name"),
            (many("[", 1_000_000), "not TOML"),
            (format!("host = {}", many("[", 1_000_000)), "not TOML"),
            (many("a.", 1_000_000), "not TOML"),
            (many("a={", 1_000_000), "not TOML"),
            ((0..100_000).map(|n| format!("k{n}=1\n")).collect(), "unknown key"),
        ] {
            assert!(text.len() <= MOST_BYTES as usize, "{expected}: {}", text.len());
            let before_ns = crate::traffic::clock::cpu_ns();
            let why = parse(&text).unwrap_err().to_string();
            let took_ns = crate::traffic::clock::cpu_ns() - before_ns;
            assert!(why.contains(expected) && why.len() < 500, "{why:.200}");
            assert!(took_ns < 1_000_000_000, "{expected}: {took_ns} ns");
        }
        // A network of as many hosts, the last of which is in no machine.
        let text: String = (0..1000).map(machine).collect();
        let machines = parse(&text).unwrap();
        let names: Vec<String> =
            machines.machines.iter().flat_map(|one| one.roles.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).chain(["last"]).collect();
        let before_ns = crate::traffic::clock::cpu_ns();
        assert!(
            machines
                .check(&names)
                .unwrap_err()
                .to_string()
                .contains("no machine has the role last")
        );
        assert!(crate::traffic::clock::cpu_ns() - before_ns < 100_000_000);
    }

    #[test]
    fn no_change_of_a_byte_makes_it_panic() {
        for at in 0..GOOD.len() {
            for byte in [b'"', b'\n', b'[', b'=', b'0', b'.'] {
                let mut bytes = GOOD.as_bytes().to_vec();
                bytes[at] = byte;
                let text = String::from_utf8(bytes).unwrap();
                if let Err(why) = parse(&text) {
                    assert!(why.to_string().starts_with("lab/hosts.toml:"), "{why}");
                }
            }
        }
    }
}
