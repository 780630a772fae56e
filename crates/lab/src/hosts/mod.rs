//! Real machines as hosts: the file that names them, their agents over ssh, and runs on them.
//!
//! ssh starts `knee agent` on each machine, which takes commands ([`crate::traffic::agent`]) and exits with its ssh. The network is
//! the real one: only the names of the experiment's hosts count.
//!
//! | part | what it is |
//! | --- | --- |
//! | `file` | the file that names them |
//! | `connection` | one ssh connection to an agent |
//! | `fleet` | all agents: start, clock offsets, commands, failures |
//! | `roles` | the part of each machine in a run |
//! | `run` | one run from beginning to end |
//! | `merge` | reports of all machines as one, on one clock |
//! | `validity` | clocks, lateness, CPUs, and what machines have otherwise than the experiment asks for |

mod connection;
mod file;
mod fleet;
mod merge;
mod options;
mod program;
mod roles;
mod run;
mod validity;

pub use file::FILE;
pub use run::OnMachines;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::PathBuf;

use crate::Error;

/// The machines of `--on hosts=FILE`; [`Machines::read`] reads the file, whose keys are in docs/hosts.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines {
    /// The file, for messages.
    pub file: PathBuf,
    /// Machines in the order of the file.
    pub machines: Vec<Machine>,
}

/// One machine of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name in messages and results.
    pub name: String,
    /// Destination for `ssh`: `user@address`, or a name of the user's ssh configuration.
    pub ssh: String,
    /// IP address in the measured network.
    pub address: IpAddr,
    /// Network device with that address.
    pub device: String,
    /// Hosts of the experiment's network that this machine plays.
    pub roles: Vec<String>,
    /// Source of its `knee` program.
    pub knee: Binary,
    /// Options of ssh, each as `Name=value`.
    pub options: Vec<String>,
}

/// Where the program of a machine comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binary {
    /// Installed there, at this absolute path.
    There(String),
    /// A file of this machine, copied for the time of the run.
    Copied(PathBuf),
    /// This program, copied for the time of the run.
    Same,
}

impl Machines {
    /// Index of the machine of each role.
    fn by_role(&self) -> HashMap<&str, usize> {
        let roles = self.machines.iter().enumerate();
        let roles = roles.flat_map(|(place, machine)| {
            machine.roles.iter().map(move |role| (role.as_str(), place))
        });
        roles.collect()
    }

    /// Checks that each host of an experiment has a machine, and each role a host.
    ///
    /// # Errors
    /// If one is missing, with what to write.
    pub fn check(&self, hosts: &[&str]) -> Result<(), Error> {
        let file = self.file.display();
        let by_role = self.by_role();
        if let Some(missing) = hosts.iter().find(|host| !by_role.contains_key(*host)) {
            return Err(Error::Refused(format!(
                "{file}: no machine has the role {missing} of the experiment's network: set roles = [\"{missing}\"] for one"
            )));
        }
        let known: HashSet<&str> = hosts.iter().copied().collect();
        let roles = self.machines.iter().flat_map(|machine| &machine.roles);
        match roles.into_iter().find(|role| !known.contains(role.as_str())) {
            None => Ok(()),
            Some(role) => Err(Error::Refused(format!(
                "{file}: the experiment's network has no host {role}: it has {}",
                hosts.join(", ")
            ))),
        }
    }
}
