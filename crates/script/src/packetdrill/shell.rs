//! Commands in backticks: sysctls and the device's queue are understood; what only looks is passed over.

use super::Reader;
use super::scan::{JOINT, Trouble, joined};
use crate::expression::Tokens;
use crate::settings::SYSCTLS;

/// What `defaults.sh` sets, of the sysctls that a script has.
const DEFAULTS: &[(&str, &str)] = &[
    ("tcp_rmem", "4096 540000 15728640"),
    ("tcp_wmem", "4096 262144 4194304"),
    ("tcp_timestamps", "1"),
    ("tcp_frto", "2"),
    ("tcp_sack", "1"),
    ("tcp_dsack", "1"),
    ("tcp_reordering", "3"),
    ("tcp_slow_start_after_idle", "0"),
    ("tcp_early_retrans", "4"),
    ("tcp_recovery", "1"),
    ("tcp_ecn", "0"),
    ("tcp_pacing_ss_ratio", "200"),
    ("tcp_pacing_ca_ratio", "120"),
    ("tcp_notsent_lowat", "4294967295"),
];

/// Sysctls that change nothing that a script shows.
const WITHOUT_EFFECT: [&str; 6] = [
    "tcp_fack",
    "tcp_no_metrics_save",
    "tcp_syn_retries",
    "tcp_synack_retries",
    "tcp_fin_timeout",
    "tcp_tw_reuse",
];

/// What a script has not, by the start of a sysctl's name.
const LACKING: [(&str, &str); 5] = [
    ("tcp_fastopen", "Fast Open"),
    ("tcp_ecn_option", "the option of Accurate ECN"),
    ("tcp_syncookies", "SYN cookies"),
    ("tcp_mtu_probing", "MTU probing"),
    ("tcp_shrink_window", "a window that shrinks (tcp_shrink_window)"),
];

impl Reader<'_> {
    /// The commands up to the closing backtick.
    pub(super) fn commands(&mut self) -> Result<(), Trouble> {
        let first = self.scan.line_within();
        let text = joined(self.scan.until("`", "a command")?);
        let mut line = first;
        for command in text.split('\n') {
            self.command(line, &command.replace(JOINT, " "))?;
            line += 1 + command.matches(JOINT).count() as u32;
        }
        Ok(())
    }

    fn command(&mut self, line: u32, text: &str) -> Result<(), Trouble> {
        let text = text.trim();
        let text = if text.starts_with('#') { "" } else { text };
        let text = text.split(" #").next().unwrap_or_default().trim();
        let words = words(line, text)?;
        let Some((program, arguments)) = words.split_first() else { return Ok(()) };
        let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        arguments.retain(|word| {
            !word.starts_with("2>") && !word.starts_with('>') && *word != "/dev/null"
        });
        let program = program.rsplit('/').next().unwrap_or_default();
        match program {
            "defaults.sh" => {
                let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
                if !std::mem::replace(&mut self.has_defaults, true) {
                    self.script.settings.sysctls.splice(0..0, DEFAULTS.iter().map(own));
                }
                Ok(())
            }
            "sysctl" => {
                for argument in arguments.iter().filter(|argument| !argument.starts_with('-')) {
                    self.sysctl(line, argument)?;
                }
                Ok(())
            }
            "set_sysctls.py" => {
                for argument in &arguments {
                    self.sysctl(line, argument.trim_start_matches("/proc/sys/"))?;
                }
                Ok(())
            }
            "tc" => self.queue(line, text, &arguments),
            // A socket of TCP sends bursts to any device, and a script sees their segments in any case.
            "ethtool" => Ok(()),
            // Counters are not looked at, and nothing has to be put back.
            "nstat" => Ok(()),
            _ if program.starts_with("sysctl_restore_") => Ok(()),
            _ => Err(Trouble::lacks(line, format!("the command `{text}`"))),
        }
    }

    fn sysctl(&mut self, line: u32, setting: &str) -> Result<(), Trouble> {
        let Some((name, value)) = setting.split_once('=') else {
            return Err(Trouble::mistake(
                line,
                format!("`{setting}`: a sysctl is written NAME=VALUE"),
            ));
        };
        let name = name.trim().replace('/', ".");
        let name = name.strip_prefix("net.ipv4.").unwrap_or(&name).to_owned();
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.is_begun() {
            return Err(Trouble::lacks(line, format!("a change of {name} during the connection")));
        }
        if name == "tcp_congestion_control" {
            self.script.settings.algorithm = super::algorithm(line, &value)?;
            return Ok(());
        }
        let is_off = name == "tcp_syncookies" && value == "1";
        if is_off || WITHOUT_EFFECT.contains(&name.as_str()) {
            return Ok(());
        }
        if let Some((_, what)) = LACKING.iter().find(|(start, _)| name.starts_with(start)) {
            return Err(Trouble::lacks(line, *what));
        }
        if !SYSCTLS.contains(&name.as_str()) {
            return Err(Trouble::lacks(line, format!("the sysctl {name}")));
        }
        if value.is_empty() || !value.split(' ').all(|part| part.parse::<i64>().is_ok()) {
            return Err(Trouble::mistake(
                line,
                format!("{name}={value}: the value is a number, or several"),
            ));
        }
        // With 3 to 5 Accurate ECN is asked for or granted. If a packet shows it, the file is not applicable there. If none does,
        // what is left is the ECN of RFC 3168.
        let value = match (name.as_str(), value.as_str()) {
            ("tcp_ecn", "3" | "5") => "2".to_owned(),
            ("tcp_ecn", "4") => "1".to_owned(),
            _ => value,
        };
        self.script.settings.sysctls.push((name, value));
        Ok(())
    }

    fn queue(&mut self, line: u32, text: &str, arguments: &[&str]) -> Result<(), Trouble> {
        let lacks = || Trouble::lacks(line, format!("the command `{text}`"));
        if self.is_begun() || arguments.first() != Some(&"qdisc") {
            return Err(lacks());
        }
        let after_root = arguments.iter().skip_while(|word| **word != "root").skip(1);
        match after_root.copied().collect::<Vec<_>>()[..] {
            ["fq"] => self.script.settings.fq = true,
            ["pfifo"] => self.script.settings.fq = false,
            _ => return Err(lacks()),
        }
        Ok(())
    }
}

/// The words of a command: quotes hold spaces, and `$((6*1024))` is worked out.
fn words(line: u32, text: &str) -> Result<Vec<String>, Trouble> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(sum) = rest.strip_prefix("$((") {
            let (sum, after) = sum
                .split_once("))")
                .ok_or_else(|| Trouble::mistake(line, "`$((` has no end: close it with `))`"))?;
            word.push_str(&arithmetic(sum).map_err(|why| Trouble::mistake(line, why))?);
            rest = after;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '"' | '\'' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    Ok(words)
}

fn arithmetic(text: &str) -> Result<String, String> {
    let mut tokens = Tokens::of(text)?;
    let expr = tokens.expr()?;
    tokens.end()?;
    let value = expr.value(&mut |name| Err(format!("`{name}` is unknown in $(( ))")))?;
    Ok(value.to_string())
}
