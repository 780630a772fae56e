//! Kernel algorithm for each algorithm name of a script.

use std::fs;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use knee_algo::Algorithm;
use knee_bpf::{Embedded, Inside, Loaded, Watch};
use knee_netns::Id;
use rustix::net::sockopt;

use crate::{Refusal, Script, Settings};

/// Meaning of algorithm names on the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithms {
    /// The files of knee, loaded for the script.
    Ours,
    /// The kernel's own.
    Kernels,
}

/// An algorithm that was loaded for the script.
struct OfFile {
    /// As the script names it, perhaps by a path.
    name: String,
    /// Name of the algorithm.
    shown: String,
    loaded: Loaded,
}

/// The algorithms of one stack.
pub(super) struct Chosen {
    which: Algorithms,
    settings: Settings,
    of_files: Vec<OfFile>,
    /// Access to the state of connections, from the first load on.
    look: Option<(Watch, Inside)>,
    /// The cookie of the socket that is looked into.
    watched: Option<u64>,
}

fn refusal(why: impl ToString) -> Refusal {
    Refusal(why.to_string())
}

impl Chosen {
    /// Checks and loads the one of the settings.
    pub(super) fn new(settings: &Settings, which: Algorithms) -> Result<Chosen, Refusal> {
        let (settings, of_files) = (settings.clone(), Vec::new());
        let mut chosen = Chosen { which, settings, of_files, look: None, watched: None };
        let name = chosen.settings.algorithm.clone();
        if which == Algorithms::Kernels && !chosen.settings.params.is_empty() {
            return Err(Refusal(format!(
                "the kernel's own {name} takes no parameters from a script"
            )));
        }
        chosen.kernel_name(&name)?;
        for later in chosen.settings.later_algorithms.clone() {
            // What is wrong with one is said where the script sets it.
            let _ = chosen.kernel_name(&later);
        }
        Ok(chosen)
    }

    /// Whether an algorithm of ours was loaded.
    pub(super) fn has_loaded(&self) -> bool {
        !self.of_files.is_empty()
    }

    /// Gives the algorithm of this name to a socket.
    pub(super) fn give(&mut self, name: &str, socket: BorrowedFd<'_>) -> Result<(), Refusal> {
        let kernel_name = self.kernel_name(name)?;
        let base_rtt_us = self
            .settings
            .base_rtt
            .and_then(|rtt| u32::try_from(rtt.us()).ok().and_then(std::num::NonZeroU32::new));
        let loaded = self.of_files.iter().find(|of_file| of_file.name == name);
        if let (Some(of_file), Some(base_rtt_us)) = (loaded, base_rtt_us) {
            of_file.loaded.set_base_rtt(socket, base_rtt_us).map_err(refusal)?;
        }
        sockopt::set_tcp_congestion(socket, &kernel_name)
            .map_err(|why| Refusal(format!("the kernel does not set the algorithm {name}: {why}")))
    }

    /// The script's name of an algorithm that the kernel calls so.
    pub(super) fn script_name(&self, kernel_name: String) -> String {
        // What the kernel's DCTCP becomes without ECN.
        if self.which == Algorithms::Kernels && kernel_name == "dctcp-reno" {
            return "reno".to_owned();
        }
        let mut of_files = self.of_files.iter();
        let found = of_files.find(|of_file| of_file.loaded.name() == kernel_name);
        found.map_or(kernel_name, |of_file| of_file.shown.clone())
    }

    /// Diagnostic values of the connection's algorithm.
    pub(super) fn inside(
        &mut self,
        namespace: Id,
        socket: BorrowedFd<'_>,
    ) -> Result<Vec<(String, i128)>, Refusal> {
        let Some((watch, inside)) = &mut self.look else { return Ok(Vec::new()) };
        let cookie = sockopt::socket_cookie(socket).map_err(|why| Refusal(why.to_string()))?;
        if self.watched != Some(cookie) {
            watch.add(socket).map_err(refusal)?;
            self.watched = Some(cookie);
        }
        let all = watch.read(namespace).map_err(refusal)?;
        let Some(connection) = all.iter().find(|connection| connection.cookie == cookie) else {
            return Ok(Vec::new());
        };
        // It may have left for one of the kernel's.
        if !inside.is_knees(connection).map_err(refusal)? {
            return Ok(Vec::new());
        }
        let values = inside.of(connection).map_err(refusal)?;
        Ok(values.into_iter().map(|value| (format!("cc.{}", value.name), value.number)).collect())
    }

    fn kernel_name(&mut self, name: &str) -> Result<String, Refusal> {
        match self.which {
            Algorithms::Ours => self.load(name),
            Algorithms::Kernels => kernels_own(name),
        }
    }

    fn load(&mut self, name: &str) -> Result<String, Refusal> {
        if let Some(of_file) = self.of_files.iter().find(|of_file| of_file.name == name) {
            return Ok(of_file.loaded.name().to_owned());
        }
        let algorithm = Algorithm::named(name, Path::new("")).map_err(refusal)?;
        let mut params = algorithm.default_params();
        // The parameters belong to the algorithm of the settings.
        if name == self.settings.algorithm {
            for (param, value) in &self.settings.params {
                algorithm.set_param(&mut params, param, value).map_err(refusal)?;
            }
        }
        let embedded = Embedded::of_algorithm(algorithm).map_err(refusal)?;
        let loaded = Loaded::register(embedded, &free_name(), &params).map_err(refusal)?;
        if self.look.is_none() {
            self.look = Some((Watch::open().map_err(refusal)?, Inside::of_own_sockets()));
        }
        if let Some((_, inside)) = &mut self.look {
            inside.prepare(&loaded).map_err(refusal)?;
        }
        let kernel_name = loaded.name().to_owned();
        let shown = algorithm.name().to_owned();
        self.of_files.push(OfFile { name: name.to_owned(), shown, loaded });
        Ok(kernel_name)
    }
}

/// A name that no other stack has, in this process or another one.
fn free_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // 7 digits of a process, and 4 here, leave room in the 15 that the kernel has.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed) % 10_000;
    format!("ks{}_{number}", std::process::id())
}

/// The kernel's own algorithms, and those that knee has loaded there.
fn of_kernel() -> Result<(Vec<String>, Vec<String>), Refusal> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .map_err(|why| Refusal(format!("the kernel does not list its algorithms: {why}")))?;
    let ours: Vec<_> =
        knee_bpf::registered().map_err(refusal)?.into_iter().map(|ours| ours.name).collect();
    let all = text.split_whitespace().map(str::to_owned);
    Ok((all.filter(|name| !ours.contains(name)).collect(), ours))
}

/// Why a script cannot be played with the kernel's own algorithms, if so.
///
/// # Errors
/// If the kernel does not tell which it has.
pub fn not_for_kernels_own(script: &Script) -> Result<Option<String>, Refusal> {
    let settings = &script.settings;
    if script.is_for_our_algorithm() {
        return Ok(Some(format!("it is about our {}", settings.algorithm)));
    }
    let (own, _) = of_kernel()?;
    let mut asked = std::iter::once(&settings.algorithm).chain(&settings.later_algorithms);
    let lacking = asked.find(|name| !own.contains(name));
    Ok(lacking.map(|name| format!("the kernel has no {name} of its own")))
}

fn kernels_own(name: &str) -> Result<String, Refusal> {
    let (own, ours) = of_kernel()?;
    if own.iter().any(|own| own == name) {
        return Ok(name.to_owned());
    }
    let is_ours = ours.iter().any(|ours| ours == name);
    let why = if is_ours { "was loaded by knee" } else { "is not there" };
    Err(Refusal(format!(
        "the kernel's own {name} is asked for, but {name} {why}; it has {} (\"modprobe tcp_{name}\" may \
         bring it)",
        own.join(", ")
    )))
}
