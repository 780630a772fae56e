//! Options of ssh that a file of machines may give.
//!
//! Who writes the file need not be who runs it. So the options are those that say how a machine is reached, none that runs a
//! program or has ssh write a file, and each value has a form of its own. ssh hands some values to a shell (`ProxyJump`) and
//! replaces `%h` or `${HOME}` in others: no form has a character that means something to either.

use std::ops::RangeInclusive;

const MOST_BYTES: usize = 500;

/// Form of a value.
#[derive(Clone, Copy)]
enum Form {
    /// One of these words.
    Word(&'static [&'static str]),
    /// A number.
    Number(RangeBounds),
    /// Letters, digits and these characters.
    Text(&'static str),
    /// A path; `~` stands for the home directory only at its beginning.
    Path,
    /// A machine, or a user and a machine, and a port: the rule of the key `ssh`.
    Machine,
}

/// Least and greatest number.
type RangeBounds = (u32, u32);

/// The options with the forms of their values.
const OPTIONS: [(&str, Form); 13] = [
    ("AddressFamily", Form::Word(&["any", "inet", "inet6"])),
    ("BindAddress", Form::Text(".:")),
    ("BindInterface", Form::Text("._-")),
    ("Ciphers", Form::Text("@.,+^-")),
    ("ConnectTimeout", Form::Number((1, 3600))),
    ("HostName", Form::Text("._:-")),
    ("IdentitiesOnly", Form::Word(&["no", "yes"])),
    ("IdentityFile", Form::Path),
    ("Port", Form::Number((1, 65535))),
    ("ProxyJump", Form::Machine),
    // Another value would have ssh write a machine's key under the name that `HostName` says, whatever machine `ProxyJump` leads to.
    ("StrictHostKeyChecking", Form::Word(&["yes"])),
    ("User", Form::Text("._-")),
    ("GlobalKnownHostsFile", Form::Path),
];

/// Names of the options, in the order of messages.
pub(super) fn names() -> Vec<&'static str> {
    OPTIONS.map(|(name, _)| name).to_vec()
}

/// Checks an option `Name=value`.
///
/// # Errors
/// What it must be, in words that follow "must be".
pub(super) fn check(option: &str) -> Result<(), String> {
    let known = option.split_once('=').and_then(|(name, value)| {
        OPTIONS.iter().find(|(known, _)| *known == name).map(|(_, form)| (name, value, form))
    });
    let Some((name, value, form)) = known else {
        return Err(format!(
            "options of ssh, as in [\"Port=2222\", \"IdentityFile=~/.ssh/lab\"]; allowed: {}; put others into your own ssh \
             configuration",
            names().join(", ")
        ));
    };
    match value.len() <= MOST_BYTES && form.fits(value) {
        true => Ok(()),
        false => Err(format!("{name}= with {}", form.words())),
    }
}

impl Form {
    fn fits(self, value: &str) -> bool {
        let is_of = |text: &str, more: &str| {
            text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        // ssh takes what begins with a dash for an option of its own.
        let is_name = |text: &str, more: &str| {
            !text.is_empty() && !text.starts_with('-') && is_of(text, more)
        };
        match self {
            Form::Word(words) => words.contains(&value),
            Form::Number((least, most)) => {
                let range: RangeInclusive<u32> = least..=most;
                is_of(value, "") && value.parse().is_ok_and(|number| range.contains(&number))
            }
            Form::Text(more) => is_name(value, more),
            Form::Path => is_name(value.strip_prefix('~').unwrap_or(value), "/._+@-"),
            // Where a jump leads, ssh takes `%` for a token.
            Form::Machine => is_machine(value) && !value.contains('%'),
        }
    }

    fn words(self) -> String {
        match self {
            Form::Word(words) => words.join(" or "),
            Form::Number((least, most)) => format!("a number from {least} to {most}"),
            Form::Text(more) => format!("letters, digits and {more}, no \"-\" in front"),
            Form::Path => "a path of letters, digits and /._+@-, \"~\" only in front".to_owned(),
            Form::Machine => {
                "one machine, as in root@192.0.2.1:22: letters, digits and -_.:@".to_owned()
            }
        }
    }
}

/// Whether text is a destination of ssh, and neither an option nor several words nor anything else to a shell.
pub(super) fn is_machine(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.:%@".contains(c);
    let (user, host) =
        text.rsplit_once('@').map_or((None, text), |(user, host)| (Some(user), host));
    // `%` begins the device of an IPv6 address; anywhere else ssh may take it for a token.
    let is_host = match host.split_once('%') {
        None => true,
        Some((address, device)) => {
            address.parse::<std::net::Ipv6Addr>().is_ok()
                && !device.is_empty()
                && !device.contains(['%', ':'])
        }
    };
    let is_user = user.is_none_or(|user| !user.is_empty() && !user.contains('%'));
    let is_option = text.starts_with('-') || host.starts_with('-') || text.contains("@-");
    !host.is_empty() && is_host && is_user && !is_option && text.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_say_how_a_machine_is_reached_are_taken() {
        for option in [
            "AddressFamily=inet6",
            "BindAddress=2001:db8::1",
            "BindInterface=enp3s0f1.20",
            "Ciphers=aes128-gcm@openssh.com,aes256-gcm@openssh.com",
            "Ciphers=^chacha20-poly1305@openssh.com",
            "ConnectTimeout=30",
            "HostName=rack-1.example.net",
            "IdentitiesOnly=yes",
            "IdentityFile=~/.ssh/lab",
            "IdentityFile=/tmp/.tmpA1_b/user",
            "Port=2222",
            "ProxyJump=root@gate.example.net:22",
            "ProxyJump=none",
            "StrictHostKeyChecking=yes",
            "User=root",
            "GlobalKnownHostsFile=/etc/ssh/lab_hosts",
        ] {
            assert_eq!(check(option), Ok(()), "{option}");
        }
    }

    /// ssh and the shells that it starts give these a meaning.
    #[test]
    fn no_value_is_more_than_text_to_ssh_or_a_shell() {
        let values = [
            "$(id>&2)@127.0.0.1",
            "`id`",
            "a,b",
            "a;id",
            "a|id",
            "a&id",
            "a>b",
            "a b",
            "a\tb",
            "a\nProxyCommand=id",
            "a\0b",
            "'a'",
            "\"a\"",
            "a\\b",
            "-oProxyCommand=id",
            "a@-oProxyCommand=id",
            "%h",
            "a%%b",
            "a%d",
            "${HOME}",
            "$HOME",
            "a=b",
            "a*",
            "a?",
            "[a]",
            "{a}",
            "!a",
            "#a",
            "",
            "\u{e4}",
        ];
        for name in names() {
            for value in values {
                let is_list = name == "Ciphers" && value == "a,b";
                let option = format!("{name}={value}");
                assert_eq!(check(&option).is_ok(), is_list, "{option}");
            }
            assert!(check(&format!("{name}={}", "a".repeat(MOST_BYTES + 1))).is_err(), "{name}");
            for other in [
                name.to_owned(),
                format!("{name} a"),
                format!(" {name}=1"),
                name.to_lowercase() + "=1",
            ] {
                assert!(check(&other).is_err(), "{other}");
            }
        }
        for option in [
            "Port=0",
            "Port=65536",
            "Port=+22",
            "ConnectTimeout=0",
            "IdentityFile=a~b",
            "IdentityFile=~",
        ] {
            assert!(check(option).is_err(), "{option}");
        }
    }

    #[test]
    fn options_that_run_or_write_something_are_refused() {
        for name in [
            "ProxyCommand",
            "LocalCommand",
            "PermitLocalCommand",
            "RemoteCommand",
            "KnownHostsCommand",
            "Match",
            "Include",
            "PKCS11Provider",
            "SecurityKeyProvider",
            "XAuthLocation",
            "UserKnownHostsFile",
            "HostKeyAlias",
            "ControlPath",
            "ControlMaster",
            "SendEnv",
            "SetEnv",
            "IdentityAgent",
            "ForwardAgent",
            "LocalForward",
            "DynamicForward",
            "Tunnel",
        ] {
            let why = check(&format!("{name}=yes")).unwrap_err();
            assert!(why.starts_with("options of ssh, as in"), "{why}");
        }
    }

    #[test]
    fn a_machine_is_one_word_and_no_option() {
        for machine in ["lab-right", "root@192.0.2.11", "root@fe80::1%eth0", "a.b@c.d_e", "[::1]"] {
            assert_eq!(is_machine(machine), !machine.contains('['), "{machine}");
        }
        for machine in [
            "",
            "-x",
            "root@",
            "@a",
            "root@-x",
            "a@-b@c",
            "%h",
            "a%eth0",
            "%r@a",
            "fe80::1%",
            "fe80::1%a%b",
            "a,b",
        ] {
            assert!(!is_machine(machine), "{machine}");
        }
    }
}
